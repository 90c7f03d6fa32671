package qemu

import (
	"fmt"
	"os"
	"testing"

	"pandastack/internal/kit/jail"
)

// helpers are further programs that this test binary can be, by first argument.
var helpers = map[string]func(args []string) error{jail.Command: jail.Main}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if helper, ok := helpers[os.Args[1]]; ok {
			if err := helper(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}
