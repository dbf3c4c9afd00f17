package parca

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/sink/table"
)

// cubinKey is the key of a row of pc_cubins within a batch; texts are indexes in the batch's columns.
type cubinKey struct {
	session, minute, cubin, build uint32
	day                           int32
}

// cubinSums is where the rows of a batch of pc_cubins are.
type cubinSums struct {
	rowSums[cubinKey]

	cubin, build columnTexts
	latest       []cubinRow // by the text of the build id: rows of one cubin mostly follow each other in time
}

// cubinRow is the row that samples of a cubin were added to last.
type cubinRow struct {
	minute int64
	cubin  uint32 // text of the part, from 1; 0: none yet
	at     int32
}

func newCubinSums(b *table.Batch) *cubinSums { return &cubinSums{rowSums: newRowSums[cubinKey](b)} }

// cubinSamples adds the part's samples up by cubin and minute.
func (f *folding) cubinSamples(s *session, p *aggregate.Part, in *parca.Part) {
	t := &table.PCCubins
	b := f.Facts(p, t.Table)
	sums := sumsOf(&f.cubins, b, newCubinSums)
	sums.cubin.begin(len(in.Strings))
	sums.build.begin(len(in.Strings))
	sums.latest = zeroed(sums.latest, len(in.Strings))
	tenant, id, day := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID), rows.DayOf(p.Env.ReceivedAt)
	samples := t.Samples.Slice(b)
	for i := range in.PC {
		r := &in.PC[i]
		minute, latest := r.At/rows.BucketNS, &sums.latest[r.BuildID]
		if latest.cubin == r.Cubin+1 && latest.minute == minute {
			(*samples)[latest.at] += r.Samples
			continue
		}
		key := cubinKey{
			session: s.serial, minute: uint32(minute), day: day,
			cubin: uint32(sums.cubin.index(t.Cubin, b, in.Strings, r.Cubin)),
			build: uint32(sums.build.index(t.BuildID, b, in.Strings, r.BuildID)),
		}
		at, ok := sums.at[key]
		if ok {
			(*samples)[at] += r.Samples
		} else {
			at = sums.add(&key)
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, id)
			t.Bucket.Append(b, minute*rows.BucketNS)
			t.BucketS.Append(b, 60)
			t.BuildID.Append(b, int32(key.build))
			t.Cubin.Append(b, int32(key.cubin))
			t.Samples.Append(b, r.Samples)
			t.ReceivedDay.Append(b, day)
		}
		*latest = cubinRow{minute: minute, cubin: r.Cubin + 1, at: at}
	}
}
