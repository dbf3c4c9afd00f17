package sink

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/warpline/warpline/broker"
)

// watchDamage looks whether the NATS server says that it has lost something of Warpline's streams and buckets. The server says it only
// until it is started again, so it is recorded for the audit when it is first seen.
func (k *Sink) watchDamage(ctx context.Context) {
	now := map[string]string{}
	for _, name := range auditedStreams() {
		ask, cancel := context.WithTimeout(ctx, natsTimeout)
		said, bytes, harmless, err := lostIn(ask, k.s, name)
		cancel()
		if err != nil || said == "" {
			continue
		}
		now[name] = said
		k.mu.Lock()
		known := k.damage[name] == said
		k.mu.Unlock()
		if known {
			continue
		}
		if harmless != "" {
			if k.torn[name] != said {
				k.log.Warn(harmless+": "+said, "stream", name)
				k.torn[name] = said
			}
			delete(now, name)
			continue
		}
		k.log.Error("a stream is damaged, and what was accepted and not yet in ClickHouse may be lost: "+said, "stream", name)
		st, err := k.s.JS.Stream(ctx, name)
		if err != nil {
			continue
		}
		state := st.CachedInfo().State
		k.find(broker.FindingDamaged, name, -1, bytes, broker.Place{First: state.FirstSeq, Last: state.LastSeq,
			Detail: said + "; the stream has messages of " + state.FirstTime.UTC().Format("2006-01-02 15:04:05") +
				" to " + state.LastTime.UTC().Format("2006-01-02 15:04:05") + " UTC left"})
	}
	k.mu.Lock()
	k.damage = now
	k.mu.Unlock()
	k.met.damaged.Set(float64(len(now)))
}

// damagedLine is what the NATS server says it has lost, in one line, "" when nothing.
func (k *Sink) damagedLine() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(k.damage)) {
		parts = append(parts, name+": "+k.damage[name])
	}
	return strings.Join(parts, "; ")
}
