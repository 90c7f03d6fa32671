package proc

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"pandastack/internal/guest/reap"
	"pandastack/internal/guestproto"
)

const (
	chunk    = 32 << 10
	coalesce = 5 * time.Millisecond // how long a small piece waits for more
)

// output reads both pipes of a run into one sequence of events.
type output struct {
	events chan guestproto.ExecEvent // closed when both pipes ended
	stop   chan struct{}
	pipes  []*os.File
	wait   sync.WaitGroup
}

// start starts cmd with its three pipes.
func start(table *reap.Table, cmd *exec.Cmd, stdin []byte) (*process, error) {
	p := &process{table: table, cmd: cmd, exited: make(chan struct{})}
	p.out = &output{events: make(chan guestproto.ExecEvent), stop: make(chan struct{})}
	theirs, err := p.pipes(len(stdin) > 0)
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	if err == nil {
		p.begun = time.Now()
		err = table.Start(cmd)
	}
	if err != nil {
		p.out.close()
		if p.stdin != nil {
			_ = p.stdin.Close()
		}
		return nil, err
	}
	go func() {
		_ = table.Wait(cmd) // the state says how it ended
		close(p.exited)
	}()
	p.out.read(guestproto.ExecStdout, guestproto.ExecStderr)
	if p.stdin != nil {
		p.out.wait.Add(1)
		go p.feed(stdin)
	}
	return p, nil
}

// pipes gives cmd its ends, which it returns, and keeps ours.
func (p *process) pipes(withStdin bool) (theirs []*os.File, err error) {
	for _, end := range []*io.Writer{&p.cmd.Stdout, &p.cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, w)
		p.out.pipes = append(p.out.pipes, r)
		*end = w
	}
	if !withStdin {
		return theirs, nil // /dev/null
	}
	r, w, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	p.cmd.Stdin, p.stdin = r, w
	return append(theirs, r), nil
}

// feed writes stdin. A process that does not read it all is no error.
func (p *process) feed(stdin []byte) {
	defer p.out.wait.Done()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-p.out.stop: // nobody reads any more
		case <-stop:
		}
		_ = p.stdin.Close()
	}()
	_, _ = p.stdin.Write(stdin)
}

func (o *output) read(types ...string) {
	var both sync.WaitGroup
	for i, kind := range types {
		both.Add(1)
		o.wait.Add(1)
		go func() {
			defer o.wait.Done()
			defer both.Done()
			o.copy(o.pipes[i], kind)
		}()
	}
	events := o.events
	o.wait.Add(1)
	go func() {
		defer o.wait.Done()
		both.Wait()
		close(events)
	}()
}

// copy sends what it reads in pieces of up to chunk bytes. A piece that is not
// full waits a little for more.
func (o *output) copy(f *os.File, kind string) {
	events := o.events
	for {
		b := make([]byte, chunk)
		n, err := f.Read(b)
		if err == nil && n < len(b) {
			_ = f.SetReadDeadline(time.Now().Add(coalesce))
			var more int
			more, err = io.ReadFull(f, b[n:])
			n += more
			_ = f.SetReadDeadline(time.Time{})
		}
		if n > 0 {
			select {
			case events <- guestproto.ExecEvent{Type: kind, Data: b[:n]}:
			case <-o.stop:
				return
			}
		}
		if err != nil && !os.IsTimeout(err) {
			return
		}
	}
}

// close ends the readers and waits for them.
func (o *output) close() {
	close(o.stop)
	for _, f := range o.pipes {
		_ = f.Close()
	}
	o.wait.Wait()
}
