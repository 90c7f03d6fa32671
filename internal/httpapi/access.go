package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"pandastack/api"
	"pandastack/internal/panda"
)

// hostChecked refuses requests that were sent to a name this server was not
// told of: a page on the web may make a name of its own resolve to this
// address, and its scripts would then talk to the server.
func (s *Server) hostChecked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostname(r.Host); !s.allowedHost(host, r) {
			WriteError(w, r, &panda.Error{
				Code:    api.CodeAuthHostNotAllowed,
				Message: fmt.Sprintf("this server does not answer for the host %.300q", host),
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) allowedHost(host string, r *http.Request) bool {
	if host == "localhost" || slices.Contains(s.hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	// A literal address cannot be made to point elsewhere, so the one the
	// client really reached is fine.
	return ip.IsLoopback() || ip.Unmap() == localAddr(r)
}

func localAddr(r *http.Request) netip.Addr {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return addr.AddrPort().Addr().Unmap().WithZone("")
}

// hostname takes the port and the brackets off a Host header.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// open lists the paths that answer without a key: they tell nothing that is
// not in the source, or no more than that somebody is at home.
var open = []string{"/v1/health", "/openapi.json"}

// authenticated lets only holders of a key through.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(open, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		key, ok := bearer(r)
		if !ok {
			WriteError(w, r, &panda.Error{Code: api.CodeAuthMissingKey, Message: "no API key came with the request"})
			return
		}
		if !s.knownKey(key) {
			WriteError(w, r, &panda.Error{Code: api.CodeAuthWrongKey, Message: "the API key is not one of this server's"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func bearer(r *http.Request) (string, bool) {
	scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	key = strings.TrimSpace(key)
	return key, ok && key != "" && strings.EqualFold(scheme, "Bearer")
}

// knownKey compares digests, and all of them, so that the time it takes tells
// nothing about a key.
func (s *Server) knownKey(key string) bool {
	digest := sha256.Sum256([]byte(key))
	found := 0
	for _, known := range s.keys {
		found |= subtle.ConstantTimeCompare(digest[:], known[:])
	}
	return found == 1
}
