//go:build vm

// Package badinput sends the real server what no good client would.
package badinput

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/test/harness"
)

// place is what the paths of the API are filled with.
type place struct {
	*harness.Server
	box, kernel string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	s := harness.Start(t, harness.NewDir(t), "PANDASTACK_POOL_MAX=0")
	box := s.NewSandbox(t).ID
	return &place{s, box, s.NewContext(t, box)}
}

// operation is one call of the OpenAPI document.
type operation struct {
	Method, Path string
	Body         *schema // of JSON; nil: none
	Required     bool    // the body
	Binary       bool
}

func (o operation) String() string { return o.Method + " " + o.Path }

// at fills the path's names in.
func (o operation) at(p *place, other ...string) string {
	names := append(other, "{id}", p.box, "{context}", p.kernel, "{session}", p.kernel, "{execution}", "e", "{snapshot}", "none", "{name}", "code-interpreter")
	path := o.Path
	for i := 0; i < len(names); i += 2 {
		path = strings.ReplaceAll(path, names[i], names[i+1])
	}
	if strings.Contains(o.Path, "/fs") {
		path += "?path=/workspace/table"
	}
	return path
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
}

type content struct {
	Schema *schema `json:"schema"`
}

// operations reads the document the server is built from.
func operations(t *testing.T) []operation {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "api", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Required bool               `json:"required"`
				Content  map[string]content `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var all []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o := operation{Method: strings.ToUpper(method), Path: path, Required: op.RequestBody.Required}
			if c, ok := op.RequestBody.Content["application/json"]; ok {
				o.Body = doc.Components.Schemas[strings.TrimPrefix(c.Schema.Ref, "#/components/schemas/")]
			}
			_, o.Binary = op.RequestBody.Content["application/octet-stream"]
			all = append(all, o)
		}
	}
	if len(all) < 25 {
		t.Fatalf("the document has %d calls only", len(all))
	}
	return all
}

// maxRefusal bytes are enough to say what is wrong, and where.
const maxRefusal = 32 << 10

// refused wants an answer with one of the statuses, a code of the registry that
// has this status, a sentence and a hint.
func (p *place) refused(t *testing.T, method, path, body string, header []string, codes ...string) {
	t.Helper()
	status, answer := p.Call(t, method, path, body, header...)
	assertRefusal(t, status, answer, codes...)
}

func assertRefusal(t *testing.T, status int, answer []byte, codes ...string) {
	t.Helper()
	var got api.Error
	if err := json.Unmarshal(answer, &got); err != nil || got.Error == "" || got.Hint == "" {
		t.Errorf("got %d %.200s (%v), want a sentence and a hint", status, answer, err)
		return
	}
	if len(answer) > maxRefusal {
		t.Errorf("the answer has %d bytes, want at most %d, whatever came", len(answer), maxRefusal)
	}
	for _, code := range codes {
		if got.Code == code && status == api.Lookup(code).Status {
			return
		}
	}
	t.Errorf("got %d %s %.300q, want %v", status, got.Code, got.Error, codes)
}

// raw makes a request that package net/http would not: line by line.
func (p *place) raw(t *testing.T, conn io.Writer, lines ...string) {
	t.Helper()
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")); err != nil {
		t.Fatal(err)
	}
}

func (p *place) auth() string { return "Authorization: Bearer " + p.Key }

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// answers wants the server to go on serving.
func (p *place) answers(t *testing.T) {
	t.Helper()
	if status, body := p.Call(t, http.MethodGet, "/v1/sandboxes/"+p.box+"/contexts", ""); status != http.StatusOK {
		t.Fatalf("the server does not serve any more: %d %.200s", status, body)
	}
}
