// Package failpoint kills this process at a named point, so that a test can see
// what a crash there leaves behind. Unless it is armed it does nothing.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Env arms the processes of a server: ROLE/NAME or ROLE/NAME:NTH kills the process
// of that role at its NTH hit of NAME; trace=PATH appends every hit to a file
// instead, a line "PID ROLE/NAME".
const Env = "PANDASTACK_FAILPOINT"

// armed is what Hit does; nil is nothing.
var armed atomic.Pointer[func(name string)]

// Arm reads the value of Env for a process of a role. It comes before any Hit.
func Arm(role, spec string) {
	if spec == "" {
		return
	}
	act := countdown(role, spec)
	if path, ok := strings.CutPrefix(spec, "trace="); ok {
		act = tracer(role, path)
	}
	armed.Store(&act)
}

// Hit is a point.
func Hit(name string) {
	if act := armed.Load(); act != nil {
		(*act)(name)
	}
}

func countdown(role, spec string) func(string) {
	point, text, _ := strings.Cut(spec, ":")
	nth, err := strconv.Atoi(text)
	if err != nil {
		nth = 1
	}
	var hits atomic.Int64
	return func(name string) {
		if role+"/"+name == point && hits.Add(1) == int64(nth) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it comes in a moment
		}
	}
}

func tracer(role, path string) func(string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", Env, err)) // a test that cannot run
	}
	return func(name string) { _, _ = fmt.Fprintf(f, "%d %s/%s\n", os.Getpid(), role, name) }
}
