package shim

import (
	"context"
	"time"

	"pandastack/internal/guestproto"
)

const (
	// clockSlack is how late the agent may have heard of the time.
	clockSlack = 25 * time.Millisecond
	// clockTries bounds how often it is told, on a host that is too busy.
	clockTries = 5
)

// resume resumes the agent. The time it is told is as old as the message on its
// arrival: a machine that just goes on runs code that is new to it, so where that
// took long it is told once more.
func resume(ctx context.Context, g guestproto.Guest, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	var report guestproto.ResumeReport
	for try := range clockTries {
		sent := time.Now()
		req.WallClockNS = sent.UnixNano()
		r, err := g.Resume(ctx, req)
		if err != nil {
			return r, err
		}
		if try == 0 {
			report = r
		}
		if time.Since(sent)-worked(r) <= clockSlack {
			break
		}
		req = guestproto.ResumeRequest{Clock: guestproto.ClockStep}
	}
	return report, nil
}

// worked is what the agent did once it had the message.
func worked(r guestproto.ResumeReport) (d time.Duration) {
	for _, s := range r.Steps {
		d += time.Duration(s.MS * float64(time.Millisecond))
	}
	return d
}
