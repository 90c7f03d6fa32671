//go:build vm

package e2e

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/client"
	"pandastack/test/harness"
)

func TestRefusals(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	box := s.NewSandbox(t).ID
	in := "/v1/sandboxes/" + box
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
	}{
		{"unknown template", "POST", "/v1/sandboxes", `{"template":"none"}`, nil, 404, api.CodeTemplateNotFound},
		{"unknown sandbox", "GET", "/v1/sandboxes/aaaaaaaaaaaaaaaaaaaa", "", nil, 404, api.CodeSandboxNotFound},
		{"unknown sandbox, cell", "POST", "/v1/sandboxes/aaaaaaaaaaaaaaaaaaaa/contexts/x/executions", `{"code":"1"}`, nil, 404, api.CodeSandboxNotFound},
		{"unknown context", "POST", in + "/contexts/none/executions", `{"code":"1"}`, nil, 404, api.CodeContextNotFound},
		{"unknown execution", "GET", in + "/executions/none", "", nil, 404, api.CodeExecutionNotFound},
		{"unknown language", "POST", in + "/contexts", `{"language":"cobol"}`, nil, 422, api.CodeContextUnsupportedLanguage},
		{"missing key", "GET", "/v1/sandboxes", "", []string{"Authorization", ""}, 401, api.CodeAuthMissingKey},
		{"wrong key", "GET", "/v1/sandboxes", "", []string{"Authorization", "Bearer pds_wrong"}, 401, api.CodeAuthWrongKey},
		{"bad JSON", "POST", "/v1/sandboxes", `{"template":`, nil, 400, api.CodeRequestBadJSON},
		{"wrong type", "POST", in + "/exec", `{"cmd":7}`, nil, 422, api.CodeRequestInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := s.Call(t, c.method, c.path, c.body, c.header...)
			var got api.Error
			if err := json.Unmarshal(body, &got); err != nil || status != c.status || got.Code != c.code || got.Error == "" || got.Hint == "" {
				t.Errorf("got %d %s (%v), want %d %s with a sentence and a hint", status, body, err, c.status, c.code)
			}
		})
	}
	_, err := client.New(s.URL, "pds_wrong", nil).CreateSandbox(t.Context(), api.CreateSandbox{})
	assertRefused(t, err, api.CodeAuthWrongKey, "key")
	assertOnly(t, s, box)
}

// TestFailingCells: a cell that fails is an answer, not an error of the call.
func TestFailingCells(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	box := s.NewSandbox(t).ID
	kernel := s.NewContext(t, box)
	s.Run(t, box, kernel, "x = 41")
	for _, c := range []struct {
		name      string
		cell      api.Execute
		status    string
		error     string
		restarted bool
		x         string
	}{
		{"syntax error", api.Execute{Code: "def f(:"}, "error", "SyntaxError", false, "41"},
		{"exception", api.Execute{Code: "1 / 0"}, "error", "ZeroDivisionError", false, "41"},
		{"timeout", api.Execute{Code: "while True: pass", TimeoutSeconds: 2}, "timeout", "Timeout", false, "41"},
		{"timeout of a cell that cannot be interrupted", api.Execute{
			Code:           "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
			TimeoutSeconds: 2,
		}, "timeout", "Timeout", true, "gone"},
		{"end of the kernel", api.Execute{Code: "import os\nos._exit(7)"}, "died", "KernelDied", true, "gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ex, err := s.Execute(t.Context(), box, kernel, c.cell)
			if err != nil {
				t.Fatal(err)
			}
			if ex.Error == nil || ex.Status != c.status || ex.Error.Name != c.error || ex.ContextRestarted != c.restarted {
				t.Errorf("got %s %+v, restarted %v; want %s %s, %v", ex.Status, ex.Error, ex.ContextRestarted, c.status, c.error, c.restarted)
			}
			if got := s.Run(t, box, kernel, "print(globals().get('x', 'gone'))").Stdout; strings.TrimSpace(got) != c.x {
				t.Errorf("x is %s, want %s", got, c.x)
			}
		})
	}
}

func TestServerThatMustNotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	held := harness.EmptyDir(t)
	harness.Start(t, held)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir   string
		environment []string
		args        []string
		code        string
	}{
		{"no QEMU", harness.EmptyDir(t), []string{"PATH=" + t.TempDir()}, nil, api.CodeHostNoVMM},
		{"port in use", harness.EmptyDir(t), nil, []string{"--listen", taken.Addr().String()}, api.CodeHostPortInUse},
		{"data directory locked", held, nil, nil, api.CodeHostDataDirLocked},
		{"data directory is a file", file, nil, nil, api.CodeHostDataDirUnusable},
		{"data directory cannot be written", "/proc/pandastack", nil, nil, api.CodeHostDataDirUnusable},
		{"bad setting", harness.EmptyDir(t), []string{"PANDASTACK_JAIL=perhaps"}, nil, api.CodeHostBadConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := harness.Refused(t, c.dir, c.environment, c.args...)
			if hint := api.Lookup(c.code).Hint; !strings.Contains(said, c.code) && !strings.Contains(said, hint) {
				t.Errorf("it said\n%s\nwant %s and %q", said, c.code, hint)
			}
			if len(said) > 1000 || strings.Contains(said, "goroutine") {
				t.Errorf("it said more than a sentence and a hint:\n%s", said)
			}
		})
	}
}
