package kernel

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// launch starts the kernel of a spec, in a group and session of its own, and
// waits until it answers and what it publishes is heard.
func (m *Manager) launch(ctx context.Context, s *spec, cwd string, env map[string]string) (*process, error) {
	j, err := newJupyter()
	if err != nil {
		return nil, err
	}
	cmd := s.command(m.cfg.Python, j.file())
	cmd.Dir, cmd.Stderr = cwd, os.Stderr
	cmd.Env = m.cfg.Env[:len(m.cfg.Env):len(m.cfg.Env)]
	for _, more := range []map[string]string{s.Env, env} {
		for key, value := range more {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	p := newProcess(j, 0)
	p.byMessage = s.InterruptMode == "message"
	if err := m.spawn(p, cmd); err != nil {
		_ = j.close()
		return nil, guestproto.Errorf(guestproto.CodeUnsupported, "kernel %.40q does not start: %.400v", s.name, err)
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	opened := make(chan struct{})
	defer close(opened)
	go func() {
		<-p.exited
		stop()
		<-opened
		j.hangUp() // its children may hold the sockets open
	}()
	if err := j.open(waiting); err != nil {
		m.discard(p)
		if ctx.Err() == nil {
			err = errors.Join(errors.New("it ended or broke off"), err)
		}
		return nil, guestproto.Errorf(guestproto.CodeUnsupported, "kernel %.40q does not answer: %.400v", s.name, err)
	}
	return p, nil
}

// spawn starts p and has its end noted.
func (m *Manager) spawn(p *process, cmd *exec.Cmd) (err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if p.group, err = m.newGroup(); err != nil {
		m.log.Warn("kernel runs outside a group", "error", err)
	}
	if fd, ok := p.group.FD(); ok {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, fd
	}
	if err := m.cfg.Reap.Start(cmd); err != nil {
		_ = p.group.Remove()
		return err
	}
	p.pid = cmd.Process.Pid
	m.cfg.Adjust(p.pid)
	go func() {
		_ = m.cfg.Reap.Wait(cmd) // the state says how it ended
		p.setExit(exitOf(unix.WaitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus))))
	}()
	return nil
}

// discard ends a process that no kernel owns.
func (m *Manager) discard(p *process) {
	m.kill(p)
	awaitExit(p, killLimit)
	_ = p.wire.close()
	_ = p.group.Remove()
}
