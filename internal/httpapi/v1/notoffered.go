package v1

import (
	"fmt"
	"net/http"

	"pandastack/api"
	"pandastack/internal/httpapi"
	"pandastack/internal/panda"
)

// notOfferedRoutes are the calls of PandaStack's published clients that have
// nothing behind them here. Saying so beats a 404, which those clients take
// for a sandbox that is gone.
var notOfferedRoutes = []string{
	"GET /v1/sandboxes/{id}/ports",
	"GET /v1/sandboxes/{id}/ssh",
	"POST /v1/templates/build",
	"GET /v1/templates/builds",
	"GET /v1/templates/builds/{rest...}",
	"DELETE /v1/templates/{name}",
	"/v1/volumes", "/v1/volumes/",
	"/v1/functions", "/v1/functions/",
	"/v1/schedules", "/v1/schedules/",
	"/v1/databases", "/v1/databases/",
	"/v1/apps", "/v1/apps/",
	"/v1/preview-repos", "/v1/preview-repos/",
	"/v1/repos/",
	"/v1/me", "/v1/me/",
	"/v1/tokens", "/v1/tokens/",
}

func notOffered(mux *httpapi.Mux) {
	for _, pattern := range notOfferedRoutes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			httpapi.WriteError(w, r, notOfferedError(r.Method+" "+r.URL.Path))
		})
	}
}

func notOfferedError(what string) error {
	return &panda.Error{Code: api.CodeFeatureNotOffered, Message: fmt.Sprintf("%s is not offered by this server", what)}
}
