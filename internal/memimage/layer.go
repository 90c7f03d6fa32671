package memimage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/s2"
)

// A layer file holds the pages by which a memory differs from the one below it
// (docs/formats/memory-layer.md):
//
//	magic, header length, header (JSON), blocks (S2), index, footer
const (
	layerMagic   = "PANDAMEM"
	layerVersion = 1
	blockPages   = 256 // of one compressed block
	hashSize     = 16
	footerSize   = 8 + 8 + sha256.Size + len(layerMagic)
	maxHeader    = 4 << 10
	maxIndex     = 1 << 30
)

// Page is the size of what layers are made of.
const Page = page

// ErrDamaged says that a layer file is not what was written.
var ErrDamaged = errors.New("the file is damaged")

// Header says what a layer belongs to.
type Header struct {
	Version int    `json:"version"`
	Size    int64  `json:"size"`   // of the whole memory, in bytes
	Parent  string `json:"parent"` // name or digest of what it lies on; "" for zeros
}

type pageHash [hashSize]byte

func hashPage(data []byte) (h pageHash) {
	sum := sha256.Sum256(data)
	copy(h[:], sum[:])
	return h
}

var zeroHash = hashPage(zeroPage[:])

// entry is one page of the index.
type indexEntry struct {
	page int64
	hash pageHash
}

// block is where some pages of the index lie; zero pages lie nowhere.
type block struct {
	offset  int64
	length  uint32
	crc     uint32
	entries int // of the index, that follow those of the block before
}

// Layer is an opened layer file. Its methods may be called concurrently.
type Layer struct {
	Header
	Digest string // of header and index, which name every page's content

	path    string
	file    *os.File
	blocks  []block
	entries []indexEntry // by page
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenLayer opens a layer and verifies its header and index; its pages are
// verified as they are read. The error names the file.
func OpenLayer(path string) (_ *Layer, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &Layer{path: path, file: f}
	if err := l.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return l, nil
}

// Close closes the file.
func (l *Layer) Close() error { return l.file.Close() }

// Path is where the file lay when it was opened.
func (l *Layer) Path() string { return l.path }

// Pages says how many pages it has.
func (l *Layer) Pages() int { return len(l.entries) }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func (l *Layer) read() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	footer := make([]byte, footerSize)
	if info.Size() < int64(footerSize) {
		return damaged("it has %d bytes", info.Size())
	}
	if _, err := l.file.ReadAt(footer, info.Size()-int64(footerSize)); err != nil {
		return err
	}
	if string(footer[footerSize-len(layerMagic):]) != layerMagic {
		return damaged("its end is missing")
	}
	at, size := int64(binary.LittleEndian.Uint64(footer)), int64(binary.LittleEndian.Uint64(footer[8:]))
	if at < 0 || size < 0 || size > maxIndex || at != info.Size()-int64(footerSize)-size {
		return damaged("its index is out of place")
	}
	index := make([]byte, size)
	if _, err := l.file.ReadAt(index, at); err != nil {
		return damaged("its index is cut short")
	}
	head, start, err := l.readHeader()
	if err != nil {
		return err
	}
	sum := layerDigest(head, index)
	if !bytes.Equal(sum[:], footer[16:16+sha256.Size]) {
		return damaged("header or index have changed")
	}
	l.Digest = hex.EncodeToString(sum[:])
	return l.readIndex(index, start, at)
}

func layerDigest(head, index []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(head)
	h.Write(index)
	return [sha256.Size]byte(h.Sum(nil))
}

// readHeader gives the header's text and where the blocks begin.
func (l *Layer) readHeader() (text []byte, start int64, err error) {
	fixed := make([]byte, len(layerMagic)+4)
	if _, err := l.file.ReadAt(fixed, 0); err != nil || string(fixed[:len(layerMagic)]) != layerMagic {
		return nil, 0, damaged("it is no memory layer")
	}
	n := binary.LittleEndian.Uint32(fixed[len(layerMagic):])
	if n > maxHeader {
		return nil, 0, damaged("its header has %d bytes", n)
	}
	text = make([]byte, n)
	if _, err := l.file.ReadAt(text, int64(len(fixed))); err != nil {
		return nil, 0, damaged("its header is cut short")
	}
	if err := json.Unmarshal(text, &l.Header); err != nil {
		return nil, 0, damaged("its header: %v", err)
	}
	if l.Version != layerVersion {
		return nil, 0, fmt.Errorf("layer format %d is not known, only %d", l.Version, layerVersion)
	}
	return text, int64(len(fixed)) + int64(n), nil
}

