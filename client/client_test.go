package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/client"
)

func TestCalls(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+string(body))
		io.WriteString(w, `{"id":"x"}`)
	}))
	defer server.Close()
	c := client.New(server.URL+"/v1/", "k", nil)
	if _, err := c.Execute(t.Context(), "a/b", "c", api.Execute{Code: "1"}); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteFile(t.Context(), "s", "/a b+c", strings.NewReader("data")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`POST /v1/sandboxes/a%2Fb/contexts/c/executions Bearer k {"code":"1"}`,
		`PUT /v1/sandboxes/s/fs?path=%2Fa+b%2Bc Bearer k data`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestErrors(t *testing.T) {
	for body, want := range map[string]client.Error{
		`{"error":"no","code":"a.b","hint":"h","detail":{"x":1}}`: {Status: 418, Code: "a.b", Message: "no", Hint: "h"},
		`<html>proxy</html>`: {Status: 418, Message: "HTTP 418 I'm a teapot: <html>proxy</html>"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, body)
		}))
		_, err := client.New(server.URL, "k", nil).Sandboxes(t.Context())
		server.Close()
		var got *client.Error
		if !errors.As(err, &got) || got.Status != want.Status || got.Code != want.Code || got.Message != want.Message || got.Hint != want.Hint {
			t.Errorf("got %+v, want %+v", err, want)
		}
	}
}
