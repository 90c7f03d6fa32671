package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pandastack/api"
)

// TestRunTakesUpABrokenStream cuts a cell's events after each of them.
func TestRunTakesUpABrokenStream(t *testing.T) {
	var asked []string
	var key string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Query().Get("after"))
		if r.Method == http.MethodPost {
			var req api.Execute
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.ID == "" || key != "" && key != req.ID {
				t.Errorf("got %+v, %v, want the same id as %q", req, err, key)
			}
			key = req.ID
			if len(asked) == 1 { // the cell runs, but nobody hears of it
				panic(http.ErrAbortHandler)
			}
		} else if !strings.HasSuffix(r.URL.Path, "/executions/"+key+"/events") {
			t.Errorf("asked for %s", r.URL.Path)
		}
		var after int64
		_, _ = fmt.Sscan(r.URL.Query().Get("after"), &after)
		w.Header().Set("Content-Type", "text/event-stream")
		if after < 2 {
			fmt.Fprintf(w, "id: %d\nevent: stdout\ndata: {\"seq\":%d,\"type\":\"stdout\",\"text\":\"%d\"}\n\n", after+1, after+1, after+1)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "event: done\ndata: {\"seq\":3,\"type\":\"done\",\"execution\":{\"status\":\"ok\",\"stdout\":\"12\"}}\n\n")
	}))
	defer server.Close()
	text := ""
	ex, err := New(server.URL, "k", nil).Run(t.Context(), "box", "ctx", api.Execute{Code: "1"}, func(e api.ExecutionEvent) error {
		text += e.Text
		return nil
	})
	if err != nil || ex.Stdout != "12" || text != "12" || strings.Join(asked, ",") != "POST ,POST ,GET 1,GET 2" {
		t.Errorf("got %+v, %v, %q, asked %q", ex, err, text, asked)
	}
}

func TestRunThatIsRefused(t *testing.T) {
	for _, answer := range []string{
		"event: failure\ndata: {\"error\":\"it ended\",\"code\":\"sandbox.failed\"}\n\n",
		"",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if answer == "" {
				w.WriteHeader(http.StatusGone)
				fmt.Fprint(w, `{"error":"it ended","code":"sandbox.failed","hint":"h"}`)
				return
			}
			fmt.Fprint(w, answer)
		}))
		_, err := New(server.URL, "k", nil).Run(t.Context(), "box", "ctx", api.Execute{}, func(api.ExecutionEvent) error { return nil })
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != api.CodeSandboxFailed {
			t.Errorf("got %v", err)
		}
		server.Close()
	}
}

func TestFollowOfWhatHasEnded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			fmt.Fprint(w, `{"id":"x","status":"ok","events":7}`)
		}
	}))
	defer server.Close()
	ex, err := New(server.URL, "k", nil).Follow(t.Context(), "box", "x", 7, nil)
	if err != nil || ex.Status != "ok" {
		t.Errorf("got %+v, %v", ex, err)
	}
}
