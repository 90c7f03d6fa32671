package qemu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pandastack/internal/kit/boundlog"
	"pandastack/internal/kit/cgroup"
	"pandastack/internal/kit/jail"
	"pandastack/internal/kit/priority"
	"pandastack/internal/kit/undo"
	"pandastack/internal/vmm"
)

// machine implements vmm.Machine.
type machine struct {
	id      string
	cmd     *exec.Cmd
	mon     *monitor
	agent   net.Conn
	events  net.Conn
	console *boundlog.Writer
	done    chan struct{}
	err     error // set before done is closed
	release undo.Stack
}

// Start boots or restores spec. See vmm.Driver.
func (d *Driver) Start(ctx context.Context, spec vmm.Spec) (_ vmm.Machine, err error) {
	caps, err := d.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	m := &machine{id: spec.ID, done: make(chan struct{})}
	hosts, guests, err := m.wire(spec.Dir)
	if err != nil {
		return nil, errors.Join(err, m.release.Run(ctx))
	}
	if err := m.spawn(caps, spec, guests); err != nil {
		return nil, errors.Join(err, m.release.Run(ctx))
	}
	go m.wait()
	if err := m.begin(ctx, spec, hosts); err != nil {
		_ = m.Kill()
		<-m.done
		return nil, fmt.Errorf("%w%s", err, logTail(spec.Dir))
	}
	return m, nil
}

// hostEnds are this side of the VMM's sockets that Start still works with.
type hostEnds struct{ qmp *net.UnixConn }

// wire makes the socket pairs and starts what drains console and network.
func (m *machine) wire(dir string) (hostEnds, sockets, error) {
	var hosts hostEnds
	var guests sockets
	pairs := []struct {
		guest **os.File
		use   func(*net.UnixConn) error
	}{
		{&guests.qmp, func(c *net.UnixConn) error { hosts.qmp = c; m.own(c); return nil }},
		{&guests.agent, func(c *net.UnixConn) error { m.agent = c; m.own(c); return nil }},
		{&guests.events, func(c *net.UnixConn) error { m.events = c; m.own(c); return nil }},
		{&guests.console, func(c *net.UnixConn) error { return m.keepConsole(c, dir) }},
		{&guests.net, func(c *net.UnixConn) error { m.drain(c, io.Discard); return nil }}, // policy none
	}
	for _, p := range pairs {
		conn, file, err := socketPair()
		if err != nil {
			return hosts, guests, err
		}
		*p.guest = file
		if err := p.use(conn); err != nil {
			return hosts, guests, errors.Join(err, conn.Close(), file.Close())
		}
	}
	return hosts, guests, nil
}

// own closes conn with the machine; the guest stream may have closed it before.
func (m *machine) own(conn net.Conn) {
	m.release.Push(func(context.Context) error { _ = conn.Close(); return nil })
}

func (m *machine) keepConsole(conn net.Conn, dir string) error {
	log, err := boundlog.Create(filepath.Join(dir, vmm.ConsoleFile), consoleLimit)
	if err != nil {
		return err
	}
	m.console = log
	m.release.Push(func(context.Context) error { return log.Close() })
	m.drain(conn, log)
	return nil
}

// drain copies what the guest sends until conn is closed by the release stack,
// which then waits for the copier to be gone.
func (m *machine) drain(conn net.Conn, to io.Writer) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(to, conn)
	}()
	m.release.Push(func(context.Context) error { _ = conn.Close(); <-gone; return nil })
}

