package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest/cgroup"
	"pandastack/internal/guest/session"
)

// exit is how a process ended.
type exit struct {
	Code   int
	Signal string
}

// process is one running kernel and our end of its wire.
type process struct {
	pid       int
	wire      wire
	group     *cgroup.Group
	byMessage bool // it is interrupted by a message, not by a signal

	nextID atomic.Int64

	mu      sync.Mutex
	replies map[string]chan message // requests in flight that are no cells
	owner   *kernel                 // whom messages are for; nil while it is spare
	reason  error                   // why its reader gave up, if not because it ended

	exited chan struct{} // closed by the host's exit notice, after exit was set
	exit   exit
	gone   chan struct{} // closed when its reader ended; it takes no more cells
	over   chan struct{} // closed when nothing of it is left
}

func newProcess(wire wire, pid int) *process {
	return &process{
		pid:     pid,
		wire:    wire,
		replies: map[string]chan message{},
		exited:  make(chan struct{}),
		gone:    make(chan struct{}),
		over:    make(chan struct{}),
	}
}

// send writes one request and returns its message id. before, if not nil, runs
// with that id ahead of any answer.
func (p *process) send(kind string, content any, before func(id string)) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return p.pass(message{Header: header{Type: kind}, Content: raw}, before)
}

// pass is send of a message that lacks nothing but its id.
func (p *process) pass(m message, before func(id string)) error {
	m.Header.ID = strconv.FormatInt(p.nextID.Add(1), 10)
	if before != nil {
		before(m.Header.ID)
	}
	if err := p.wire.send(m); err != nil {
		return fmt.Errorf("kernel %d: %w", p.pid, err)
	}
	return nil
}

var errGone = errors.New("kernel process ended")

// control asks the host itself for something and waits for its answer.
func (p *process) control(ctx context.Context, content any) error {
	a, err := p.begin("control", content)
	if err != nil {
		return err
	}
	return a.ok(ctx)
}

// ask sends a request that is no cell and waits for its reply.
func (p *process) ask(ctx context.Context, kind string, content any) (message, error) {
	a, err := p.begin(kind, content)
	if err != nil {
		return message{}, err
	}
	return a.wait(ctx)
}

// asked is a request under way that is no cell. Its owner calls wait or ok, once.
type asked struct {
	p     *process
	id    string
	reply chan message
}

// begin sends a request: what is sent after it is answered after it.
func (p *process) begin(kind string, content any) (*asked, error) {
	a := &asked{p: p, reply: make(chan message, 1)}
	err := p.send(kind+"_request", content, func(id string) {
		a.id = id
		p.mu.Lock()
		defer p.mu.Unlock()
		p.replies[id] = a.reply
	})
	if err != nil {
		a.forget()
		return nil, err
	}
	return a, nil
}

func (a *asked) forget() {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	delete(a.p.replies, a.id)
}

func (a *asked) wait(ctx context.Context) (message, error) {
	defer a.forget()
	select {
	case m := <-a.reply:
		return m, nil
	case <-a.p.gone:
		return message{}, errGone
	case <-ctx.Done():
		return message{}, fmt.Errorf("kernel %d does not answer: %w", a.p.pid, ctx.Err())
	}
}

// ok waits for a reply of which only its status counts.
func (a *asked) ok(ctx context.Context) error {
	m, err := a.wait(ctx)
	if err != nil {
		return err
	}
	return replyError(m)
}

func replyError(m message) error {
	var c struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Value  string `json:"evalue"`
	}
	if err := json.Unmarshal(m.Content, &c); err != nil {
		return err
	}
	if c.Status == "error" || c.Error != "" {
		return fmt.Errorf("kernel host refused: %s%s", c.Error, c.Value)
	}
	return nil
}

// ready waits for the host's first message.
func (p *process) ready() error {
	m, err := p.wire.receive()
	if err != nil {
		return fmt.Errorf("kernel %d did not start: %w", p.pid, err)
	}
	if m.Header.Type != "ready" {
		err = fmt.Errorf("kernel %d began with %.40q", p.pid, m.Header.Type)
	}
	return err
}

// read takes the host's messages until it ends or breaks the protocol, which
// ends it. Nothing but memory ever makes it wait.
func (p *process) read() {
	defer close(p.gone)
	for {
		m, err := p.wire.receive()
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if errors.Is(err, errFrame) {
				p.reason = err
			}
			return
		}
		p.deliver(m)
	}
}

func (p *process) deliver(m message) {
	p.mu.Lock()
	owner, answer := p.owner, p.replies[m.Parent.ID]
	p.mu.Unlock()
	switch {
	case answer != nil && strings.HasSuffix(m.Header.Type, "_reply"):
		select {
		case answer <- m:
		default: // a second answer
		}
	case owner != nil:
		owner.message(p, m)
	}
}

// interrupt does what Ctrl-C does. It does not wait.
func (p *process) interrupt() {
	if p.byMessage {
		go func() { _ = p.send("interrupt_request", struct{}{}, nil) }() // closing the wire ends it
		return
	}
	_ = session.Signal(p.pid, unix.SIGINT)
}

func (p *process) setOwner(k *kernel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner = k
}

// setExit notes how the process ended. Only the first call counts.
func (p *process) setExit(e exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
	default:
		p.exit = e
		close(p.exited)
	}
}

func signalName(n int) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(n)
}
