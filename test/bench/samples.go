package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"pandastack/internal/guestproto"
)

const (
	benchFile = "/workspace/bench.bin"
	block     = 1 << 20
)

// work is what a sample of a running machine measures.
type work func(context.Context, *guest) (sample, error)

// whole measures all of do.
func whole(do func(context.Context, *guest) error) work {
	return func(ctx context.Context, g *guest) (sample, error) {
		began := time.Now()
		err := do(ctx, g)
		return sample{MS: ms(time.Since(began))}, err
	}
}

// cellOne runs 1+1, wants 2, and gives the milliseconds that the agent says it took.
func cellOne(ctx context.Context, g *guest) (took float64, err error) {
	g.cells++
	result := ""
	req := guestproto.ExecuteRequest{ID: fmt.Sprintf("cell-%d", g.cells), Code: "1+1"}
	err = g.agent.Execute(ctx, kernelID, req, nil, func(e guestproto.Event) error {
		switch e.Type {
		case guestproto.EventResult:
			var d guestproto.Display
			err := json.Unmarshal(e.Content, &d)
			return errors.Join(err, json.Unmarshal(d.Data["text/plain"], &result))
		case guestproto.EventDone:
			var d guestproto.Done
			err := json.Unmarshal(e.Content, &d)
			took = d.DurationMS
			return err
		}
		return nil
	})
	if err == nil && result != "2" {
		err = fmt.Errorf("1+1 gave %q", result)
	}
	return took, err
}

// cell measures a cell, and which part of it the agent saw.
func cell(ctx context.Context, g *guest) (s sample, err error) {
	var took float64
	s, err = whole(func(ctx context.Context, g *guest) (err error) {
		took, err = cellOne(ctx, g)
		return err
	})(ctx, g)
	s.Steps = map[string]float64{"agent": took}
	return s, err
}

func execTrue(ctx context.Context, g *guest) error {
	return g.exec(ctx, guestproto.ExecRequest{Argv: []string{"true"}}, nil)
}

// exec runs a process to its end; onOutput is called for what it prints.
func (g *guest) exec(ctx context.Context, req guestproto.ExecRequest, onOutput func()) error {
	var said strings.Builder
	code := -1
	err := g.agent.Exec(ctx, req, func(e guestproto.ExecEvent) error {
		if e.Type == guestproto.ExecExit {
			code = e.ExitCode
			return nil
		}
		said.Write(e.Data)
		if onOutput != nil {
			onOutput()
		}
		return nil
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, said.String())
	}
	return err
}

// findPort is a shell line that sets port to the device of the second port.
const findPort = `for n in /sys/class/virtio-ports/*/name; do [ "$(cat $n)" = events ] && d=${n%/name} && port=/dev/${d##*/}; done; `

// throughPort moves bytes through the second port, from when the guest's
// process is ready until it has ended and move has returned.
func (g *guest) throughPort(ctx context.Context, copier string, move func() error) (sample, error) {
	at, _ := ctx.Deadline()
	if err := g.Events().SetDeadline(at); err != nil {
		return sample{}, err
	}
	var began time.Time
	moved := make(chan error, 1)
	err := g.exec(ctx, guestproto.ExecRequest{Shell: findPort + "echo ready; exec " + copier}, func() {
		if began.IsZero() {
			began = time.Now()
			go func() { moved <- move() }()
		}
	})
	if began.IsZero() {
		return sample{}, errors.Join(errors.New("the guest's end was never ready"), err)
	}
	err = errors.Join(err, <-moved)
	return sample{MS: ms(time.Since(began))}, err
}

// rawUp sends n bytes to a process that drops them.
func rawUp(n int) work {
	return func(ctx context.Context, g *guest) (sample, error) {
		copier := fmt.Sprintf(`dd if=$port of=/dev/null bs=1M iflag=fullblock,count_bytes count=%d status=none`, n)
		return g.throughPort(ctx, copier, func() error {
			_, err := io.CopyBuffer(plain{g.Events()}, &noiseReader{left: n}, make([]byte, block))
			return err
		})
	}
}

// plain hides a connection's ReadFrom, so that the copy's own buffer is used.
type plain struct{ io.Writer }

// rawDown takes n bytes that a process makes.
func rawDown(n int) work {
	return func(ctx context.Context, g *guest) (sample, error) {
		copier := fmt.Sprintf(`dd if=/dev/zero of=$port bs=1M iflag=count_bytes count=%d status=none`, n)
		return g.throughPort(ctx, copier, func() error {
			_, err := io.CopyN(io.Discard, g.Events(), int64(n))
			return err
		})
	}
}

// noise is a block of bytes that no layer could make smaller.
var noise = func() []byte {
	b := make([]byte, block)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}()

// noiseReader gives n bytes of noise.
type noiseReader struct{ left int }

func (r *noiseReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, noise[:min(len(noise), r.left)])
	r.left -= n
	return n, nil
}

// agentUp writes a file of n bytes through the agent alone, synced like the API's.
func agentUp(n int) work {
	return whole(func(ctx context.Context, g *guest) error {
		info, err := g.agent.WriteFile(ctx, guestproto.WriteRequest{Path: benchFile}, &noiseReader{left: n})
		if err == nil && info.Size != int64(n) {
			err = fmt.Errorf("%d bytes written, %d sent", info.Size, n)
		}
		return err
	})
}

// agentDown reads the file that agentUp has written.
func agentDown(ctx context.Context, g *guest) error {
	info, body, err := g.agent.ReadFile(ctx, benchFile)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, body)
	if err == nil && n != info.Size {
		err = fmt.Errorf("%d bytes read of %d", n, info.Size)
	}
	return errors.Join(err, body.Close())
}
