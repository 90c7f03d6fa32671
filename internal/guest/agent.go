// Package guest is the agent inside a microVM: it composes kernels, processes,
// files and the machine itself to one guestproto.Guest.
package guest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"pandastack/internal/guest/cgroup"
	"pandastack/internal/guest/files"
	"pandastack/internal/guest/kernel"
	"pandastack/internal/guest/proc"
	"pandastack/internal/guest/reap"
	"pandastack/internal/guest/resume"
	"pandastack/internal/guest/usage"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/priority"
)

// Config of an Agent. The zero values of Groups and Machine fit an ordinary
// process.
type Config struct {
	Version    string
	Workspace  string
	Python     string // interpreter of the kernel host; "" where there is none
	PythonPath string // folder that pandastack_kernel is in
	Env        []string
	SpillDir   string // on a disk; see kernel.Config
	Groups     *cgroup.Tree
	Machine    bool // the agent is init of a VM
	// Lane opens the second port for one large file; nil where there is none.
	Lane func() (guestproto.LanePipe, error)
	Log  *slog.Logger
}

// Agent implements guestproto.Guest.
type Agent struct {
	cfg     Config
	bootID  string
	kernels *kernel.Manager
	proc    proc.Runner
	files   files.Files
	resume  resume.System
	meter   usage.Meter

	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ guestproto.Guest = (*Agent)(nil)

// New makes an agent and starts to collect orphans. Its owner calls Close.
func New(cfg Config) *Agent {
	a := &Agent{cfg: cfg, files: files.Files{Workspace: cfg.Workspace}}
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		a.bootID = strings.TrimSpace(string(id))
	}
	table := reap.New(func(pid int, status unix.WaitStatus) { a.kernels.Orphan(pid, status) })
	a.kernels = kernel.New(kernel.Config{
		Command: a.hostCommand, Cwd: cfg.Workspace, Python: cfg.Python, JupyterPath: jupyterPath(cfg), Env: cfg.Env,
		SpillDir: cfg.SpillDir, Reap: table, Groups: cfg.Groups, Adjust: victim, Log: cfg.Log,
	})
	a.proc = proc.Runner{Env: cfg.Env, Cwd: cfg.Workspace, Reap: table, Groups: cfg.Groups, Adjust: victim}
	a.resume = resume.System{Reseed: a.kernels.Reseed, Machine: cfg.Machine}
	if cfg.Machine {
		a.resume.Exec = a.proc.Exec
		// It would wait for the rest of a cell's time slice whenever that wakes it.
		if err := priority.First(); err != nil {
			cfg.Log.Warn("the agent runs like any process", "error", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	a.running.Go(func() {
		if err := table.Run(ctx); err != nil {
			cfg.Log.Error("collect orphans", "error", err)
		}
	})
	return a
}

// jupyterPath is where Jupyter looks for kernelspecs.
func jupyterPath(cfg Config) []string {
	var path []string
	for _, kv := range cfg.Env {
		if v, ok := strings.CutPrefix(kv, "JUPYTER_PATH="); ok {
			path = filepath.SplitList(v)
		}
	}
	venv := filepath.Dir(filepath.Dir(cfg.Python))
	return append(path, filepath.Join(venv, "share/jupyter"), "/usr/local/share/jupyter", "/usr/share/jupyter")
}

// Close ends the kernels and everything the agent started.
func (a *Agent) Close() {
	a.kernels.Close()
	a.stop()
	a.running.Wait()
}

// hostCommand is the kernel host's.
func (a *Agent) hostCommand() *exec.Cmd {
	cmd := exec.Command(a.cfg.Python, "-m", "pandastack_kernel", "--zygote-fd", "3")
	cmd.Env = append(a.cfg.Env[:len(a.cfg.Env):len(a.cfg.Env)], "PYTHONPATH="+a.cfg.PythonPath)
	cmd.Dir = a.cfg.Workspace
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd
}

// victim makes a user's process end before the agent when memory runs out.
func victim(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("500"), 0)
}

// Hello implements guestproto.Guest.
func (a *Agent) Hello(context.Context) (guestproto.Hello, error) {
	return guestproto.Hello{
		Version: guestproto.Version, Agent: a.cfg.Version, BootID: a.bootID, WarmKernel: a.kernels.HasSpare(),
		Lane: a.cfg.Lane != nil,
	}, nil
}

// Resume implements guestproto.Guest.
func (a *Agent) Resume(ctx context.Context, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	report, err := a.resume.Resume(ctx, req)
	if err != nil {
		a.cfg.Log.Error("resume", "error", err)
		return report, err
	}
	if req.MachineID != "" {
		a.meter.Reset()
	}
	// The report is the sandbox's; a line on an emulated console takes milliseconds.
	return report, nil
}

// Quiesce implements guestproto.Guest.
func (a *Agent) Quiesce(ctx context.Context) error { return usage.Quiesce(ctx, a.cfg.Machine) }

// Stats implements guestproto.Guest.
func (a *Agent) Stats(context.Context) (guestproto.Stats, error) { return a.meter.Stats() }

// Warm implements guestproto.Guest.
func (a *Agent) Warm(ctx context.Context, req guestproto.WarmRequest) error {
	if a.cfg.Python == "" {
		if len(req.Imports)+len(req.Cells) == 0 {
			return nil // as warm as it gets
		}
		return noPython()
	}
	return a.kernels.Warm(ctx, req)
}

// CreateKernel implements guestproto.Guest.
func (a *Agent) CreateKernel(ctx context.Context, req guestproto.KernelRequest) (guestproto.Kernel, error) {
	if a.cfg.Python == "" {
		return guestproto.Kernel{}, noPython()
	}
	return a.kernels.Create(ctx, req)
}

func noPython() error {
	return guestproto.Errorf(guestproto.CodeUnsupported, "this sandbox's template has no Python, and so no contexts")
}

// Kernels implements guestproto.Guest.
func (a *Agent) Kernels(context.Context) ([]guestproto.Kernel, error) { return a.kernels.List(), nil }

// InterruptKernel implements guestproto.Guest.
func (a *Agent) InterruptKernel(_ context.Context, id string) error { return a.kernels.Interrupt(id) }

// RestartKernel implements guestproto.Guest.
func (a *Agent) RestartKernel(_ context.Context, id string) error { return a.kernels.Restart(id) }

// DeleteKernel implements guestproto.Guest.
func (a *Agent) DeleteKernel(_ context.Context, id string) error { return a.kernels.Delete(id) }

// ReleaseKernel implements guestproto.Guest.
func (a *Agent) ReleaseKernel(ctx context.Context, id string) error {
	return a.kernels.Release(ctx, id)
}

// Ask implements guestproto.Guest.
func (a *Agent) Ask(ctx context.Context, kernel, kind string, content json.RawMessage) (json.RawMessage, error) {
	return a.kernels.Ask(ctx, kernel, kind, content)
}

// Start implements guestproto.Guest.
func (a *Agent) Start(_ context.Context, kernel string, req guestproto.ExecuteRequest) (guestproto.Execution, error) {
	return a.kernels.Start(kernel, req)
}

// Executions implements guestproto.Guest.
func (a *Agent) Executions(_ context.Context, kernel string) ([]guestproto.Execution, error) {
	return a.kernels.Executions(kernel)
}

// Execution implements guestproto.Guest.
func (a *Agent) Execution(_ context.Context, id string) (guestproto.Execution, error) {
	return a.kernels.Execution(id)
}

// CancelExecution implements guestproto.Guest.
func (a *Agent) CancelExecution(_ context.Context, id string) error { return a.kernels.Cancel(id) }

// Input implements guestproto.Guest.
func (a *Agent) Input(_ context.Context, execution, text string) error {
	return a.kernels.Input(execution, text)
}

// Execute implements guestproto.Guest.
func (a *Agent) Execute(ctx context.Context, kernel string, req guestproto.ExecuteRequest, accepted func(), sink func(guestproto.Event) error) error {
	return a.kernels.Execute(ctx, kernel, req, accepted, sink)
}

// Events implements guestproto.Guest.
func (a *Agent) Events(ctx context.Context, execution string, after int64, sink func(guestproto.Event) error) error {
	return a.kernels.Events(ctx, execution, after, sink)
}

// Listen implements guestproto.Guest.
func (a *Agent) Listen(ctx context.Context, execution string, after int64, sink func(guestproto.Event) error) error {
	return a.kernels.Listen(ctx, execution, after, sink)
}

// Replay implements guestproto.Guest.
func (a *Agent) Replay(_ context.Context, execution string, after int64, sink func(guestproto.Event) error) error {
	return a.kernels.Replay(execution, after, sink)
}

// Exec implements guestproto.Guest.
func (a *Agent) Exec(ctx context.Context, req guestproto.ExecRequest, sink func(guestproto.ExecEvent) error) error {
	return a.proc.Exec(ctx, req, sink)
}

// ReadFile implements guestproto.Guest.
func (a *Agent) ReadFile(_ context.Context, path string) (guestproto.FileInfo, io.ReadCloser, error) {
	return a.files.Read(path)
}

// WriteFile implements guestproto.Guest.
func (a *Agent) WriteFile(_ context.Context, req guestproto.WriteRequest, body io.Reader) (guestproto.FileInfo, error) {
	return a.files.Write(req, body)
}

// ListDir implements guestproto.Guest.
func (a *Agent) ListDir(_ context.Context, path string) ([]guestproto.FileInfo, error) {
	return a.files.List(path)
}

// Stat implements guestproto.Guest.
func (a *Agent) Stat(_ context.Context, path string) (guestproto.FileInfo, error) {
	return a.files.Stat(path)
}

// Serve answers the host on pipe until ctx ends or the pipe does, as a socket
// may; the port of a machine never ends. It owns pipe.
func (a *Agent) Serve(ctx context.Context, pipe io.ReadWriteCloser) error {
	err := guestproto.Serve(ctx, guestproto.Accept(pipe), guestproto.NewLaneHandler(a, a.cfg.Lane))
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}
