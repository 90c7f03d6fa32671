// Package cli is the command line. Commands that use a server speak to it
// through the Go SDK; those that act on this node are handed in.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"pandastack/api"
)

// Settings are configuration flags by their key; keys that were not given are absent.
type Settings map[string]string

// Node is what this machine itself can be told to do.
type Node struct {
	// Serve runs the server until ctx ends and tells out where it listens.
	Serve func(ctx context.Context, settings Settings, out io.Writer) error
	// Doctor looks at the host and reports each check as it finishes.
	Doctor func(ctx context.Context, settings Settings, report func(Check)) error
	// Build makes a template ready, or with refresh resolves its packages afresh.
	Build func(ctx context.Context, settings Settings, name string, refresh bool, progress func(Progress)) error
	// OpenAPI gives the document of the REST API.
	OpenAPI func() ([]byte, error)
	Version func() api.Version
	// Explain tells what a user should know of an error of the functions above.
	Explain func(error) Failure
}

// Streams and environment of a command.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

// Failure is an error as the command line prints it.
type Failure struct {
	Message string
	Code    string
	Hint    string
	More    string // further lines, such as the end of a log
}

// session is what commands run with.
type session struct {
	Env
	ctx  context.Context
	node Node
}

type root struct {
	Serve    serveCmd    `cmd:"" help:"Run the server."`
	Doctor   doctorCmd   `cmd:"" help:"Check whether this host can run sandboxes."`
	Template templateCmd `cmd:"" help:"Build and list templates."`
	Sandbox  sandboxCmd  `cmd:"" help:"Create, list and remove sandboxes."`
	Run      runCmd      `cmd:"" help:"Run a Python file in a fresh sandbox."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
	OpenAPI  openAPICmd  `cmd:"" name:"openapi" hidden:""`
}

// exitCode ends a command whose outcome was told already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }

// usageError is a command line that cannot be understood.
type usageError struct{ error }

// Main runs the command line and gives the exit code: 0, 1 when the command
// failed, 2 when it could not be understood.
func Main(ctx context.Context, args []string, env Env, node Node) int {
	err := dispatch(ctx, args, env, node)
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	if err == nil {
		return 0
	}
	printFailure(env.Stderr, explain(err, node))
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

func dispatch(ctx context.Context, args []string, env Env, node Node) (err error) {
	// Kong wants to end the process after --help; this ends the command instead.
	defer func() {
		if code, ok := recover().(exitCode); ok {
			err = code
		}
	}()
	s := &session{Env: env, ctx: ctx, node: node}
	parser, err := kong.New(&root{},
		kong.Name("pandastack"),
		kong.Description("Code interpreters in microVMs."),
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(exitCode(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Bind(s),
	)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return usageError{err}
	}
	return parsed.Run()
}

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

func (c *versionCmd) Run(s *session) error {
	v := s.node.Version()
	if c.JSON {
		return printJSON(s.Stdout, v)
	}
	_, err := fmt.Fprintf(s.Stdout, "pandastack %s (%s, %s)\n", v.Version, orDash(v.Commit), v.Go)
	return err
}

type openAPICmd struct{}

func (c *openAPICmd) Run(s *session) error {
	doc, err := s.node.OpenAPI()
	if err != nil {
		return err
	}
	_, err = s.Stdout.Write(doc)
	return err
}
