package cli

import (
	"encoding/json"
	"net/http"
	"testing"

	"pandastack/api"
)

func TestSize(t *testing.T) {
	a := newAnswers(t)
	a.execution = api.Execution{Status: "ok"}
	var asked api.CreateSandbox
	a.routes = map[string]http.HandlerFunc{"POST /v1/sandboxes": func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&asked)
		reply(w, 201, api.Sandbox{ID: "box1"})
	}}
	for _, args := range [][]string{
		{"sandbox", "create", "--cpu", "2", "--memory", "512"},
		{"run", "--cpu=2", "--memory=512", "-c", "1"},
	} {
		asked = api.CreateSandbox{}
		got := a.command(t.Context(), args...)
		if got.code != 0 || asked.Template != "code-interpreter" || asked.CPU != 2 || asked.MemoryMB != 512 {
			t.Errorf("%v: %+v, asked for %+v", args, got, asked)
		}
	}
}
