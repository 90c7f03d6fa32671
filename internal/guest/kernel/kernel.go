package kernel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"pandastack/internal/guest/cgroup"
	"pandastack/internal/guest/session"
	"pandastack/internal/guestproto"
)

const (
	startLimit   = 60 * time.Second // a fork, under emulation
	exitNotice   = 300 * time.Millisecond
	killLimit    = 5 * time.Second
	defaultGrace = 10 * time.Second // formatting a first traceback takes seconds under emulation
)

// kernel is a name, a queue of cells, and the process that runs them, which may
// be replaced.
type kernel struct {
	m         *Manager
	createdAt time.Time
	spec      *spec // of another kernel than our own; nil for that

	startMu sync.Mutex // held while a process is made

	work sync.WaitGroup // goroutines of this kernel

	mu       sync.Mutex
	id       string
	name     string
	cwd      string
	env      map[string]string
	proc     *process
	running  *execution
	queue    []*execution
	latest   []*execution // that ended in this process, and may still print
	count    int
	restarts int
	lost     bool // state was lost and no cell that began after it has said so yet
	deleted  bool
}

func (k *kernel) describe() guestproto.Kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := guestproto.Kernel{
		ID: k.id, Name: k.name, Language: ownLanguage, Cwd: k.cwd, State: guestproto.KernelDead,
		ExecutionCount: k.count, CreatedAt: k.createdAt, Restarts: k.restarts, Waiting: len(k.queue),
	}
	if k.spec != nil {
		d.Language, d.Kind = k.spec.Language, k.spec.name
	}
	if k.proc != nil {
		d.PID, d.State = k.proc.pid, guestproto.KernelIdle
	}
	if k.running != nil {
		d.State = guestproto.KernelBusy
	}
	return d
}

func notFound(id string) error {
	return guestproto.Errorf(guestproto.CodeNotFound, "kernel %.80q does not exist", id)
}

// enqueue puts x behind the kernel's other cells, or runs it now.
func (k *kernel) enqueue(x *execution) error {
	k.mu.Lock()
	if k.deleted {
		defer k.mu.Unlock()
		return notFound(k.id)
	}
	if k.running != nil {
		x.waited = true
		k.queue = append(k.queue, x)
		k.mu.Unlock()
		return nil
	}
	k.running = x
	k.work.Add(1)
	k.mu.Unlock()
	k.begin(x)
	return nil
}

// nextLocked starts the next waiting cell.
func (k *kernel) nextLocked() {
	k.running = nil
	if len(k.queue) == 0 || k.deleted {
		return
	}
	k.running = k.queue[0]
	k.queue = k.queue[1:]
	k.work.Add(1)
	go k.begin(k.running)
}

// begin hands the running cell to the process. It counts in k.work.
func (k *kernel) begin(x *execution) {
	defer k.work.Done()
	p, err := k.ensure()
	if err != nil {
		k.giveUp(x, err)
		return
	}
	k.mu.Lock()
	if k.running != x {
		k.mu.Unlock()
		return
	}
	x.sent, x.started = true, time.Now()
	if x.waited {
		x.log.add(guestproto.EventStarted, []byte("{}"))
	}
	x.done.Restarted, k.lost = k.lost, false
	if x.req.TimeoutMS > 0 {
		x.timer = time.AfterFunc(time.Duration(x.req.TimeoutMS)*time.Millisecond, func() { k.expire(x, p) })
	}
	req := x.request()
	k.mu.Unlock()
	err = p.pass(req, func(id string) {
		k.mu.Lock()
		defer k.mu.Unlock()
		x.msgID = id
	})
	if e := (*guestproto.Error)(nil); errors.As(err, &e) {
		k.giveUp(x, err)
	} else if err != nil {
		k.kill(p) // its reader ends the cell
	}
}

// giveUp ends a cell that no process could be given.
func (k *kernel) giveUp(x *execution, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running != x {
		return
	}
	x.failure(err)
	x.done.Status = guestproto.StatusDied
	k.endLocked(x)
}

