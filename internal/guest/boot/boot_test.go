package boot

import "testing"

func TestParameters(t *testing.T) {
	got := parameters("console=ttyS0 pandastack.log=debug quiet pandastack.flag pandastack.a=b=c\n")
	if len(got) != 3 || got["log"] != "debug" || got["a"] != "b=c" || got["flag"] != "" {
		t.Fatalf("got %v", got)
	}
}
