//go:build vm

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"pandastack/api"
	"pandastack/test/harness"
)

// cutShort is a cell that says it has begun and then takes longer than any test.
const cutShort = "print('last words', flush=True)\nopen('/tmp/begun', 'w').close()\nimport time\ntime.sleep(600)"

// TestMachineKilledDuringRun kills either process of a sandbox under a cell. The
// call says what happened, and the other sandbox does not notice.
func TestMachineKilledDuringRun(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	other := s.NewSandbox(t).ID
	otherKernel := s.NewContext(t, other)
	s.Run(t, other, otherKernel, "x = 41")
	for _, c := range []struct {
		name, sentence string
		victim         func(*testing.T, string) harness.Process
	}{
		{"VMM", "killed", func(t *testing.T, id string) harness.Process { return s.VMM(t, id) }},
		{"shim", "the shim process", func(t *testing.T, id string) harness.Process { return s.Shim(t, id) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			box := s.NewSandbox(t).ID
			defer func() {
				s.Remove(t, box)
				assertOnly(t, s, other)
			}()
			kernel := s.NewContext(t, box)
			ran := make(chan error, 1)
			go func() {
				_, err := s.Execute(t.Context(), box, kernel, api.Execute{Code: cutShort})
				ran <- err
			}()
			s.AwaitFile(t, box, "/tmp/begun")
			kill(t, c.victim(t, box))
			assertFails(t, ran, c.sentence)
			assertFailed(t, s, box, c.sentence)
			if got := s.Text(t, other, otherKernel, "x + 1"); got != "42" {
				t.Errorf("the other sandbox's x + 1 is %s", got)
			}
		})
	}
}

func kill(t *testing.T, p harness.Process) {
	t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %v: %v", p, err)
	}
}

func assertFails(t *testing.T, ran <-chan error, sentence string) {
	t.Helper()
	select {
	case err := <-ran:
		assertRefused(t, err, api.CodeSandboxFailed, sentence)
	case <-time.After(soon):
		t.Fatal("the call does not end")
	}
}

// assertFailed wants a sandbox that says of itself why it failed.
func assertFailed(t *testing.T, s *harness.Server, box, sentence string) {
	t.Helper()
	harness.Await(t, soon, "the sandbox to be failed", func() error {
		got, err := s.Sandbox(t.Context(), box)
		if err != nil || got.Status != "failed" || !strings.Contains(got.Failure, sentence) {
			return fmt.Errorf("%s, %q (%v)", got.Status, got.Failure, err)
		}
		return nil
	})
}

// sdkProgram runs the cell and prints, as JSON, how it was told of the end.
const sdkProgram = `
import json, sys
from pandastack import Sandbox, SandboxFailed
sandbox = Sandbox.create()
context = sandbox.create_code_context()
print(sandbox.id, flush=True)
try:
    context.run_code(sys.argv[1])
except SandboxFailed as error:
    print(json.dumps({"code": error.code, "message": error.message, "text": str(error), "detail": error.detail}))
sandbox.kill()
`

// TestMachineKilledAsThePythonSDKSeesIt does the same through the Python SDK.
func TestMachineKilledAsThePythonSDKSeesIt(t *testing.T) {
	s := harness.Start(t, harness.NewDir(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, sdkPython(t), "-c", sdkProgram, cutShort)
	cmd.Env = append(os.Environ(), "PANDASTACK_API="+s.URL, "PANDASTACK_API_KEY="+s.Key)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	box := lines.Text()
	if box != "" {
		s.AwaitFile(t, box, "/tmp/begun")
		kill(t, s.VMM(t, box))
	}
	lines.Scan()
	said := lines.Bytes()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the SDK's program: %v\n%s", err, stderr.String())
	}
	var told struct {
		Code, Message, Text string
		Detail              map[string]any
	}
	if err := json.Unmarshal(said, &told); err != nil {
		t.Fatalf("the SDK raised no SandboxFailed: %q (%v)", said, err)
	}
	const sentence = "killed"
	if told.Code != api.CodeSandboxFailed || !strings.Contains(told.Message, sentence) || !strings.Contains(told.Text, sentence) {
		t.Errorf("the SDK said %+v, want %q", told, sentence)
	}
	if told.Detail["stdout"] != "last words\n" {
		t.Errorf("what the cell had printed is not with the error: %v", told.Detail)
	}
	s.Clean(t)
}

// sdkPython is an interpreter with the SDK installed.
func sdkPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("PANDASTACK_TEST_SDK_PYTHON")
	if python == "" {
		t.Fatal("set PANDASTACK_TEST_SDK_PYTHON to a Python in which the SDK is installed")
	}
	return python
}
