//go:build vm

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pandastack/client"
)

// meminfo reads one line of /proc/meminfo, in bytes.
func meminfo(t *testing.T, text, name string) int64 {
	t.Helper()
	for line := range strings.Lines(text) {
		var kB int64
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscan(rest, &kB); err != nil {
				t.Fatal(err)
			}
			return kB << 10
		}
	}
	t.Fatalf("no %s in /proc/meminfo", name)
	return 0
}

// assertRefused wants an answer of the server with a code and part of its sentence.
func assertRefused(t *testing.T, err error, code, sentence string) {
	t.Helper()
	var refusal *client.Error
	if !errors.As(err, &refusal) {
		t.Errorf("got %v, want the server's refusal %s", err, code)
		return
	}
	if refusal.Code != code || !strings.Contains(refusal.Message, sentence) || refusal.Hint == "" {
		t.Errorf("got %d %s %q (hint %q), want %s with %q", refusal.Status, refusal.Code, refusal.Message, refusal.Hint, code, sentence)
	}
}

// codeOf gives a refusal's code, "" for anything else.
func codeOf(err error) string {
	var refusal *client.Error
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

// detail gives what a refusal tells beside its sentence.
func detail(err error) string {
	var refusal *client.Error
	if errors.As(err, &refusal) {
		return fmt.Sprint(refusal.Detail)
	}
	return ""
}

func empty(s string) error {
	if s != "" {
		return fmt.Errorf("%q", s)
	}
	return nil
}
