package shim

import (
	"context"
	"fmt"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/vmm"
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
	again := req
	for try := range clockTries {
		sent := time.Now()
		again.WallClockNS = sent.UnixNano()
		r, err := g.Resume(ctx, again)
		if err != nil {
			return r, err
		}
		if try == 0 {
			report = r
		}
		if time.Since(sent)-worked(r) <= clockSlack {
			break
		}
		again = guestproto.ResumeRequest{Clock: guestproto.ClockStep}
	}
	return report, nil
}

// noteResumed tells in the machine's log what its agent did.
func noteResumed(m vmm.Machine, req guestproto.ResumeRequest, report guestproto.ResumeReport) {
	name := ""
	if req.Hostname != "" {
		name = " hostname=" + req.Hostname
	}
	m.Note(fmt.Sprintf("time=%s level=INFO msg=resumed%s reseeded=%t ms=%.3f",
		time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), name, req.Reseed, report.Milliseconds()))
}

// worked is what the agent did once it had the message.
func worked(r guestproto.ResumeReport) (d time.Duration) {
	for _, s := range r.Steps {
		d += time.Duration(s.MS * float64(time.Millisecond))
	}
	return d
}
