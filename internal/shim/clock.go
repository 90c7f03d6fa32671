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
