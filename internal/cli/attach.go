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
	c.tellQuestion(s, soFar.Input)
	var done *api.Execution
	show := s.live(c.JSON)
	ex, err := server.Follow(s.ctx, c.ID, c.Execution, api.Follow{After: c.After, Until: c.Follow}, func(e api.ExecutionEvent) error {
		c.After = e.Seq
		switch {
		case e.Type == "input_request" && e.Seq > soFar.Events: // others were answered, or told of above
			c.tellQuestion(s, e.Input)
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

// tellQuestion says what a cell waits for that would wait in silence.
func (c *attachCmd) tellQuestion(s *session, question *api.InputRequest) {
	if question != nil {
		fmt.Fprintf(s.Stderr, "the cell asks %q; the answer goes to POST /v1/sandboxes/%s/executions/%s/input\n", question.Prompt, c.ID, c.Execution)
	}
}
