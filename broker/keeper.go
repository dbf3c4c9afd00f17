package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/stream"
)

// remade counts how often each store was made anew, and remembers how far the streams had come. The zero value is ready.
type remade struct {
	mu      sync.Mutex
	times   map[string]int
	last    map[string]uint64
	full    map[string]float64
	unowned map[string]uint64
	birth   map[string]time.Time
	gone    []string
	hears   []chan struct{}
}

// strays notes how many messages nobody owns, and returns how many there were before.
func (r *remade) strays(name string, n uint64) (before uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unowned == nil {
		r.unowned = map[string]uint64{}
	}
	before, r.unowned[name] = r.unowned[name], n
	return before
}

func (r *remade) misses(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = names
}

// Gone returns the streams and buckets that were missing when Keep looked last, by the names that people know.
func (s *Streams) Gone() []string {
	if s.remade == nil {
		return nil
	}
	s.remade.mu.Lock()
	defer s.remade.mu.Unlock()
	return slices.Clone(s.remade.gone)
}

// born notes when the stream was created and reports whether that has changed.
func (r *remade) born(name string, info *jetstream.StreamInfo) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.birth == nil {
		r.birth = map[string]time.Time{}
	}
	old, known := r.birth[name]
	r.birth[name] = info.Created
	return known && !old.Equal(info.Created)
}

func (r *remade) filled(name string, full float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full == nil {
		r.full = map[string]float64{}
	}
	r.full[name] = full
}

// Full returns the used part of the room of each stream and bucket, by the name of its JetStream stream, 0 to 1, as Keep saw it last.
func (s *Streams) Full() map[string]float64 {
	if s.remade == nil {
		return nil
	}
	s.remade.mu.Lock()
	defer s.remade.mu.Unlock()
	return maps.Clone(s.remade.full)
}

func (r *remade) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		r.times = map[string]int{}
	}
	r.times[name]++
	for _, c := range r.hears {
		select {
		case c <- struct{}{}:
		default: // the receiver has not taken the last one yet
		}
	}
}

func (r *remade) saw(name string, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]uint64{}
	}
	r.last[name] = max(r.last[name], seq)
}

func (r *remade) seen(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[name]
}

// Remade is how often this process saw the JetStream stream of that name ("INGEST", "KV_WL_KEYS", "OBJ_WL_STATE") gone and made anew.
func (s *Streams) Remade(name string) int {
	if s.remade == nil {
		return 0
	}
	s.remade.mu.Lock()
	defer s.remade.mu.Unlock()
	return s.remade.times[name]
}

// RemadeChanged returns a channel that has a value whenever a Remade count rose, and a function that ends it.
func (s *Streams) RemadeChanged() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	if s.remade == nil {
		return c, func() {}
	}
	s.remade.mu.Lock()
	defer s.remade.mu.Unlock()
	s.remade.hears = append(s.remade.hears, c)
	return c, func() {
		s.remade.mu.Lock()
		defer s.remade.mu.Unlock()
		s.remade.hears = slices.DeleteFunc(s.remade.hears, func(o chan struct{}) bool { return o == c })
	}
}

// KeeperConfig configures Keep. The zero value works.
type KeeperConfig struct {
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Every is how often the server is asked what it has (default 1 s).
	Every time.Duration
	// Hold keeps the keeper from making anything while it does not return "": a server that could not read a stream's files has not lost
	// the stream.
	Hold func() string
}

// Keep makes streams, buckets and object stores anew within seconds after somebody deleted them, and logs it, until ctx ends. Every process
// that holds the streams should run it: the first one to see it makes them, and all of them notice.
func (s *Streams) Keep(ctx context.Context, cfg KeeperConfig) {
	if cfg.Every <= 0 {
		cfg.Every = time.Second
	}
	m := newKeeperMetrics(cfg.Registerer)
	stores := s.stores()
	for _, st := range stores {
		m.remade.WithLabelValues(st.name)
		m.fill.WithLabelValues(st.name)
		m.lost.WithLabelValues(st.name)
	}
	again := s.Conn.StatusChanged(nats.CONNECTED)
	defer s.Conn.RemoveStatusListener(again)
	tick := time.NewTicker(cfg.Every)
	defer tick.Stop()
	missing := map[string]int{} // rounds in a row
	made := map[string]time.Time{}
	for n := 0; ; n++ {
		if s.Conn.IsConnected() && (cfg.Hold == nil || cfg.Hold() == "") {
			s.keep(ctx, stores, missing, made, m)
			s.sight(ctx)
			for name, n := range s.watch.take() {
				m.lost.WithLabelValues(name).Add(float64(n))
			}
		}
		if n%5 == 0 && s.Conn.IsConnected() {
			s.measure(ctx, stores, made, m)
		}
		if n%600 == 2 && s.Conn.IsConnected() {
			s.tellUnowned(ctx, m)
		}
		select {
		case <-ctx.Done():
			if s.Conn.IsConnected() {
				s.sight(context.WithoutCancel(ctx)) // the last sighting should have all that was there when this process stopped
			}
			return
		case <-again:
		case <-tick.C:
		}
	}
}

