package sandbox

import "strings"

const escape = '\x1b'

// plain removes terminal control sequences: colours (ESC [ … letter), titles
// and links (ESC ] … BEL, or ESC \), and the two-character ones.
func plain(s string) string {
	if strings.IndexByte(s, escape) < 0 {
		return s
	}
	var out strings.Builder
	for {
		at := strings.IndexByte(s, escape)
		if at < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:at])
		s = s[at+1:]
		s = s[sequence(s):]
	}
}

// sequence gives the length of the control sequence that s begins with, the
// escape itself left out.
func sequence(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] {
	case '[':
		n := 1
		for n < len(s) && s[n] >= 0x20 && s[n] <= 0x3f { // parameters, intermediates
			n++
		}
		if n < len(s) && s[n] >= 0x40 && s[n] <= 0x7e {
			n++
		}
		return n
	case ']':
		end := strings.IndexAny(s, "\a\x1b")
		if end < 0 {
			return 1
		}
		if s[end] == '\a' {
			return end + 1
		}
		return end // ESC \ follows, a sequence of its own
	}
	if s[0] >= 0x20 && s[0] <= 0x7e {
		return 1
	}
	return 0
}
