package v1_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/internal/panda"
)

func TestRefusals(t *testing.T) {
	e := start(t)
	deep := `{"metadata":` + strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40) + `}`
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
	}{
		{"no key", "GET", "/v1/sandboxes", "", []string{"Authorization", ""}, 401, api.CodeAuthMissingKey},
		{"other scheme", "GET", "/v1/sandboxes", "", []string{"Authorization", "Basic " + key}, 401, api.CodeAuthMissingKey},
		{"wrong key", "GET", "/v1/sandboxes", "", []string{"Authorization", "Bearer pds_nope"}, 401, api.CodeAuthWrongKey},
		{"no key, no such route", "GET", "/nope", "", []string{"Authorization", ""}, 401, api.CodeAuthMissingKey},
		{"foreign host", "GET", "/v1/health", "", []string{"Host", "evil.example"}, 403, api.CodeAuthHostNotAllowed},
		{"foreign address", "GET", "/v1/health", "", []string{"Host", "192.0.2.1:80"}, 403, api.CodeAuthHostNotAllowed},
		{"no such route", "GET", "/v1/nope", "", nil, 404, api.CodeRequestNoSuchRoute},
		{"root", "GET", "/", "", nil, 404, api.CodeRequestNoSuchRoute},
		{"method", "PATCH", "/v1/sandboxes", "{}", nil, 405, api.CodeRequestMethodNotAllowed},
		{"not JSON", "POST", "/v1/sandboxes", "{", nil, 400, api.CodeRequestBadJSON},
		{"two documents", "POST", "/v1/sandboxes", "{} {}", nil, 400, api.CodeRequestBadJSON},
		{"not UTF-8", "POST", "/v1/sandboxes", "{\"template\":\"\xff\"}", nil, 400, api.CodeRequestBadJSON},
		{"raw NUL", "POST", "/v1/sandboxes", "{\"template\":\"\x00\"}", nil, 400, api.CodeRequestBadJSON},
		{"escaped NUL", "POST", "/v1/sandboxes", `{"template":"a\u0000"}`, nil, 400, api.CodeRequestBadJSON},
		{"half of a surrogate pair", "POST", "/v1/sandboxes", `{"template":"a\ud83d"}`, nil, 400, api.CodeRequestBadJSON},
		{"second half of one", "POST", "/v1/sandboxes", `{"template":"\ude00\ud83d"}`, nil, 400, api.CodeRequestBadJSON},
		{"two first halves", "POST", "/v1/sandboxes", `{"template":"\ud83d\ud83d\ude00"}`, nil, 400, api.CodeRequestBadJSON},
		{"deep", "POST", "/v1/sandboxes", deep, nil, 400, api.CodeRequestBadJSON},
		{"empty body", "POST", "/v1/sandboxes/box/exec", "", nil, 400, api.CodeRequestBadJSON},
		{"wrong type", "POST", "/v1/sandboxes", `{"template":7}`, nil, 422, api.CodeRequestInvalid},
		{"unknown field", "POST", "/v1/sandboxes", `{"tmplate":"x"}`, nil, 422, api.CodeRequestInvalid},
		{"list for object", "POST", "/v1/sandboxes", `[]`, nil, 422, api.CodeRequestInvalid},
		{"negative ttl", "POST", "/v1/sandboxes", `{"ttl_seconds":-1}`, nil, 422, api.CodeRequestInvalid},
		{"huge ttl", "POST", "/v1/sandboxes", `{"ttl_seconds":9e18}`, nil, 422, api.CodeRequestInvalid},
		{"missing code", "POST", "/v1/sandboxes/box/contexts/c/executions", `{}`, nil, 422, api.CodeRequestInvalid},
		{"bad execution id", "POST", "/v1/sandboxes/box/contexts/c/executions", `{"code":"1","id":"../x"}`, nil, 422, api.CodeRequestInvalid},
		{"cmd and argv", "POST", "/v1/sandboxes/box/exec", `{"cmd":"a","argv":["b"]}`, nil, 422, api.CodeRequestInvalid},
		{"no program", "POST", "/v1/sandboxes/box/exec", `{"argv":["","a"]}`, nil, 422, api.CodeRequestInvalid},
		{"neither", "POST", "/v1/sandboxes/box/exec", `{}`, nil, 422, api.CodeRequestInvalid},
		{"too large", "POST", "/v1/sandboxes", `{"template":"` + strings.Repeat("a", 1<<20) + `"}`, nil, 413, api.CodeRequestTooLarge},
		{"unknown sandbox", "GET", "/v1/sandboxes/nope", "", nil, 404, api.CodeSandboxNotFound},
		{"id with a slash", "GET", "/v1/sandboxes/..%2fetc", "", nil, 404, api.CodeSandboxNotFound},
		{"context id with a dot", "GET", "/v1/sandboxes/box/contexts/a.b", "", nil, 404, api.CodeContextNotFound},
		{"no path", "GET", "/v1/sandboxes/box/fs", "", nil, 422, api.CodeRequestInvalid},
		{"path with NUL", "GET", "/v1/sandboxes/box/fs?path=a%00b", "", nil, 400, api.CodeFilePathInvalid},
		{"long path", "PUT", "/v1/sandboxes/box/fs?path=" + strings.Repeat("a", 5000), "x", nil, 400, api.CodeFilePathInvalid},
		{"no such file", "GET", "/v1/sandboxes/box/fs?path=/none", "", nil, 404, api.CodeFileNotFound},
		{"volumes", "POST", "/v1/sandboxes", `{"template":"x","volumes":[{"name":"v"}]}`, nil, 501, api.CodeFeatureNotOffered},
		{"panic", "POST", "/v1/sandboxes/box/exec", `{"cmd":"panic"}`, nil, 500, api.CodeInternal},
		{"plain error", "POST", "/v1/sandboxes/box/exec", `{"cmd":"plain"}`, nil, 500, api.CodeInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.t = t
			resp, body := e.call(c.method, c.path, c.body, c.header...)
			got := e.refused(resp, body, c.status, c.code)
			if c.status == 422 && len(got.Fields) == 0 {
				t.Errorf("a 422 names its fields: %s", body)
			}
			if strings.Contains(body, "secret") || strings.Contains(body, "goroutine") {
				t.Errorf("the cause goes to the log only: %s", body)
			}
		})
	}
}

