package template

import (
	"io"
	"sync"
	"time"
)

// Progress says how far a build is. Done and Total are zero, and Unit is empty,
// where a step cannot tell.
type Progress struct {
	Template string
	Step     string
	Index    int // from 1
	Of       int
	Done     int64
	Total    int64
	Unit     string        // "%", "packages"
	Elapsed  time.Duration // of this step
	Finished bool          // the step is done
	Cached   bool          // it was done before; nothing ran
	Note     string        // words for the user
	Log      string        // one line of the step's log; nothing else is new then
}

// ProgressFunc receives progress. Calls come one at a time and must return soon.
type ProgressFunc func(Progress)

// tracker counts steps and their times.
type tracker struct {
	at      Progress
	send    ProgressFunc
	started time.Time
	times   []StepTime
	calls   sync.Mutex // held over send
}

func newTracker(name string, of int, send ProgressFunc) *tracker {
	if send == nil {
		send = func(Progress) {}
	}
	t := &tracker{at: Progress{Template: name, Of: of}}
	t.send = func(p Progress) {
		t.calls.Lock()
		defer t.calls.Unlock()
		send(p)
	}
	return t
}

// stream copies what is written to log to whoever follows the build, line by line.
func (t *tracker) stream(log io.Writer) io.Writer {
	return &lineWriter{log: log, onLine: func(line string) {
		p := t.at
		p.Log, p.Elapsed = line, time.Since(t.started)
		t.send(p)
	}}
}

// begin starts the next step.
func (t *tracker) begin(step string) {
	t.at.Step = step
	t.at.Index++
	t.started = time.Now()
	t.send(t.at)
}

// report says how far the current step is.
func (t *tracker) report(done, total int64, unit string) {
	p := t.at
	p.Done, p.Total, p.Unit, p.Elapsed = done, total, unit, time.Since(t.started)
	t.send(p)
}

func (t *tracker) note(text string) {
	p := t.at
	p.Note, p.Elapsed = text, time.Since(t.started)
	t.send(p)
}

// elapsed is the current step's time so far.
func (t *tracker) elapsed() StepTime {
	return StepTime{Name: t.at.Step, MS: time.Since(t.started).Milliseconds()}
}

// finish ends the current step, which took the given time, now or (cached) in
// an earlier run.
func (t *tracker) finish(took StepTime, cached bool) {
	t.times = append(t.times, took)
	p := t.at
	p.Finished, p.Cached, p.Elapsed = true, cached, time.Duration(took.MS)*time.Millisecond
	t.send(p)
}
