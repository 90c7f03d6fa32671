package ids

import (
	"strings"
	"testing"
)

func TestNewIsValidAndUsesEveryLetterEvenly(t *testing.T) {
	const n = 20000
	seen := make(map[string]bool, n)
	count := make(map[rune]int)
	for range n {
		id := New()
		if !Valid(id) {
			t.Fatalf("New: got %q, which is not valid", id)
		}
		if seen[id] {
			t.Fatalf("New: %q came twice", id)
		}
		seen[id] = true
		for _, c := range id {
			count[c]++
		}
	}
	want := n * Len / len(alphabet)
	for _, c := range alphabet {
		if got := count[c]; got < want*9/10 || got > want*11/10 {
			t.Errorf("letter %c: got %d, want about %d", c, got, want)
		}
	}
}

func TestValid(t *testing.T) {
	good := strings.Repeat("a1", Len/2)
	cases := map[string]bool{
		good: true, good[1:]: false, good + "a": false, "": false,
		"A" + good[1:]: false, "-" + good[1:]: false, "." + good[1:]: false, "../../../etc/passwd0": false,
	}
	for s, want := range cases {
		if got := Valid(s); got != want {
			t.Errorf("Valid(%q): got %v, want %v", s, got, want)
		}
	}
}
