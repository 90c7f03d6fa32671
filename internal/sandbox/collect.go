package sandbox

import (
	"cmp"
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
	lost           guestproto.Dropped // before it came here
	budget, used   int64              // bytes of results
	each           int64              // of one result
	last           int64              // the newest event

	results   []api.Result
	costs     []int64 // of each result
	leftOut   int
	clearNext bool // clear_output(wait=True): at the next output
	count     int
	err       *api.CellError
	done      *guestproto.Done
	asks      *api.InputRequest // the latest question
}

func newCollector(l Limits, o *api.OutputBudget) *collector {
	each := int64(defaultResult)
	if o != nil {
		l.StreamBytes, each = cmp.Or(o.StreamBytes, l.StreamBytes), cmp.Or(int64(o.ResultBytes), each)
	}
	return &collector{
		stdout: clip{limit: l.StreamBytes}, stderr: clip{limit: l.StreamBytes},
		budget: l.ResultBytes, each: each,
	}
}

// defaultResult is how many bytes one result may have.
const defaultResult = 8 << 20

// add takes the next event. An event that is not what its type says breaks the call.
func (c *collector) add(e guestproto.Event) error {
	var err error
	c.last = e.Seq
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
	case guestproto.EventInput:
		err = with(e, func(q guestproto.InputRequest) { c.asks = inputOf(q) })
	case guestproto.EventDropped:
		err = with(e, func(d guestproto.Dropped) {
			c.lost.Stdout, c.lost.Stderr = c.lost.Stdout.Plus(d.Stdout), c.lost.Stderr.Plus(d.Stderr)
		})
	case guestproto.EventDone:
		err = with(e, func(d guestproto.Done) { c.done, c.asks = &d, nil })
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
	r := fitted(resultOf(d, main), c.each)
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
	shows := fitted(resultOf(d, false), c.each)
	for n := range c.results {
		if c.results[n].DisplayID != id {
			continue
		}
		r := c.results[n]
		r.Data, r.Metadata = shows.Data, shows.Metadata
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
	c.err = cellErrorOf(m)
}

func cellErrorOf(m guestproto.CellError) *api.CellError {
	const short, long = 64 << 10, 1 << 20
	return &api.CellError{
		Name:      shorten(m.Name, short),
		Value:     shorten(m.Value, short),
		Traceback: shorten(plain(strings.Join(m.Traceback, "\n")), long),
	}
}

// streams gives what was printed so far.
func (c *collector) streams() (stdout, stderr string) {
	return c.stdout.text(), c.stderr.text()
}

// ran is what a cell's caller knows of it, where the agent does not say.
type ran struct {
	context string
	limit   float64 // seconds; 0: none
}

// execution gives what was collected; it is running if it has not ended.
func (c *collector) execution(id string, known ran) api.Execution {
	if c.done != nil && c.done.Kernel != "" {
		known = ran{shorten(c.done.Kernel, 64), float64(c.done.TimeoutMS) / 1000}
	}
	ex := api.Execution{
		ID: id, ContextID: known.context, Status: guestproto.StatusRunning, Results: c.results,
		ExecutionCount: c.count, Error: c.err, Events: c.last, Input: c.asks,
	}
	if ex.Results == nil {
		ex.Results = []api.Result{}
	}
	ex.Stdout, ex.Stderr = c.streams()
	if c.done != nil {
		ex.Status = statusOf(*c.done)
		ex.ExecutionCount = c.done.ExecutionCount
		ex.DurationMS = c.done.DurationMS
		ex.ContextRestarted = c.done.Restarted
		ex.Error = endOf(*c.done, known.limit, c.err)
	}
	ex.Truncated = c.truncation()
	return ex
}

// truncation says what is missing.
func (c *collector) truncation() *api.Truncation {
	t := api.Truncation{Stdout: c.stdout.truncated(c.lost.Stdout), Stderr: c.stderr.truncated(c.lost.Stderr), Results: c.leftOut}
	for _, r := range c.results {
		if lacks, _ := truncatedOf(r); len(lacks) > 0 {
			t.Partial++
		}
	}
	if t == (api.Truncation{}) {
		return nil
	}
	return &t
}
