// Command pandastack is server, command line, and the process beside each
// virtual machine, in one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"pandastack/internal/app"
	"pandastack/internal/cli"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	// First, because a machine's start waits for these.
	if mine, err := app.Helper(ctx, args); mine {
		if err != nil {
			fmt.Fprintln(os.Stderr, "pandastack:", err)
			return 1
		}
		return 0
	}
	env := cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	return cli.Main(ctx, args, env, app.Commands(version, os.Getenv))
}
