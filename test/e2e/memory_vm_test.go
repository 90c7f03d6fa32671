//go:build vm

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pandastack/internal/memimage"
	"pandastack/internal/vmm"
	"pandastack/test/harness"
)

// TestSavedMemoryIsTheMachines compares what a snapshot of a standing machine wrote,
// materialised, with the machine's memory, byte for byte, while the host moves pages.
func TestSavedMemoryIsTheMachines(t *testing.T) {
	compact(t)
	s := harness.Start(t, harness.NewDir(t))
	p := newSession(t, s)
	for i := range 12 {
		p.run(fmt.Sprintf("junk = bytes([%d]) * %d; import gc; gc.collect()", i, (1+i%7)<<20))
		must(s.Pause(t.Context(), p.box))(t)
		sn := must(s.TakeSnapshot(t.Context(), p.box, ""))(t)
		if differ := comparePages(t, s, p.box, sn.ID); differ > 0 {
			t.Errorf("snapshot %d: %d pages differ", i, differ)
		}
		if err := s.DeleteSnapshot(t.Context(), sn.ID); err != nil {
			t.Fatal(err)
		}
		must(s.Resume(t.Context(), p.box))(t)
	}
}

// compact makes the kernel move pages about until the test ends. A page that is
// being moved looks swapped.
func compact(t *testing.T) {
	t.Helper()
	const path = "/proc/sys/vm/compact_memory"
	if _, err := os.Stat(path); err != nil {
		t.Logf("PAGES DO NOT MOVE HERE: %v", err)
		return
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := os.WriteFile(path, []byte("1"), 0); err != nil {
					t.Errorf("compact memory: %v", err)
					return
				}
			}
		}
	})
	t.Cleanup(func() { close(stop); group.Wait() })
}

func comparePages(t *testing.T, s *harness.Server, box, save string) (differ int) {
	t.Helper()
	dir := filepath.Join(s.Dir, "saves", save)
	var about struct {
		Lowest string   `json:"lowest"`
		Layers []string `json:"layers"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "save.json"))
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if err != nil || len(about.Layers) == 0 {
		t.Fatalf("save.json: %+v, %v", about, err)
	}
	saved := materialised(t, filepath.Join(s.Dir, "warm", about.Lowest, "memory.img"), dir, about.Layers)
	defer saved.Close()
	live, start, size := machineMemory(t, s.VMM(t, box).PID)
	defer live.Close()
	const chunk = 1 << 20
	a, b := make([]byte, chunk), make([]byte, chunk)
	for at := int64(0); at < size; at += chunk {
		if _, err := live.ReadAt(a, start+at); err != nil {
			t.Fatalf("the machine's memory at %d: %v", at, err)
		}
		if _, err := saved.ReadAt(b, at); err != nil {
			t.Fatalf("the saved memory at %d: %v", at, err)
		}
		for page := 0; page < chunk; page += memimage.Page {
			if !bytes.Equal(a[page:page+memimage.Page], b[page:page+memimage.Page]) {
				differ++
			}
		}
	}
	return differ
}

// materialised is a template's memory with layers over it, in a file without a name.
func materialised(t *testing.T, lowest, dir string, layers []string) *os.File {
	t.Helper()
	info, err := os.Stat(lowest)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := memimage.New("materialised", info.Size())
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(lowest)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	err = memimage.DataPages(from, func(number int64) error {
		var page [memimage.Page]byte
		if _, err := from.ReadAt(page[:], number*memimage.Page); err != nil && err != io.EOF {
			return err
		}
		_, err := mem.WriteAt(page[:], number*memimage.Page)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range layers {
		layer, err := memimage.OpenLayer(filepath.Join(dir, name))
		if err == nil {
			err = layer.Apply(mem)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = layer.Close()
	}
	return mem
}

// machineMemory opens a VMM's memory and says where the guest's begins.
func machineMemory(t *testing.T, pid int) (mem *os.File, start, size int64) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to int64
		if !strings.Contains(lines.Text(), "/memfd:"+vmm.MemoryName) {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); err == nil && to-from > size {
			start, size = from, to-from
		}
	}
	if mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err != nil || size == 0 {
		t.Fatalf("the guest's memory of process %d: %d bytes, %v", pid, size, err)
	}
	return mem, start, size
}
