package memimage

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample writes a layer of 600 pages: random, repeated and zero ones, with gaps.
func sample(t *testing.T) (path string, want []byte) {
	t.Helper()
	const size = 8 << 20
	want = make([]byte, size)
	path = filepath.Join(t.TempDir(), "layer")
	w, err := CreateLayer(path, Header{Size: size, Parent: "below"})
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(3); n < 1203; n += 2 {
		data := want[n*page : (n+1)*page]
		switch {
		case n%10 == 1: // zeros, where below there is something else
		case n%3 == 0:
			_, _ = rand.Read(data)
		default:
			copy(data, bytes.Repeat([]byte{byte(n), 7}, page/2))
		}
		if err := w.Add(n, data); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return path, want
}

type sink []byte

func (s sink) WriteAt(data []byte, at int64) (int, error) { return copy(s[at:], data), nil }

func apply(path string, memory []byte) error {
	l, err := OpenLayer(path)
	if err != nil {
		return err
	}
	defer l.Close()
	if l.Size != int64(len(memory)) {
		return damaged("it is for %d bytes", l.Size)
	}
	return l.Apply(sink(memory))
}

func TestLayerGivesBackEveryPageAndNoOther(t *testing.T) {
	path, want := sample(t)
	got := bytes.Repeat([]byte{0xee}, len(want))
	if err := apply(path, got); err != nil {
		t.Fatal(err)
	}
	for n := range len(want) / page {
		inLayer := n >= 3 && n < 1203 && n%2 == 1
		data := got[n*page : (n+1)*page]
		if inLayer && !bytes.Equal(data, want[n*page:(n+1)*page]) {
			t.Fatalf("page %d differs", n)
		}
		if !inLayer && !bytes.Equal(data, bytes.Repeat([]byte{0xee}, page)) {
			t.Fatalf("page %d was written, which the layer does not have", n)
		}
	}
	l, err := OpenLayer(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if has, same := l.Find(9, want[9*page:10*page]); !has || !same {
		t.Errorf("Find(9, its content) = %v, %v", has, same)
	}
	if has, same := l.Find(9, zeroPage[:]); !has || same {
		t.Errorf("Find(9, zeros) = %v, %v", has, same)
	}
	if has, _ := l.Find(4, zeroPage[:]); has {
		t.Error("Find(4) has a page that was not added")
	}
}

func TestDamagedLayersAreRefusedByName(t *testing.T) {
	path, _ := sample(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, data []byte) {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := apply(bad, make([]byte, 8<<20))
		if err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v, want an error that names the file", what, err)
		}
		if !errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "format") {
			t.Errorf("%s: %v, want ErrDamaged", what, err)
		}
	}
	for _, n := range []int{0, 1, 11, 40, len(good) / 2, len(good) - 60, len(good) - 1} {
		check("truncated", good[:n])
	}
	check("longer", append(bytes.Clone(good), 0))
	for at := 0; at < len(good); at += len(good)/300 + 1 {
		flipped := bytes.Clone(good)
		flipped[at] ^= 0x40
		check("flipped", flipped)
	}
}

func TestAnAbortedLayerLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "layer")
	w, err := CreateLayer(path, Header{Size: 4 * page})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(2, zeroPage[:]); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{2, 1, 4} {
		if err := w.Add(n, zeroPage[:]); err == nil {
			t.Errorf("Add(%d) after page 2 of 4 was taken", n)
		}
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func FuzzOpenLayer(f *testing.F) {
	path := filepath.Join(f.TempDir(), "layer")
	w, err := CreateLayer(path, Header{Size: 8 * page})
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(w.Add(1, bytes.Repeat([]byte{1}, page)), w.Add(2, zeroPage[:])); err != nil {
		f.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		bad := filepath.Join(t.TempDir(), "layer")
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = apply(bad, make([]byte, 8*page))
	})
}

// BenchmarkLayerWriter writes 80 MB of pages, of which half can be packed.
func BenchmarkLayerWriter(b *testing.B) {
	const pages = 20_000
	memory := make([]byte, pages*page)
	for n := range pages {
		data := memory[n*page:][:page]
		if n%2 == 0 {
			_, _ = rand.Read(data)
		} else {
			copy(data, bytes.Repeat([]byte{byte(n), 7, byte(n >> 8), 9}, page/4))
		}
	}
	b.SetBytes(int64(len(memory)))
	dir := b.TempDir()
	for b.Loop() {
		path := filepath.Join(dir, "layer")
		w, err := CreateLayer(path, Header{Size: int64(len(memory))})
		if err != nil {
			b.Fatal(err)
		}
		w.Fleeting = true // how fast the disk is does not matter here
		for n := range int64(pages) {
			if err := w.Add(n, memory[n*page:][:page]); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Finish(); err != nil {
			b.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
}
