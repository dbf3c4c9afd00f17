package ingest

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// connections bounds how many connections a listener has open, because each costs a descriptor, and NATS's files and the spool need some
// too. New connections do not wait: when there are too many, those that have been idle longest are ended, of the origin that has most of
// them. A connection is idle while no request whose header is complete is being answered on it. Only when none is idle, or those that are
// belong to origins with fewer connections than the newcomer's, the new one is closed.
//
// A stream of HTTP/2 does not need a descriptor, but as much memory as a connection. So there may be as many streams, not counting the
// first of each connection, as there may be connections; one more is broken off.
type connections struct {
	net.Listener
	max    int
	now    prometheus.Gauge
	closed prometheus.Counter
	broken prometheus.Counter

	mu    sync.Mutex
	open  map[*connection]struct{}
	extra int // requests beside the first of their connection: streams of HTTP/2
}

// connection is one of them.
type connection struct {
	net.Conn
	all   *connections
	from  netip.Prefix
	idle  time.Time // since when; zero while a request is answered. all.mu is held
	busy  int       // requests that are being answered: with HTTP/2 several at once. all.mu is held
	ended bool      // all.mu is held
}

// descriptors is how many descriptors this process may have.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}

// maxConnections is the bound by default: half of the descriptors, less some. The other half is for the files of NATS and of bodies that
// are being received, one for each of Config.MaxRequests.
func maxConnections() int { return min(max(descriptors()/2-64, 32), 16384) }

// boundConnections bounds the connections of l. listener begins the names of its series, "" or "grpc_".
func boundConnections(l net.Listener, max int, reg prometheus.Registerer, listener string) *connections {
	c := &connections{Listener: l, max: max, open: map[*connection]struct{}{},
		now: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "warpline", Subsystem: "gateway",
			Name: listener + "connections",
			Help: "Open connections of clients."}),
		closed: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "gateway",
			Name: listener + "connections_closed_total",
			Help: "Connections that were ended because there were too many: idle ones, of the origin that had most."}),
		broken: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "gateway",
			Name: listener + "streams_broken_off_total",
			Help: "HTTP/2 streams that were broken off because as many were open as there may be connections."}),
	}
	if reg != nil {
		reg.MustRegister(c.now, c.closed, c.broken, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "warpline", Subsystem: "gateway", Name: listener + "connections_max",
			Help: "Most connections of clients at once, from the limit of descriptors."}, func() float64 { return float64(max) }))
	}
	return c
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	for {
		raw, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := &connection{Conn: raw, all: c, from: origin(raw.RemoteAddr()), idle: time.Now()}
		c.mu.Lock()
		room := len(c.open) < c.max
		var end []*connection
		if !room {
			end = c.longest(max(1, c.max/16), n.from)
			room = len(end) > 0
		}
		if room {
			c.open[n] = struct{}{}
			c.now.Set(float64(len(c.open)))
		}
		c.mu.Unlock()
		for _, old := range end {
			c.closed.Inc()
			old.Close()
		}
		if room {
			return n, nil
		}
		c.closed.Inc()
		raw.Close()
	}
}

// longest picks at most n idle connections: those beside which their origin has most others, busy ones and newer idle ones. It picks many
// at a time, so that in a flood not every new connection costs a look at all of them; but none of an origin that has far less than the
// first, and none for a newcomer whose origin has more. c.mu is held.
func (c *connections) longest(n int, newcomer netip.Prefix) (pick []*connection) {
	by, busy := map[netip.Prefix][]*connection{}, map[netip.Prefix]int{}
	for o := range c.open {
		if o.idle.IsZero() {
			busy[o.from]++
		} else if !o.ended {
			by[o.from] = append(by[o.from], o)
		}
	}
	type ranked struct {
		*connection
		others int
	}
	var all []ranked
	for from, of := range by {
		slices.SortFunc(of, func(a, b *connection) int { return a.idle.Compare(b.idle) })
		for i, o := range of {
			all = append(all, ranked{o, busy[from] + len(of) - 1 - i})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(b.others-a.others, a.idle.Compare(b.idle)) })
	own := busy[newcomer] + len(by[newcomer])
	for _, r := range all[:min(n, len(all))] {
		if 2*r.others < all[0].others || r.others < own && r.from != newcomer {
			break
		}
		r.ended = true
		pick = append(pick, r.connection)
	}
	return pick
}

// Close implements net.Conn.
func (n *connection) Close() error {
	n.all.mu.Lock()
	delete(n.all.open, n)
	n.all.now.Set(float64(len(n.all.open)))
	n.all.mu.Unlock()
	return n.Conn.Close()
}

// origin is for whom a connection counts: an IPv4 address, or the network that an IPv6 host may choose addresses from.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits)
	return p
}

type connectionKey struct{}

// context is for http.Server.ConnContext, so that busy finds the connection of a request.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if n, ok := conn.(*connection); ok {
		return context.WithValue(ctx, connectionKey{}, n)
	}
	return ctx
}

// busy keeps the connections of requests that are being answered.
func (c *connections) busy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			if !n.enter() {
				panic(http.ErrAbortHandler) // an answer could be left unread, and cost as much
			}
			defer n.leave()
		}
		next.ServeHTTP(w, r)
	})
}

// enter counts a request that is being answered, or reports that there are too many streams.
func (n *connection) enter() bool {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if n.busy > 0 {
		if n.all.extra >= n.all.max {
			n.all.broken.Inc()
			return false
		}
		n.all.extra++
	}
	n.busy++
	n.idle = time.Time{}
	return true
}

// leave ends what enter began. The connection is idle when no request is left.
func (n *connection) leave() {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if n.busy--; n.busy > 0 {
		n.all.extra--
		return
	}
	n.idle = time.Now()
}
