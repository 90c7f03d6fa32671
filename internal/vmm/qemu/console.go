package qemu

import (
	"os"
	"sync"
)

// Names of the files a machine leaves in its folder.
const (
	ConsoleFile = "console.log"
	LogFile     = "vmm.log"
)

// consoleLimit bounds each of the two parts of a console log: what came first
// (the boot) and what came last. A guest may write without end.
const consoleLimit = 256 << 10

// console keeps the head of what is written in one file, and of the rest the
// latest part in the same file behind it, overwritten in place.
type console struct {
	mu      sync.Mutex
	file    *os.File
	written int64
}

func newConsole(path string) (*console, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &console{file: f}, nil
}

// Write never fails: a full disk must not stop the guest, and a log that is
// lost is better than a machine that is.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := len(p)
	for len(p) > 0 {
		n := int64(len(p))
		at, room := c.place()
		n = min(n, room)
		_, _ = c.file.WriteAt(p[:n], at)
		c.written += n
		p = p[n:]
	}
	return total, nil
}

// place says where the next byte goes and how many fit there.
func (c *console) place() (at, room int64) {
	if c.written < consoleLimit {
		return c.written, consoleLimit - c.written
	}
	tail := (c.written - consoleLimit) % consoleLimit
	return consoleLimit + tail, consoleLimit - tail
}

func (c *console) Close() error { return c.file.Close() }
