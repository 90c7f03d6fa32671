package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pandastack/api"
)

const book = `{"nbformat":4,"nbformat_minor":5,"metadata":{"n":12345678901234567890},"cells":[
 {"cell_type":"markdown","id":"m","metadata":{},"source":["# Ü <b>"]},
 {"cell_type":"code","id":"c","metadata":{},"source":["1\n","2"],"outputs":[{"output_type":"stream","name":"stdout","text":"old"}],"execution_count":9},
 {"cell_type":"code","metadata":{},"source":" ","outputs":[],"execution_count":null}]}`

func TestRunOfANotebook(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{
		Status: "error", Stdout: "a\nb", ExecutionCount: 3, Error: &api.CellError{Name: "Timeout", Value: "too long"},
		Results: []api.Result{{Data: map[string]json.RawMessage{
			"text/plain": json.RawMessage(`"x\ny"`), "image/png": json.RawMessage(`"AAA="`), "application/json": json.RawMessage(`{"k":1}`),
		}, IsMainResult: true, Metadata: map[string]json.RawMessage{}}},
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "in.ipynb"), filepath.Join(dir, "out.ipynb")
	if err := os.WriteFile(from, []byte(book), 0o600); err != nil {
		t.Fatal(err)
	}
	got := a.command(t.Context(), "run", "-o", to, from)
	if got.code != 1 || got.out != "" || got.errOut != "[1/2] 1\nTimeout: too long\n" || !a.asked("DELETE /v1/sandboxes/box1") {
		t.Errorf("got %+v", got)
	}
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"# Ü <b>"`, `"n": 12345678901234567890`, `"id": "c"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	var saved struct {
		Cells []struct {
			Count   *int `json:"execution_count"`
			Outputs json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		t.Fatal(err)
	}
	var flat strings.Builder
	for line := range strings.Lines(string(saved.Cells[1].Outputs)) {
		flat.WriteString(strings.TrimSpace(line))
	}
	const want = `[{"name": "stdout","output_type": "stream","text": ["a\n","b"]},{"name": "stderr","output_type": "stream","text": []},` +
		`{"data": {"application/json": {"k": 1},"image/png": "AAA=","text/plain": ["x\n","y"]},"execution_count": 3,"metadata": {},"output_type": "execute_result"},` +
		`{"ename": "Timeout","evalue": "too long","output_type": "error","traceback": []}]`
	if flat.String() != want || *saved.Cells[1].Count != 3 || string(saved.Cells[2].Outputs) != "[]" {
		t.Errorf("got %s\nwant %s", flat.String(), want)
	}
}

func TestWhatIsNoNotebook(t *testing.T) {
	a := newAnswers(t)
	for _, text := range []string{"", "[]", `{"nbformat":3,"cells":[]}`, `{"nbformat":4}`, `{"nbformat":4,"cells":[7]}`} {
		file := filepath.Join(t.TempDir(), "bad.ipynb")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := a.command(t.Context(), "run", file); got.code != 1 || !strings.Contains(got.errOut, "bad.ipynb") {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := a.command(t.Context(), "run", "a.ipynb", "b"); got.code != 2 || !strings.Contains(got.errOut, "takes no arguments") {
		t.Errorf("an argument: %+v", got)
	}
	if got := a.command(t.Context(), "run", "a.ipynb", "--nonsense"); got.code != 2 {
		t.Errorf("an unknown option: %+v", got)
	}
	if got := a.command(t.Context(), "run", "-o", "x", "-c", "1"); got.code != 2 {
		t.Errorf("-o without a notebook: %+v", got)
	}
}

func TestANotebookIsReplacedAsAWhole(t *testing.T) {
	a := newAnswers(t)
	dir := t.TempDir()
	file, link := filepath.Join(dir, "in.ipynb"), filepath.Join(dir, "link.ipynb")
	if err := errors.Join(os.WriteFile(file, []byte(book), 0o640), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(file)
	if got := a.command(t.Context(), "run", file, "-o", link); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	after, err := os.Stat(file)
	if leads, _ := os.Readlink(link); err != nil || after.Mode() != before.Mode() || os.SameFile(before, after) || leads != file {
		t.Errorf("got %v, a link to %q, %v", after, leads, err)
	}
	a.calls = nil
	if got := a.command(t.Context(), "run", file, "-o", filepath.Join(dir, "nowhere", "out.ipynb")); got.code != 1 || !strings.Contains(got.errOut, "no folder") || a.calls != nil {
		t.Errorf("no folder: %+v, asked %q", got, a.calls)
	}
	if got := a.command(t.Context(), "run", "-o", "/dev/null", file); got.code != 0 {
		t.Errorf("a device: %+v", got)
	}
}

func TestANotebookSaysWhatRunsIt(t *testing.T) {
	for metadata, want := range map[string]api.CreateContext{
		`{}`: {}, `{"kernelspec":{"name":"conda-env-x-py","language":"python"}}`: {}, `{"kernelspec":{"name":"python3"}}`: {},
		`{"kernelspec":{"name":"bash","language":"bash"}}`: {Language: "bash"}, `{"kernelspec":{"name":"ir"},"language_info":{"name":"R"}}`: {Language: "r"},
		`{"kernelspec":{"name":"bash"}}`: {Kernel: "bash"}, `{"kernelspec":7}`: {},
	} {
		n, err := readNotebook("a.ipynb", []byte(`{"nbformat":4,"cells":[],"metadata":`+metadata+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.kernel(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", metadata, got, want)
		}
	}
}

func TestTagsOfANotebook(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{Status: "error", Error: &api.CellError{Name: "E", Value: "v"}}
	cell := func(code, tag string) string {
		return `{"cell_type":"code","metadata":{"tags":["x","` + tag + `"]},"source":"` + code + `","outputs":["old"],"execution_count":9}`
	}
	const raises = "raises-exception"
	for cells, want := range map[string]result{
		cell("a", raises) + "," + cell("never", "skip-execution") + "," + cell("b", raises): {0, "", "[1/2] a\nE: v\n[2/2] b\nE: v\n"},
		cell("a", raises) + "," + cell("b", "") + "," + cell("c", ""):                       {1, "", "[1/3] a\nE: v\n[2/3] b\nE: v\n"},
	} {
		from, to := filepath.Join(t.TempDir(), "in.ipynb"), filepath.Join(t.TempDir(), "out.ipynb")
		if err := os.WriteFile(from, []byte(`{"nbformat":4,"metadata":{},"cells":[`+cells+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := a.command(t.Context(), "run", from, "-o", to); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if text, err := os.ReadFile(to); err != nil || strings.Contains(cells, "never") != strings.Contains(string(text), `"old"`) {
			t.Errorf("got %s, %v", text, err)
		}
	}
}
