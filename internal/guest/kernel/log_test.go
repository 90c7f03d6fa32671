package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pandastack/internal/guestproto"
)

// printed is an event of a stream whose text begins with its number.
func printed(n int) json.RawMessage {
	b, _ := json.Marshal(guestproto.Stream{Name: "stdout", Text: fmt.Sprintf("%06d", n) + strings.Repeat("x", 1000) + "\n"})
	return b
}

// view is what a reader of a log is told.
type view struct {
	numbers []string
	dropped guestproto.Dropped // all together
	gaps    int
	last    int64
	done    guestproto.Done
}

func (v *view) take(e guestproto.Event) error {
	switch {
	case e.Type == guestproto.EventDropped:
		var d guestproto.Dropped
		if err := json.Unmarshal(e.Content, &d); err != nil || d.First != v.last+1 {
			return fmt.Errorf("gap %+v after %d: %w", d, v.last, err)
		}
		v.gaps++
		v.dropped.Bytes += d.Bytes
		v.dropped.Stdout.Bytes += d.Stdout.Bytes
		v.dropped.Stdout.Lines += d.Stdout.Lines
	case e.Seq != v.last+1:
		return fmt.Errorf("event %d follows %d", e.Seq, v.last)
	case e.Type == guestproto.EventDone:
		v.last = e.Seq
		return json.Unmarshal(e.Content, &v.done)
	default:
		var s guestproto.Stream
		if err := json.Unmarshal(e.Content, &s); err != nil {
			return err
		}
		v.numbers = append(v.numbers, s.Text[:6])
	}
	v.last = e.Seq
	return nil
}

func replayed(t *testing.T, l *log, after int64) view {
	t.Helper()
	v := view{last: after}
	if err := l.replay(after, v.take); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLogSpillsAndDropsItsMiddle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	l := &log{dir: dir, limit: 8 << 20}
	const events = 20_000 // 20 MB
	for n := range events {
		l.add(guestproto.EventStream, printed(n))
	}
	l.finish(guestproto.Done{Status: guestproto.StatusOK})
	v := replayed(t, l, 0)
	kept := len(v.numbers)
	if v.numbers[0] != "000000" || v.numbers[kept-1] != fmt.Sprintf("%06d", events-1) || v.gaps != 1 || v.done.Status != "ok" {
		t.Fatalf("got %s to %s, %d gaps, %+v", v.numbers[0], v.numbers[kept-1], v.gaps, v.done)
	}
	if int64(events-kept) != v.dropped.Stdout.Lines || v.dropped.Stdout.Bytes != v.dropped.Stdout.Lines*1007 || v.done.Dropped != v.dropped.Bytes {
		t.Errorf("kept %d of %d, told of %+v, %+v", kept, events, v.dropped, v.done)
	}
	if disk := l.spilled(); disk > 9<<20 || kept < 7000 {
		t.Errorf("%d bytes on disk for %d events", disk, kept)
	}
	if v := replayed(t, l, events-5); len(v.numbers) != 5 || v.dropped.Bytes != 0 {
		t.Errorf("the last five: got %+v", v)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the file has a name: %v, %v", names, err)
	}
	l.retire()
	if l.spilled() != 0 {
		t.Error("a retired log keeps its file")
	}
}

// Readers at any pace see every event, or a gap that stands for it.
func TestLogIsReadWhileItGrows(t *testing.T) {
	l := &log{dir: t.TempDir(), limit: 4 << 20}
	var readers sync.WaitGroup
	pace := make(chan struct{})
	for n := range 4 {
		readers.Go(func() {
			var v view
			err := l.follow(t.Context(), 0, func(e guestproto.Event) error {
				if n%2 == 0 && v.last == 100 {
					<-pace // far behind
				}
				return v.take(e)
			})
			all := int64(len(v.numbers)) + v.dropped.Stdout.Lines
			const segment = maxBuffer/1000 + 1 // of which a gap may begin in the middle
			if err != nil || all < 12_000 || all > 12_000+int64(v.gaps)*segment {
				t.Errorf("reader %d: %d events, %+v dropped in %d gaps, %v", n, len(v.numbers), v.dropped, v.gaps, err)
			}
		})
	}
	for n := range 12_000 {
		l.add(guestproto.EventStream, printed(n))
		if n == 10_000 {
			close(pace)
		}
	}
	l.finish(guestproto.Done{Status: guestproto.StatusOK})
	readers.Wait()
}

func TestLogWithoutADisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &log{dir: filepath.Join(file, "not a folder"), limit: 8 << 20}
	for n := range 3000 {
		l.add(guestproto.EventStream, printed(n))
	}
	l.finish(guestproto.Done{Status: guestproto.StatusOK})
	v := replayed(t, l, 0)
	if all := int64(len(v.numbers)) + v.dropped.Stdout.Lines; all != 3000 || v.done.Status != "ok" || v.done.Dropped == 0 {
		t.Errorf("got %d events, %+v, %+v", len(v.numbers), v.dropped, v.done)
	}
}

// What lies on the disk is within reach of the cells.
func TestLogWhoseFileWasChanged(t *testing.T) {
	l := &log{dir: t.TempDir(), limit: 8 << 20}
	for n := range 3000 {
		l.add(guestproto.EventStream, printed(n))
	}
	if _, err := l.spill.f.WriteAt([]byte("\xff\xff\xff\xff\xff\xff"), 0); err != nil {
		t.Fatal(err)
	}
	l.finish(guestproto.Done{Status: guestproto.StatusOK})
	v := replayed(t, l, 0)
	if v.gaps != 1 || len(v.numbers) == 0 || v.done.Status != "ok" {
		t.Errorf("got %d events in %d gaps, %+v", len(v.numbers), v.gaps, v.done)
	}
}

// What comes after the end is kept like what came before it, and the end itself always.
func TestLogThatGoesOnAfterItsEnd(t *testing.T) {
	l := &log{dir: t.TempDir(), limit: 2 << 20}
	l.add(guestproto.EventStream, printed(0))
	l.finish(guestproto.Done{Status: guestproto.StatusOK})
	var heard view
	var listener sync.WaitGroup
	listener.Go(func() {
		if err := l.listen(t.Context(), 0, heard.take); err != nil {
			t.Error(err)
		}
	})
	const events = 10_000
	for n := range events {
		l.add(guestproto.EventStream, printed(n+1))
	}
	l.add(guestproto.EventDone, []byte(`{"status":"again"}`))
	l.close()
	l.add(guestproto.EventStream, printed(0))
	listener.Wait()
	for name, v := range map[string]view{"replayed": replayed(t, l, 0), "heard": heard} {
		if v.last != events+2 || v.done.Status != "ok" || v.numbers[0] != "000000" || v.numbers[len(v.numbers)-1] != fmt.Sprintf("%06d", events) {
			t.Errorf("%s: got %d events to number %d, %+v", name, len(v.numbers), v.last, v.done)
		}
	}
	if disk := l.spilled(); disk == 0 || disk > 3<<20 {
		t.Errorf("%d bytes on disk", disk)
	}
	if err := l.follow(t.Context(), 0, func(e guestproto.Event) error {
		if e.Seq > 2 {
			t.Errorf("event %d follows the end", e.Seq)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// Without a disk the log ends where its memory does, and keeps its end.
func TestLateEventsWithoutADisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &log{dir: filepath.Join(file, "not a folder"), limit: 8 << 20}
	l.finish(guestproto.Done{Status: guestproto.StatusOK})
	for n := range 1000 {
		l.add(guestproto.EventStream, printed(n))
	}
	var v view
	if err := l.listen(t.Context(), 0, v.take); err != nil || v.done.Status != "ok" || len(v.numbers) == 0 || len(v.numbers) > 100 {
		t.Errorf("got %d events, %+v, %v", len(v.numbers), v.done, err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	l := &log{dir: t.TempDir(), limit: 1 << 20}
	ctx, cancel := context.WithCancel(t.Context())
	l.add(guestproto.EventStream, printed(1))
	err := l.follow(ctx, 0, func(guestproto.Event) error { cancel(); return nil })
	if err != context.Canceled || l.readers != 0 {
		t.Errorf("got %v, %d readers left", err, l.readers)
	}
}

func FuzzSegment(f *testing.F) {
	f.Add(encodeEvents([]guestproto.Event{{Type: "stream", Content: json.RawMessage(`{}`)}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		size := 0
		for rest, whole := b, len(b); ; {
			e, more, ok := decodeEvent(rest)
			if !ok {
				return
			}
			if size += len(e.Type) + len(e.Content); size > whole {
				t.Fatal("more came out than went in")
			}
			rest = more
		}
	})
}
