package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress says how far a build is.
type Progress struct {
	Step        string
	Index, Of   int // from 1
	Done, Total int64
	Unit        string
	Elapsed     time.Duration // of this step
	Finished    bool
	Cached      bool // it was done before
	Note        string
	Log         string // a line of the step's log; nothing else is new then
}

// quietLine is how often a step that takes long is told of where lines cannot
// be written over.
const quietLine = 15 * time.Second

// progressView prints progress: on a terminal one line that moves, elsewhere a
// line per step and per note.
type progressView struct {
	w       io.Writer
	moving  bool
	logs    bool // lines of the steps' logs are printed too
	began   time.Time
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	at      Progress
	since   time.Time // when at.Step began
	printed time.Time // last line about it
}

func newProgressView(w io.Writer) *progressView {
	v := &progressView{w: w, moving: terminal(w), began: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	go v.tick()
	return v
}

func (v *progressView) total() time.Duration { return time.Since(v.began) }

func (v *progressView) close() {
	close(v.stop)
	<-v.stopped
	if v.moving {
		fmt.Fprint(v.w, "\r\x1b[K")
	}
}

// tick keeps the time moving while a step reports nothing.
func (v *progressView) tick() {
	defer close(v.stopped)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-v.stop:
			return
		case <-ticker.C:
			v.mu.Lock()
			if v.at.Step != "" && !v.at.Finished {
				v.drawLocked()
			}
			v.mu.Unlock()
		}
	}
}

func (v *progressView) show(p Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.Log != "" {
		if v.logs {
			v.lineLocked("  " + p.Log)
		}
		return
	}
	isNew := p.Index != v.at.Index || p.Step != v.at.Step
	if isNew {
		v.since = time.Now().Add(-p.Elapsed)
	}
	v.at = p
	switch {
	case p.Note != "":
		v.lineLocked(fmt.Sprintf("%s: %s", head(p), p.Note))
	case p.Finished && p.Cached:
		v.lineLocked(head(p) + ": cached")
	case p.Finished:
		v.lineLocked(fmt.Sprintf("%s: done in %.1fs", head(p), p.Elapsed.Seconds()))
	case isNew && !v.moving:
		v.lineLocked(head(p) + " …")
	default:
		v.drawLocked()
	}
}

func head(p Progress) string {
	if p.Of == 0 {
		return p.Step
	}
	return fmt.Sprintf("[%d/%d] %s", p.Index, p.Of, p.Step)
}

// lineLocked prints a line that stays.
func (v *progressView) lineLocked(line string) {
	if v.moving {
		line = "\r\x1b[K" + line
	}
	fmt.Fprintln(v.w, line)
	v.printed = time.Now()
}

// drawLocked tells of the step under way.
func (v *progressView) drawLocked() {
	line := fmt.Sprintf("%s: %s%ds", head(v.at), amount(v.at), int(time.Since(v.since).Seconds()))
	if v.moving {
		fmt.Fprint(v.w, "\r\x1b[K"+line)
		return
	}
	if time.Since(v.printed) >= quietLine {
		v.lineLocked(line)
	}
}

func amount(p Progress) string {
	switch {
	case p.Total == 0:
		return ""
	case p.Unit == "%":
		return fmt.Sprintf("%d%%, ", p.Done*100/p.Total)
	}
	return fmt.Sprintf("%d%% (%d of %d %s), ", p.Done*100/p.Total, p.Done, p.Total, p.Unit)
}
