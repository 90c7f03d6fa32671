package shim

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/durable"
	"pandastack/internal/memimage"
)

// The calls a shim answers, besides the agent's below /guest:
//
//	GET  /state            State
//	GET  /ready            State, once the start is over
//	GET  /quiet            State, once no call that changes the machine is under way
//	GET  /watch            State, once there is no machine any more
//	POST /stop             State
//	POST /cont             guestproto.ResumeRequest -> guestproto.ResumeReport
//	POST /save             saveRequest -> State
//	POST /capture          CaptureRequest -> Capture
//	GET  /changed          bytes
//	POST /close            State; the process then ends
const guestPrefix = "/guest"

type saveRequest struct {
	Memory string `json:"memory"`
	State  string `json:"state"`
}

// failure is every error's body.
type failure struct {
	Error string `json:"error"`
	Fault string `json:"fault,omitempty"` // one of faults
}

var errNoMachine = errors.New("there is no machine")

func (p *process) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", p.serveState(nil))
	mux.HandleFunc("GET /ready", p.serveState(p.ready))
	mux.HandleFunc("GET /quiet", p.serveQuiet)
	mux.HandleFunc("GET /watch", p.serveState(p.ended))
	mux.HandleFunc("POST /stop", handle(p.stop))
	mux.HandleFunc("POST /cont", handle(p.cont))
	mux.HandleFunc("POST /save", handle(p.save))
	mux.HandleFunc("POST /capture", handle(p.capture))
	mux.HandleFunc("GET /changed", handle(p.changed))
	mux.HandleFunc("POST /close", p.serveClose)
	mux.Handle(guestPrefix+"/", http.StripPrefix(guestPrefix, http.HandlerFunc(p.serveGuest)))
	return mux
}

// serveState answers with the state once wait is closed.
func (p *process) serveState(wait <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wait != nil {
			select {
			case <-wait:
			case <-r.Context().Done():
				return
			}
		}
		answer(w, http.StatusOK, p.snapshot())
	}
}

// serveQuiet waits for an act that an earlier server began.
func (p *process) serveQuiet(w http.ResponseWriter, _ *http.Request) {
	p.acts.Lock()
	defer p.acts.Unlock()
	answer(w, http.StatusOK, p.snapshot())
}

func (p *process) snapshot() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// serveGuest passes a call on to the agent. The client decodes and checks what
// the guest says; the handler writes it anew.
func (p *process) serveGuest(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	guest := p.calls
	p.mu.Unlock()
	if guest == nil {
		answer(w, http.StatusServiceUnavailable, failure{Error: errNoMachine.Error()})
		return
	}
	guest.ServeHTTP(w, r)
}

// disk is the file of the guest's writable disk.
func (p *process) disk() string {
	if p.spec.Overlay != "" {
		return p.spec.Overlay
	}
	return p.spec.UpperRaw
}

func (p *process) serveClose(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	select {
	case <-p.close:
	default:
		close(p.close)
	}
	p.mu.Unlock()
	p.end()
	answer(w, http.StatusOK, p.snapshot())
}

// handle adapts a call with a JSON body and a JSON answer.
func handle[In, Out any](call func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if r.ContentLength != 0 {
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				answer(w, http.StatusBadRequest, failure{Error: err.Error()})
				return
			}
		}
		out, err := call(r.Context(), in)
		if err != nil {
			answer(w, http.StatusConflict, failure{err.Error(), faultOf(err)})
			return
		}
		answer(w, http.StatusOK, out)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that went away
}

func (p *process) stop(ctx context.Context, _ struct{}) (State, error) {
	p.acts.Lock()
	defer p.acts.Unlock()
	_, err := p.halt(ctx)
	return p.snapshot(), err
}

// halt stops the machine and says whether it ran. The caller holds acts.
func (p *process) halt(ctx context.Context) (ran bool, err error) {
	switch p.snapshot().Phase {
	case PhaseStopped:
		return false, nil
	case PhaseRunning:
		if err := p.machine.Stop(ctx); err != nil {
			return false, err
		}
		p.setPhase(PhaseRunning, PhaseStopped)
		return true, nil
	}
	return false, errNoMachine
}

// setPhase is of no effect on a machine that ended meanwhile.
func (p *process) setPhase(from, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Phase == from {
		p.state.Phase = to
	}
}

func (p *process) cont(ctx context.Context, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	p.acts.Lock()
	defer p.acts.Unlock()
	return p.goOn(ctx, req)
}

// goOn lets the machine run and resumes its agent. The caller holds acts.
func (p *process) goOn(ctx context.Context, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	if phase := p.snapshot().Phase; phase != PhaseStopped && phase != PhaseRunning {
		return guestproto.ResumeReport{}, errNoMachine
	}
	p.setNice(os.Getpid(), 0)
	p.setNice(p.machine.PID(), 0)
	p.spec.Nice = 0 // once is enough
	if err := p.machine.Cont(ctx); err != nil {
		return guestproto.ResumeReport{}, err
	}
	p.setPhase(PhaseStopped, PhaseRunning)
	report, err := resume(ctx, p.guest, req)
	if err == nil {
		noteResumed(p.machine, req, report)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Report, p.state.Resumed = report, time.Now()
	return report, err
}

// save writes the whole memory of a machine that booted, and its device state.
func (p *process) save(ctx context.Context, req saveRequest) (State, error) {
	p.acts.Lock()
	defer p.acts.Unlock()
	if p.memory == nil {
		return p.snapshot(), errors.New("only a machine that booted can be saved whole")
	}
	if _, err := p.halt(ctx); err != nil {
		return p.snapshot(), err
	}
	if err := p.saveState(ctx, req.State); err != nil {
		return p.snapshot(), err
	}
	if err := memimage.Save(p.memory, req.Memory); err != nil {
		return p.snapshot(), err
	}
	return p.snapshot(), durable.SyncDir(filepath.Dir(req.Memory))
}

func (p *process) saveState(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = p.machine.SaveState(ctx, f)
	return errors.Join(err, f.Sync(), f.Close())
}
