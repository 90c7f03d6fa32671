//go:build vm

package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"strconv"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/test/harness"
)

// TestSnapshots is what hibernating, snapshots and forks keep, on one server.
func TestSnapshots(t *testing.T) {
	dir := harness.NewDir(t)
	s := harness.Start(t, dir)
	t.Run("TenCycles", func(t *testing.T) { tenCycles(t, s) })
	t.Run("RunningCell", func(t *testing.T) { runningCell(t, s) })
	t.Run("StreamingFiles", func(t *testing.T) { streamingFiles(t, s) })
	t.Run("Forks", func(t *testing.T) { eightForks(t, s) })
	t.Run("Clock", func(t *testing.T) { clocks(t, s) })
	t.Run("MachineKilled", func(t *testing.T) { bootsAfterKill(t, s) })
	t.Run("Paused", func(t *testing.T) { savedWhilePaused(t, s) })
	t.Run("Deleted", func(t *testing.T) { outlived(t, s) })
}

// session is a sandbox with a kernel.
type session struct {
	*harness.Server
	t           *testing.T
	box, kernel string
}

func newSession(t *testing.T, s *harness.Server) *session {
	t.Helper()
	box := s.NewSandbox(t).ID
	return &session{s, t, box, s.NewContext(t, box)}
}

func (p *session) text(code string) string {
	p.t.Helper()
	return p.Text(p.t, p.box, p.kernel, code)
}

func (p *session) is(want, code string) {
	p.t.Helper()
	if got := p.text(code); got != want {
		p.t.Errorf("%s is %s, want %s", code, got, want)
	}
}

func (p *session) run(code string) { p.t.Helper(); p.Run(p.t, p.box, p.kernel, code) }

// must is for an operation that is to succeed.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", codeOf(err), err)
		}
		return v
	}
}

// savedWhilePaused saves a machine that stands still, again and again. It goes on as it was, and so do its copies, with their disks.
func savedWhilePaused(t *testing.T, s *harness.Server) {
	p := newSession(t, s)
	p.run("import hashlib, os\ndata = os.urandom(8 << 20)\nwith open('/workspace/a', 'wb') as f: f.write(data); f.flush(); os.fsync(f.fileno())")
	const whole = "with open('/proc/sys/vm/drop_caches', 'w') as f: f.write('3')\nopen('/workspace/a', 'rb').read() == data"
	const written = "with open('/workspace/b', 'wb') as f: f.write(data[::-1]); f.flush(); os.fsync(f.fileno())\nopen('/workspace/b', 'rb').read() == data[::-1]"
	must(s.Pause(t.Context(), p.box))(t)
	first := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
	forked := must(s.ForkTree(t.Context(), p.box, 1))(t)
	last := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
	must(s.Resume(t.Context(), p.box))(t)
	for _, q := range []*session{p, {s, t, forked.Children[0].ID, p.kernel}, p.restored(first.ID), p.restored(last.ID)} {
		q.is("True", whole)
		q.is("True", written)
		s.Remove(t, q.box)
	}
	for _, id := range []string{first.ID, last.ID} {
		if err := s.DeleteSnapshot(t.Context(), id); err != nil {
			t.Errorf("delete the snapshot: %v", err)
		}
	}
}

// cycle puts the sandbox away and wakes it.
func (p *session) cycle() {
	p.t.Helper()
	if got := must(p.Hibernate(p.t.Context(), p.box))(p.t); got.Status != "hibernated" {
		p.t.Errorf("hibernated, it is %s", got.Status)
	}
	if got := must(p.Wake(p.t.Context(), p.box, ""))(p.t); got.Status != "running" || got.Start.Lost != "" {
		p.t.Errorf("woken, it is %s: %+v", got.Status, got.Start)
	}
}

// restored makes a session of a snapshot, whose kernel is the source's.
func (p *session) restored(snapshot string) *session {
	p.t.Helper()
	box := must(p.CreateSandbox(p.t.Context(), api.CreateSandbox{FromSnapshot: snapshot}))(p.t)
	return &session{p.Server, p.t, box.ID, p.kernel}
}