func TestUploadOfAnySizeIsHeardWhenRefused(t *testing.T) {
	e := start(t)
	resp, body := e.call("PUT", "/v1/sandboxes/nope/fs?path=/x", strings.Repeat("a", 8<<20))
	e.refused(resp, body, 404, api.CodeSandboxNotFound)
}

func TestErrorsCarryDetailAndRetryAfter(t *testing.T) {
	e := start(t)
	e.fail = &panda.Error{
		Code: api.CodeSandboxCapacity, Message: "no room", RetryAfter: 1500 * time.Millisecond,
		Detail: map[string]any{"running": 3},
	}
	resp, body := e.call("POST", "/v1/sandboxes", "{}")
	got := e.refused(resp, body, 503, api.CodeSandboxCapacity)
	if resp.Header.Get("Retry-After") != "2" || got.Detail["running"] != 3.0 {
		t.Errorf("Retry-After %q, detail %v", resp.Header.Get("Retry-After"), got.Detail)
	}
	if got.Hint != api.Lookup(api.CodeSandboxCapacity).Hint {
		t.Errorf("hint %q is not the registry's", got.Hint)
	}
}

func TestNotOffered(t *testing.T) {
	e := start(t)
	for _, call := range []string{
		"GET /v1/sandboxes/box/ports",
		"POST /v1/templates/build",
		"GET /v1/templates/builds", "GET /v1/templates/builds/b/logs", "DELETE /v1/templates/x", "GET /v1/volumes",
		"DELETE /v1/volumes/v", "POST /v1/functions/f/invoke", "GET /v1/me", "POST /v1/me/tokens", "PUT /v1/apps/a/env/K",
	} {
		method, path, _ := strings.Cut(call, " ")
		resp, body := e.call(method, path, "")
		e.refused(resp, body, 501, api.CodeFeatureNotOffered)
		resp, body = e.call(method, path, "", "Authorization", "")
		e.refused(resp, body, 401, api.CodeAuthMissingKey)
	}
}

