package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// layout compares the copies of the streams with the servers that there are for them.
func (p *Patient) layout(ctx context.Context) (found, fix string, err error) {
	info, err := p.Streams.Ingest.Info(ctx)
	if err != nil {
		return "", "", err
	}
	servers := max(1, len(p.Streams.Conn.Servers()))
	copies := info.Config.Replicas
	found = fmt.Sprintf("%s, %s, copies of INGEST: %d on %s", english.Plural(p.Streams.Partitions, "partition", ""),
		english.Plural(p.Streams.Lanes, "lane", ""), copies, english.Plural(servers, "server", ""))
	if servers >= 3 && copies < 3 {
		fix = "accepted data is lost with one server: make the streams with --replicas 3, see docs/operate.md"
	}
	return found, fix, nil
}

func (p *Patient) maxPayload(context.Context) (found, fix string, err error) {
	n := p.Streams.Conn.MaxPayload()
	if n < stream.MaxPayloadBytes {
		fix = fmt.Sprintf("set max_payload of NATS to %d", stream.MaxPayloadBytes)
	}
	return humanize.IBytes(uint64(n)), fix, nil
}

// fullShare is the part of a store from which on it is told.
const fullShare = 0.8

// stores looks for streams, buckets and object stores that fill. The record of uploads forgets what is oldest, and may be full.
func (p *Patient) stores(ctx context.Context) (found, fix string, err error) {
	type fill struct {
		name  string
		share float64
	}
	var all []fill
	list := p.Streams.JS.ListStreams(ctx)
	for info := range list.Info() {
		if most := info.Config.MaxBytes; most > 0 && info.Config.Name != "KV_"+stream.WindowsBucket {
			all = append(all, fill{info.Config.Name, float64(info.State.Bytes) / float64(most)})
		}
	}
	if err := list.Err(); err != nil {
		return "", "", err
	}
	if len(all) == 0 {
		return "", "", fmt.Errorf("NATS lists no streams")
	}
	slices.SortFunc(all, func(a, b fill) int { return cmp.Compare(b.share, a.share) })
	var full []string
	for _, f := range all {
		if f.share >= fullShare {
			full = append(full, f.name)
		}
	}
	if len(full) > 0 {
		fix = "more than 80 % of " + strings.Join(full, ", ") + " is used: raise --ingest-max, --rows-max or --bucket-max"
	}
	return fmt.Sprintf("%d, the fullest is %s with %.0f %%", len(all), all[0].name, 100*all[0].share), fix, nil
}

// replayWindow says how far back INGEST and ROWS have what is settled, which is what can be folded or inserted again, and what is wrong
// where that was cut for lack of room.
func (p *Patient) replayWindow(ctx context.Context) (found, fix string, err error) {
	info, err := p.Streams.Ingest.Info(ctx)
	if err != nil {
		return "", "", err
	}
	share := float64(info.State.Bytes) / float64(max(info.Config.MaxBytes, 1))
	found = "INGEST is empty"
	if info.State.Msgs > 0 {
		found = fmt.Sprintf("the oldest of INGEST is %v old, and it is %.0f %% full", p.Now().Sub(info.State.FirstTime).Round(time.Second),
			100*share)
	}
	if share >= 0.5 {
		fix = "what can be folded again goes from half full on: raise --ingest-max, or see why rows do not reach ClickHouse"
	}
	windows, err := broker.ReadWindows(ctx, p.Streams.Marks)
	if err != nil {
		return "", "", err
	}
	for _, w := range windows {
		is, do := w.Words(p.Now())
		found += "; " + is
		if w.Broken(p.Now()) {
			fix = do
		}
	}
	return found, fix, nil
}

// maxSkew is how far clocks may be apart.
const maxSkew = 2 * time.Second

// clocks compares the clock of this machine with those of NATS and ClickHouse.
func (p *Patient) clocks(ctx context.Context) (found, fix string, err error) {
	var of []string
	compare := func(who string, ask func() (time.Time, error)) error {
		before := p.Now()
		theirs, err := ask()
		if err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
		after := p.Now()
		skew := time.Duration(0)
		switch {
		case theirs.Before(before):
			skew = before.Sub(theirs)
		case theirs.After(after):
			skew = theirs.Sub(after)
		}
		of = append(of, fmt.Sprintf("%s %v", who, skew.Round(time.Millisecond)))
		if skew > maxSkew {
			fix = "set the clocks of all machines with NTP: days, rates and retention follow them"
		}
		return nil
	}
	err = compare("NATS", func() (time.Time, error) {
		var info *jetstream.StreamInfo
		info, err := p.Streams.Ingest.Info(ctx)
		if err != nil {
			return time.Time{}, err
		}
		return info.TimeStamp, nil
	})
	if err == nil {
		err = compare("ClickHouse", func() (at time.Time, err error) {
			return at, p.Conn.QueryRow(ctx, "SELECT now64(9, 'UTC')").Scan(&at)
		})
	}
	return "off from here: " + strings.Join(of, ", "), fix, err
}