func wheel(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	const about = "panda_probe-1.0.dist-info"
	for _, f := range [][2]string{
		{"panda_probe.py", "ANSWER = 42\n"},
		{about + "/METADATA", "Metadata-Version: 2.1\nName: panda-probe\nVersion: 1.0\n"},
		{about + "/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{about + "/RECORD", "panda_probe.py,,\n" + about + "/METADATA,,\n" + about + "/WHEEL,,\n" + about + "/RECORD,,\n"},
	} {
		part, err := w.Create(f[0])
		if err == nil {
			_, err = io.WriteString(part, f[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// beating is a process that goes on beside the kernel.
const beating = `
import subprocess, time
beat = subprocess.Popen("i=0; while true; do i=$((i+1)); echo $i > /tmp/beat.new; mv /tmp/beat.new /tmp/beat; sleep 0.05; done", shell=True)
seen, file = [], "/workspace/log"
def beats():
    before, end = open("/tmp/beat").read(), time.monotonic() + 60
    while open("/tmp/beat").read() == before and time.monotonic() < end: time.sleep(0.02)
    return beat.poll() is None and int(open("/tmp/beat").read()) > int(before)
while True:
    try: open("/tmp/beat"); break
    except FileNotFoundError: time.sleep(0.02)
`

// tenCycles changes, hibernates and wakes a sandbox; an older snapshot has what was
// when it was taken.
func tenCycles(t *testing.T, s *harness.Server) {
	p := newSession(t, s)
	defer s.Remove(t, p.box)
	if err := s.WriteFile(t.Context(), p.box, "/workspace/panda_probe-1.0-py3-none-any.whl", bytes.NewReader(wheel(t))); err != nil {
		t.Fatal(err)
	}
	p.run("%pip install --no-index /workspace/panda_probe-1.0-py3-none-any.whl")
	p.run(beating)
	const then = 3
	want, old := []string{}, ""
	for i := range 10 {
		want = append(want, strconv.Itoa(i))
		p.run(fmt.Sprintf("seen.append(%d); big = bytes([%d]) * 3_000_000\nopen(file, 'a').write('%d\\n')", i, i, i))
		if i == then {
			old = must(s.TakeSnapshot(t.Context(), p.box, "old"))(t).ID
		}
		p.cycle()
		p.has(want)
	}
	before := must(s.Snapshots(t.Context()))(t)
	q := p.restored(old)
	q.has(want[:then+1])
	q.run("seen.append('other'); open(file, 'a').write('other\\n')")
	q.cycle()
	s.Remove(t, q.box)
	again := p.restored("old") // by its name
	again.has(want[:then+1])
	s.Remove(t, again.box)
	if after := must(s.Snapshots(t.Context()))(t); len(after) != 1 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the snapshot was %+v and is %+v", before, after)
	}
	if err := s.DeleteSnapshot(t.Context(), old); err != nil {
		t.Errorf("delete the snapshot: %v", err)
	}
}

// has wants what was seen so far, in memory and on disk, and all that goes on.
func (p *session) has(seen []string) {
	p.t.Helper()
	last := seen[len(seen)-1]
	p.is("True", fmt.Sprintf("seen == [%s] and big == bytes([%s]) * 3_000_000", strings.Join(seen, ", "), last))
	p.is("True", fmt.Sprintf("open(file).read().split() == %q.split()", strings.Join(seen, " ")))
	p.is("42", "import importlib, panda_probe; importlib.reload(panda_probe).ANSWER")
	p.is("True", "beats()")
}

// runningCell takes a snapshot and hibernates under a cell, which goes on in both.
func runningCell(t *testing.T, s *harness.Server) {
	p := newSession(t, s)
	defer s.Remove(t, p.box)
	cell := api.Execute{ID: "the-cell", Code: "import time\nopen('/tmp/begun', 'w').close()\nfor n in range(60):\n    print(n, flush=True)\n    time.sleep(0.1)\n'end'"}
	ran := make(chan error, 1)
	go func() {
		_, err := s.Execute(t.Context(), p.box, p.kernel, cell)
		ran <- err
	}()
	s.AwaitFile(t, p.box, "/tmp/begun")
	sn := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
	must(s.Hibernate(t.Context(), p.box))(t)
	assertRefused(t, <-ran, api.CodeSandboxHibernated, "during the call")
	clone := p.restored(sn.ID)
	want := ""
	for n := range 60 {
		want += fmt.Sprintln(n)
	}
	for name, q := range map[string]*session{"source": p, "clone": clone} {
		ex, err := s.Execute(t.Context(), q.box, q.kernel, cell) // the source wakes by itself
		if err != nil || ex.Status != "ok" || ex.Stdout != want || len(ex.Results) != 1 {
			t.Errorf("the cell in the %s: %s, stdout %q, %d results (%v)", name, ex.Status, ex.Stdout, len(ex.Results), err)
		}
		q.is("59", "n")
	}
	s.Remove(t, clone.box)
	if err := s.DeleteSnapshot(t.Context(), sn.ID); err != nil {
		t.Errorf("delete the snapshot: %v", err)
	}
}

// streamingFiles takes snapshots while files go both ways.
func streamingFiles(t *testing.T, s *harness.Server) {
	p := newSession(t, s)
	defer s.Remove(t, p.box)
	content := make([]byte, 48<<20)
	rand.New(rand.NewSource(1)).Read(content)
	snapshots := func(during string, done <-chan error) {
		taken := 0
		for {
			select {
			case err := <-done:
				if err != nil || taken == 0 {
					t.Errorf("the %s, with %d snapshots meanwhile: %v", during, taken, err)
				}
				return
			default:
			}
			sn := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
			taken++
			if err := s.DeleteSnapshot(t.Context(), sn.ID); err != nil {
				t.Errorf("delete the snapshot: %v", err)
			}
		}
	}
	sum := sha256.New()
	done := make(chan error, 1)
	go func() { done <- s.WriteFile(t.Context(), p.box, "/workspace/large", bytes.NewReader(content)) }()
	snapshots("upload", done)
	p.is("'"+fmt.Sprintf("%x", sha256.Sum256(content))+"'", "import hashlib; hashlib.sha256(open('/workspace/large', 'rb').read()).hexdigest()")
	go func() { done <- download(t.Context(), s, p.box, sum) }()
	snapshots("download", done)
	if got, want := fmt.Sprintf("%x", sum.Sum(nil)), fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
		t.Errorf("the file came back as %s, want %s", got, want)
	}
}

func download(ctx context.Context, s *harness.Server, box string, to io.Writer) error {
	body, err := s.ReadFile(ctx, box, "/workspace/large")
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(to, body)
	return err
}

// eightForks are equal but for what must differ.
func eightForks(t *testing.T, s *harness.Server) {
	box := must(s.CreateSandbox(t.Context(), api.CreateSandbox{Metadata: map[string]string{"team": "a"}, Env: map[string]string{"TOKEN": "t"}}))(t)
	p := &session{s, t, box.ID, s.NewContext(t, box.ID)}
	defer s.Remove(t, p.box)
	p.run("import random, numpy\nmine = random.Random(5); array = numpy.random.default_rng(6); first = (mine.random(), array.random())")
	p.Run(t, p.box, p.kernel, twinCell)
	jupyter := must(s.CreateContext(t.Context(), box.ID, api.CreateContext{Kernel: "ipykernel"}))(t).ID
	p.Run(t, p.box, jupyter, "import random, numpy; numpy.random.seed(7); random.random(), numpy.random.rand()")
	forked := must(s.ForkTree(t.Context(), p.box, 8))(t)
	all := []*session{p}
	for _, child := range forked.Children {
		if child.Metadata["team"] != "a" || child.ForkParentID != p.box || child.ForkTreeID != forked.TreeID || child.ID == p.box {
			t.Errorf("a child's record: %+v", child)
		}
		all = append(all, &session{s, t, child.ID, p.kernel})
		defer s.Remove(t, child.ID)
	}
	seen := map[string]string{} // by "what value"
	continued, drawn, seeded := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, q := range all {
		var has map[string]any
		if err := json.Unmarshal([]byte(s.Run(t, q.box, q.kernel, twinCell).Stdout), &has); err != nil {
			t.Fatal(err)
		}
		for what, value := range has {
			key := fmt.Sprint(what, " ", value)
			if other := seen[key]; other != "" {
				t.Errorf("%s in both %s and %s", key, other, q.box)
			}
			seen[key] = q.box
		}
		continued[q.text("(first, mine.random(), array.random())")] = true
		drawn[s.Text(t, q.box, jupyter, "random.random()")] = true
		seeded[s.Text(t, q.box, jupyter, "numpy.random.rand()")] = true
		q.is("'t'", "import os; os.environ['TOKEN']")
	}
	if len(continued) != 1 {
		t.Errorf("generators that the user seeded continue differently: %v", continued)
	}
	if len(drawn) != len(all) || len(seeded) != 1 {
		t.Errorf("ipykernel drew %v, and %v of what the user seeded", drawn, seeded)
	}
}

// bootsAfterKill loses a machine: the next call boots from the disk, and says so.
func bootsAfterKill(t *testing.T, s *harness.Server) {
	p := newSession(t, s)
	defer s.Remove(t, p.box)
	p.run("import os\nwith open('/workspace/kept', 'w') as f: f.write('kept'); f.flush(); os.fsync(f.fileno())\nos.sync()")
	hostname := p.text("open('/etc/machine-id').read(), os.uname().nodename")
	kill(t, s.VMM(t, p.box))
	assertStatus(t, s, p.box, "failed")
	_, err := s.Execute(t.Context(), p.box, p.kernel, api.Execute{Code: "1"})
	assertRefused(t, err, api.CodeContextNotFound, "")
	got := must(s.Sandbox(t.Context(), p.box))(t)
	if got.Status != "running" || got.Start.Kind != "booted" || got.Start.Lost != "memory" {
		t.Errorf("after the next call it is %s, %+v", got.Status, got.Start)
	}
	p.kernel = s.NewContext(t, p.box)
	p.is("'kept'", "open('/workspace/kept').read()")
	if now := p.text("import os; open('/etc/machine-id').read(), os.uname().nodename"); now != hostname {
		t.Errorf("it was %s and is %s", hostname, now)
	}
	p.cycle() // a machine that booted lies on no template's memory
	p.is("'kept'", "open('/workspace/kept').read()")
}

func assertStatus(t *testing.T, s *harness.Server, box, status string) {
	t.Helper()
	harness.Await(t, soon, "the sandbox to be "+status, func() error {
		if got, err := s.Sandbox(t.Context(), box); err != nil || got.Status != status {
			return fmt.Errorf("it is %s (%v)", got.Status, err)
		}
		return nil
	})
}

// outlived deletes a snapshot, and its template, below sandboxes that go on.
func outlived(t *testing.T, s *harness.Server) {
	p := newSession(t, s)
	p.run("x = 1")
	kept := must(s.TakeSnapshot(t.Context(), p.box, "kept"))(t)
	p.run("x = 2")
	gone := must(s.TakeSnapshot(t.Context(), p.box, "gone"))(t)
	s.Remove(t, p.box)
	q := p.restored(gone.ID)
	if err := s.DeleteSnapshot(t.Context(), gone.ID); err != nil {
		t.Errorf("delete the snapshot: %v", err)
	}
	harness.Program(t, s.Dir, soon, "template", "rm", "code-interpreter")
	harness.Program(t, s.Dir, soon, "template", "prune")
	q.is("2", "x")
	q.cycle()
	q.is("2", "x")
	s.Remove(t, q.box)
	harness.Program(t, s.Dir, soon, "template", "prune")
	r := p.restored(kept.ID)
	r.is("1", "x")
	s.Remove(t, r.box)
	if err := s.DeleteSnapshot(t.Context(), kept.ID); err != nil {
		t.Errorf("delete the snapshot: %v", err)
	}
	if out := harness.Program(t, s.Dir, soon, "template", "prune"); !strings.Contains(out, "removed warm/") {
		t.Errorf("nobody needs the template any more; prune says\n%s", out)
	}
}
