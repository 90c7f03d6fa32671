package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/memimage"
)

func TestFaultsCrossTheSocket(t *testing.T) {
	for _, cause := range []error{memimage.ErrDamaged, syscall.ENOSPC} {
		err := fmt.Errorf("capture: %w", cause)
		if got := withFault(err.Error(), faultOf(err)); !errors.Is(got, cause) || got.Error() != err.Error() {
			t.Errorf("%v came as %v", err, got)
		}
	}
	if got := withFault("other", faultOf(errors.New("other"))); got.Error() != "other" {
		t.Errorf("another error came as %v", got)
	}
}

func TestChecksumOfEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := make([]byte, 3<<20)
	seen := map[string]bool{}
	for _, at := range []int{0, 1 << 20, len(content) - 1} {
		content[at]++
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := Checksum(path)
		if err != nil || len(sum) != 8 || seen[sum] {
			t.Errorf("byte %d changed: %q, %v; seen %v", at, sum, err, seen)
		}
		seen[sum] = true
	}
}

// lateGuest takes its time before it hears of a resume.
type lateGuest struct {
	guestproto.Guest
	late []time.Duration // of one resume after another
	told []guestproto.ResumeRequest
}

func (g *lateGuest) Resume(_ context.Context, req guestproto.ResumeRequest) (guestproto.ResumeReport, error) {
	time.Sleep(g.late[0])
	g.late = g.late[1:]
	g.told = append(g.told, req)
	time.Sleep(time.Second) // of work, which says nothing about the clock
	return guestproto.ResumeReport{Steps: []guestproto.Step{{Name: fmt.Sprint(len(g.told)), MS: 1000}}}, nil
}

func TestTimeIsToldAgain(t *testing.T) {
	const quick, slow = time.Millisecond, 100 * time.Millisecond
	for want, late := range map[int][]time.Duration{
		1: {quick}, 2: {slow, quick}, clockTries: {slow, slow, slow, slow, slow},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &lateGuest{late: late}
			report, err := resume(t.Context(), g, guestproto.ResumeRequest{Reseed: true})
			if err != nil || len(g.told) != want || report.Steps[0].Name != "1" {
				t.Errorf("late by %v: told %d times, %+v, %v", late, len(g.told), report, err)
			}
			for i, req := range g.told {
				if req.WallClockNS == 0 || req.Reseed != (i == 0) {
					t.Errorf("resume %d was %+v", i, req)
				}
			}
		})
	}
}
