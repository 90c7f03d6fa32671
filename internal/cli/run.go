package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pandastack/api"
	"pandastack/client"
	"pandastack/internal/kit/ids"
)

// removeTime is how long removing the sandbox may take once the command was interrupted.
const removeTime = 30 * time.Second

type runCmd struct {
	clientFlags
	sizeFlags
	Code     string   `short:"c" placeholder:"CODE" help:"Code to run instead of a file."`
	Template string   `default:"code-interpreter" complete:"template" help:"Template of the sandbox [${default}]."`
	Timeout  float64  `placeholder:"SECONDS" help:"Interrupt the code after this time."`
	Save     string   `placeholder:"DIR" help:"Save the images that the code shows."`
	Output   string   `short:"o" placeholder:"FILE" help:"Write a notebook (.ipynb) with its outputs here."`
	Keep     bool     `help:"Leave the sandbox and print its id at the end."`
	JSON     bool     `help:"Print the execution as JSON."`
	Args     []string `arg:"" optional:"" name:"file" passthrough:"partial" help:"Python file or notebook (- is standard input) and its arguments."`
}

// script is what is to be run.
type script struct {
	code string
	argv []string
	file string // where it lies in the sandbox; "" keeps it out of the file system
	book *notebook
}

func (c *runCmd) Run(s *session) error {
	what, err := c.script(s)
	if err != nil {
		return err
	}
	if c.Output != "" && what.book == nil {
		return usageError{&localError{message: "-o is for notebooks: give an .ipynb file"}}
	}
	if c.Output != "" {
		if err := checkFolder(c.Output); err != nil {
			return err
		}
	}
	// A reader of the output that leaves early must not end this command before it
	// has removed the sandbox: writes fail instead.
	left := make(chan os.Signal, 1)
	signal.Notify(left, syscall.SIGPIPE)
	defer signal.Stop(left)
	var ex api.Execution
	err = c.withServer(s, func(server *client.Client, embedded bool) error {
		if embedded {
			if err := s.buildMissing(c.settings(), c.Template); err != nil {
				return err
			}
		}
		ex, err = c.inSandbox(s, server, what)
		return err
	})
	if err != nil {
		return err
	}
	err = c.print(s, ex)
	if exit := exitCode(0); errors.As(err, &exit) && what.book != nil && what.book.mayFail {
		return nil
	}
	return err
}

// optionsFirst gives a command line that was parsed with what follows a notebook before it, where
// that are options: a script's are its own, but a notebook has none. Else it gives nil.
func (c *runCmd) optionsFirst(args []string) []string {
	if c.Code != "" || len(c.Args) < 2 || !isNotebook(c.Args[0]) || !strings.HasPrefix(c.Args[1], "-") {
		return nil
	}
	before := args[:len(args)-len(c.Args)]
	return slices.Concat(before, c.Args[1:], c.Args[:1])
}

func (c *runCmd) script(s *session) (script, error) {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case c.Code != "":
		return script{code: c.Code, argv: append([]string{"-c"}, args...)}, nil
	case len(args) == 0:
		return script{}, usageError{&localError{message: "give a file, - or -c CODE"}}
	case isNotebook(args[0]) && len(args) > 1:
		return script{}, usageError{&localError{message: "a notebook takes no arguments"}}
	case args[0] == "-":
		text, err := io.ReadAll(s.Stdin)
		return script{code: string(text), argv: args}, err
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return script{}, &localError{message: err.Error()}
	}
	if isNotebook(args[0]) {
		book, err := readNotebook(args[0], text)
		return script{book: book}, err
	}
	file := path.Join("/workspace", filepath.Base(args[0]))
	return script{code: string(text), argv: append([]string{file}, args[1:]...), file: file}, nil
}

// inSandbox runs the script in a sandbox of its own and ends that.
func (c *runCmd) inSandbox(s *session, server *client.Client, what script) (_ api.Execution, err error) {
	box, err := s.createSandbox(server, c.sandbox(c.Template))
	if err != nil {
		return api.Execution{}, err
	}
	kernel := ""
	defer func() {
		// Also when the command was interrupted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), removeTime)
		defer cancel()
		if e := c.leave(ctx, s, server, box.ID, kernel); err == nil {
			err = e
		}
	}()
	if what.file != "" {
		if err := writeText(s.ctx, server, box.ID, what.file, what.code); err != nil {
			return api.Execution{}, err
		}
	}
	created, err := server.CreateContext(s.ctx, box.ID, what.kernel())
	if err != nil {
		return api.Execution{}, err
	}
	kernel = created.ID
	if what.book != nil {
		return c.runNotebook(s, server, box.ID, kernel, what.book)
	}
	if _, err := server.Execute(s.ctx, box.ID, kernel, api.Execute{Code: what.prelude()}); err != nil {
		return api.Execution{}, err
	}
	return c.runScript(s, server, box.ID, kernel, what)
}

