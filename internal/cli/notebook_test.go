package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
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
	if got := a.command(t.Context(), "run", "-o", "x", "-c", "1"); got.code != 2 {
		t.Errorf("-o without a notebook: %+v", got)
	}
}
