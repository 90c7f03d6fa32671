package v1

import (
	"encoding/json"
	"errors"
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
// encoding/json would replace what is not UTF-8, and a NUL ends a string for
// most of what the text is handed to later.
func decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("the text is not valid UTF-8")
	}
	if err := scan(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// scan looks for NUL characters and for nesting that is too deep. Whether the
// text is JSON at all is left to the decoder.
func scan(data []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			if len(data) >= i+6 && string(data[i+1:i+6]) == "u0000" {
				return errors.New("a string has a NUL character; upload such data as a file")
			}
			i++ // what is escaped ends no string
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