// kernel is the one that it wants.
func (w script) kernel() api.CreateContext {
	if w.book == nil {
		return api.CreateContext{}
	}
	return w.book.kernel()
}

// runScript runs a script as an interpreter would: what it asks is answered from standard input.
func (c *runCmd) runScript(s *session, server *client.Client, box, kernel string, what script) (api.Execution, error) {
	cell := api.Execute{ID: ids.New(), Code: what.code, TimeoutSeconds: c.Timeout, AllowStdin: true}
	q := s.questions(server, box, cell.ID, s.prompts(c.JSON))
	defer q.close()
	show := s.live(c.JSON)
	return server.Run(s.ctx, box, kernel, cell, func(e api.ExecutionEvent) error {
		if e.Type == "input_request" {
			q.ask(*e.Input)
		}
		return show(e)
	})
}

// live prints what a cell shows as it comes, as a notebook would, in text; unless
// it is to be quiet.
func (s *session) live(quiet bool) func(api.ExecutionEvent) error {
	return func(e api.ExecutionEvent) error {
		if quiet {
			return nil
		}
		var err error
		switch e.Type {
		case "stdout":
			_, err = io.WriteString(s.Stdout, e.Text)
		case "stderr":
			_, _ = io.WriteString(s.Stderr, e.Text)
		case "result":
			if text, ok := stringOf(e.Result.Data["text/plain"]); ok {
				_, err = fmt.Fprintln(s.Stdout, text)
			}
		case "dropped":
			fmt.Fprintf(s.Stderr, "[%s of output are missing here: more was printed than is kept]\n", bytesOf(e.Dropped.Bytes))
		}
		return err
	}
}

// leave ends the sandbox, or with --keep only the cell that may still run in it.
func (c *runCmd) leave(ctx context.Context, s *session, server *client.Client, box, kernel string) error {
	if !c.Keep {
		return server.DeleteSandbox(ctx, box)
	}
	fmt.Fprintf(s.Stderr, "sandbox %s is kept; 'pandastack sandbox rm %s' removes it\n", box, box)
	if s.ctx.Err() == nil || kernel == "" {
		return nil
	}
	return server.Interrupt(ctx, box, kernel)
}

// prelude makes the kernel look to the script as an interpreter started with it.
func (w script) prelude() string {
	argv, _ := json.Marshal(w.argv) // of strings: also a Python list
	code := fmt.Sprintf("import sys\nsys.argv[:] = %s\ndel sys\n", argv)
	if w.file != "" {
		file, _ := json.Marshal(w.file)
		code += fmt.Sprintf("__file__ = %s\n", file)
	}
	return code
}

// print tells what was not told while the cell ran.
func (c *runCmd) print(s *session, ex api.Execution) error {
	images, err := c.saveImages(ex.Results)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printJSON(s.Stdout, ex); err != nil {
			return err
		}
		return ended(ex)
	}
	if c.Output == "" {
		c.tellImages(s, images, ex.Results)
	}
	if ex.Error != nil {
		fmt.Fprint(s.Stderr, failureText(*ex.Error))
	}
	return ended(ex)
}

// exitTimedOut is the exit code of timeout(1) for what ran too long.
const exitTimedOut = 124

// ended gives the exit code that the interpreter would have had.
func ended(ex api.Execution) error {
	switch {
	case ex.Error == nil:
		return nil
	case ex.Status == "timeout":
		return exitCode(exitTimedOut)
	case ex.Error.Name != "SystemExit":
		return exitCode(1)
	}
	value := ex.Error.Value
	if value == "" || value == "None" {
		return nil
	}
	n, err := strconv.Atoi(value)
	switch {
	case err != nil:
		return exitCode(1)
	case n == 0:
		return nil
	}
	return exitCode(n & 0xff)
}

// failureText is what the interpreter would have written to stderr.
func failureText(e api.CellError) string {
	if e.Name == "SystemExit" {
		if _, err := strconv.Atoi(e.Value); err == nil || e.Value == "" || e.Value == "None" {
			return ""
		}
		return e.Value + "\n"
	}
	summary := e.Name + ": " + e.Value
	byServer := e.Name == "Timeout" || e.Name == "KernelDied"
	switch {
	case e.Traceback == "":
		return summary + "\n"
	case byServer && !strings.Contains(e.Traceback, summary): // it says where the cell was ended, and not why
		return e.Traceback + "\n" + summary + "\n"
	}
	return e.Traceback + "\n"
}