// keep is one round: what is missing twice in a row is made.
func (s *Streams) keep(ctx context.Context, stores []store, missing map[string]int, made map[string]time.Time, m *keeperMetrics) {
	look, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	have, err := s.list(look)
	if err != nil || look.Err() != nil {
		return
	}
	var gone []string
	defer func() { s.remade.misses(gone) }()
	for _, st := range stores {
		if have[st.name] {
			missing[st.name] = 0
			continue
		}
		gone = append(gone, st.said)
		if missing[st.name]++; missing[st.name] < 2 {
			continue
		}
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := st.make(try)
		cancel()
		if err != nil && ctx.Err() == nil {
			if missing[st.name]%10 == 2 {
				s.log.Warn("trouble: "+st.said+" is gone and cannot be made anew yet", "err", err, "do", advice(err))
			}
			continue
		}
		missing[st.name] = 0
		s.log.Error(st.said+" was gone and is made anew", "lost", st.lost)
		m.remade.WithLabelValues(st.name).Inc()
		made[st.name] = time.Now() // by us: measure need not report its new time of creation
		s.remade.add(st.name)
	}
}

// measure keeps the fill of each store and the ends of the streams, and notices what another process made anew: then its time of creation
// has changed.
func (s *Streams) measure(ctx context.Context, stores []store, made map[string]time.Time, m *keeperMetrics) {
	for _, st := range stores {
		look, cancel := context.WithTimeout(ctx, 2*time.Second)
		js, err := s.JS.Stream(look, st.name)
		cancel()
		if err != nil {
			continue
		}
		info := js.CachedInfo()
		if st.name == stream.IngestStream || st.name == stream.RowsStream {
			s.remade.saw(st.name, info.State.LastSeq)
		}
		full := 0.0
		if info.Config.MaxBytes > 0 && !st.forgets {
			full = float64(info.State.Bytes) / float64(info.Config.MaxBytes)
		}
		m.fill.WithLabelValues(st.name).Set(full)
		s.remade.filled(st.name, full)
		if s.remade.born(st.name, info) {
			if at, ours := made[st.name]; ours && time.Since(at) < time.Minute {
				delete(made, st.name)
				continue
			}
			s.log.Error(st.said+" was gone and another process made it anew", "lost", st.lost)
			m.remade.WithLabelValues(st.name).Inc()
			s.remade.add(st.name)
		}
	}
}

// tellUnowned reports messages that nobody owns, each time that there are more.
func (s *Streams) tellUnowned(ctx context.Context, m *keeperMetrics) {
	look, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := s.FindUnowned(look)
	if err != nil {
		return
	}
	now := map[string]uint64{stream.IngestStream: 0, stream.RowsStream: 0}
	for _, u := range found {
		now[u.Stream] += u.Messages
	}
	for name, n := range now {
		m.unowned.WithLabelValues(name).Set(float64(n))
		if n > s.remade.strays(name, n) {
			s.log.Warn("trouble: stream "+name+" holds messages beside its partitions; nobody reads them and they take room", "messages", n,
				"first", first(found, name),
				"do", "look who put them there, then: nats stream purge "+name+" --subject SUBJECT")
		}
	}
}

func first(found []Unowned, name string) string {
	for _, u := range found {
		if u.Stream == name {
			return u.Subject
		}
	}
	return ""
}

type keeperMetrics struct {
	unowned *prometheus.GaugeVec
	remade  *prometheus.CounterVec
	fill    *prometheus.GaugeVec
	lost    *prometheus.CounterVec
}

func newKeeperMetrics(reg prometheus.Registerer) *keeperMetrics {
	m := &keeperMetrics{
		unowned: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "warpline", Subsystem: "broker", Name: "unowned_messages",
			Help: "Messages beside the partitions of a stream, which nobody reads."}, []string{"stream"}),
		remade: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "broker", Name: "remade_total",
			Help: "Streams and buckets of NATS that were gone and were made anew, by name."}, []string{"name"}),
		fill: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "warpline", Subsystem: "broker", Name: "fill_ratio",
			Help: "Used part of the room of each stream and bucket of NATS, by name, 0 to 1."}, []string{"name"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "broker", Name: "lost_messages_total",
			Help: "Messages that NATS had acknowledged and that are gone from the end of a stream or bucket, by name, at most."}, []string{"name"}),
	}
	if reg != nil {
		reg.MustRegister(m.remade, m.fill, m.unowned, m.lost)
	}
	return m
}