func (m *machine) spawn(caps vmm.Capabilities, spec vmm.Spec, s sockets) error {
	ends := []*os.File{s.qmp, s.agent, s.events, s.console, s.net}
	defer func() {
		for _, f := range ends {
			_ = f.Close()
		}
	}()
	args, files := arguments(spec, s)
	mount := filepath.Join(spec.Dir, "root")
	if spec.Jail.Enabled {
		if err := os.MkdirAll(mount, 0o700); err != nil {
			return err
		}
	}
	cmd, err := jail.Cmd(jail.Config{
		Confine: spec.Jail.Enabled, Root: spec.Jail.Root, Mount: mount, UID: spec.Jail.UID, GID: spec.Jail.GID,
		Devices: devices(spec.Accelerator),
		Limits:  []jail.Limit{{Resource: unix.RLIMIT_CORE}, {Resource: unix.RLIMIT_NOFILE, Value: 256}},
		// Of what an emulator asks huge pages for, translated code and tables, most stays unused.
		SmallPages: caps.Accelerator == "tcg",
		Argv:       append([]string{caps.Binary}, args...),
	}, files)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(spec.Dir, LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", caps.Binary, err)
	}
	m.cmd = cmd
	if spec.Nice != 0 {
		_ = priority.Set(m.PID(), spec.Nice) // it only is slow, or others are
	}
	if err := m.bound(spec); err != nil {
		return errors.Join(fmt.Errorf("bound the VMM: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	return nil
}

// devices are those that QEMU opens: the first to see how files can be locked.
func devices(accelerator string) []string {
	if accelerator == "kvm" {
		return []string{"/dev/null", "/dev/kvm"}
	}
	return []string{"/dev/null"}
}

// overheadMB is what a VMM may use besides its guest's memory: translated code,
// disk caches, its own heap.
const overheadMB = 256

// bound puts the VMM into a cgroup where the host has one to give. The guest's
// memory counts twice: the first write to a page that the template has not used
// charges a page of the template's memfd too.
func (m *machine) bound(spec vmm.Spec) error {
	if !spec.Jail.Enabled {
		return nil
	}
	group, err := cgroup.Create(spec.ID, cgroup.Limits{MemoryBytes: int64(2*spec.MemoryMB+overheadMB) << 20, Tasks: 64})
	if err != nil {
		return nil // the jail stands without it; doctor reports it
	}
	m.release.Push(func(context.Context) error { return group.Remove() })
	return group.Add(m.PID())
}

func (m *machine) begin(ctx context.Context, spec vmm.Spec, hosts hostEnds) (err error) {
	if m.mon, err = newMonitor(ctx, hosts.qmp); err != nil {
		return fmt.Errorf("qemu did not come up: %w", err)
	}
	if spec.State == nil {
		return nil
	}
	if spec.Fill != nil {
		mapping, err := m.Memory()
		if err == nil {
			err = spec.Fill(mapping)
		}
		if err != nil {
			return fmt.Errorf("fill the memory: %w", err)
		}
	}
	return m.loadState(ctx, spec.State)
}

// wait owns the process's end: it reaps it and releases all that Start made.
func (m *machine) wait() {
	err := m.cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		m.err = errors.New("the VMM exited (the guest powered off or reset)")
	case errors.As(err, &exit):
		m.err = fmt.Errorf("the VMM ended: %s", exit.ProcessState)
	default:
		m.err = err
	}
	m.err = errors.Join(m.err, m.release.Run(context.Background()))
	close(m.done)
}

func (m *machine) PID() int              { return m.cmd.Process.Pid }
func (m *machine) Agent() net.Conn       { return m.agent }
func (m *machine) Events() net.Conn      { return m.events }
func (m *machine) Note(line string)      { _, _ = io.WriteString(m.console, line+"\n") }
func (m *machine) Done() <-chan struct{} { return m.done }

func (m *machine) Err() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// Kill ends the VMM. As it is the first process of its PID namespace, nothing
// it may have started survives it.
func (m *machine) Kill() error {
	if err := m.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (m *machine) Stop(ctx context.Context) error { return m.mon.run(ctx, "stop", nil, nil) }
func (m *machine) Cont(ctx context.Context) error { return m.mon.run(ctx, "cont", nil, nil) }

// Memory finds the guest memory's mapping by its memfd's name. It is the
// largest one: QEMU may split a mapping, but not this one.
func (m *machine) Memory() (vmm.Mapping, error) {
	f, err := procFile(m.PID(), "maps")
	if err != nil {
		return vmm.Mapping{}, err
	}
	defer f.Close()
	best := vmm.Mapping{PID: m.PID()}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if start, end, ok := parseMapping(sc.Text()); ok && end-start > best.Len {
			best.Start, best.Len = start, end-start
		}
	}
	if best.Len == 0 {
		return best, errors.New("qemu: guest memory is not mapped")
	}
	return best, nil
}

func parseMapping(line string) (start, end uint64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.HasPrefix(fields[5], "/memfd:"+vmm.MemoryName) {
		return 0, 0, false
	}
	from, to, ok := strings.Cut(fields[0], "-")
	if !ok {
		return 0, 0, false
	}
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	return start, end, err1 == nil && err2 == nil
}

// logTail gives the end of QEMU's own log for an error message.
func logTail(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, LogFile))
	if err != nil || len(text) == 0 {
		return ""
	}
	if len(text) > 600 {
		text = text[len(text)-600:]
	}
	return ": " + strings.TrimSpace(string(text))
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	guest := os.NewFile(uintptr(fds[1]), "vmm")
	host := os.NewFile(uintptr(fds[0]), "host")
	defer host.Close() // FileConn keeps a duplicate
	conn, err := net.FileConn(host)
	if err != nil {
		return nil, nil, errors.Join(err, guest.Close())
	}
	return conn.(*net.UnixConn), guest, nil
}

// loadState restores the device state into a machine started with -incoming.
func (m *machine) loadState(ctx context.Context, state *os.File) error {
	if err := m.mon.runWithFile(ctx, "getfd", map[string]any{"fdname": "state"}, nil, state); err != nil {
		return err
	}
	if err := m.mon.run(ctx, "migrate-incoming", map[string]any{"uri": "fd:state"}, nil); err != nil {
		return err
	}
	for {
		status, err := m.mon.status(ctx)
		if err != nil {
			return fmt.Errorf("load the device state: %w", err)
		}
		if status == "paused" || status == "prelaunch" || status == "running" {
			return nil
		}
		if status != "inmigrate" {
			return fmt.Errorf("load the device state: the machine is %q", status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Microsecond): // it takes about 10 ms
		}
	}
}

// SaveState writes the device state. With live=true QEMU gives the disks of a machine that stands
// still away until it goes on, and one that is saved again before that ends QEMU.
func (m *machine) SaveState(ctx context.Context, w *os.File) error {
	var added struct {
		FDSet int `json:"fdset-id"`
	}
	if err := m.mon.runWithFile(ctx, "add-fd", nil, &added, w); err != nil {
		return err
	}
	err := m.mon.run(ctx, "xen-save-devices-state",
		map[string]any{"filename": fmt.Sprintf("/dev/fdset/%d", added.FDSet), "live": false}, nil)
	return errors.Join(err, m.mon.run(ctx, "remove-fd", map[string]any{"fdset-id": added.FDSet}, nil))
}
