// Package cli is the command line. Commands that use a server speak to it
// through the Go SDK; those that act on this node are handed in.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

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
	// Embed starts a server inside this command, for its own use.
	Embed func(ctx context.Context, settings Settings) (*Embedded, error)
	// Down ends the server of a data directory and all sandboxes in it, tells of
	// each step, and returns when they are gone.
	Down func(ctx context.Context, settings Settings, report func(line string)) error
	// RemoveTemplate drops a user's template, or the builds of one that ships.
	RemoveTemplate func(ctx context.Context, settings Settings, name string) error
	// PruneTemplates frees what no template and no sandbox needs.
	PruneTemplates func(ctx context.Context, settings Settings) (Pruned, error)
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
	ctx   context.Context
	node  Node
	model *kong.Node
}

type root struct {
	Run      runCmd      `cmd:"" group:"Sandboxes:" help:"Run Python in a fresh sandbox and print what comes of it."`
	Sandbox  sandboxCmd  `cmd:"" group:"Sandboxes:" help:"Create, list, save, copy and remove sandboxes."`
	Snapshot snapshotCmd `cmd:"" group:"Sandboxes:" help:"List and remove snapshots of sandboxes."`
	Context  contextCmd  `cmd:"" group:"Sandboxes:" help:"List the contexts of a sandbox and their cells, export them as notebooks."`
	Attach   attachCmd   `cmd:"" group:"Sandboxes:" help:"Follow a cell that runs, waits or has ended."`
	Exec     execCmd     `cmd:"" group:"Sandboxes:" help:"Run a command in a sandbox."`
	Cp       cpCmd       `cmd:"" group:"Sandboxes:" help:"Copy files and folders into a sandbox or out of it."`
	Logs     logsCmd     `cmd:"" group:"Sandboxes:" help:"Print the logs of a sandbox's machine."`

	Template templateCmd `cmd:"" group:"This machine:" help:"Build and list templates."`
	Serve    serveCmd    `cmd:"" group:"This machine:" help:"Run the server."`
	Down     downCmd     `cmd:"" group:"This machine:" help:"Stop the server and remove all its sandboxes."`
	Doctor   doctorCmd   `cmd:"" group:"This machine:" help:"Check whether this host can run sandboxes."`

	Completion completionCmd `cmd:"" group:"This program:" help:"Print a script that completes command lines."`
	Version    versionCmd    `cmd:"" group:"This program:" help:"Print the version."`
	OpenAPI    openAPICmd    `cmd:"" name:"openapi" group:"This program:" hidden:""`
	Complete   completeCmd   `cmd:"" name:"__complete" group:"This program:" hidden:""`
}

// exitCode ends a command whose outcome was told already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }

// usageError is a command line that cannot be understood.
type usageError struct{ error }

// Exit codes beside 0, 1 (the command failed) and those of what it ran.
const (
	exitUsage       = 2   // the command line could not be understood
	exitInterrupted = 130 // as if by SIGINT
)

// Main runs the command line and gives the exit code.
func Main(ctx context.Context, args []string, env Env, node Node) int {
	err := dispatch(ctx, args, env, node)
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	if err == nil {
		return 0
	}
	if errors.Is(err, syscall.EPIPE) {
		return 1 // nobody reads any more
	}
	interrupted := ctx.Err() != nil
	if failure := explain(err, node); interrupted && errors.Is(err, context.Canceled) {
		printFailure(env, Failure{Message: "interrupted"})
	} else {
		printFailure(env, failure)
	}
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case interrupted:
		return exitInterrupted
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
	commands := &root{}
	parser, err := kong.New(commands,
		kong.Name("pandastack"),
		kong.Description("Code interpreters in microVMs.\n\n  pandastack run -c '1+1'     run Python in a fresh sandbox\n  pandastack serve            run the server that other commands and the SDKs use"),
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(exitCode(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Bind(s),
	)
	if err != nil {
		return err
	}
	s.model = parser.Model.Node
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if moved := commands.Run.optionsFirst(args); err == nil && moved != nil {
		parsed, err = parser.Parse(moved)
	}
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
