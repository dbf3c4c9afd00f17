package e2e_test

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// gate stands before ClickHouse's native port, and holds a statement of who connects through it: so that this one can be killed exactly
// there.
type gate struct {
	addr, to string
	mu       sync.Mutex
	at       *hold
	note     []byte
	noted    []string
}

// hold is where a gate closes: at the nth time that a text comes by, from 1. What came with the text then never arrives, or, where it is
// let through, its answer never does.
type hold struct {
	text    string
	nth     int
	through bool
	reached chan struct{} // is closed there
}

func newGate(t testing.TB, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", freeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	g := &gate{addr: l.Addr().String(), to: to}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(client)
		}
	}()
	return g
}

// closeAt makes the gate close there; nil leaves it open.
func (g *gate) closeAt(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = h
}

// notes makes the gate note from now on where a text comes by, with what follows it, and returns what it noted before.
func (g *gate) notes(text string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.noted
	g.note, g.noted = []byte(text), nil
	return was
}

func (g *gate) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.to)
	if err != nil {
		return
	}
	defer server.Close()
	var mute atomic.Bool
	go func() {
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if !mute.Load() {
				if _, failed := client.Write(buf[:n]); failed != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	buf, past := make([]byte, 64<<10), []byte(nil) // a text may come in two pieces
	for {
		n, err := client.Read(buf)
		switch closed, through := g.look(past, buf[:n]); {
		case closed && !through:
			io.Copy(io.Discard, client) // until it is killed
			return
		case closed:
			mute.Store(true)
		}
		past = slices.Clone(buf[max(0, n-100):n])
		if _, failed := server.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}

// look looks at what comes by, after what came before it, and reports whether the gate closes here.
func (g *gate) look(past, now []byte) (closed, through bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Concat(past, now)
	fresh := func(text []byte) int { return bytes.Count(all, text) - bytes.Count(past, text) }
	if g.note != nil && fresh(g.note) > 0 {
		from := all[bytes.LastIndex(all, g.note):]
		g.noted = append(g.noted, string(from[:min(len(from), 200)]))
	}
	h := g.at
	if h == nil || h.nth <= 0 {
		return false, false
	}
	n := fresh([]byte(h.text))
	if h.nth -= n; n == 0 || h.nth > 0 {
		return false, false
	}
	close(h.reached)
	return true, h.through
}
