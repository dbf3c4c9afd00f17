package gpuflight

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/stream"
)

// scopeParts makes parts of about 1 MiB of scopes: threads that each run train, step, forward, backward and their layers, in the order of
// time, in batches of 512 rows. n is how many scopes there are.
func scopeParts(scopes, threads int) (parts [][]byte, n int) {
	type row struct {
		at, inst, name, kind, depth, origin int
	}
	var rows []row
	inst, now := 0, 0
	var enter func(depth, thread int)
	enter = func(depth, thread int) {
		inst++
		id, name, from := inst, 1+depth*8+inst%(1+2*depth), now
		now += 700
		rows = append(rows, row{from, id, name, 0, depth, from})
		if depth < 3 {
			for range 4 {
				enter(depth+1, thread)
			}
		}
		now += 1100
		rows = append(rows, row{now, id, name, 1, depth, from})
		n++
	}
	for n < scopes {
		for t := range threads {
			now -= t * 900 // they overlap
			enter(0, t)
		}
	}
	var b bytes.Buffer
	for i := range 40 {
		fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"s","scope_name_dict":{"%d":"layer_%d.forward"}}`+"\n", i+1, i)
	}
	const base = 1795175929972803352
	for batch := 0; len(rows) > 0; batch++ {
		k := min(512, len(rows))
		fmt.Fprintf(&b, `{"version":3,"type":"scope_event_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
			`"scope_instance_id","name_id","event_type","depth","repeat","warmup","original_start_ns"],"rows":[`, batch, base)
		for i, r := range rows[:k] {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "[%d,%d,%d,%d,%d,0,0,%d]", r.at, r.inst, r.name, r.kind, r.depth, base+r.origin)
		}
		b.WriteString("]}\n")
		rows = rows[k:]
		if b.Len() > stream.PartBytes*9/10 {
			parts = append(parts, bytes.Clone(b.Bytes()))
			b.Reset()
		}
	}
	return append(parts, bytes.Clone(b.Bytes())), n
}

// BenchmarkFoldScopes folds scopes as BenchmarkFold folds kernels; a second of the owner's clock passes with each part.
func BenchmarkFoldScopes(b *testing.B) {
	for _, threads := range []int{1, 8} {
		b.Run(fmt.Sprint("threads=", threads), func(b *testing.B) {
			parts, scopes := scopeParts(200_000, threads)
			f := newTestFlight(aggregate.Config{})
			total, chunkBytes := 0, 0
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				f.Sessions = map[aggregate.SessionKey]*aggregate.Session{}
				now := time.Now().UnixNano()
				for i, body := range parts {
					now += int64(time.Second)
					p := &aggregate.Part{Seq: uint64(i), Now: now, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
						Source:   "gpu-flight",
						Identity: "w", Part: i, ReceivedAt: now, RetentionDays: 7, RollupDays: 395}}
					f.Take(p, f.Session(p), body)
					f.Expire(now)
					f.Flush(now)
					list, enc, err := f.Out.Encode(rows.Tails{})
					if err != nil {
						b.Fatal(err)
					}
					msg, _ := stream.AppendChunk(nil, &stream.Chunk{Tables: list}, f.AppendState(nil, false), enc)
					chunkBytes += len(msg)
					f.Published()
					f.Out.Reset()
					f.OutSerial++
				}
				total += scopes
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "scopes/s")
			b.ReportMetric(float64(chunkBytes)/float64(total), "chunkB/scope")
		})
	}
}
