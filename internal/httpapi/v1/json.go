package v1

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// maxDepth of nested objects and lists in a request; no call needs more than three.
const maxDepth = 32

func jsonFormat() huma.Format {
	f := huma.DefaultJSONFormat
	f.Unmarshal = decode
	return f
}

// decode is json.Unmarshal for one document that means the same to everybody:
// encoding/json would replace what is no text, and a NUL ends a string for
// most of what the text is handed to later.
func decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("the text is not valid UTF-8")
	}
	if err := scan(data); err != nil {
		return err
	}
	err := json.Unmarshal(data, v)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && strings.HasPrefix(wrong.Value, "number") {
		return errors.New("a number is too large, or no integer where one is wanted")
	}
	return err
}

// scan looks for NUL characters, halves of surrogate pairs and nesting that is too deep. Whether the
// text is JSON at all is left to the decoder.
func scan(data []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			n, err := escape(data[i:])
			if err != nil {
				return err
			}
			i += n - 1 // what is escaped ends no string
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return errors.New("objects and lists are nested too deeply")
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// escape checks the escaped character that data begins with, and gives its length.
func escape(data []byte) (int, error) {
	const short, long = 2, 6 // \n and \u000a
	r, ok := unit(data)
	switch {
	case !ok:
		return short, nil
	case r == 0:
		return 0, errors.New("a string has a NUL character; upload such data as a file")
	case !utf16.IsSurrogate(r):
		return long, nil
	}
	if low, ok := unit(data[long:]); !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
		return 0, errors.New("a string has half of a surrogate pair, which is no character")
	}
	return 2 * long, nil
}

// unit reads the UTF-16 code unit of an escape like \u000a.
func unit(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(n), err == nil
}
