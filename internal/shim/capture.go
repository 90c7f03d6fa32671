package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"pandastack/internal/guestproto"
	"pandastack/internal/kit/clone"
	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/failpoint"
	"pandastack/internal/memimage"
)

// Files of a captured machine.
const (
	StateFile   = "state"        // device state
	DiskFile    = "disk.qcow2"   // overlay on the template's disk
	BaseLayer   = "memory.base"  // all pages that differ from the template's memory
	ChangeLayer = "memory.delta" // those that differ from the base; there may be none
)

// CaptureRequest says where to and how.
type CaptureRequest struct {
	// Dir is an empty folder on the run folder's file system.
	Dir string `json:"dir"`
	// Last is for a machine that will not go on: it stays stopped, and its disk is
	// linked and not copied. Otherwise the machine goes on as soon as its pages
	// are copied, and is resumed by Resume; one that was stopped stays so.
	Last   bool                     `json:"last"`
	Resume guestproto.ResumeRequest `json:"resume"`
	// Fleeting captures are used at once and need not outlive the host.
	Fleeting bool `json:"fleeting"`
}

// Capture is what was written.
type Capture struct {
	Layers       []string `json:"layers"`        // names in Dir, the lowest first
	MemoryBytes  int64    `json:"memory_bytes"`  // of the pages in all layers
	WrittenBytes int64    `json:"written_bytes"` // of the pages that this capture wrote, before compression
	DiskBytes    int64    `json:"disk_bytes"`
	// Sums are the checksums of StateFile and DiskFile; layers have their own.
	// Fleeting captures have none.
	Sums    map[string]string `json:"sums,omitempty"`
	PauseMS float64           `json:"pause_ms"` // how long the machine stood still
	TotalMS float64           `json:"total_ms"`
}

// capture is one capture under way.
type capture struct {
	p     *process
	req   CaptureRequest
	began time.Time
	out   Capture
}

func (p *process) capture(ctx context.Context, req CaptureRequest) (Capture, error) {
	p.acts.Lock()
	defer p.acts.Unlock()
	c := &capture{p: p, req: req, began: time.Now()}
	ran, err := p.halt(ctx)
	if err != nil {
		return c.out, err
	}
	err = c.take(ctx, ran)
	if err == nil { // a caller that is gone will not let the machine go on
		err = ctx.Err()
	}
	if err != nil {
		if ran {
			again, cancel := context.WithTimeout(context.WithoutCancel(ctx), goOnTime)
			defer cancel()
			_, failed := p.goOn(again, req.Resume)
			err = errors.Join(err, failed)
		}
		err = errors.Join(err, c.clear())
	}
	c.out.TotalMS = milliseconds(c.began)
	return c.out, err
}

// goOnTime bounds the agent's resume when nobody waits for it any more.
const goOnTime = 20 * time.Second

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since).Microseconds()) / 1000
}

// clear removes what was written.
func (c *capture) clear() error {
	var errs []error
	for _, name := range []string{StateFile, DiskFile, BaseLayer, ChangeLayer} {
		if err := os.Remove(c.path(name)); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (c *capture) path(name string) string { return filepath.Join(c.req.Dir, name) }

// take writes the stopped machine, and lets it go on as soon as it can.
func (c *capture) take(ctx context.Context, ran bool) error {
	state, err := c.p.writeState(ctx, c.path(StateFile))
	if err != nil {
		return err
	}
	defer state.Close()
	if err := c.disk(); err != nil {
		return fmt.Errorf("copy the disk: %w", err)
	}
	memory, err := c.p.changes()
	if err != nil {
		return fmt.Errorf("look for changed memory: %w", err)
	}
	defer memory.close()
	if ran && !c.req.Last {
		if err := memory.stage(); err != nil {
			return fmt.Errorf("copy the memory: %w", err)
		}
		c.out.PauseMS = milliseconds(c.began)
		if _, err := c.p.goOn(ctx, c.req.Resume); err != nil {
			return fmt.Errorf("let the machine go on: %w", err)
		}
	}
	if err := c.memory(ctx, memory); err != nil {
		return err
	}
	if c.out.PauseMS == 0 {
		c.out.PauseMS = milliseconds(c.began)
	}
	if c.req.Fleeting {
		return nil
	}
	return c.keep(state)
}

// keep makes what was written durable, and notes its checksums.
func (c *capture) keep(state *os.File) error {
	c.out.Sums = map[string]string{}
	for _, name := range []string{StateFile, DiskFile} {
		sum, err := Checksum(c.path(name))
		if err != nil {
			return err
		}
		c.out.Sums[name] = sum
	}
	failpoint.Hit("fsync")
	errs := []error{state.Sync(), durable.SyncDir(c.path(DiskFile))}
	for _, name := range c.out.Layers { // the base may be of a fleeting capture
		errs = append(errs, durable.SyncDir(c.path(name)))
	}
	return errors.Join(append(errs, durable.SyncDir(c.req.Dir))...)
}

func (c *capture) disk() error {
	from := c.p.spec.Overlay
	if from == "" {
		return errors.New("a template's own disk is not to be captured")
	}
	share := clone.File
	if c.req.Last {
		share = os.Link
	}
	if err := share(from, c.path(DiskFile)); err != nil {
		return err
	}
	var err error
	c.out.DiskBytes, err = clone.Allocated(from)
	return err
}

// memory writes the layers, as long as somebody waits for them.
func (c *capture) memory(ctx context.Context, m *memory) error {
	name := BaseLayer
	header := memimage.Header{Size: int64(c.p.spec.MemoryMB) << 20, Parent: c.p.spec.Lowest}
	if m.onBase {
		if err := os.Link(c.p.basePath(), c.path(BaseLayer)); err != nil {
			return err
		}
		name, header.Parent = ChangeLayer, c.p.base.Digest
		c.out.Layers, c.out.MemoryBytes = []string{BaseLayer}, int64(c.p.base.Pages())*memimage.Page
	}
	w, err := memimage.CreateLayer(c.path(name), header)
	if err != nil {
		return err
	}
	w.Fleeting = c.req.Fleeting
	err = m.each(func(number int64, data []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return w.Add(number, data)
	})
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	c.out.Layers = append(c.out.Layers, name)
	c.out.WrittenBytes = int64(w.Pages()) * memimage.Page
	c.out.MemoryBytes += c.out.WrittenBytes
	if _, err := w.Finish(); err != nil {
		return err
	}
	if name == BaseLayer && !c.req.Last && !c.req.Fleeting {
		return c.p.adoptBase(c.path(name))
	}
	return nil
}

// writeState gives the written file, still open for its fsync.
func (p *process) writeState(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := p.machine.SaveState(ctx, f); err != nil {
		return nil, errors.Join(err, fullDisk(f), f.Close())
	}
	return f, nil
}

// fullDisk gives ENOSPC if that is why a file could not be written, which a VMM does
// not say.
func fullDisk(f *os.File) error {
	if _, err := f.Write(make([]byte, 64<<10)); errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}
