package guestproto

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestSessionCarriesBytesBothWays(t *testing.T) {
	guest, host := socketpair(t)
	echo(t, Accept(guest))
	c, err := Dial(deadline(t), host)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, maxPayload - 1, maxPayload, maxPayload + 1, MaxRecord, 100_000} {
		ask(t, c, strings.Repeat("x", n)+"end")
	}
}

func TestCutsAtRandomBytes(t *testing.T) {
	cuts := 1000
	if testing.Short() {
		cuts = 100
	}
	rng := rand.New(rand.NewPCG(1, 2))
	guest, p := newPump(t)
	echo(t, Accept(guest))
	for i := range cuts {
		zeros := longRun
		if i%20 == 0 {
			zeros = shortRun // the slow way out of a cut record
		}
		survives(t, p, zeros, fmt.Sprintf("cut %d", i))
		spoil(p.connect(t, rng.IntN(150_000)), zeros)
	}
	survives(t, p, shortRun, "the last")
}

// survives has a new host talk to the guest in whatever state that is.
func survives(t *testing.T, p *pump, zeros int, text string) {
	t.Helper()
	c, err := dial(deadline(t), p.connect(t, -1), zeros)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	ask(t, c, text)
	ask(t, c, strings.Repeat("y", 3000)+text)
}

// spoil uses a session until its host is cut.
func spoil(host net.Conn, zeros int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := dial(ctx, host, zeros)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
	}()
	data := make([]byte, 50_000)
	for err == nil {
		_, err = c.Write(data)
	}
	_ = c.Close()
	<-done
}

func TestStaleBytesBeforeTheSession(t *testing.T) {
	guest, host := socketpair(t)
	old := nonce{9, 9}
	var garbage bytes.Buffer
	w := recordWriter{w: &garbage}
	_, _ = w.write(&old, bytes.Repeat([]byte("stale"), 8_000))
	garbage.Write(helloMark)
	garbage.Write(ackMark)
	garbage.Write(garbage.Bytes()[:1234])
	for _, end := range []net.Conn{guest, host} {
		if _, err := end.Write(garbage.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	echo(t, Accept(guest))
	c, err := Dial(deadline(t), host)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, c, "hello")
}

func TestLateHelloOfTheSameSessionIsHarmless(t *testing.T) {
	guest, host := socketpair(t)
	echo(t, Accept(guest))
	c, err := dial(deadline(t), host, shortRun)
	if err != nil {
		t.Fatal(err)
	}
	for _, zeros := range []int{shortRun, longRun, 9, 12345} {
		if _, err := host.Write(hello(c.nonce, zeros)); err != nil {
			t.Fatal(err)
		}
		ask(t, c, fmt.Sprint("after a run of ", zeros))
	}
}

func TestACutRecordIsNeverDelivered(t *testing.T) {
	guest, p := newPump(t)
	l := Accept(guest)
	defer func() { _ = l.Close() }()
	first := p.connect(t, -1)
	go func() {
		n := nonce{1, 2, 3, 4, 5, 6, 7, 8}
		var b bytes.Buffer
		w := recordWriter{w: &b}
		_, _ = w.write(&n, bytes.Repeat([]byte("a"), 1000))
		_, _ = first.Write(hello(n, shortRun))
		_, _ = first.Write(b.Bytes()[:b.Len()-1]) // all but the last byte of the second tag
		_, _ = io.ReadFull(first, make([]byte, greetLen))
		go func() { _, _ = dial(context.Background(), p.connect(t, -1), longRun) }()
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 2000)); n != 0 || !errors.Is(err, ErrSessionEnded) {
		t.Fatalf("got %d bytes, %v; want none, %v", n, err, ErrSessionEnded)
	}
}

func TestCloseEndsTheOtherEnd(t *testing.T) {
	guest, host := socketpair(t)
	l := Accept(guest)
	port := NewPort(host)
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-accepted
	})
	mine, err := port.Dial(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	theirs := <-accepted
	_ = mine.Close()
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("guest read: got %v, want EOF", err)
	}
	if mine, err = port.Dial(deadline(t)); err != nil {
		t.Fatal(err)
	}
	theirs = <-accepted
	_ = theirs.Close()
	if _, err := mine.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("host read: got %v, want EOF", err)
	}
}

func TestPortReplacesItsSession(t *testing.T) {
	guest, host := socketpair(t)
	echo(t, Accept(guest))
	port := NewPort(host)
	for i := range 50 {
		c, err := port.Dial(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, fmt.Sprint("session ", i))
		if i%2 == 0 { // with a reader and half a record left behind
			go func() { _, _ = c.Read(make([]byte, 1)) }()
			_, _ = host.Write([]byte("half a rec"))
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	_, host := socketpair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, host); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the context's error", err)
	}
}

func TestReadDeadlineLosesNothing(t *testing.T) {
	guest, host := socketpair(t)
	echo(t, Accept(guest))
	c, err := Dial(deadline(t), host)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("got %v, want a deadline's error", err)
		}
		ask(t, c, strings.Repeat(fmt.Sprint(i), 1000))
	}
}

func TestHostRefusesABadRecord(t *testing.T) {
	guest, host := socketpair(t)
	l := Accept(guest)
	go func() {
		if _, err := l.Accept(); err == nil {
			_, _ = guest.Write(bytes.Repeat([]byte{7}, 100))
		}
	}()
	c, err := Dial(deadline(t), host)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Read(make([]byte, 10)); !errors.Is(err, ErrSessionEnded) {
			t.Fatalf("got %v, want %v", err, ErrSessionEnded)
		}
	}
}

// input is a pipe that holds some bytes and swallows what is written.
type input struct{ io.Reader }

func (input) Write(b []byte) (int, error) { return len(b), nil }
func (input) Close() error                { return nil }

func FuzzGuestStream(f *testing.F) {
	n := nonce{1, 2, 3, 4}
	var good bytes.Buffer
	good.Write(hello(n, 40))
	w := recordWriter{w: &good}
	_, _ = w.write(&n, []byte("payload"))
	good.Write(hello(n, shortRun))
	_, _ = w.write(&n, []byte("more"))
	good.Write(hello(nonce{5}, shortRun))
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:60])
	f.Fuzz(func(t *testing.T, b []byte) {
		l := Accept(input{bytes.NewReader(b)})
		total := 0
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			got, _ := io.ReadAll(c)
			total += len(got)
			_ = c.Close()
		}
		if total > len(b) {
			t.Fatalf("%d bytes came out of %d", total, len(b))
		}
	})
}

func FuzzHostStream(f *testing.F) {
	n := nonce{1, 2, 3, 4}
	var good bytes.Buffer
	w := recordWriter{w: &good}
	_, _ = w.write(&n, []byte("payload"))
	good.Write(greeting(ackMark, n))
	_, _ = w.write(&n, []byte("more"))
	f.Add(good.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newHostConn(input{bytes.NewReader(b)}, n)
		got, _ := io.ReadAll(c)
		if len(got) > len(b) {
			t.Fatalf("%d bytes came out of %d", len(got), len(b))
		}
	})
}
