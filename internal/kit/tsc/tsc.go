// Package tsc measures the host's time stamp counter. A guest that is told the
// frequency need not calibrate it against the emulated PIT, which fails at
// random under emulation and then hangs.
package tsc

import (
	"sort"
	"time"

	"golang.org/x/sys/unix"
)

func read() uint64

// KHz measures the counter's frequency against CLOCK_MONOTONIC_RAW over a few
// windows of the given length and gives their median, so that one preemption
// does not matter. Windows of 20 ms are good to some 10 ppm.
func KHz(window time.Duration) int {
	const windows = 5
	var got [windows]float64
	for i := range got {
		t0, c0 := sample()
		time.Sleep(window)
		t1, c1 := sample()
		got[i] = float64(c1-c0) * 1e6 / float64(t1-t0)
	}
	sort.Float64s(got[:])
	return int(got[windows/2] + 0.5)
}

// sample reads clock and counter as close together as it can get: the
// tightest of a few tries, so that no preemption falls between the two.
func sample() (ns int64, count uint64) {
	best := uint64(1 << 63)
	for range 8 {
		before := read()
		t := rawNow()
		after := read()
		if after-before < best {
			best, ns, count = after-before, t, before+(after-before)/2
		}
	}
	return ns, count
}

func rawNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
		panic("tsc: CLOCK_MONOTONIC_RAW: " + err.Error()) // every Linux has it
	}
	return ts.Nano()
}
