// Package httpapi is the HTTP edge: who may call, how errors look, how long
// and how large requests may be. What the calls do is in one package per door
// below it.
package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Limits of the transport.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	defaultDrain  = 5 * time.Second
)

// Config is what a Server needs.
type Config struct {
	Keys       []string // who may call; at least one
	AllowHosts []string // names clients may call the server by, beside loopback and the address they reached
	Log        *slog.Logger
	Observer   Observer // nil: none
	// Drain is how long requests may go on once the server was told to stop,
	// and again once they were cancelled. 0: 5 s.
	Drain time.Duration
}

// Observer hears of every request that was answered, for metrics.
type Observer interface {
	// RequestDone gets the pattern of the route, "none" where there was none.
	RequestDone(route string, status int, took time.Duration)
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if len(c.Keys) == 0 {
		return errors.New("keys: at least one API key is needed")
	}
	for _, key := range c.Keys {
		if strings.TrimSpace(key) == "" {
			return errors.New("keys: an API key may not be empty")
		}
	}
	if c.Log == nil {
		return errors.New("log: a logger is needed")
	}
	return nil
}

// Server answers HTTP/1.1 and cleartext HTTP/2.
type Server struct {
	cfg   Config
	keys  [][sha256.Size]byte
	hosts []string
	next  http.Handler
}

// New puts the edge in front of a handler.
func New(cfg Config, next http.Handler) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("http server: %w", err)
	}
	if cfg.Drain == 0 {
		cfg.Drain = defaultDrain
	}
	s := &Server{cfg: cfg}
	for _, key := range cfg.Keys {
		s.keys = append(s.keys, sha256.Sum256([]byte(key)))
	}
	for _, host := range cfg.AllowHosts {
		s.hosts = append(s.hosts, hostname(host))
	}
	s.next = s.logged(patient(s.hostChecked(s.authenticated(next))))
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.next.ServeHTTP(w, r) }

// Serve answers on ln until ctx ends. Requests then get a moment to finish, and
// are cancelled after it. It closes ln and returns when no request is left.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- s.shutdown(server, cancel) })
	err := server.Serve(ln)
	if stop() { // it failed by itself
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return <-stopped
}

// shutdown waits for requests, then cancels them and waits once more.
func (s *Server) shutdown(server *http.Server, cancel context.CancelFunc) error {
	for _, step := range []func(){func() {}, cancel} {
		step()
		ctx, done := context.WithTimeout(context.Background(), s.cfg.Drain)
		err := server.Shutdown(ctx)
		done()
		if err == nil {
			return nil
		}
	}
	if err := server.Close(); err != nil {
		return fmt.Errorf("close HTTP server: %w", err)
	}
	return nil
}
