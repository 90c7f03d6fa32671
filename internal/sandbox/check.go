package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

const (
	longest    = 365 * 24 * time.Hour // of a time limit or a time to live
	maxPairs   = 256                  // of metadata or env
	maxPairLen = 32 << 10
)

func checkCreate(req api.CreateSandbox) error {
	err := errors.Join(checkWhole("ttl_seconds", req.TTLSeconds), checkWhole("idle_timeout_seconds", req.IdleTimeoutSeconds),
		checkOnTimeout(cmp.Or(req.OnTimeout, panda.OnTimeoutKill)))
	if err != nil {
		return err
	}
	if req.CPU < 0 || req.MemoryMB < 0 {
		return invalid("cpu", "and memory_mb must not be negative")
	}
	if err := checkPairs("metadata", req.Metadata); err != nil {
		return err
	}
	return checkEnv(req.Env)
}

func checkLifecycle(req api.SetLifecycle) error {
	for path, seconds := range map[string]*int{"ttl_seconds": req.TTLSeconds, "idle_timeout_seconds": req.IdleTimeoutSeconds} {
		if seconds != nil {
			if err := checkWhole(path, *seconds); err != nil {
				return err
			}
		}
	}
	if req.OnTimeout != nil {
		return checkOnTimeout(*req.OnTimeout)
	}
	return nil
}

func checkWhole(path string, seconds int) error {
	if seconds < 0 || float64(seconds) > longest.Seconds() {
		return invalid(path, fmt.Sprintf("must be from 0 to %.0f", longest.Seconds()))
	}
	return nil
}

func checkOnTimeout(what string) error {
	if what != panda.OnTimeoutKill && what != panda.OnTimeoutHibernate {
		return invalid("on_timeout", "must be kill or hibernate")
	}
	return nil
}

func checkPairs(path string, pairs map[string]string) error {
	if len(pairs) > maxPairs {
		return invalid(path, fmt.Sprintf("has %d entries; at most %d are taken", len(pairs), maxPairs))
	}
	for name, value := range pairs {
		if len(name)+len(value) > maxPairLen {
			return invalid(path, fmt.Sprintf("an entry has %d bytes; at most %d are taken", len(name)+len(value), maxPairLen))
		}
	}
	return nil
}

func checkEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return invalid("env", fmt.Sprintf("%.40q is no environment variable: a name is not empty and has no '=', neither name nor value a NUL", name))
		}
	}
	return checkPairs("env", env)
}

// checkSeconds gives a time limit in milliseconds; 0 is none.
func checkSeconds(seconds float64) (int64, error) {
	if !(seconds >= 0 && seconds <= longest.Seconds()) { // not a number is neither
		return 0, invalid("timeout_seconds", fmt.Sprintf("must be from 0 to %.0f", longest.Seconds()))
	}
	return int64(math.Ceil(seconds * 1000)), nil
}

// checkExecutionID takes what may stand in a path of the API.
func checkExecutionID(id string) error {
	ok := len(id) <= 64
	for _, c := range []byte(id) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	if !ok {
		return invalid("id", "must be 1 to 64 letters, digits, '-' and '_'")
	}
	return nil
}

func checkPath(path string) error {
	if path != "" && len(path) <= guestproto.MaxPath && !strings.ContainsRune(path, 0) {
		return nil
	}
	return &panda.Error{
		Code:    api.CodeFilePathInvalid,
		Message: fmt.Sprintf("a path has 1 to %d bytes and no NUL", guestproto.MaxPath),
	}
}

// merged gives the variables of both; those of the call win.
func merged(sandbox, call map[string]string) map[string]string {
	all := make(map[string]string, len(sandbox)+len(call))
	for name, value := range sandbox {
		all[name] = value
	}
	for name, value := range call {
		all[name] = value
	}
	return all
}
