package template

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// What a template may be baked for.
const (
	MaxCPU      = 64
	MinMemoryMB = 128
	MaxMemoryMB = 1 << 20
	maxVariants = 8 // sizes of one template at one time: each takes disk
)

// Variant is a size a template is baked for; a snapshot's is fixed. Zero values
// stand for what the recipe says.
type Variant struct {
	CPU      int `yaml:"cpu" json:"cpu"`
	MemoryMB int `yaml:"memory_mb" json:"memory_mb"`
}

func (v Variant) String() string { return fmt.Sprintf("%dcpu-%dmb", v.CPU, v.MemoryMB) }

// variant fills what was left out from the recipe.
func (r Recipe) variant(v Variant) Variant {
	if v.CPU == 0 {
		v.CPU = r.CPU
	}
	if v.MemoryMB == 0 {
		v.MemoryMB = r.MemoryMB
	}
	return v
}

// Warm is a finished warm snapshot: a VM at the moment before its first use.
// Its files never change.
type Warm struct {
	Dir      string
	Manifest WarmManifest
	Image    *Image
	Initrd   string // path
}

// Key names the snapshot.
func (w *Warm) Key() string { return w.Manifest.Key }

// Memory is the guest's memory, a sparse file.
func (w *Warm) Memory() string { return filepath.Join(w.Dir, "memory.img") }

// State is the device state.
func (w *Warm) State() string { return filepath.Join(w.Dir, "state") }

// UpperRaw is the writable disk as it was at that moment.
func (w *Warm) UpperRaw() string { return upperRaw(w.Dir) }

// Overlay is an empty qcow2 as large as UpperRaw, to be copied for each VM.
func (w *Warm) Overlay() string { return upperOverlay(w.Dir) }

// WarmManifest says what a warm snapshot was made of.
type WarmManifest struct {
	Format   int     `json:"format"`
	Key      string  `json:"key"`
	Name     string  `json:"name"`
	Inputs   string  `json:"inputs"` // digest of all that was known before it was baked
	Image    string  `json:"image"`  // ImageManifest.Digest
	Initrd   string  `json:"initrd"` // its key
	Variant  Variant `json:"variant"`
	DiskMB   int     `json:"disk_mb"`
	Cmdline  string  `json:"cmdline"`
	Compat   string  `json:"compat"` // the VMM's key, opaque here
	Agent    string  `json:"agent"`  // version
	Protocol int     `json:"protocol"`
	// Bytes taken on disk.
	MemoryBytes int64      `json:"memory_bytes"`
	UpperBytes  int64      `json:"upper_bytes"`
	StateBytes  int64      `json:"state_bytes"`
	Steps       []StepTime `json:"steps"`
	Created     time.Time  `json:"created_at"`
}

// warmInputs names all that shapes a warm snapshot and is known beforehand.
func warmInputs(src *Source, img *Image, initrd, cmdline, compat string, v Variant) string {
	r := src.Recipe
	d := newDigest("warm")
	d.add("format", fmt.Sprint(formatVersion))
	d.add("image", img.Manifest.Digest)
	d.add("initrd", initrd)
	d.add("cmdline", cmdline)
	d.add("compat", compat)
	d.add("variant", v.String())
	d.add("disk", fmt.Sprint(r.DiskMB))
	d.add("start", r.Start)
	d.add("ready", r.Ready)
	d.add("warm", mustJSON(r.Warm))
	return d.sum()
}

// warmKey names a snapshot by its inputs and what the VMM made of them: baked
// again for a changed host it is another one, and the old stays until it is unused.
func warmKey(inputs, compat string) string {
	d := newDigest("snapshot")
	d.add("inputs", inputs)
	d.add("compat", compat)
	return d.sum()
}

func readWarmManifest(dir string) (*WarmManifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, err
	}
	m := new(WarmManifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("warm manifest in %s: %w", dir, err)
	}
	return m, nil
}

// Stored opens the warm snapshot of this key, whether its template still uses it or not.
func (b *Builder) Stored(key string) (*Warm, error) { return b.openWarm(key) }

// openWarm reads the snapshot of the given key. The error is fs.ErrNotExist
// when it or what it stands on is not there.
func (b *Builder) openWarm(key string) (*Warm, error) {
	m, err := readWarmManifest(b.layout.warm(key))
	if err != nil {
		return nil, err
	}
	img, err := b.openImage(m.Image)
	if err != nil {
		return nil, err
	}
	initrd := filepath.Join(b.layout.boot(m.Initrd), "initrd")
	if err := readable(initrd); err != nil {
		return nil, err
	}
	return &Warm{Dir: b.layout.warm(key), Manifest: *m, Image: img, Initrd: initrd}, nil
}
