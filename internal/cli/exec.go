package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"pandastack/api"
	"pandastack/client"
)

const (
	// maxStdin is a little less than what a request may have.
	maxStdin = 12 << 20
	// stdinPatience is after which a standard input that does not end is told of.
	stdinPatience = 2 * time.Second
)

type execCmd struct {
	clientFlags
	Cwd     string            `placeholder:"DIR" help:"Folder to run in [/workspace]."`
	Env     map[string]string `short:"e" placeholder:"NAME=VALUE" mapsep:"none" help:"Environment variable; may be given several times."`
	Timeout float64           `placeholder:"SECONDS" help:"Kill the command after this time; the exit code is then 124."`
	NoStdin bool              `short:"n" help:"Do not read standard input."`
	ID      string            `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
	Command []string          `arg:"" name:"command" passthrough:"partial" help:"Command and its arguments."`
}

func (c *execCmd) Run(s *session) error {
	argv := c.Command
	if argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return usageError{&localError{message: "give a command"}}
	}
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	stdin, err := c.stdin(s)
	if err != nil {
		return err
	}
	exit, err := server.ExecStream(s.ctx, c.ID, api.Exec{
		Argv: argv, Cwd: c.Cwd, Env: c.Env, Stdin: stdin, TimeoutSeconds: c.Timeout,
	}, s.Stdout, s.Stderr)
	switch {
	case exit.TimedOut:
		printFailure(s.Env, Failure{Message: fmt.Sprintf("the command ran longer than %g s and was killed", c.Timeout)})
		return exitCode(exitTimedOut)
	case err != nil:
		return c.notStarted(s, err)
	case exit.ExitCode != 0:
		return exitCode(exit.ExitCode)
	}
	return nil
}

// notStarted gives the exit codes of a shell for a command that is not there or
// cannot be run.
func (c *execCmd) notStarted(s *session, err error) error {
	codes := map[string]exitCode{api.CodeFileNotFound: 127, api.CodeFilePermission: 126}
	var refused *client.Error
	if !errors.As(err, &refused) || codes[refused.Code] == 0 {
		return err
	}
	printFailure(s.Env, Failure{Message: refused.Message, Code: refused.Code})
	return codes[refused.Code]
}

// stdin reads what is piped or redirected into this command. A terminal or a
// device is left alone.
func (c *execCmd) stdin(s *session) (string, error) {
	if f, ok := s.Stdin.(*os.File); c.NoStdin || ok && !piped(f) {
		return "", nil
	}
	waiting := time.AfterFunc(stdinPatience, func() {
		fmt.Fprintln(s.Stderr, "reading standard input to its end before the command starts; -n leaves it alone")
	})
	defer waiting.Stop()
	data, err := readAll(s.ctx, io.LimitReader(s.Stdin, maxStdin+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read standard input: %w", err)
	case len(data) > maxStdin:
		return "", &localError{fmt.Sprintf("standard input has more than %s", bytesOf(maxStdin)), "copy it with 'pandastack cp' and read it from the file"}
	case !utf8.Valid(data):
		return "", &localError{"standard input is not UTF-8 text", "copy it with 'pandastack cp' and read it from the file"}
	}
	return string(data), nil
}

func piped(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}

// readAll ends with ctx. The goroutine of a read that hangs ends with the process.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	var data []byte
	done := make(chan error, 1)
	go func() {
		var err error
		data, err = io.ReadAll(r)
		done <- err
	}()
	select {
	case err := <-done:
		return data, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type logsCmd struct {
	clientFlags
	Follow  bool   `short:"f" help:"Go on with what is written from now on."`
	Console bool   `xor:"stream" help:"Only the serial console of the virtual machine."`
	Agent   bool   `xor:"stream" help:"Only the log of the agent in it."`
	ID      string `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
}

func (c *logsCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	options := client.LogOptions{Follow: c.Follow, Stream: "both"}
	switch {
	case c.Console:
		options.Stream = "console"
	case c.Agent:
		options.Stream = "agent"
	}
	silent := true
	err = server.Logs(s.ctx, c.ID, options, func(line string) error {
		silent = false
		_, err := fmt.Fprintln(s.Stdout, strings.TrimRight(clean(line), " "))
		return err
	})
	if err == nil && silent {
		fmt.Fprintln(s.Stderr, "nothing was logged since the sandbox was started")
	}
	if c.Follow && s.ctx.Err() != nil {
		return nil // how a user ends it
	}
	return err
}

func writeText(ctx context.Context, server *client.Client, box, path, text string) error {
	return server.WriteFile(ctx, box, path, strings.NewReader(text))
}