// readIndex checks that everything lies where it may.
func (l *Layer) readIndex(index []byte, start, end int64) error {
	r := bytes.NewReader(index)
	var counts struct{ Blocks, Pages uint32 }
	if err := binary.Read(r, binary.LittleEndian, &counts); err != nil {
		return damaged("its index is cut short")
	}
	const blockSize, entrySize = 8 + 4 + 4 + 4, 4 + hashSize
	if int64(r.Len()) != int64(counts.Blocks)*blockSize+int64(counts.Pages)*entrySize {
		return damaged("its index has the wrong size")
	}
	rest := index[len(index)-r.Len():]
	total := 0
	for range counts.Blocks {
		b := block{
			offset: int64(binary.LittleEndian.Uint64(rest)), length: binary.LittleEndian.Uint32(rest[8:]),
			crc: binary.LittleEndian.Uint32(rest[12:]), entries: int(binary.LittleEndian.Uint32(rest[16:])),
		}
		rest = rest[blockSize:]
		if b.offset != start || b.offset+int64(b.length) > end || b.entries > blockPages {
			return damaged("a block is out of place")
		}
		start += int64(b.length)
		total += b.entries
		l.blocks = append(l.blocks, b)
	}
	l.entries = make([]indexEntry, counts.Pages)
	for i := range l.entries {
		e := &l.entries[i]
		e.page = int64(binary.LittleEndian.Uint32(rest))
		copy(e.hash[:], rest[4:])
		rest = rest[entrySize:]
		if e.page >= l.Size/page || i > 0 && e.page <= l.entries[i-1].page {
			return damaged("a page is out of place")
		}
	}
	if stored := l.stored(); start != end || total != stored {
		return damaged("%d pages are stored and %d named", total, stored)
	}
	return nil
}

// stored counts the pages that lie in blocks.
func (l *Layer) stored() (n int) {
	for _, e := range l.entries {
		if e.hash != zeroHash {
			n++
		}
	}
	return n
}

// Find gives whether the layer has a page and whether its content is data.
func (l *Layer) Find(number int64, data []byte) (has, same bool) {
	i, has := slices.BinarySearchFunc(l.entries, number, func(e indexEntry, n int64) int { return int(e.page - n) })
	return has, has && l.entries[i].hash == hashPage(data)
}

// Numbers calls f with every page's number, ascending.
func (l *Layer) Numbers(f func(number int64)) {
	for _, e := range l.entries {
		f(e.page)
	}
}

// Apply writes all pages to the memory w, neighbours in one call. Every block and
// every page is verified first.
func (l *Layer) Apply(w io.WriterAt) (err error) {
	rest := l.entries
	raw := make([]byte, blockPages*page)
	var packed []byte
	for _, b := range l.blocks {
		packed = slices.Grow(packed[:0], int(b.length))[:b.length]
		if _, err := l.file.ReadAt(packed, b.offset); err != nil {
			return fmt.Errorf("%s: %w", l.path, damaged("a block is cut short"))
		}
		if crc32.Checksum(packed, castagnoli) != b.crc {
			return fmt.Errorf("%s: %w", l.path, damaged("the block at %d has changed", b.offset))
		}
		if n, err := s2.DecodedLen(packed); err != nil || n != b.entries*page {
			return fmt.Errorf("%s: %w", l.path, damaged("the block at %d is of %d bytes", b.offset, n))
		}
		if raw, err = s2.Decode(raw[:cap(raw)], packed); err != nil {
			return fmt.Errorf("%s: %w", l.path, damaged("the block at %d does not unpack", b.offset))
		}
		var mine []indexEntry
		mine, rest = takeStored(rest, b.entries)
		if err := writeRuns(w, mine, raw); err != nil {
			return err
		}
	}
	return writeRuns(w, rest, nil) // zeros at the end
}

// takeStored splits off the entries up to the n-th that lies in a block.
func takeStored(entries []indexEntry, n int) (mine, rest []indexEntry) {
	for i, e := range entries {
		if n == 0 {
			return entries[:i], entries[i:]
		}
		if e.hash != zeroHash {
			n--
		}
	}
	return entries, nil
}

// writeRuns writes pages; raw has those that are not zero.
func writeRuns(w io.WriterAt, entries []indexEntry, raw []byte) error {
	for len(entries) > 0 {
		zero, n := entries[0].hash == zeroHash, 1
		for n < len(entries) && n < blockPages && entries[n].page == entries[n-1].page+1 && (entries[n].hash == zeroHash) == zero {
			n++
		}
		data := zeroBlock[:n*page]
		if !zero {
			data, raw = raw[:n*page], raw[n*page:]
		}
		if _, err := w.WriteAt(data, entries[0].page*page); err != nil {
			return fmt.Errorf("write memory at page %d: %w", entries[0].page, err)
		}
		entries = entries[n:]
	}
	return nil
}

var zeroBlock [blockPages * page]byte
