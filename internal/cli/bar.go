package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	barWidth = 30
	barEvery = 100 * time.Millisecond
)

// bar shows how far a copy is, on a terminal. Elsewhere it shows nothing. What
// is copied is written to it.
type bar struct {
	w      io.Writer
	moving bool
	total  int64
	done   int64
	file   string
	began  time.Time
	drawn  time.Time
}

func newBar(w io.Writer, total int64) *bar {
	return &bar{w: w, moving: terminal(w), total: total, began: time.Now()}
}

// Write counts.
func (b *bar) Write(p []byte) (int, error) {
	b.done += int64(len(p))
	if b.moving && time.Since(b.drawn) >= barEvery {
		b.drawn = time.Now()
		fmt.Fprint(b.w, "\r\x1b[K"+b.line())
	}
	return len(p), nil
}

func (b *bar) name(file string) { b.file = file }

func (b *bar) close() {
	if b.moving {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// line is what there is to say now. The total is what was found before, and
// files may have grown.
func (b *bar) line() string {
	share := 1.0
	if b.total > 0 {
		share = min(float64(b.done)/float64(b.total), 1)
	}
	full := int(share * barWidth)
	rate := float64(b.done) / max(time.Since(b.began).Seconds(), 0.001)
	file := []rune(clean(b.file))
	if len(file) > 24 {
		file = append([]rune("…"), file[len(file)-23:]...)
	}
	return fmt.Sprintf("[%s%s] %3.0f%%  %s of %s  %s/s  %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full),
		share*100, bytesOf(b.done), bytesOf(max(b.total, b.done)), bytesOf(int64(rate)), string(file))
}
