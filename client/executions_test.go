package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	for _, until := range []string{"", api.FollowNone, api.FollowDone, api.FollowAll} {
		ex, err := New(server.URL, "k", nil).Follow(t.Context(), "box", "x", api.Follow{After: 7, Until: until}, nil)
		if err != nil || ex.Status != "ok" {
			t.Errorf("%q: got %+v, %v", until, ex, err)
		}
	}
}

// TestFollowGoesAsFarAsItIsTold: a thread prints once more after the cell's end, and
// the stream breaks before that.
func TestFollowGoesAsFarAsItIsTold(t *testing.T) {
	const done = "data: {\"seq\":2,\"type\":\"done\",\"execution\":{\"status\":\"ok\"}}\n\n"
	for until, want := range map[string]struct{ asked, heard, status string }{
		"":             {"GET after=0&follow=done", "1 2", "ok"},
		api.FollowNone: {"GET after=0&follow=none&result_bytes=0&stream_bytes=9", "1", "running"},
		api.FollowAll:  {"GET after=0&follow=all,GET after=2&follow=all", "1 2 3", "ok"},
	} {
		var asked, heard []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			query := r.URL.Query()
			if !strings.HasSuffix(r.URL.Path, "/events") {
				fmt.Fprintf(w, `{"status":%q,"events":3}`, want.status)
				return
			}
			asked = append(asked, r.Method+" "+r.URL.RawQuery)
			switch {
			case query.Get("follow") == "none":
				fmt.Fprint(w, "data: {\"seq\":1}\n\n")
			case query.Get("after") == "0":
				fmt.Fprint(w, "data: {\"seq\":1}\n\n"+done)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			default:
				fmt.Fprint(w, "data: {\"seq\":3}\n\n")
			}
		}))
		how := api.Follow{Until: until}
		if until == api.FollowNone {
			how.Output = &api.OutputBudget{StreamBytes: 9}
		}
		ex, err := New(server.URL, "k", nil).Follow(t.Context(), "box", "x", how, func(e api.ExecutionEvent) error {
			heard = append(heard, strconv.FormatInt(e.Seq, 10))
			return nil
		})
		server.Close()
		if err != nil || ex.Status != want.status || strings.Join(heard, " ") != want.heard || strings.Join(asked, ",") != want.asked {
			t.Errorf("%q: got %+v, %v; asked %q, heard %q", until, ex, err, asked, heard)
		}
	}
}

// wire answers requests within a test, whose clock it keeps.
type wire func(*http.Request) (io.ReadCloser, error)

func (f wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
}

// TestFollowOutlivesAServer that is started anew after an hour in which a cell was
// silent. One that stays away is given up.
func TestFollowOutlivesAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, back := 0, true
		c := New("http://node", "k", &http.Client{Transport: wire(func(*http.Request) (io.ReadCloser, error) {
			asked++
			switch {
			case asked == 1:
				silence, end := io.Pipe()
				time.AfterFunc(time.Hour, func() { end.CloseWithError(io.ErrUnexpectedEOF) })
				return silence, nil
			case asked < 5 || !back:
				return nil, errors.New("connection refused")
			}
			return io.NopCloser(strings.NewReader("data: {\"seq\":1,\"type\":\"done\",\"execution\":{\"status\":\"ok\"}}\n\n")), nil
		})})
		sink := func(api.ExecutionEvent) error { return nil }
		if ex, err := c.Follow(t.Context(), "box", "x", api.Follow{}, sink); err != nil || ex.Status != "ok" {
			t.Errorf("got %+v, %v", ex, err)
		}
		asked, back = 1, false
		began := time.Now()
		if _, err := c.Follow(t.Context(), "box", "x", api.Follow{}, sink); err == nil || time.Since(began) > reattachTime+2*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestMessagesToComms(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req api.SendComm
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		streamed := r.Header.Get("Accept") == "text/event-stream"
		got = append(got, fmt.Sprint(r.Method, " ", r.URL.Path, " ", req.Comm.CommID, " ", string(req.Comm.Data["state"]), " ", streamed, " ", req.ID != ""))
		const answer = `{"status":"ok","stdout":"7\n"}`
		if !streamed {
			fmt.Fprint(w, answer)
			return
		}
		fmt.Fprint(w, "data: {\"seq\":1,\"type\":\"comm\",\"comm\":{\"comm_id\":\"m\"}}\n\ndata: {\"seq\":2,\"type\":\"done\",\"execution\":"+answer+"}\n\n")
	}))
	defer server.Close()
	c := New(server.URL, "k", nil)
	message := api.SendComm{Comm: api.Comm{MsgType: "comm_msg", CommID: "m", Data: map[string]json.RawMessage{"state": json.RawMessage(`{"value":7}`)}}}
	sent, err := c.SendComm(t.Context(), "box", "ctx", message)
	if err != nil || sent.Stdout != "7\n" {
		t.Errorf("got %+v, %v", sent, err)
	}
	var told []string
	followed, err := c.RunComm(t.Context(), "box", "ctx", message, func(e api.ExecutionEvent) error {
		told = append(told, e.Type+string(e.Comm))
		return nil
	})
	if err != nil || followed.Stdout != "7\n" || strings.Join(told, " ") != `comm{"comm_id":"m"} done` {
		t.Errorf("got %+v, %v, told %q", followed, err, told)
	}
	const call = `POST /v1/sandboxes/box/contexts/ctx/comms m {"value":7} `
	if strings.Join(got, ",") != call+"false false,"+call+"true true" {
		t.Errorf("got %q", got)
	}
}
