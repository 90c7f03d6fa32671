package cli

import (
	"fmt"

	"pandastack/api"
)

type attachCmd struct {
	clientFlags
	Follow    string `enum:"none,done,all" default:"done" placeholder:"none|done|all" help:"How far: what there is by now, to the cell's end, or also what its threads and processes print afterwards [${default}]."`
	After     int64  `placeholder:"N" help:"Only its events after this number."`
	JSON      bool   `help:"Print the execution as JSON."`
	ID        string `arg:"" name:"sandbox" complete:"sandbox" help:"Sandbox."`
	Execution string `arg:"" name:"execution" complete:"execution" help:"Execution."`
}

func (c *attachCmd) Run(s *session) error {
	server, err := c.connect(s.Getenv)
	if err != nil {
		return err
	}
	soFar, err := server.Execution(s.ctx, c.ID, c.Execution)
	if err != nil {
		return err
	}
	if soFar.Status == "queued" {
		fmt.Fprintln(s.Stderr, "the cell waits for its turn")
	}
	q := s.questions(server, c.ID, c.Execution, s.prompts(c.JSON))
	defer q.close()
	c.question(s, q, soFar.Input)
	var done *api.Execution
	show := s.live(c.JSON)
	ex, err := server.Follow(s.ctx, c.ID, c.Execution, api.Follow{After: c.After, Until: c.Follow}, func(e api.ExecutionEvent) error {
		c.After = e.Seq
		switch {
		case e.Type == "input_request" && e.Seq > soFar.Events: // others were answered, or told of above
			c.question(s, q, e.Input)
		case e.Type == "done":
			done = e.Execution
			c.tellFailure(s, done.Error)
		}
		return show(e)
	})
	switch {
	case err != nil && s.ctx.Err() != nil && done != nil: // how a user ends --follow all
		ex = *done
	case err != nil && s.ctx.Err() != nil:
		fmt.Fprintf(s.Stderr, "the cell goes on; 'pandastack attach --after %d %s %s' follows it again\n", c.After, c.ID, c.Execution)
		return err
	case err != nil:
		return err
	}
	if c.JSON {
		if err := printJSON(s.Stdout, ex); err != nil {
			return err
		}
	}
	return ended(ex)
}

func (c *attachCmd) tellFailure(s *session, failure *api.CellError) {
	if failure != nil && !c.JSON {
		fmt.Fprint(s.Stderr, failureText(*failure))
	}
}

// question asks the user at a terminal what a cell asks. Anybody else is told, for the
// cell would wait in silence; the end of their input is no answer.
func (c *attachCmd) question(s *session, q *questioner, question *api.InputRequest) {
	switch {
	case question == nil:
	case q.terminal != nil && c.Follow != api.FollowNone:
		q.ask(*question)
	default:
		fmt.Fprintf(s.Stderr, "the cell asks %q; the answer goes to POST /v1/sandboxes/%s/executions/%s/input\n", question.Prompt, c.ID, c.Execution)
	}
}