func TestOpenPaths(t *testing.T) {
	e := start(t)
	for _, path := range []string{"/v1/health", "/openapi.json"} {
		if resp, body := e.call("GET", path, "", "Authorization", ""); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

func TestCreateFillsWhatIsMissing(t *testing.T) {
	e := start(t)
	for _, body := range []string{"", "{}", `{"metadata":{}}`} {
		resp, got := e.call("POST", "/v1/sandboxes", body)
		if resp.StatusCode != 201 || e.created.Template != "code-interpreter" {
			t.Fatalf("body %q: %d, template %q: %s", body, resp.StatusCode, e.created.Template, got)
		}
		for _, want := range []string{`"metadata":{}`, `"steps":[]`, `"boot_ms":42`, `"boot_mode":"restored"`, `"expires_at":"2026-01-02T03:05:05Z"`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
		if strings.Contains(got, "$schema") {
			t.Errorf("$schema in %s", got)
		}
	}
}

func TestPublishedClientsDefaultTemplate(t *testing.T) {
	e := start(t)
	resp, got := e.call("POST", "/v1/sandboxes", `{"template":"ubuntu-24.04"}`)
	if resp.StatusCode != 201 || e.created.Template != "base" || !strings.Contains(got, `"template":"base"`) {
		t.Errorf("%d, template %q: %s", resp.StatusCode, e.created.Template, got)
	}
}

func TestFormsOfAnswers(t *testing.T) {
	e := start(t)
	for call, want := range map[string]string{
		"GET /v1/sandboxes":                             `{"items":[]}`,
		"GET /v1/sandboxes/box/contexts":                `{"items":[]}`,
		"GET /v1/templates":                             `[]`,
		"GET /v1/sandboxes/box/fs/dir?path=/":           `{"entries":[]}`,
		"DELETE /v1/sandboxes/box":                      ``,
		"POST /v1/sandboxes/box/contexts/ctx/interrupt": ``,
	} {
		method, path, _ := strings.Cut(call, " ")
		resp, body := e.call(method, path, "")
		status := http.StatusOK
		if want == "" {
			status = http.StatusNoContent
		}
		if resp.StatusCode != status || strings.TrimSpace(body) != want {
			t.Errorf("%s: got %d %s, want %d %s", call, resp.StatusCode, body, status, want)
		}
	}
}

func TestFiles(t *testing.T) {
	e := start(t)
	data := strings.Repeat("0123456789abcdef", 1<<17) + "\x00\xff"
	resp, body := e.call("PUT", "/v1/sandboxes/box/fs?path=/a+b%2Bc", data)
	if resp.StatusCode != 200 || string(e.files["/a b+c"]) != data {
		t.Fatalf("put: %d %s, files %d", resp.StatusCode, body, len(e.files))
	}
	resp, body = e.call("GET", "/v1/sandboxes/box/fs?path=/a+b%2Bc", "")
	if resp.ContentLength != int64(len(data)) || body != data {
		t.Errorf("get: %d bytes announced, %d came, want %d", resp.ContentLength, len(body), len(data))
	}
	resp, body = e.call("HEAD", "/v1/sandboxes/box/fs?path=/a+b%2Bc", "")
	if resp.ContentLength != int64(len(data)) || body != "" {
		t.Errorf("head: %d bytes announced, %d came", resp.ContentLength, len(body))
	}
}

func TestFileThatEndsEarlyCutsTheConnection(t *testing.T) {
	e := start(t)
	e.files["/short"] = []byte(strings.Repeat("x", 1<<16))
	req, _ := http.NewRequest("GET", e.URL+"/v1/sandboxes/box/fs?path=/short", nil)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := e.Client().Do(req)
	if err == nil {
		defer resp.Body.Close()
		if _, err = resp.Body.Read(make([]byte, 1)); err == nil {
			_, err = resp.Body.Read(make([]byte, 1<<20))
			for err == nil {
				_, err = resp.Body.Read(make([]byte, 1<<20))
			}
		}
	}
	if err == nil || err.Error() != "unexpected EOF" {
		t.Errorf("got %v, want unexpected EOF", err)
	}
}

func TestExecEndsWithItsClient(t *testing.T) {
	e := start(t)
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", e.URL+"/v1/sandboxes/box/exec", strings.NewReader(`{"cmd":"wait"}`))
	req.Header.Set("Authorization", "Bearer "+key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := e.Client().Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-e.execStarted
	leave()
	select {
	case <-e.execEnded:
	case <-time.After(20 * time.Second):
		t.Fatal("the process goes on without its client")
	}
	<-done
}

func TestTimeoutOfAProcessSaysTheWord(t *testing.T) {
	e := start(t)
	resp, body := e.call("POST", "/v1/sandboxes/box/exec", `{"cmd":"slow"}`)
	if got := e.refused(resp, body, 504, api.CodeExecTimeout); got.Error != "timeout: killed after 1 s" {
		t.Errorf("got %q", got.Error)
	}
}

func TestRepl(t *testing.T) {
	e := start(t)
	_, body := e.call("POST", "/v1/sandboxes/box/repl/sessions", `{"language":"Python"}`)
	if strings.TrimSpace(body) != `{"id":"ctx","language":"python"}` {
		t.Errorf("create: %s", body)
	}
	e.execution = api.Execution{
		Status: "error", Stdout: "out", DurationMS: 1.5,
		Results: []api.Result{{Data: map[string]json.RawMessage{
			"text/html": json.RawMessage(`"<b>"`), "application/json": json.RawMessage(`{"a": [1]}`),
		}}},
		Error: &api.CellError{Name: "ValueError", Value: "x", Traceback: "Traceback\nValueError: x"},
	}
	resp, body := e.call("POST", "/v1/sandboxes/box/repl/sessions/ctx/run", `{"code":"1","timeout_ms":1500}`)
	want := `{"results":[{"application/json":"{\"a\":[1]}","text/html":"<b>"}],"stdout":"out","stderr":"","error":"Traceback\nValueError: x","exit":1,"duration_ms":1.5}`
	if resp.StatusCode != 200 || strings.TrimSpace(body) != want || e.ran.TimeoutSeconds != 1.5 {
		t.Errorf("run: %d %s\nwant %s", resp.StatusCode, body, want)
	}
	e.execution = api.Execution{Status: "timeout", Stdout: "partial"}
	resp, body = e.call("POST", "/v1/sandboxes/box/repl/sessions/ctx/run", `{"code":"1","timeout_ms":5}`)
	got := e.refused(resp, body, 504, api.CodeExecutionTimeout)
	if !strings.Contains(got.Error, "timeout") || got.Detail["stdout"] != "partial" {
		t.Errorf("timeout: %s", body)
	}
}

func TestLogTellsTheCause(t *testing.T) {
	e := start(t)
	resp, _ := e.call("POST", "/v1/sandboxes/box/exec", `{"cmd":"plain"}`, "X-Request-Id", "my-id")
	if resp.Header.Get("X-Request-Id") != "my-id" {
		t.Errorf("request id %q", resp.Header.Get("X-Request-Id"))
	}
	e.Close() // the line is written when the handler ends
	for _, want := range []string{"a secret of the server", "request=my-id", "status=500", "code=internal", "level=ERROR"} {
		if !strings.Contains(e.log.String(), want) {
			t.Errorf("no %q in the log: %s", want, e.log)
		}
	}
	if strings.Contains(e.log.String(), key) {
		t.Error("the log has the key")
	}
}
