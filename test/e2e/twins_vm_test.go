//go:build vm

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"pandastack/test/harness"
)

// twinCell prints what must differ between two copies of one machine.
const twinCell = `
import os, uuid, random, secrets, socket, ssl, subprocess, json, tempfile
import numpy as np
shell = lambda line: subprocess.run(line, shell=True, capture_output=True, text=True).stdout.strip()
print(json.dumps({
    "urandom": os.urandom(16).hex(), "uuid4": str(uuid.uuid4()), "uuid1": str(uuid.uuid1()), "random": random.random(),
    "numpy": float(np.random.rand()), "default_rng": float(np.random.default_rng().random()),
    "secrets": secrets.token_hex(16), "ssl": ssl.RAND_bytes(16).hex(), "tempfile": tempfile.mktemp(),
    "kernel uuid": open("/proc/sys/kernel/random/uuid").read(),
    "child's urandom": shell("od -An -N16 -tx1 /dev/urandom"), "child's random": shell("python3 -c 'import random; print(random.random())'"),
    "machine-id": open("/etc/machine-id").read(), "hostname": socket.gethostname(), "shell's hostname": shell("hostname"),
}))
`

// clockTolerance is design §4.5's second and what the call itself may take.
const clockTolerance = time.Second

func TestSandboxesOfOneTemplateAreNoTwins(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	var seen [2]map[string]any
	var boxes, kernels [2]string
	for i := range seen {
		boxes[i] = s.NewSandbox(t).ID
		kernels[i] = s.NewContext(t, boxes[i])
		assertClock(t, s, boxes[i], kernels[i])
		if err := json.Unmarshal([]byte(s.Run(t, boxes[i], kernels[i], twinCell).Stdout), &seen[i]); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range seen[0] {
		if value == "" || value == seen[1][name] {
			t.Errorf("%s is %v in both", name, value)
		}
	}

	idle := time.NewTimer(30 * time.Second)
	<-idle.C
	for i := range boxes {
		if got := s.Text(t, boxes[i], kernels[i], "1 + 1"); got != "2" {
			t.Errorf("after half a minute 1 + 1 is %s", got)
		}
		assertClock(t, s, boxes[i], kernels[i])
	}
}

// assertClock compares with the host's time in the middle of a call.
func assertClock(t *testing.T, s *harness.Server, box, kernel string) {
	t.Helper()
	var best, took float64 = math.Inf(1), 0
	for range 3 {
		var guest float64
		before := time.Now()
		if _, err := fmt.Sscan(s.Text(t, box, kernel, "import time; time.time()"), &guest); err != nil {
			t.Fatal(err)
		}
		took = time.Since(before).Seconds()
		middle := float64(before.UnixNano())/1e9 + took/2
		best = min(best, max(0, math.Abs(guest-middle)-took/2))
	}
	if best > clockTolerance.Seconds() {
		t.Errorf("the guest's clock is %.2f s off (the last call took %.2f s)", best, took)
	}
}
