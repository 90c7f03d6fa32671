package v1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "pandastack/internal/httpapi/v1"
)

func TestDocumentIsCurrent(t *testing.T) {
	want, err := os.ReadFile("../../../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	got := start(t).document
	if !bytes.Equal(got, want) {
		t.Error("api/openapi.json is not what the routes say; run 'go generate ./api'")
	}
}

// TestDocumentHasEveryRoute walks the live mux: a route is in the document, or
// in the table of what is not offered, or is the document.
func TestDocumentHasEveryRoute(t *testing.T) {
	e := start(t)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Responses   map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(e.document, &doc); err != nil {
		t.Fatal(err)
	}
	inDocument := 0
	for _, pattern := range e.mux.Patterns() {
		if slices.Contains(v1.NotOfferedRoutes, pattern) || pattern == "GET /openapi.json" {
			continue
		}
		method, path, ok := strings.Cut(pattern, " ")
		op, found := doc.Paths[path][strings.ToLower(method)]
		if !ok || !found {
			t.Errorf("%s is not in the document", pattern)
			continue
		}
		if op.OperationID == "" || op.Responses["default"] == nil {
			t.Errorf("%s has no operation id or no error response", pattern)
		}
		inDocument++
	}
	documented := 0
	for _, methods := range doc.Paths {
		documented += len(methods)
	}
	if documented != inDocument || documented < 20 {
		t.Errorf("the document has %d calls, the mux %d", documented, inDocument)
	}
}
