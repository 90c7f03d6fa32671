package qemu

import (
	"fmt"
	"os"
	"testing"

	"pandastack/internal/kit/jail"
)

// TestMain is also the jail's stage, which re-executes this very binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == jail.Command {
		fmt.Fprintln(os.Stderr, jail.Main(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
