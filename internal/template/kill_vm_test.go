//go:build vm

package template

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// childData, when set, makes this test program build the tiny template there and
// print the name of each step as it begins.
const childData = "PANDASTACK_TEST_CHILD_DATA"

func TestMain(m *testing.M) {
	if data := os.Getenv(childData); data != "" {
		if err := buildTiny(data); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func buildTiny(data string) error {
	b, err := New(Config{Data: data, Recipes: os.DirFS("testdata")})
	if err != nil {
		return err
	}
	src, err := b.load("tiny")
	if err != nil {
		return err
	}
	_, err = b.EnsureImage(context.Background(), src, func(p Progress) {
		switch {
		case p.Finished && p.Cached:
			fmt.Println("cached", p.Step)
		case !p.Finished && p.Elapsed == 0:
			fmt.Println("begin", p.Step)
		}
	})
	return err
}

// runChild builds in another process and kills it while step runs ("" lets it
// end). It returns the steps that were found done.
func runChild(t *testing.T, data, step string) (cached []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childData+"="+data)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, name, _ := strings.Cut(lines.Text(), " ")
		if what == "cached" {
			cached = append(cached, name)
		}
		if what == "begin" && name == step && step != "" {
			intoStep(t, data, step)
			killed = cmd.Process.Kill() == nil
		}
	}
	err = cmd.Wait()
	if step == "" && err != nil {
		t.Fatalf("build: %v\n%s", err, stderr.String())
	}
	if step != "" && !killed {
		t.Fatalf("step %s never began: %v\n%s", step, err, stderr.String())
	}
	return cached
}

// intoStep waits until the step has run a program, if it is one that does.
func intoStep(t *testing.T, data, step string) {
	t.Helper()
	within := map[string]time.Duration{"debootstrap": time.Minute, "packages": 20 * time.Second, "kernel": 10 * time.Second,
		"wheels": 10 * time.Second, "venv": 20 * time.Second, "caches": 10 * time.Second, "image": 10 * time.Second}
	say := map[string]string{"packages": "Get:", "debootstrap": "extracting archives", "venv": "-m pip"}
	await(within[step], func() bool {
		logs, err := filepath.Glob(filepath.Join(data, "tmp", "build-*", step+".log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, log := range logs {
			if text, err := os.ReadFile(log); err == nil && len(text) > 0 && strings.Contains(string(text), say[step]) {
				return true
			}
		}
		return false
	})
}

// await looks until done or for at most the given time, and says whether it was.
func await(atMost time.Duration, done func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(atMost); time.Now().Before(deadline); <-tick.C {
		if done() {
			return true
		}
	}
	return false
}

// assertUnfinished fails if anything looks like a finished image or if a
// process of the build is left.
func assertUnfinished(t *testing.T, data, step string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(data, "images"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "by-recipe" {
			t.Errorf("killed in %s: image %s looks finished", step, e.Name())
		}
	}
	waitGone(t, data, step)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), data) {
		t.Errorf("killed in %s: a mount is left", step)
	}
}

// waitGone waits until the kernel has ended what the killed build started.
func waitGone(t *testing.T, data, step string) {
	t.Helper()
	var left []string
	gone := await(10*time.Second, func() bool {
		left = processesOf(data)
		return len(left) == 0
	})
	if !gone {
		t.Errorf("killed in %s: left %v", step, left)
	}
}

// processesOf lists processes that work in or on the folder.
func processesOf(data string) (left []string) {
	pids, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range pids {
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		root, _ := os.Readlink(filepath.Join(p, "root"))
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		if strings.Contains(string(cmdline)+root+cwd, data) {
			left = append(left, strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return left
}

// TestBuildKilledInEveryStep kills a build in the middle of each step in turn.
// Each next build takes over what was finished and nothing else.
func TestBuildKilledInEveryStep(t *testing.T) {
	data := t.TempDir()
	for i, s := range imageSteps {
		start := time.Now()
		cached := runChild(t, data, s.name)
		// The run before was killed in the step before this one.
		if want := max(0, i-1); len(cached) != want {
			t.Errorf("before %s, %d steps were taken over (%v); want %d", s.name, len(cached), cached, want)
		}
		assertUnfinished(t, data, s.name)
		t.Logf("killed in %s after %v", s.name, time.Since(start).Round(time.Millisecond))
	}
	runChild(t, data, "")
	b := testBuilder(t, Config{Data: data})
	img, err := b.findImage(tinySource(t))
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := hashFile(img.Base()); err != nil || sum != img.Manifest.SHA256 {
		t.Errorf("base.ext4 is %s, %v; its manifest says %s", sum, err, img.Manifest.SHA256)
	}
	assertImage(t, img)
	left, err := filepath.Glob(filepath.Join(data, "tmp", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in tmp: %v, %v", left, err)
	}
}

// assertImage looks into the file system with e2fsprogs: no mount is needed.
func assertImage(t *testing.T, img *Image) {
	t.Helper()
	if out, err := exec.Command("e2fsck", "-fn", img.Base()).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
	fi, err := os.Stat(img.Base())
	if err != nil || fi.Mode().Perm() != 0o600 || fi.Size()%(1<<20) != 0 {
		t.Errorf("base.ext4: %v, %v; want mode 0600 and whole MiB", fi, err)
	}
	for name, want := range map[string]string{
		"/usr/local/bin/hello":  "echo",
		"/etc/pandastack/env":   "GREETING=hello\n",
		"/etc/apt/sources.list": DefaultMirror,
	} {
		if got := debugfs(t, img, "cat "+name); !strings.Contains(got, want) {
			t.Errorf("%s is %q; want it to have %q", name, got, want)
		}
	}
	if got := debugfs(t, img, "stat /usr/local/bin/hello"); !strings.Contains(got, "Mode:  0755") {
		t.Errorf("hello: %s", got)
	}
	if got := debugfs(t, img, "ls /mnt"); strings.Contains(got, "wheels") {
		t.Error("the wheels are still in the image")
	}
	order, err := os.ReadFile(filepath.Join(img.Modules(), "order"))
	if err != nil || !strings.HasPrefix(string(order), "virtio_mmio.ko\nvirtio_blk.ko\n") {
		t.Errorf("modules/order is %q, %v", order, err)
	}
}

func debugfs(t *testing.T, img *Image, request string) string {
	t.Helper()
	out, err := exec.Command("debugfs", "-R", request, img.Base()).Output()
	if err != nil {
		t.Fatalf("debugfs %s: %v", request, err)
	}
	return string(out)
}

// TestFailedStepIsNamed asks a mirror that is not there.
func TestFailedStepIsNamed(t *testing.T) {
	b := testBuilder(t, Config{Mirror: "http://127.0.0.1:1/debian"})
	_, err := b.EnsureImage(t.Context(), tinySource(t), nil)
	var step *StepError
	if !errors.As(err, &step) {
		t.Fatalf("err = %v, want a StepError", err)
	}
	if step.Step != "packages" || !strings.Contains(err.Error(), "127.0.0.1") || !strings.Contains(err.Error(), "those in the cache are not used") {
		t.Errorf("err = %v; want the step packages and what apt said", err)
	}
	if _, err := os.Stat(step.Log); err != nil {
		t.Errorf("its log: %v", err)
	}
	if _, err := b.findImage(tinySource(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("findImage = %v, want ErrNotExist", err)
	}
}