// endLocked finishes the running cell and starts the next.
func (k *kernel) endLocked(x *execution) {
	x.finishLocked()
	k.m.finished(x)
	k.latest = append(k.latest, x)
	if over := len(k.latest) - keepFinished; over > 0 { // no more have a record
		closeLogs(k.latest[:over])
		k.latest = slices.Clone(k.latest[over:])
	}
	if x.req.StopOnError && x.done.Status != guestproto.StatusOK {
		k.abortLocked(guestproto.ReasonBatch, func(w *execution) bool { return w.req.Batch == x.req.Batch })
	}
	k.nextLocked()
}

// abortLocked takes those that meet out of the queue.
func (k *kernel) abortLocked(reason string, meets func(*execution) bool) {
	var stay []*execution
	for _, x := range k.queue {
		if !meets(x) {
			stay = append(stay, x)
			continue
		}
		x.abortLocked(reason)
		k.m.finished(x)
	}
	k.queue = stay
}

func all(*execution) bool { return true }

// ensure returns a live process, making one if there is none.
func (k *kernel) ensure() (*process, error) {
	k.startMu.Lock()
	defer k.startMu.Unlock()
	k.mu.Lock()
	p, id, cwd, env := k.proc, k.id, k.cwd, k.env
	k.mu.Unlock()
	if p != nil {
		select {
		case <-p.gone:
			<-p.over
		default:
			return p, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var err error
	if k.spec != nil {
		p, err = k.m.launch(ctx, k.spec, cwd, env)
	} else {
		p, err = k.m.fork(ctx, id, cwd, env)
	}
	if err != nil {
		return nil, err
	}
	return k.adopt(p)
}

// adopt makes p the kernel's process.
func (k *kernel) adopt(p *process) (*process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.proc = p
	p.setOwner(k)
	k.work.Add(2)
	go func() {
		defer k.work.Done()
		p.read()
	}()
	go func() {
		defer k.work.Done()
		k.watch(p)
	}()
	if k.deleted {
		go k.kill(p)
		return nil, errGone
	}
	return p, nil
}

// watch waits for the end of p, clears up after it and ends its cell.
func (k *kernel) watch(p *process) {
	defer close(p.over)
	<-p.gone
	awaitExit(p, exitNotice)
	k.kill(p) // what it started, and itself if it only closed its socket
	awaitExit(p, killLimit)
	_ = p.wire.close()
	memory := p.group.Memory()
	if err := p.group.Remove(); err != nil {
		k.m.log.Warn("remove kernel's group", "kernel", k.id, "error", err)
	}
	k.ended(p, memory)
}

func awaitExit(p *process, limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
	}
}

// ended ends the cell that p ran. Those behind it counted on its state and are
// aborted; a cell that p was not given yet runs in the next process.
func (k *kernel) ended(p *process, memory cgroup.Memory) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.proc, k.lost, k.count = nil, true, 0
	k.restarts++
	k.forgetLocked()
	x := k.running
	if x == nil || !x.sent {
		return
	}
	p.mu.Lock()
	x.deathLocked(p.exit, memory)
	reason := p.reason
	p.mu.Unlock()
	if reason != nil {
		x.failure(reason)
	}
	x.done.Status, x.done.Restarted = guestproto.StatusDied, true
	k.abortLocked(guestproto.ReasonDied, all)
	k.endLocked(x)
	k.forgetLocked()
	if x.timedOut && !k.deleted {
		k.work.Add(1)
		go k.revive()
	}
}

// forgetLocked ends what is late: the next process counts its messages afresh.
func (k *kernel) forgetLocked() {
	closeLogs(k.latest)
	k.latest = nil
}

func closeLogs(ended []*execution) {
	for _, x := range ended {
		x.log.close()
	}
}

// revive makes the process that replaces one that was killed at a limit.
func (k *kernel) revive() {
	defer k.work.Done()
	if _, err := k.ensure(); err != nil && !errors.Is(err, errGone) {
		k.m.log.Warn("restart kernel", "kernel", k.id, "error", err)
	}
}

