package table_test

import (
	"testing"
	"time"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

func TestMinuteViews(t *testing.T) {
	s := newStore(t, true)
	h, d := table.HostMetrics1m, table.DeviceMetrics1m
	at := tabletest.Received.Truncate(time.Minute).UnixNano()
	for i := range uint64(2) {
		s.Seed(h, 1, func(b *table.Batch, _ int) {
			session(h.Head, b)
			h.Bucket.Append(b, at)
			h.Samples.Append(b, 2)
			h.Sums.AppendPairs(b, []int16{1, 2, 3}, []uint64{2000 + i*4000, 4, 0})
			h.Lows.AppendPairs(b, []int16{1, 2, 3}, []uint64{500 + i, i, 0}) // a minimum of 0 counts
			h.Highs.AppendPairs(b, []int16{1, 2, 3}, []uint64{1500 + i*2000, 3, 0})
		})
		s.Seed(d, 1, func(b *table.Batch, _ int) {
			session(d.Head, b)
			d.Bucket.Append(b, at)
			d.Samples.Append(b, 1)
			for _, c := range []table.HistCol{d.Sums, d.Lows, d.Highs} {
				c.AppendPairs(b, []int16{4}, []uint64{250_500})
			}
		})
	}
	s.Want("SELECT samples, cpu_pct, cpu_pct_min, cpu_pct_max, ram_used_bytes, ram_used_bytes_min, ram_used_bytes_max FROM "+
		"{db}.host_metrics_1m", "4\t20\t5\t35\t2097152\t0\t3145728")
	s.Exec("OPTIMIZE TABLE {db}.host_metrics_1m_data FINAL")
	s.Want("SELECT samples, cpu_pct, cpu_pct_min, ram_used_bytes_min, ram_used_bytes_max FROM {db}.host_metrics_1m", "4\t20\t5\t0\t3145728")
	s.Want("SELECT samples, power_w, power_w_min, power_w_max FROM {db}.device_metrics_1m", "2\t250.5\t250.5\t250.5")
}

func TestSessionsView(t *testing.T) {
	s := newStore(t, true)
	se := table.Sessions
	now := time.Now()
	for _, c := range []struct {
		id                 string
		completed, crashed uint8
		last               time.Time
	}{{"open", 0, 0, now}, {"idle", 0, 0, now.Add(-time.Hour)}, {"complete", 1, 0, now.Add(-time.Hour)}, {"crashed", 1, 1, now}} {
		for part := range 2 { // the second part of a session knows its start
			s.Seed(se, 1, func(b *table.Batch, _ int) {
				start := table.UnknownTime
				if part == 1 && c.id != "open" {
					start = 1_700_000_000_000_000_000
				}
				se.Append(b, &table.SessionRow{
					HeadRow:        acme(c.id),
					StartedAt:      start,
					FirstEventAt:   1_700_000_001_000_000_000,
					LastReceivedAt: c.last.UnixNano(),
					Completed:      c.completed * uint8(part),
					Crashed:        c.crashed * uint8(part),
					Kernels:        21,
					ReceivedDay:    today(),
				})
			})
		}
	}
	s.Want("SELECT session_id, state, toUnixTimestamp(started_at), kernels FROM {db}.sessions ORDER BY session_id",
		"complete\tcomplete\t1700000000\t42\ncrashed\tcrashed\t1700000000\t42\nidle\tidle\t1700000000\t42\nopen\topen\t1700000001\t42")
}

func TestDevicesKeepTheLatest(t *testing.T) {
	s := newStore(t, true)
	d := table.Devices
	for i, name := range []string{"old", "new"} {
		s.Seed(d, 1, func(b *table.Batch, _ int) {
			d.Append(b, &table.DeviceRow{
				HeadRow: acme("s"), Name: name, ReceivedDay: today(),
			})
			b.FillTail(table.DayPartition{RetentionDays: 30}, 3, uint64(i+1))
		})
	}
	s.Want("SELECT name FROM {db}.devices", "new")
}

func TestUsageView(t *testing.T) {
	s := newStore(t, true)
	u := table.Usage
	for part := range uint16(2) {
		s.Seed(u, 1, func(b *table.Batch, _ int) {
			u.Append(b, &table.UsageRow{Tenant: "acme", Events: 5, ReceivedDay: today()})
			b.FillTail(table.DayPartition{RetentionDays: 30}, part, uint64(100*(part+1)))
		})
	}
	s.Exec("OPTIMIZE TABLE {db}.usage_data FINAL")
	s.Want("SELECT tenant, events FROM {db}.usage", "acme\t10")
	// Each partition's last chunk stays readable: the sink's repair needs it.
	s.Want("SELECT rows_partition, max(chunk) FROM {db}.usage_data GROUP BY 1 ORDER BY 1", "0\t100\n1\t200")
}
