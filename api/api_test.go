package api_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pandastack/api"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	code, doc := filepath.Join(dir, "errors_gen.go"), filepath.Join(dir, "errors.md")
	if out, err := exec.Command("go", "run", "gen_errors.go", "-code", code, "-doc", doc).CombinedOutput(); err != nil {
		t.Fatalf("generate: %v\n%s", err, out)
	}
	for fresh, kept := range map[string]string{code: "errors_gen.go", doc: "../docs/errors.md"} {
		want, err := os.ReadFile(fresh)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(kept); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v); run 'go generate ./api'", kept, err)
		}
	}
}

func TestRegistry(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z]+(\.[a-z_]+)?$`)
	seen := map[string]bool{}
	for _, c := range api.Codes() {
		if !shape.MatchString(c.Code) || seen[c.Code] {
			t.Errorf("%s: not noun.what, or there twice", c.Code)
		}
		seen[c.Code] = true
		if c.Status < 400 || c.Status > 599 {
			t.Errorf("%s: status %d", c.Code, c.Status)
		}
		if !strings.HasSuffix(c.Hint, ".") || !strings.HasSuffix(c.Doc, ".") {
			t.Errorf("%s: hint and doc are sentences", c.Code)
		}
		if got := api.Lookup(c.Code); got != c {
			t.Errorf("Lookup(%s) = %+v", c.Code, got)
		}
	}
	if got := api.Lookup("never.heard"); got.Code != api.CodeInternal {
		t.Errorf("an unknown code gives %s, want internal", got.Code)
	}
}

// TestEveryCodeIsUsed finds codes that nothing answers with any more.
func TestEveryCodeIsUsed(t *testing.T) {
	source := sources(t)
	constants, err := os.ReadFile("errors_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(Code\w+) += ("[^"]+")`).FindAllStringSubmatch(string(constants), -1) {
		if !strings.Contains(source, "api."+m[1]) && !strings.Contains(source, m[2]) {
			t.Errorf("nothing answers with %s", m[2])
		}
	}
}

// sources is all Go code that is not of this package and not a test.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"../internal", "../cmd"} {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
				return err
			}
			text, err := os.ReadFile(p)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestTypesRoundTrip guards against tags that drop a field.
func TestTypesRoundTrip(t *testing.T) {
	const text = `{"id":"e","context_id":"c","status":"ok","execution_count":1,"results":[{"data":{"text/plain":"'1'"},"metadata":{},"is_main_result":true}],` +
		`"stdout":"o","stderr":"","error":null,"duration_ms":1.5,"context_restarted":false,"truncated":{"stdout":{"bytes":9,"lines":2,"kept":1}}}`
	var ex api.Execution
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ex); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(ex); err != nil || string(got) != text {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, text)
	}
}
