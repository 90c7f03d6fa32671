package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// hostMemory is what the host has available without swapping, in bytes.
func hostMemory() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kB int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kB); err == nil {
			return kB << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo does not say what is available")
}
