package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"pandastack/api"
)

// callTime bounds one call of a test.
const callTime = 3 * time.Minute

// NewSandbox makes one. It is removed with its server, at the latest.
func (s *Server) NewSandbox(t testing.TB) api.Sandbox {
	t.Helper()
	box, err := s.CreateSandbox(t.Context(), api.CreateSandbox{})
	if err != nil {
		t.Fatalf("create a sandbox: %v", err)
	}
	return box
}

// NewContext starts a kernel.
func (s *Server) NewContext(t testing.TB, box string) string {
	t.Helper()
	c, err := s.CreateContext(t.Context(), box, api.CreateContext{})
	if err != nil {
		t.Fatalf("create a context: %v", err)
	}
	return c.ID
}

// Run runs a cell that is to succeed.
func (s *Server) Run(t testing.TB, box, kernel, code string) api.Execution {
	t.Helper()
	ex, err := s.Execute(t.Context(), box, kernel, api.Execute{Code: code, TimeoutSeconds: callTime.Seconds()})
	if err != nil {
		t.Fatalf("run %q: %v", code, err)
	}
	if ex.Error != nil {
		t.Fatalf("run %q: %s: %s\n%s", code, ex.Error.Name, ex.Error.Value, ex.Error.Traceback)
	}
	return ex
}

// Text gives the value of a cell's last expression, as Python prints it.
func (s *Server) Text(t testing.TB, box, kernel, code string) string {
	t.Helper()
	for _, r := range s.Run(t, box, kernel, code).Results {
		var text string
		if r.IsMainResult && json.Unmarshal(r.Data["text/plain"], &text) == nil {
			return text
		}
	}
	t.Fatalf("run %q: no value", code)
	return ""
}

// Remove deletes a sandbox.
func (s *Server) Remove(t testing.TB, box string) {
	t.Helper()
	if err := s.DeleteSandbox(t.Context(), box); err != nil {
		t.Errorf("delete sandbox %s: %v", box, err)
	}
}

// Call makes any request, body as it is, and gives the answer's status and body.
func (s *Server) Call(t testing.TB, method, path, body string, header ...string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// Get reads an answer into out, which must have all of its fields.
func (s *Server) Get(t testing.TB, path string, out any) {
	t.Helper()
	status, body := s.Call(t, http.MethodGet, path, "")
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); status != http.StatusOK || err != nil {
		t.Fatalf("GET %s: %d %s (%v)", path, status, body, err)
	}
}

// AwaitFile waits until a cell or process has made a file.
func (s *Server) AwaitFile(t testing.TB, box, path string) {
	t.Helper()
	Await(t, callTime, path, func() error {
		status, body := s.Call(t, http.MethodGet, "/v1/sandboxes/"+box+"/fs/stat?path="+url.QueryEscape(path), "")
		if status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}
