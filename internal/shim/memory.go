package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"pandastack/internal/kit/failpoint"
	"pandastack/internal/memimage"
	"pandastack/internal/vmm"
)

// lowest is the sealed memory that a restored machine maps, for comparison.
type lowest []byte

func mapLowest(f *os.File, size int64) (lowest, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the template's memory: %w", err)
	}
	return m, nil
}

var zeros [memimage.Page]byte

// page gives a page's content; zeros where there is no memory below.
func (l lowest) page(number int64) []byte {
	if l == nil {
		return zeros[:]
	}
	return l[number*memimage.Page:][:memimage.Page]
}

// fill writes the layers into a machine whose state is not loaded yet.
func (p *process) fill(m vmm.Mapping) (err error) {
	if len(p.spec.Layers) == 0 {
		return nil
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", m.PID), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	parent := p.spec.Lowest
	for _, path := range p.spec.Layers {
		layer, err := memimage.OpenLayer(path)
		if err != nil {
			return err
		}
		if layer.Parent != parent || layer.Size != int64(m.Len) {
			err = fmt.Errorf("%s: it lies on %q of %d bytes, not on %q of %d: %w", path, layer.Parent, layer.Size, parent, m.Len, memimage.ErrDamaged)
		} else {
			err = layer.Apply(&at{mem, int64(m.Start)})
		}
		parent = layer.Digest
		if err := errors.Join(err, layer.Close()); err != nil {
			return err
		}
	}
	return nil
}

// at is a file from an offset on.
type at struct {
	*os.File
	start int64
}

func (a *at) WriteAt(data []byte, off int64) (int, error) { return a.File.WriteAt(data, a.start+off) }
func (a *at) ReadAt(data []byte, off int64) (int, error)  { return a.File.ReadAt(data, a.start+off) }

// keepBase makes the lowest layer that a machine was started from the base of
// its captures.
func (p *process) keepBase() error {
	if len(p.spec.Layers) == 0 {
		return nil
	}
	return p.adoptBase(p.spec.Layers[0])
}

// adoptBase links a layer into the run folder, so that it stays as long as the
// machine does.
func (p *process) adoptBase(path string) error {
	mine := p.basePath()
	next := mine + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Link(path, next); err != nil {
		return err
	}
	layer, err := memimage.OpenLayer(next)
	if err == nil {
		failpoint.Hit("rename")
		err = os.Rename(next, mine)
	}
	if err != nil { // the old base stays
		return errors.Join(err, os.Remove(next))
	}
	if p.base != nil {
		_ = p.base.Close()
	}
	p.base = layer
	return nil
}

// basePath is where the base lies.
func (p *process) basePath() string { return filepath.Join(p.spec.Dir, BaseLayer) }

// memory is what a stopped machine's memory differs by from what is below.
type memory struct {
	onBase bool    // below is the base, else the lowest memory
	pages  []int64 // ascending
	from   io.ReaderAt
	closer []io.Closer
}

func (m *memory) close() {
	for _, c := range m.closer {
		_ = c.Close()
	}
}

// changes compares the machine's own pages with what is below them. The machine
// stands still.
func (p *process) changes() (_ *memory, err error) {
	m := &memory{}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	candidates, err := p.candidates(m)
	if err != nil {
		return nil, err
	}
	whole, delta, err := p.compareAll(m.from, candidates)
	if err != nil {
		return nil, err
	}
	// A base of which more than half is outdated is merged with what came after it.
	m.onBase = p.base != nil && len(delta)*2 <= p.base.Pages()
	m.pages = whole
	if m.onBase {
		m.pages = delta
	}
	return m, nil
}

// compareAll is compare of all pages, on all processors.
func (p *process) compareAll(from io.ReaderAt, pages []int64) (whole, delta []int64, err error) {
	type part struct {
		whole, delta []int64
		err          error
	}
	parts := make([]part, runtime.GOMAXPROCS(0))
	var work sync.WaitGroup
	for i := range parts {
		mine := pages[i*len(pages)/len(parts) : (i+1)*len(pages)/len(parts)]
		work.Go(func() { parts[i].whole, parts[i].delta, parts[i].err = p.compare(from, mine) })
	}
	work.Wait()
	for _, q := range parts {
		whole, delta, err = append(whole, q.whole...), append(delta, q.delta...), errors.Join(err, q.err)
	}
	return whole, delta, err
}

// compare lists the pages that differ from the lowest memory, and those that differ
// from it with the base on it.
func (p *process) compare(from io.ReaderAt, pages []int64) (whole, delta []int64, err error) {
	err = readPages(from, pages, func(number int64, data []byte) error {
		differs := !bytes.Equal(data, p.lowest.page(number))
		if differs {
			whole = append(whole, number)
		}
		if p.base != nil {
			if has, same := p.base.Find(number, data); !same && (has || differs) {
				delta = append(delta, number)
			}
		}
		return nil
	})
	return whole, delta, err
}

// changed counts the pages that are the machine's own, while it runs: near enough.
func (p *process) changed(context.Context, struct{}) (total int64, err error) {
	p.acts.Lock()
	defer p.acts.Unlock()
	if p.snapshot().Phase == PhaseEnded || p.machine == nil {
		return 0, errNoMachine
	}
	var m memory
	defer m.close()
	pages, err := p.candidates(&m)
	return int64(len(pages)) * memimage.Page, err
}

// candidates lists the pages that may differ, and opens where to read them.
func (p *process) candidates(m *memory) (pages []int64, err error) {
	add := func(number int64) error { pages = append(pages, number); return nil }
	if p.memory != nil { // shared with a machine that booted, on no other memory
		m.from = p.memory
		err = memimage.DataPages(p.memory, add)
		return pages, err
	}
	mapping, err := p.machine.Memory()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", mapping.PID))
	if err != nil {
		return nil, err
	}
	m.from, m.closer = &at{f, int64(mapping.Start)}, append(m.closer, f)
	// The layers were written into the machine, so their pages are among its own.
	err = memimage.OwnPages(mapping.PID, mapping.Start, mapping.Len, add)
	return pages, err
}

// runPages is how many pages are read at once.
const runPages = 256

// readPages calls f with the content of each page; neighbours are read together.
func readPages(from io.ReaderAt, pages []int64, f func(number int64, data []byte) error) error {
	buf := make([]byte, runPages*memimage.Page)
	for len(pages) > 0 {
		n := 1
		for n < len(pages) && n < runPages && pages[n] == pages[n-1]+1 {
			n++
		}
		data := buf[:n*memimage.Page]
		if _, err := from.ReadAt(data, pages[0]*memimage.Page); err != nil {
			return fmt.Errorf("read memory at page %d: %w", pages[0], err)
		}
		for i, number := range pages[:n] {
			if err := f(number, data[i*memimage.Page:][:memimage.Page]); err != nil {
				return err
			}
		}
		pages = pages[n:]
	}
	return nil
}

// stage copies the pages, so that the machine may go on.
func (m *memory) stage() error {
	copied, err := memimage.New("pandastack-stage", int64(len(m.pages))*memimage.Page)
	if err != nil {
		return err
	}
	m.closer = append(m.closer, copied)
	var off int64
	err = readPages(m.from, m.pages, func(_ int64, data []byte) error {
		_, err := copied.WriteAt(data, off)
		off += int64(len(data))
		return err
	})
	m.from = &staged{copied, m.pages}
	return err
}

// each calls f with every page, ascending.
func (m *memory) each(f func(number int64, data []byte) error) error {
	if s, ok := m.from.(*staged); ok {
		return s.each(f)
	}
	return readPages(m.from, m.pages, f)
}

// staged are pages one after another in a file.
type staged struct {
	*os.File
	pages []int64
}

func (s *staged) each(f func(number int64, data []byte) error) error {
	packed := make([]int64, len(s.pages))
	for i := range packed {
		packed[i] = int64(i)
	}
	return readPages(s.File, packed, func(i int64, data []byte) error { return f(s.pages[i], data) })
}
