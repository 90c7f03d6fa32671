package app

import (
	"context"
	"errors"
	"io"

	"pandastack/internal/cli"
)

// embedNode runs a node inside a command. It is not announced, so that no other
// command comes to depend on one that will soon end, and it says only what is
// wrong.
func embedNode(ctx context.Context, cfg Config, stderr io.Writer) (*cli.Embedded, error) {
	n, serve, err := startEmbedded(ctx, cfg, stderr)
	if err != nil {
		return nil, err
	}
	keys, err := n.data.keys()
	if err != nil {
		return nil, errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	}
	requests, stop := context.WithCancel(context.WithoutCancel(ctx)) // what cleans up must still be answered
	served := make(chan error, 1)
	go func() { served <- serve(requests) }()
	return &cli.Embedded{
		URL: n.URL(), Key: keys[0],
		Close: func(ctx context.Context) error {
			stop()
			return errors.Join(<-served, n.Close(ctx))
		},
	}, nil
}

func startEmbedded(ctx context.Context, cfg Config, stderr io.Writer) (*Node, func(context.Context) error, error) {
	if _, err := guestAgent(); err != nil {
		return nil, nil, err
	}
	cfg.Listen, cfg.embedded = "127.0.0.1:0", true
	cfg.PoolMax = 0 // nobody will come for a second machine
	if cfg.LogLevel == "info" {
		cfg.LogLevel = "warn"
	}
	n, err := Start(ctx, cfg, newLogger(cfg, stderr))
	if err != nil {
		return nil, nil, err
	}
	return n, n.Serve, nil
}
