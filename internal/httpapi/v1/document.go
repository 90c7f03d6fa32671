package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"pandastack/internal/httpapi"
)

// serveDocument finishes the document and adds its route.
func serveDocument(mux *httpapi.Mux, a huma.API) ([]byte, error) {
	if err := nullable(a.OpenAPI(), "Execution", "error"); err != nil {
		return nil, err
	}
	allowMore(a.OpenAPI())
	raw, err := json.Marshal(a.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("write OpenAPI document: %w", err)
	}
	var doc bytes.Buffer
	if err := json.Indent(&doc, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indent OpenAPI document: %w", err)
	}
	doc.WriteByte('\n')
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(doc.Bytes())
	})
	return doc.Bytes(), nil
}

// nullable says that a property that is an object may be null, which huma
// cannot say by itself.
func nullable(doc *huma.OpenAPI, schema, property string) error {
	s := doc.Components.Schemas.Map()[schema]
	if s == nil || s.Properties[property] == nil {
		return fmt.Errorf("OpenAPI document: no property %s.%s", schema, property)
	}
	s.Properties[property] = &huma.Schema{AnyOf: []*huma.Schema{s.Properties[property], {Type: "null"}}}
	return nil
}

// allowMore lets answers have fields that are not in the document, so that
// clients made from it accept those of a later server. Requests stay strict: a
// field that nobody reads is a mistake.
func allowMore(doc *huma.OpenAPI) {
	asked := map[*huma.Schema]bool{}
	for _, path := range doc.Paths {
		for _, op := range []*huma.Operation{path.Post, path.Put, path.Patch} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, media := range op.RequestBody.Content {
				s := doc.Components.Schemas.SchemaFromRef(media.Schema.Ref)
				if s == nil { // a file
					continue
				}
				asked[s] = true
				for _, part := range s.Properties {
					if part.Ref != "" {
						asked[doc.Components.Schemas.SchemaFromRef(part.Ref)] = true
					}
				}
			}
		}
	}
	for _, schema := range doc.Components.Schemas.Map() {
		if !asked[schema] && schema.AdditionalProperties == false {
			schema.AdditionalProperties = nil
		}
	}
}
