package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"pandastack/api"
	"pandastack/internal/kit/flock"
)

// States of a template, as the API says them.
const (
	statusNotBuilt = "not_built"
	statusBuilding = "building"
	statusReady    = "ready"
	statusFailed   = "failed"
)

// record is what a data directory knows of a template, in templates/NAME.json.
type record struct {
	Recipe  string            `json:"recipe,omitempty"` // folder of a user's recipe; "" for one that ships
	Image   string            `json:"image,omitempty"`  // digest
	Warm    map[string]string `json:"warm,omitempty"`   // Variant.String() to Warm.Key()
	BuiltAt time.Time         `json:"built_at"`
	Failure string            `json:"failure,omitempty"` // of the last build, "" when it succeeded
}

func (b *Builder) readRecord(name string) (record, error) {
	var r record
	text, err := os.ReadFile(b.layout.record(name))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("record of template %s: %w", name, err)
	}
	return r, nil
}

// changeRecord rewrites a record as a whole, one writer at a time.
func (b *Builder) changeRecord(name string, change func(*record)) error {
	l, err := flock.Acquire(context.Background(), b.layout.lockFile("record"))
	if err != nil {
		return err
	}
	defer l.Release()
	r, err := b.readRecord(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	change(&r)
	return writeJSON(b.layout.record(name), r)
}

// noteWarm makes snapshots of one image, made from src, the template's current
// ones of their sizes. Snapshots on another image or of another recipe, of other
// sizes, are no longer current.
func (b *Builder) noteWarm(src *Source, all ...*Warm) error {
	return b.changeRecord(src.Recipe.Name, func(r *record) {
		for _, w := range all {
			if r.Warm == nil || r.Image != w.Manifest.Image || r.Recipe != src.Kept {
				r.Warm = map[string]string{}
			}
			r.Recipe, r.Image, r.BuiltAt, r.Failure = src.Kept, w.Manifest.Image, w.Manifest.Created, ""
			r.Warm[w.Manifest.Variant.String()] = w.Key()
		}
	})
}

func (b *Builder) noteFailure(name string, cause error) error {
	return b.changeRecord(name, func(r *record) { r.Failure = cause.Error() })
}

// List says what templates there are and how far each is.
func (b *Builder) List(ctx context.Context) ([]api.Template, error) {
	names, err := b.names()
	if err != nil {
		return nil, err
	}
	list := []api.Template{}
	for _, name := range names {
		t, err := b.Get(ctx, name)
		if err != nil { // one bad recipe does not hide the others
			t = api.Template{Name: name, Description: err.Error(), Status: statusFailed}
		}
		t.Packages = nil
		list = append(list, t)
	}
	return list, nil
}

// Get describes one template, with what its image holds once it is built.
func (b *Builder) Get(_ context.Context, name string) (api.Template, error) {
	src, err := b.load(name)
	if err != nil {
		return api.Template{}, err
	}
	r := src.Recipe
	t := api.Template{Name: r.Name, Description: r.Description, CPU: r.CPU, MemoryMB: r.MemoryMB}
	rec, err := b.readRecord(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	img, err := b.findImage(src)
	if err == nil {
		t.Digest, t.SizeBytes = img.Manifest.Digest, img.Manifest.Sizes.Allocated
		t.Packages = json.RawMessage(mustJSON(contents{img.Manifest.Kernel, img.Manifest.Debian, img.Manifest.Python}))
	}
	t.Status = b.status(src, rec, img)
	if t.Status == statusReady {
		t.BuiltAt = &rec.BuiltAt
	}
	return t, nil
}

// contents is what an image holds, as the API shows it.
type contents struct {
	Kernel DebianPackage   `json:"kernel"`
	Debian []DebianPackage `json:"debian"`
	Python []PythonPackage `json:"python,omitempty"`
}

func (b *Builder) status(src *Source, rec record, img *Image) string {
	key := rec.Warm[src.Recipe.variant(Variant{}).String()]
	switch {
	case img != nil && key != "" && b.hasWarm(key, img):
		return statusReady
	case b.busy(src.Recipe.Name):
		return statusBuilding
	case rec.Failure != "":
		return statusFailed
	default:
		return statusNotBuilt
	}
}

func (b *Builder) hasWarm(key string, img *Image) bool {
	w, err := b.openWarm(key)
	return err == nil && w.Manifest.Image == img.Manifest.Digest
}

// busy says whether somebody builds this template. It asks for a share: two who
// ask do not take each other for a builder.
func (b *Builder) busy(name string) bool {
	l, err := flock.TryShared(b.layout.lockFile("template-" + name))
	if err == nil {
		err = l.Release()
	}
	return errors.Is(err, flock.ErrHeld)
}
