package v1

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDecodeKeepsText(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud83d\ude00 \u00e9\n"`: "😀 é\n",
		`"\\ud83d"`:               `\ud83d`, // a backslash and letters: Python's escape in a cell
		`"\\u0000"`:               `\u0000`,
		`"\"\\\""`:                `"\"`,
	} {
		var got string
		if err := decode([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
}

// FuzzDecode: what a request's JSON is taken for is what was written.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\u0000"]}`, `"\ud800"`, `"\ud83d\ude00"`, `"\\\ud800"`, `{"a":"\`, `[[[[`, "\"\xff\"", `"\u00"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got any
		if decode(data, &got) != nil {
			return
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			t.Fatalf("took %q", data)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(again), `\u0000`) && !strings.Contains(string(data), `\\u0000`) {
			t.Fatalf("a NUL came through in %q", data)
		}
		if strings.ContainsRune(string(again), utf8.RuneError) && !strings.ContainsRune(string(data), utf8.RuneError) &&
			!strings.Contains(strings.ToLower(string(data)), `\ufffd`) {
			t.Fatalf("a character was replaced in %q", data)
		}
	})
}
