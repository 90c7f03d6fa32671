package kernel

import (
	"context"
	"encoding/json"
	"slices"
	"sort"
	"sync"

	"pandastack/internal/guestproto"
)

const (
	// entryCost is what an event costs beside its content.
	entryCost = 96
	// maxBuffer bytes of the newest events are in memory while a cell runs, maxRest
	// once it has ended.
	maxBuffer = 1 << 20
	maxRest   = 64 << 10
)

// log is the ordered events of one execution. The newest are in memory, those
// before them in a file. Beyond its limit the file keeps the first and the last
// ones and drops those between. Whoever adds never waits for whoever reads.
type log struct {
	dir   string // where the file is made
	limit int64  // bytes of the file

	mu        sync.Mutex
	last      int64 // sequence number of the newest event
	spill     spill
	segments  []segment // of the file, oldest first
	heads     int       // how many of them are never dropped
	buffer    []guestproto.Event
	bufferLen int64
	losses    []loss        // in order
	doneAt    int64         // the number of EventDone
	grown     chan struct{} // closed at the next event; nil while nobody waits
	readers   int
	closed    bool // nothing follows
	retired   bool // nobody else will begin to read
}

// loss is what was dropped of all events up to one.
type loss struct {
	last int64
	sum  guestproto.Dropped
}

// maxLosses bounds how many are told apart, each of which stands for a segment.
const maxLosses = 4096

func cost(e guestproto.Event) int64 { return int64(len(e.Content)) + entryCost }

// add appends an event. What comes after EventDone is late, and as welcome.
func (l *log) add(event string, content json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(event, content)
}

func (l *log) addLocked(event string, content json.RawMessage) {
	if l.closed || l.doneAt > 0 && event == guestproto.EventDone {
		return
	}
	e := guestproto.Event{Seq: l.last + 1, Type: event, Content: content}
	if event == guestproto.EventDone {
		if l.doneAt = e.Seq; l.bufferLen > maxRest {
			l.sealLocked()
		}
	}
	l.last = e.Seq
	l.buffer = append(l.buffer, e)
	if l.bufferLen += cost(e); l.bufferLen > l.roomLocked() {
		l.sealLocked()
	}
	l.wakeLocked()
}

// roomLocked is how many bytes stay in memory.
func (l *log) roomLocked() int64 {
	if l.doneAt > 0 {
		return maxRest
	}
	return maxBuffer
}

// wakeLocked has those who wait look again.
func (l *log) wakeLocked() {
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

// close says that nothing follows.
func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wakeLocked()
}

// sealLocked moves the events in memory to the file. What the disk does not take
// is dropped; where EventDone is among it, it stays and nothing follows.
func (l *log) sealLocked() {
	events := l.buffer
	s, err := l.spill.append(l.dir, events)
	if err != nil && l.doneAt >= events[0].Seq {
		l.closed = true
		return
	}
	l.buffer, l.bufferLen = nil, 0
	if err != nil {
		l.loseLocked(events[len(events)-1].Seq, events)
		return
	}
	l.segments = append(l.segments, s)
	if l.heads == len(l.segments)-1 && s.at+s.size <= l.limit/2 {
		l.heads++
	}
	for l.spill.kept > l.limit {
		n := l.heads
		if n < len(l.segments) && l.segments[n].has(l.doneAt) { // EventDone is never dropped
			n++
		}
		if n >= len(l.segments)-1 {
			return
		}
		l.dropLocked(n)
	}
}

// dropLocked takes one segment out of the file.
func (l *log) dropLocked(n int) {
	s := l.segments[n]
	events, _ := l.spill.read(s) // unreadable ones count as nothing
	l.loseLocked(s.last, events)
	l.spill.drop(s)
	l.segments = slices.Delete(l.segments, n, n+1)
	if n < l.heads {
		l.heads--
	}
}

// loseLocked counts events up to last as dropped.
func (l *log) loseLocked(last int64, events []guestproto.Event) {
	lost := loss{last, measure(events)}
	n := sort.Search(len(l.losses), func(i int) bool { return l.losses[i].last > last })
	if n > 0 {
		lost.sum = plus(l.losses[n-1].sum, lost.sum)
	}
	l.losses = slices.Insert(l.losses, n, lost)
	for i := n + 1; i < len(l.losses); i++ { // only where an old segment turns out to be unreadable
		l.losses[i].sum = plus(l.losses[i].sum, measure(events))
	}
	if len(l.losses) > maxLosses {
		l.losses = slices.Delete(l.losses, 0, 1)
	}
}

// lostLocked is what was dropped of the events up to seq.
func (l *log) lostLocked(seq int64) guestproto.Dropped {
	n := sort.Search(len(l.losses), func(i int) bool { return l.losses[i].last > seq })
	if n == 0 {
		return guestproto.Dropped{}
	}
	return l.losses[n-1].sum
}

func measure(events []guestproto.Event) (d guestproto.Dropped) {
	for _, e := range events {
		d.Bytes += int64(len(e.Content))
		var s guestproto.Stream
		if e.Type != guestproto.EventStream || json.Unmarshal(e.Content, &s) != nil {
			continue
		}
		if s.Name == "stderr" {
			count(&d.Stderr, s.Text)
		} else {
			count(&d.Stdout, s.Text)
		}
	}
	return d
}

func plus(a, b guestproto.Dropped) guestproto.Dropped {
	return guestproto.Dropped{Bytes: a.Bytes + b.Bytes, Stdout: a.Stdout.Plus(b.Stdout), Stderr: a.Stderr.Plus(b.Stderr)}
}

