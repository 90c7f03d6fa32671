package kernel

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"pandastack/internal/guestproto"
)

// spill is a file without a name, made when it is first needed: it ends with its
// execution, or with the agent.
type spill struct {
	f    *os.File
	end  int64
	kept int64 // bytes that were not dropped
}

// segment is a run of events in a spill.
type segment struct {
	first, last int64 // sequence numbers
	at, size    int64
}

func (s segment) has(seq int64) bool { return s.first <= seq && seq <= s.last }

// append writes events, whose sequence numbers have no gap.
func (s *spill) append(dir string, events []guestproto.Event) (segment, error) {
	if s.f == nil {
		if err := s.create(dir); err != nil {
			return segment{}, err
		}
	}
	b := encodeEvents(events)
	seg := segment{first: events[0].Seq, last: events[len(events)-1].Seq, at: s.end, size: int64(len(b))}
	if _, err := s.f.WriteAt(b, seg.at); err != nil {
		return segment{}, errors.Join(err, s.f.Truncate(seg.at))
	}
	s.end += seg.size
	s.kept += seg.size
	return seg, nil
}

func (s *spill) create(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "events-")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(err, f.Close())
	}
	s.f = f
	return nil
}

var errSegment = errors.New("events on disk are not what was written")

// read gives a segment's events. The file is within reach of whatever runs as
// root in the guest, so nothing of it is taken for granted.
func (s *spill) read(seg segment) ([]guestproto.Event, error) {
	b := make([]byte, seg.size)
	if _, err := s.f.ReadAt(b, seg.at); err != nil {
		return nil, err
	}
	events := make([]guestproto.Event, 0, seg.last-seg.first+1)
	for seq := seg.first; seq <= seg.last; seq++ {
		e, rest, ok := decodeEvent(b)
		if !ok {
			return nil, errSegment
		}
		e.Seq, b = seq, rest
		events = append(events, e)
	}
	if len(b) > 0 {
		return nil, errSegment
	}
	return events, nil
}

// drop gives a segment's place on the disk back, but for what shares a block
// with its neighbours.
func (s *spill) drop(seg segment) {
	_ = unix.Fallocate(int(s.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, seg.at, seg.size)
	s.kept -= seg.size
}

func (s *spill) close() {
	if s.f != nil {
		_ = s.f.Close()
	}
	s.f, s.kept = nil, 0
}

// encodeEvents writes each event as the length and bytes of its type and of its
// content. Sequence numbers follow from the first.
func encodeEvents(events []guestproto.Event) []byte {
	var b []byte
	for _, e := range events {
		b = append(b, byte(len(e.Type)))
		b = append(b, e.Type...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Content)))
		b = append(b, e.Content...)
	}
	return b
}

func decodeEvent(b []byte) (e guestproto.Event, rest []byte, ok bool) {
	if len(b) < 1 || len(b) < 1+int(b[0])+4 {
		return e, nil, false
	}
	n := int(b[0])
	e.Type, b = string(b[1:1+n]), b[1+n:]
	size := int64(binary.BigEndian.Uint32(b))
	if b = b[4:]; int64(len(b)) < size {
		return e, nil, false
	}
	e.Content = b[:size:size]
	return e, b[size:], true
}
