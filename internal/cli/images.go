package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"pandastack/api"
)

// imageType is a kind of image that can be saved.
type imageType struct{ mime, extension string }

// imageTypes has the best first.
var imageTypes = []imageType{{"image/png", ".png"}, {"image/jpeg", ".jpg"}, {"image/svg+xml", ".svg"}}

// imageOf finds the image of a result.
func imageOf(r api.Result) (imageType, bool) {
	i := slices.IndexFunc(imageTypes, func(t imageType) bool { return r.Data[t.mime] != nil })
	if i < 0 {
		return imageType{}, false
	}
	return imageTypes[i], true
}

// saveImages writes the images of results and gives their paths.
func (c *runCmd) saveImages(results []api.Result) ([]string, error) {
	var paths []string
	if c.Save == "" {
		return nil, nil
	}
	for _, r := range results {
		kind, ok := imageOf(r)
		if !ok {
			continue
		}
		if err := os.MkdirAll(c.Save, 0o755); err != nil {
			return paths, &localError{message: err.Error()}
		}
		path := filepath.Join(c.Save, fmt.Sprintf("image-%d%s", len(paths)+1, kind.extension))
		if err := saveImage(path, kind, r); err != nil {
			return paths, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func saveImage(path string, kind imageType, r api.Result) error {
	text, _ := stringOf(r.Data[kind.mime])
	data := []byte(text)
	if kind.extension != ".svg" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return &localError{message: err.Error()}
	}
	return nil
}

// tellImages says where images are, or how to get them.
func (c *runCmd) tellImages(s *session, saved []string, results []api.Result) {
	for _, path := range saved {
		fmt.Fprintf(s.Stderr, "saved %s\n", path)
	}
	if c.Save != "" {
		return
	}
	shown := 0
	for _, r := range results {
		if _, ok := imageOf(r); ok {
			shown++
		}
	}
	if shown > 0 {
		fmt.Fprintf(s.Stderr, "%s not saved; --save DIR does that\n", counted(shown, "image"))
	}
}

// counted gives "1 file", "2 files".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func stringOf(value json.RawMessage) (string, bool) {
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}
