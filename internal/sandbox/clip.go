package sandbox

import (
	"strings"
	"unicode/utf8"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

// clip keeps the head and the tail of a stream within a limit.
type clip struct {
	limit int
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring's oldest byte is
	bytes int64  // of the whole stream
	lines int64
}

func (c *clip) write(p string) {
	c.bytes += int64(len(p))
	c.lines += int64(strings.Count(p, "\n"))
	n := min(c.limit/2-len(c.head), len(p))
	c.head = append(c.head, p[:n]...)
	p = p[n:]
	size := c.limit - c.limit/2
	p = p[max(len(p)-size, 0):]
	n = min(size-len(c.tail), len(p))
	c.tail = append(c.tail, p[:n]...)
	p = p[n:]
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		c.next = (c.next + n) % size
		p = p[n:]
	}
}

func (c *clip) reset() {
	*c = clip{limit: c.limit}
}

// text gives what was kept. Nothing is put where the middle is missing, so
// that a stream that fits is its bytes and nothing else; truncated says it.
func (c *clip) text() string {
	head, tail := string(c.head), string(c.tail[c.next:])+string(c.tail[:c.next])
	if c.cut() {
		head, tail = wholeEnd(head), wholeStart(tail)
	}
	return strings.ToValidUTF8(head+tail, "\uFFFD")
}

func (c *clip) cut() bool { return c.bytes > int64(len(c.head)+len(c.tail)) }

// truncated gives nil for a stream that is whole. missing is what was lost
// before it came here.
func (c *clip) truncated(missing guestproto.Size) *api.TruncatedStream {
	if !c.cut() && missing == (guestproto.Size{}) {
		return nil
	}
	return &api.TruncatedStream{Bytes: c.bytes + missing.Bytes, Lines: c.lines + missing.Lines, Kept: int64(len(c.text()))}
}

// wholeEnd drops a character that was cut in two at the end.
func wholeEnd(s string) string {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if start := s[len(s)-n:]; utf8.RuneStart(start[0]) {
			if !utf8.FullRuneInString(start) {
				return s[:len(s)-n]
			}
			return s
		}
	}
	return s
}

// wholeStart drops what is left of a character that was cut in two before s.
func wholeStart(s string) string {
	for n := range utf8.UTFMax {
		if n == len(s) || utf8.RuneStart(s[n]) {
			return s[n:]
		}
	}
	return s // no UTF-8 at all
}

// shorten gives at most limit bytes of a guest's text, head and tail, in UTF-8.
func shorten(s string, limit int) string {
	c := clip{limit: limit}
	c.write(s)
	return c.text()
}
