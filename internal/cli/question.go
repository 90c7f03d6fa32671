package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"pandastack/api"
	"pandastack/client"
)

// endOfInput answers a question when no line is left: input() then raises EOFError.
const endOfInput = "\x04"

// questioner answers what a cell asks with lines of standard input.
type questioner struct {
	ctx       context.Context // ends with the cell
	cancel    context.CancelFunc
	server    *client.Client
	box, cell string
	prompts   io.Writer
	errors    io.Writer

	mu       sync.Mutex // held while a line is read
	lines    *bufio.Reader
	terminal *os.File // standard input, if it is one
	asItWas  *term.State
}

// prompts is where questions are shown: not where JSON is to be.
func (s *session) prompts(json bool) io.Writer {
	if json {
		return s.Stderr
	}
	return s.Stdout
}

// questions makes a questioner for one cell; its close must be called at the end.
func (s *session) questions(server *client.Client, box, cell string, prompts io.Writer) *questioner {
	q := &questioner{server: server, box: box, cell: cell, prompts: prompts, errors: s.Stderr, lines: bufio.NewReader(s.Stdin)}
	q.ctx, q.cancel = context.WithCancel(s.ctx)
	if f, ok := s.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		q.terminal = f
		q.asItWas, _ = term.GetState(int(f.Fd()))
	}
	return q
}

// ask puts a question to the user. It returns at once: the cell may end before it is
// answered, and what it prints is shown meanwhile.
func (q *questioner) ask(question api.InputRequest) {
	fmt.Fprint(q.prompts, question.Prompt)
	go q.answer(question.Password)
}

func (q *questioner) answer(secret bool) {
	line, err := q.line(secret)
	if err != nil && line == "" {
		line = endOfInput
	}
	err = q.server.Input(q.ctx, q.box, q.cell, line)
	var refused *client.Error
	late := errors.As(err, &refused) && refused.Code == api.CodeExecutionNoInput
	if err != nil && !late && q.ctx.Err() == nil {
		fmt.Fprintf(q.errors, "the answer did not reach the cell: %v\n", err)
	}
}

// line reads one line; a secret one is not shown while it is typed.
func (q *questioner) line(secret bool) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if secret && q.terminal != nil {
		text, err := term.ReadPassword(int(q.terminal.Fd()))
		fmt.Fprintln(q.prompts)
		return string(text), err
	}
	line, err := q.lines.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// close makes the terminal what it was. A read that still waits ends with the process.
func (q *questioner) close() {
	q.cancel()
	if q.asItWas != nil {
		_ = term.Restore(int(q.terminal.Fd()), q.asItWas)
	}
}
