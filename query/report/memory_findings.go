package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// memoryFindings are the queries. Each gives the columns severity, kind, run, session, rank, device, at, times, confidence and text, from a
// view of sessions or of whole runs.
var memoryFindings = []struct {
	view  string
	whole bool
	sql   string
	rest  string // what comes after the conditions, which are always there
}{
	{"memory_ooms", false, `SELECT 'critical', 'out of memory', if(job_id = '', session_id, job_id), session_id, rank, device_id, at, ` +
		`toUInt64(1), 1.,
		concat('Memory ran out', if(reason = '', '', concat(' (', reason, ')')), ': ', formatReadableSize(peak_allocated_bytes), ' allocated ` +
		`at most',
			if(last_allocation_bytes = 0, '', concat(', last ', formatReadableSize(last_allocation_bytes), if(last_allocation_context = '', '', ` +
		`concat(' (', last_allocation_context, ')')))), '. What filled it: ', filled_by, '.')`, ""},
	{"memory_gaps", false, `SELECT severity, replaceAll(classification, '_', ' '), if(job_id = '', session_id, job_id), session_id, rank, ` +
		`device_id, breached_at, toUInt64(1), confidence, description`, ""},
	{"memory_leaks", false, `SELECT severity, concat('leak: ', replaceAll(kind, '_', ' ')), if(job_id = '', session_id, job_id), session_id,` +
		` rank, device_id, started_at, toUInt64(1), confidence, description`, ""},
	{"memory_alerts", false, `SELECT severity, replaceAll(kind, '_', ' '), if(job_id = '', session_id, job_id), session_id, rank, device_id,` +
		` min(at), count(), 0.,
		multiIf(kind = 'usage', concat(toString(round(max(value))), ' % of the device was allocated.'),
			kind = 'large_allocation', concat(formatReadableSize(max(value)), ' were allocated at once.'),
			kind = 'fragmentation', concat('Up to ', toString(round(100 * max(value))), ' % of what was reserved was free and of no use: split, ` +
		`inside segments still in use.'),
			concat('The tracker says: ', argMax(context, at)))`,
		" AND (source IN ('sample', 'track_file') OR (severity = 'critical' AND NOT (total_bytes > 0 AND allocated_bytes >= 0.95 * " +
			"total_bytes))) GROUP BY tenant, session_id, job_id, rank, device_id, severity, kind"},
	{"memory_collectives", true, `SELECT severity, replaceAll(classification, '_', ' '), run, session_id, rank, device_id, started_at, ` +
		`toUInt64(1), confidence,
		concat('Collective communication took ', formatReadableSize(peak_gap_bytes), ' outside the allocator, on ', ` +
		`toString(synchronized_ranks), ' of ', toString(expected_world_size), ' ranks at once.')`, " AND preset = 'medium'"},
	{"memory_cross_rank", true, `SELECT severity, if(position = 1, 'first cause', 'first cause, too'), run, session_id, rank, device_id, ` +
		`first_spike_at, toUInt64(1), transform(confidence, ['high', 'medium', 'low'], [0.9, 0.6, 0.3], 0.),
		concat('Its memory rose by ', formatReadableSize(peak_delta_bytes), if(lead_over_cluster_onset_ns = 0, ' when that of others did', ` +
		`concat(', ', toString(round(lead_over_cluster_onset_ns / 1e9, 3)), ' s before the next rank')), ' (confidence ', confidence, ').')`, ""},
	{"memory_clock_skew", true, `SELECT 'info', 'late start', run, session_id, rank, device_id, started_at, toUInt64(1), 0., concat('It ` +
		`begins ', toString(round(offset_ns / 1e9, 3)), ' s from the first: a late start, or a clock that is wrong.')`, " AND skewed = 1"},
}

func readMemoryFindings(in *memoryReader) error {
	for _, q := range memoryFindings {
		from, args := in.asked(q.view)
		if q.whole {
			from, args = in.together(q.view)
		}
		if err := in.each(fmt.Sprintf("%s FROM %s%s LIMIT %d", q.sql, from, q.rest, maxMemoryFindings), args, func(rows driver.Rows) error {
			var f MemoryFinding
			if err := rows.Scan(&f.Severity, &f.Kind, &f.Run, &f.Session, &f.Rank, &f.Device, &f.At, &f.Times, &f.Confidence, &f.Text); err != nil {
				return fmt.Errorf("%s: %w", q.view, err)
			}
			in.m.Findings = append(in.m.Findings, f)
			return nil
		}); err != nil {
			return err
		}
	}
	// The error event that says that memory ran out is not a second finding.
	ooms := map[MemoryFinding]bool{}
	place := func(f MemoryFinding) MemoryFinding {
		return MemoryFinding{Run: f.Run, Session: f.Session, Rank: f.Rank, Device: f.Device, At: f.At}
	}
	for _, f := range in.m.Findings {
		if f.Kind == "out of memory" {
			ooms[place(f)] = true
		}
	}
	in.m.Findings = slices.DeleteFunc(in.m.Findings, func(f MemoryFinding) bool {
		return f.Kind == "tracker" && f.Times == 1 && ooms[place(f)]
	})
	in.missing()
	return nil
}

// missing makes one finding of each run that lacks ranks.
func (in *memoryReader) missing() {
	for i := 0; i < len(in.m.Ranks); {
		run, ranks, present := in.m.Ranks[i].Run, []int64(nil), 0
		var first time.Time
		for ; i < len(in.m.Ranks) && in.m.Ranks[i].Run == run; i++ {
			if in.m.Ranks[i].Missing {
				ranks = append(ranks, in.m.Ranks[i].Rank)
			} else {
				present++
			}
		}
		if len(ranks) == 0 {
			continue
		}
		for _, s := range in.m.Series {
			if s.Run == run && (first.IsZero() || s.Started.Before(first)) {
				first = s.Started
			}
		}
		in.m.Findings = append(in.m.Findings, MemoryFinding{
			Severity: "warning", Kind: "missing ranks", Run: run, Rank: -1, Device: -1, At: first, Times: uint64(len(ranks)), Confidence: 1,
			Text: fmt.Sprintf("Nothing came from %d of %s: %s.", len(ranks), plural(uint64(len(ranks)+present), "rank"), ranges(ranks)),
		})
	}
}
