package guest_test

import (
	"strings"
	"testing"

	"pandastack/internal/guestproto"
)

func TestUseIsCountedFromWhereTheMachineBegan(t *testing.T) {
	a := start(t)
	before, err := a.Stats(deadline(t))
	if err != nil || before.Uptime <= 0 || before.CPUSeconds <= 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	if _, err := a.Resume(deadline(t), guestproto.ResumeRequest{MachineID: strings.Repeat("a", 32)}); err != nil {
		t.Fatal(err)
	}
	begun, err := a.Stats(deadline(t))
	if err != nil || begun.Uptime < 0 || begun.Uptime >= before.Uptime || begun.CPUSeconds < 0 || begun.CPUSeconds >= before.CPUSeconds {
		t.Errorf("before %+v, begun anew %+v, %v", before, begun, err)
	}
	if _, err := a.Resume(deadline(t), guestproto.ResumeRequest{}); err != nil {
		t.Fatal(err)
	}
	if later, err := a.Stats(deadline(t)); err != nil || later.Uptime < begun.Uptime || later.CPUSeconds < begun.CPUSeconds {
		t.Errorf("the same machine went on: %+v, %v, was %+v", later, err, begun)
	}
}
