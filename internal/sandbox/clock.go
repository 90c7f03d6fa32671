package sandbox

import (
	"math"
	"slices"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
)

// clock times the steps of a start.
type clock struct {
	begin, last time.Time
	steps       []api.Step
}

func newClock() *clock {
	now := time.Now()
	return &clock{begin: now, last: now}
}

// step ends the step called name.
func (c *clock) step(name string) {
	c.steps = append(c.steps, api.Step{Name: name, MS: c.lap()})
}

// within ends a step of which another process has timed parts. What is left of
// it, such as starting that process, goes under name.
func (c *clock) within(name string, parts []guestproto.Step) {
	rest := c.lap()
	for _, p := range parts {
		rest -= p.MS
	}
	c.steps = append(c.steps, api.Step{Name: name, MS: round(max(rest, 0))})
	for _, p := range parts {
		c.steps = append(c.steps, api.Step(p))
	}
}

func (c *clock) lap() float64 {
	now := time.Now()
	lap := now.Sub(c.last)
	c.last = now
	return milliseconds(lap)
}

// start is the start so far.
func (c *clock) start() api.Start {
	return api.Start{Kind: "restored", TotalMS: milliseconds(time.Since(c.begin)), Steps: slices.Clone(c.steps)}
}

func milliseconds(d time.Duration) float64 { return round(d.Seconds() * 1000) }

func round(ms float64) float64 { return math.Round(ms*1000) / 1000 }
