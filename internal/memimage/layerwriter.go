package memimage

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"

	"github.com/klauspost/compress/s2"

	"pandastack/internal/kit/durable"
	"pandastack/internal/kit/failpoint"
)

// packers is how many blocks are compressed at once, or wait to be written.
const packers = 4

// LayerWriter writes a layer file. It is for one goroutine. What it has not
// finished it removes.
type LayerWriter struct {
	Header
	Fleeting bool // Finish need not make it durable

	path  string
	file  *os.File
	head  []byte
	at    int64
	ahead *durable.Ahead // of what is to be durable
	over  context.CancelFunc

	last    int64 // page
	raw     []byte
	pending []chan packed // blocks under way, the oldest first
	blocks  []block
	entries []indexEntry
	hashed  int // entries whose hash is known
}

type packed struct {
	data   []byte
	hashes []pageHash
}

// CreateLayer begins a new file at path.
func CreateLayer(path string, h Header) (_ *LayerWriter, err error) {
	h.Version = layerVersion
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := &LayerWriter{Header: h, path: path, file: f, head: head, last: -1, over: func() {}}
	fixed := binary.LittleEndian.AppendUint32([]byte(layerMagic), uint32(len(head)))
	if err := w.write(append(fixed, head...)); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

func (w *LayerWriter) write(data []byte) error {
	n, err := w.file.Write(data)
	w.at += int64(n)
	return err
}

// Add takes the next page; numbers ascend. data may be used again afterwards.
func (w *LayerWriter) Add(number int64, data []byte) error {
	if number <= w.last || (number+1)*page > w.Size || len(data) != page {
		return fmt.Errorf("page %d of %d bytes does not follow page %d of a memory of %d", number, len(data), w.last, w.Size)
	}
	w.last = number
	if bytes.Equal(data, zeroPage[:]) {
		w.entries = append(w.entries, indexEntry{number, zeroHash})
		return nil
	}
	w.entries = append(w.entries, indexEntry{page: number})
	w.raw = append(w.raw, data...)
	if len(w.raw) == blockPages*page {
		return w.pack()
	}
	return nil
}

// pack gives the collected pages to a packer of their own, and waits for the
// oldest where there are too many.
func (w *LayerWriter) pack() error {
	raw := w.raw
	w.raw = make([]byte, 0, blockPages*page)
	done := make(chan packed, 1)
	go func() { done <- packed{s2.Encode(nil, raw), hashPages(raw)} }()
	w.pending = append(w.pending, done)
	if len(w.pending) >= packers {
		return w.flush()
	}
	return nil
}

func hashPages(raw []byte) []pageHash {
	hashes := make([]pageHash, 0, blockPages)
	for data := range slices.Chunk(raw, page) {
		hashes = append(hashes, hashPage(data))
	}
	return hashes
}

// flush writes the oldest block.
func (w *LayerWriter) flush() error {
	p := <-w.pending[0]
	w.pending = w.pending[1:]
	for _, h := range p.hashes {
		for w.entries[w.hashed].hash == zeroHash {
			w.hashed++
		}
		w.entries[w.hashed].hash = h
		w.hashed++
	}
	w.blocks = append(w.blocks, block{w.at, uint32(len(p.data)), crc32.Checksum(p.data, castagnoli), len(p.hashes)})
	err := w.write(p.data)
	if !w.Fleeting {
		w.onDisk(len(p.data))
	}
	return err
}

// onDisk begins to make durable what was written, n bytes more.
func (w *LayerWriter) onDisk(n int) {
	if w.ahead == nil {
		var ctx context.Context
		ctx, w.over = context.WithCancel(context.Background())
		w.ahead = durable.NewAhead(ctx, w.path)
	}
	w.ahead.Came(n)
}

// Pages says how many there are so far.
func (w *LayerWriter) Pages() int { return len(w.entries) }

// Finish writes what is left, makes the file durable and closes it. On error the
// file is gone.
func (w *LayerWriter) Finish() (digest string, err error) {
	defer func() {
		w.over()
		if err != nil {
			err = errors.Join(err, w.Abort())
		}
	}()
	if len(w.raw) > 0 {
		if err := w.pack(); err != nil {
			return "", err
		}
	}
	for len(w.pending) > 0 {
		if err := w.flush(); err != nil {
			return "", err
		}
	}
	index := w.index()
	sum := layerDigest(w.head, index)
	foot := binary.LittleEndian.AppendUint64(nil, uint64(w.at))
	foot = binary.LittleEndian.AppendUint64(foot, uint64(len(index)))
	foot = append(append(foot, sum[:]...), layerMagic...)
	err = errors.Join(w.write(index), w.write(foot))
	if err == nil && !w.Fleeting {
		failpoint.Hit("fsync")
		err = w.file.Sync()
	}
	if err := errors.Join(err, w.file.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum[:]), nil
}

func (w *LayerWriter) index() []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(w.blocks)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(w.entries)))
	for _, b := range w.blocks {
		out = binary.LittleEndian.AppendUint64(out, uint64(b.offset))
		out = binary.LittleEndian.AppendUint32(out, b.length)
		out = binary.LittleEndian.AppendUint32(out, b.crc)
		out = binary.LittleEndian.AppendUint32(out, uint32(b.entries))
	}
	for _, e := range w.entries {
		out = binary.LittleEndian.AppendUint32(out, uint32(e.page))
		out = append(out, e.hash[:]...)
	}
	return out
}

// Abort removes the file.
func (w *LayerWriter) Abort() error {
	w.over()
	for _, p := range w.pending {
		<-p
	}
	w.pending = nil
	_ = w.file.Close() // perhaps closed already
	return os.Remove(w.path)
}