// message takes one message of p.
func (k *kernel) message(p *process, m message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.running
	if p != k.proc {
		return
	}
	if x == nil || m.Parent.ID != x.msgID {
		k.lateLocked(m)
		return
	}
	if x.takeLocked(p, m) {
		if x.done.ExecutionCount > 0 {
			k.count = x.done.ExecutionCount
		}
		k.endLocked(x)
	}
}

// lateLocked takes a message of a cell that has ended: what its threads and
// processes print.
func (k *kernel) lateLocked(m message) {
	for _, x := range slices.Backward(k.latest) {
		if x.msgID != m.Parent.ID {
			continue
		}
		before := x.log.spilled()
		if x.showLocked(m); x.log.spilled() > before {
			k.m.trim()
		}
		return
	}
}

// expire interrupts x at its limit, and kills the process if that did not help.
func (k *kernel) expire(x *execution, p *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running != x {
		return
	}
	x.timedOut = true
	grace := defaultGrace
	if x.req.GraceMS > 0 {
		grace = time.Duration(x.req.GraceMS) * time.Millisecond
	}
	x.timer = time.AfterFunc(grace, func() { k.killFor(x, p) })
	k.interruptLocked(x)
}

func (k *kernel) killFor(x *execution, p *process) {
	k.mu.Lock()
	current := k.running == x
	k.mu.Unlock()
	if current {
		k.kill(p)
	}
}

func (k *kernel) kill(p *process) { k.m.kill(p) }

// kill ends p and everything it started.
func (m *Manager) kill(p *process) {
	if p.group != nil {
		_ = p.group.Kill()
		return
	}
	if err := session.Kill(p.pid); err != nil {
		m.log.Warn("kill kernel", "pid", p.pid, "error", err)
	}
}

func (k *kernel) interrupt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.proc != nil && k.running != nil {
		k.interruptLocked(k.running)
	}
}

// startNotice is how long a process may take to begin a cell it was given. A
// signal that comes before that is lost.
const startNotice = time.Second

// interruptLocked sends SIGINT to the running cell, and once more if the first
// may have come too early.
func (k *kernel) interruptLocked(x *execution) {
	p := k.proc
	if p == nil {
		return
	}
	p.interrupt()
	if time.Since(x.started) > startNotice {
		return
	}
	x.again = time.AfterFunc(startNotice, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.running == x && k.proc == p {
			p.interrupt()
		}
	})
}

// cancel aborts a waiting cell and interrupts a running one.
func (k *kernel) cancel(x *execution) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !x.ended.IsZero():
	case k.running != x:
		k.abortLocked(guestproto.ReasonCancelled, func(w *execution) bool { return w == x })
	case x.sent:
		k.interruptLocked(x)
	default:
		x.abortLocked(guestproto.ReasonCancelled)
		k.m.finished(x)
		k.nextLocked()
	}
}

// stopLocked aborts all cells that no process was given, and gives the process.
func (k *kernel) stopLocked(reason string) *process {
	k.abortLocked(reason, all)
	if x := k.running; x != nil {
		x.done.Reason = reason
		if !x.sent {
			x.abortLocked(reason)
			k.m.finished(x)
			k.running = nil
		}
	}
	return k.proc
}

// restart gives the kernel a fresh process and returns when it answers.
func (k *kernel) restart() error {
	k.mu.Lock()
	if k.deleted {
		defer k.mu.Unlock()
		return notFound(k.id)
	}
	p := k.stopLocked(guestproto.ReasonRestarted)
	k.mu.Unlock()
	if p != nil {
		k.kill(p)
		<-p.over
	}
	_, err := k.ensure()
	return err
}

// remove ends the kernel and returns when nothing of it is left.
func (k *kernel) remove() {
	k.mu.Lock()
	k.deleted = true
	p := k.stopLocked(guestproto.ReasonDeleted)
	k.mu.Unlock()
	if p != nil {
		k.kill(p)
	}
	k.work.Wait()
}