func count(size *guestproto.Size, text string) {
	size.Bytes += int64(len(text))
	for i := range len(text) {
		if text[i] == '\n' {
			size.Lines++
		}
	}
}

// finish ends the log, saying how much it dropped. Only the first call counts.
func (l *log) finish(d guestproto.Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.Dropped = l.lostLocked(l.last).Bytes
	b, err := json.Marshal(d)
	if err != nil { // a Done holds nothing that cannot be encoded
		b = []byte(`{"status":"died"}`)
	}
	l.addLocked(guestproto.EventDone, b)
}

// reader is one follower's place in a log.
type reader struct {
	log    *log
	seq    int64              // of the last event delivered
	loaded []guestproto.Event // of a segment, all after seq
}

// open begins to read after seq. Its caller closes the reader.
func (l *log) open(seq int64) *reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers++
	return &reader{log: l, seq: seq}
}

func (r *reader) close() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.readers--
	r.log.freeLocked()
}

// retire ends the log and frees what it takes once nobody reads it any more.
func (l *log) retire() {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	l.freeLocked()
}

func (l *log) freeLocked() {
	if l.retired && l.readers == 0 {
		l.segments, l.buffer, l.bufferLen = nil, nil, 0
		l.spill.close()
	}
}

// spilled is how many bytes of disk the log takes.
func (l *log) spilled() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spill.kept
}

// next returns some events after the reader's place, or a channel that closes
// when there are.
func (r *reader) next() ([]guestproto.Event, <-chan struct{}) {
	for len(r.loaded) == 0 {
		events, s, grown := r.look()
		if len(events) > 0 || grown != nil {
			return events, grown
		}
		r.load(s)
	}
	n := min(len(r.loaded), 32)
	events := r.loaded[:n]
	r.loaded = r.loaded[n:]
	return events, nil
}

// look finds what follows the reader's place: events, or a segment to load, or
// nothing yet.
func (r *reader) look() ([]guestproto.Event, segment, <-chan struct{}) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.seq >= l.last {
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		return nil, segment{}, l.grown
	}
	n := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].last > r.seq })
	first := l.last + 1
	if n < len(l.segments) {
		first = l.segments[n].first
	} else if len(l.buffer) > 0 {
		first = l.buffer[0].Seq
	}
	switch {
	case first > r.seq+1:
		return []guestproto.Event{r.gapLocked(first)}, segment{}, nil
	case n < len(l.segments):
		return nil, l.segments[n], nil
	}
	rest := l.buffer[r.seq+1-first:]
	return slices.Clone(rest[:min(len(rest), 32)]), segment{}, nil
}

// gapLocked stands for the dropped events before first. Where the reader is in
// the middle of a segment that was dropped, all of that counts.
func (r *reader) gapLocked(first int64) guestproto.Event {
	before, all := r.log.lostLocked(r.seq), r.log.lostLocked(first-1)
	content, _ := json.Marshal(guestproto.Dropped{
		First: r.seq + 1, Bytes: all.Bytes - before.Bytes,
		Stdout: all.Stdout.Minus(before.Stdout), Stderr: all.Stderr.Minus(before.Stderr),
	})
	return guestproto.Event{Seq: first - 1, Type: guestproto.EventDropped, Content: content}
}

// load reads a segment. One that was dropped meanwhile, or cannot be read, is
// left out; the next look finds the gap.
func (r *reader) load(s segment) {
	events, err := r.log.spill.read(s)
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	n := slices.IndexFunc(l.segments, func(is segment) bool { return is.first == s.first })
	switch {
	case n < 0:
	case err != nil:
		l.dropLocked(n)
	default:
		r.loaded = events[r.seq+1-s.first:]
	}
}

// follow calls sink with each event after seq until EventDone was delivered.
func (l *log) follow(ctx context.Context, seq int64, sink func(guestproto.Event) error) error {
	r := l.open(seq)
	defer r.close()
	for {
		grown, err := r.deliver(func(e guestproto.Event) (bool, error) { return e.Type != guestproto.EventDone, sink(e) })
		if grown == nil || err != nil || l.over(r.seq) {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listen is follow that goes on with what comes late, until nothing can follow.
func (l *log) listen(ctx context.Context, seq int64, sink func(guestproto.Event) error) error {
	r := l.open(seq)
	defer r.close()
	for {
		grown, err := r.deliver(func(e guestproto.Event) (bool, error) { return true, sink(e) })
		if err != nil || l.silent(r.seq) {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replay calls sink with each event after seq that there is by now.
func (l *log) replay(seq int64, sink func(guestproto.Event) error) error {
	r := l.open(seq)
	defer r.close()
	_, err := r.deliver(func(e guestproto.Event) (bool, error) { return true, sink(e) })
	return err
}

// over says whether nothing but what comes late can follow seq.
func (l *log) over(seq int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doneAt > 0 && seq >= l.doneAt
}

// silent says whether nothing can follow seq.
func (l *log) silent(seq int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && seq >= l.last
}

// deliver calls sink with each event there is, and returns a channel that closes
// when there are more, or nil once sink wants no more.
func (r *reader) deliver(sink func(guestproto.Event) (more bool, err error)) (<-chan struct{}, error) {
	for {
		batch, grown := r.next()
		if grown != nil {
			return grown, nil
		}
		for _, e := range batch {
			more, err := sink(e)
			if err != nil || !more {
				return nil, err
			}
			r.seq = e.Seq
		}
	}
}

// newest is the number of the newest event.
func (l *log) newest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
