package shim

import (
	"context"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/vmm"
)

const (
	slewEvery = time.Minute
	slewTime  = 5 * time.Second // for the agent to answer
)

const (
	clockLate  = 10 * time.Millisecond // as good as setting a clock can be expected to be
	clockTries = 3
)

// resume calls the agent's resume with the time of now, and sets the clock once more
// where the call was long under way, as the first one of a restored machine is.
func resume(ctx context.Context, g *guestproto.Client, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	sent := time.Now()
	if req.WallClockNS == 0 {
		req.WallClockNS = sent.UnixNano()
	}
	report, err := g.Resume(ctx, req)
	took := time.Since(sent) - time.Duration(report.Milliseconds()*float64(time.Millisecond))
	for range clockTries {
		if err != nil || took < 2*clockLate { // there and back
			break
		}
		sent = time.Now()
		_, err = g.Resume(ctx, guestproto.ResumeRequest{WallClockNS: sent.UnixNano(), Clock: guestproto.ClockStep})
		took = time.Since(sent)
	}
	return report, err
}

// keepTime turns the clock of a running guest to the host's once a minute: the
// frequency that it was told of is only nearly right.
func (p *process) keepTime(m vmm.Machine) {
	ticker := time.NewTicker(slewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-m.Done():
			return
		case <-ticker.C:
		}
		if p.snapshot().Phase != PhaseRunning {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), slewTime)
		_, err := p.guest.Resume(ctx, guestproto.ResumeRequest{WallClockNS: time.Now().UnixNano(), Clock: guestproto.ClockSlew})
		cancel()
		if err != nil { // it is busy, or was stopped meanwhile
			p.log.Debug("slew the clock", logkey.Sandbox, p.spec.ID, logkey.Error, err)
		}
	}
}
