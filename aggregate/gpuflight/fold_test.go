package gpuflight

import (
	"strings"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/stream"
)

// newTestFlight returns a partition without an owner, and this source in it.
func newTestFlight(cfg aggregate.Config) (f *aggregate.Fold) {
	cfg.Sources = []aggregate.Source{Source()}
	return aggregate.NewFold(cfg)
}

const flightEpoch = int64(1795175929972803352)

// foldLines folds lines of session s of tenant t, one part a call.
func foldFlight(f *aggregate.Fold, seq int, lines ...string) {
	p := &aggregate.Part{Seq: uint64(seq), Now: time.Now().UnixNano(), Env: stream.Envelope{Tenant: "t", Session: "s",
		Kind: stream.KindGPUFlight, Source: "gpu-flight", Identity: "w", Part: seq,
		ReceivedAt: flightEpoch, RetentionDays: 7, RollupDays: 395}}
	f.Take(p, f.Session(p), []byte(strings.Join(lines, "\n")+"\n"))
}

// flightOf is what is kept of a session.
func flightOf(f *aggregate.Fold, s *aggregate.Session) *session {
	return f.State(s, "gpuflight").(*session)
}

// known returns a session of the partition.
func known(f *aggregate.Fold, tenant, id string) *aggregate.Session {
	return f.Sessions[aggregate.SessionKey{Tenant: tenant, ID: id}]
}
