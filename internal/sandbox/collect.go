package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

// collector makes an api.Execution of an execution's events, the way a
// notebook would show them, within budgets.
type collector struct {
	stdout, stderr clip
	budget, used   int64 // bytes of results

	results   []api.Result
	costs     []int64 // of each result
	leftOut   int
	clearNext bool // clear_output(wait=True): at the next output
	count     int
	err       *api.CellError
	done      *guestproto.Done
}

func newCollector(l Limits) *collector {
	return &collector{
		stdout: clip{limit: l.StreamBytes}, stderr: clip{limit: l.StreamBytes},
		budget: l.ResultBytes,
	}
}

// add takes the next event. An event that is not what its type says breaks the call.
func (c *collector) add(e guestproto.Event) error {
	var err error
	switch e.Type {
	case guestproto.EventStream:
		err = with(e, c.stream)
	case guestproto.EventDisplay:
		err = with(e, func(d guestproto.Display) { c.display(d, false) })
	case guestproto.EventResult:
		err = with(e, func(d guestproto.Display) { c.display(d, true) })
	case guestproto.EventUpdateDisplay:
		err = with(e, c.update)
	case guestproto.EventClearOutput:
		err = with(e, func(m struct{ Wait bool }) {
			if c.clearNext = m.Wait; !m.Wait {
				c.clear()
			}
		})
	case guestproto.EventError:
		err = with(e, c.cellError)
	case guestproto.EventDone:
		err = with(e, func(d guestproto.Done) { c.done = &d })
	}
	if err != nil {
		return fmt.Errorf("event %d, %s: %w", e.Seq, e.Type, err)
	}
	return nil
}

func with[T any](e guestproto.Event, f func(T)) error {
	var content T
	if err := json.Unmarshal(e.Content, &content); err != nil {
		return err
	}
	f(content)
	return nil
}

func (c *collector) stream(m guestproto.Stream) {
	c.output()
	if m.Name == "stderr" {
		c.stderr.write(m.Text)
		return
	}
	c.stdout.write(m.Text)
}

// output is called before every output: one may have been waited for.
func (c *collector) output() {
	if c.clearNext {
		c.clearNext = false
		c.clear()
	}
}

func (c *collector) clear() {
	c.results, c.costs, c.used, c.leftOut = nil, nil, 0, 0
	c.stdout.reset()
	c.stderr.reset()
}

func (c *collector) display(d guestproto.Display, main bool) {
	c.output()
	if main {
		c.count = d.ExecutionCount
	}
	r := api.Result{Data: representations(d.Data), Metadata: d.Metadata, IsMainResult: main, DisplayID: displayID(d)}
	if r.Metadata == nil {
		r.Metadata = map[string]json.RawMessage{}
	}
	cost := costOf(r)
	if c.used+cost > c.budget {
		c.leftOut++
		return
	}
	c.used += cost
	c.results, c.costs = append(c.results, r), append(c.costs, cost)
}

// update replaces what every result with the same display id shows. One that
// an earlier cell displayed is not here to be changed.
func (c *collector) update(d guestproto.Display) {
	id := displayID(d)
	if id == "" {
		return
	}
	data := representations(d.Data)
	for n := range c.results {
		if c.results[n].DisplayID != id {
			continue
		}
		r := c.results[n]
		r.Data, r.Metadata = data, d.Metadata
		if r.Metadata == nil {
			r.Metadata = map[string]json.RawMessage{}
		}
		cost := costOf(r)
		if c.used-c.costs[n]+cost > c.budget {
			c.leftOut++
			continue
		}
		c.used += cost - c.costs[n]
		c.results[n], c.costs[n] = r, cost
	}
}

func (c *collector) cellError(m guestproto.CellError) {
	c.output()
	const short = 64 << 10
	c.err = &api.CellError{
		Name:      shorten(m.Name, short),
		Value:     shorten(m.Value, short),
		Traceback: shorten(plain(strings.Join(m.Traceback, "\n")), c.stdout.limit),
	}
}

// streams gives what was printed so far.
func (c *collector) streams() (stdout, stderr string) {
	return c.stdout.text(), c.stderr.text()
}

// execution gives what was collected; it is running if it has not ended.
func (c *collector) execution(id string, known ran) api.Execution {
	ex := api.Execution{ID: id, ContextID: known.context, Status: "running", Results: c.results, ExecutionCount: c.count, Error: c.err}
	if ex.Results == nil {
		ex.Results = []api.Result{}
	}
	ex.Stdout, ex.Stderr = c.streams()
	var dropped int64
	if c.done != nil {
		ex.Status = statusOf(*c.done)
		ex.ExecutionCount = c.done.ExecutionCount
		ex.DurationMS = c.done.DurationMS
		ex.ContextRestarted = c.done.Restarted
		ex.Error = endOf(*c.done, known.limit, c.err)
		dropped = max(c.done.Dropped, 0)
	}
	ex.Truncated = c.truncation(dropped)
	return ex
}

// truncation says what is missing. What the agent's log dropped is counted to
// stdout, whose flood it all but always is.
func (c *collector) truncation(dropped int64) *api.Truncation {
	t := api.Truncation{Stdout: c.stdout.truncated(dropped), Stderr: c.stderr.truncated(0), Results: c.leftOut}
	if t == (api.Truncation{}) {
		return nil
	}
	return &t
}
