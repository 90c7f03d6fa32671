package kernel

import (
	"bytes"
	"errors"
)

var errJSON = errors.New("not a JSON object")

// eachField calls f with each key (quoted) and value of the object b. It finds
// where values end and does not check what is in them; whoever needs that
// decodes them.
func eachField(b []byte, f func(key, value []byte) error) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errJSON
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return nil
	}
	for {
		keyEnd := value(b, i)
		colon := space(b, keyEnd)
		if keyEnd <= i || colon >= len(b) || b[i] != '"' || b[colon] != ':' {
			return errJSON
		}
		start := space(b, colon+1)
		end := value(b, start)
		if end <= start {
			return errJSON
		}
		if err := f(b[i:keyEnd], b[start:end]); err != nil {
			return err
		}
		i = space(b, end)
		switch {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == '}':
			return nil
		default:
			return errJSON
		}
	}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// value returns where the value that starts at i ends, or i if there is none.
func value(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return text(b, i)
	case '{', '[':
		return nested(b, i)
	}
	end := i
	for end < len(b) && bytes.IndexByte([]byte(",]} \t\r\n"), b[end]) < 0 {
		end++
	}
	return end
}

// text returns where the string that starts at i ends.
func text(b []byte, i int) int {
	for at := i + 1; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return i
		}
		at += n + 1
		escapes := 0
		for b[at-2-escapes] == '\\' && at-2-escapes > i {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}

// nested returns where the object or array that starts at i ends.
func nested(b []byte, i int) int {
	depth := 0
	for at := i; at < len(b); at++ {
		switch b[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case '"':
			end := text(b, at)
			if end == at {
				return i
			}
			at = end - 1
		}
	}
	return i
}
