package kernel

import (
	"context"
	"encoding/json"
	"sync"

	"pandastack/internal/guestproto"
)

// entryCost is what an event costs beside its content.
const entryCost = 96

// log is the ordered events of one execution. It keeps the first and the last
// events within its limit and drops those between.
type log struct {
	limit int64

	mu      sync.Mutex
	last    int64 // sequence number of the newest event
	head    []guestproto.Event
	tail    []guestproto.Event // follows head, or what was dropped after it
	headLen int64
	tailLen int64
	dropped int64
	done    bool
	grown   chan struct{} // closed at the next event; nil while nobody waits
}

func cost(e guestproto.Event) int64 { return int64(len(e.Content)) + entryCost }

// add appends an event. After EventDone it does nothing.
func (l *log) add(event string, content json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(event, content)
}

func (l *log) addLocked(event string, content json.RawMessage) {
	if l.done {
		return
	}
	l.last++
	l.done = event == guestproto.EventDone
	e := guestproto.Event{Seq: l.last, Type: event, Content: content}
	if len(l.tail) == 0 && l.headLen+cost(e) <= l.limit/2 {
		l.head = append(l.head, e)
		l.headLen += cost(e)
	} else {
		l.tail = append(l.tail, e)
		l.tailLen += cost(e)
		l.trimLocked()
	}
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

func (l *log) trimLocked() {
	for l.tailLen > l.limit/2 && len(l.tail) > 1 {
		l.tailLen -= cost(l.tail[0])
		l.dropped += int64(len(l.tail[0].Content))
		l.tail[0] = guestproto.Event{}
		l.tail = l.tail[1:]
	}
}

// finish ends the log, saying how much it dropped. Only the first call counts.
func (l *log) finish(d guestproto.Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.Dropped = l.dropped
	b, err := json.Marshal(d)
	if err != nil { // a Done holds nothing that cannot be encoded
		b = []byte(`{"status":"died"}`)
	}
	l.addLocked(guestproto.EventDone, b)
}

// next returns some events after seq, or a channel that closes when there are.
func (l *log) next(seq int64, batch []guestproto.Event) ([]guestproto.Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq >= l.last {
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		return nil, l.grown
	}
	if seq < int64(len(l.head)) {
		return append(batch, clip(l.head[seq:])...), nil
	}
	first := l.tail[0].Seq
	if seq+1 < first {
		batch = append(batch, l.gap(seq, first))
		seq = first - 1
	}
	return append(batch, clip(l.tail[seq+1-first:])...), nil
}

// gap stands for the dropped events between seq and first.
func (l *log) gap(seq, first int64) guestproto.Event {
	content, _ := json.Marshal(guestproto.Dropped{First: seq + 1, Bytes: l.dropped})
	return guestproto.Event{Seq: first - 1, Type: guestproto.EventDropped, Content: content}
}

func clip(events []guestproto.Event) []guestproto.Event {
	return events[:min(len(events), 32)]
}

// follow calls sink with each event after seq until EventDone was delivered.
func (l *log) follow(ctx context.Context, seq int64, sink func(guestproto.Event) error) error {
	for {
		grown, err := l.deliver(&seq, sink)
		if grown == nil || err != nil {
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
	_, err := l.deliver(&seq, sink)
	return err
}

// deliver calls sink with each event after seq, which it moves on, and returns
// a channel that closes when there are more, or nil after EventDone.
func (l *log) deliver(seq *int64, sink func(guestproto.Event) error) (<-chan struct{}, error) {
	var room [33]guestproto.Event
	for {
		batch, grown := l.next(*seq, room[:0])
		for _, e := range batch {
			if err := sink(e); err != nil {
				return nil, err
			}
			if *seq = e.Seq; e.Type == guestproto.EventDone {
				return nil, nil
			}
		}
		if grown != nil {
			return grown, nil
		}
	}
}
