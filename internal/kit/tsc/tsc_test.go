package tsc

import (
	"testing"
	"time"
)

func TestKHzIsPlausibleAndStable(t *testing.T) {
	a, b := KHz(20*time.Millisecond), KHz(20*time.Millisecond)
	if a < 500_000 || a > 10_000_000 {
		t.Fatalf("KHz = %d, want a frequency between 0.5 and 10 GHz", a)
	}
	if diff := float64(a-b) / float64(a); diff > 1e-3 || diff < -1e-3 {
		t.Errorf("two measurements differ by %.0f ppm: %d and %d", diff*1e6, a, b)
	}
}
