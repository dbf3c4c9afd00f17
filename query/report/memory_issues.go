package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// MemoryPhase is a phase that programs said they were in, over all ranks and sessions of the query.
type MemoryPhase struct {
	Phase    string  `json:"phase"` // its path, "epoch / forward"
	Times    uint64  `json:"times"`
	TotalNS  uint64  `json:"total_ns"`
	LongNS   uint64  `json:"longest_ns"`
	Ranks    []int64 `json:"ranks"`
	Open     uint64  `json:"open"`     // of Times, those that the program did not end
	Findings uint64  `json:"findings"` // gaps that began in it
}

// MemoryIssue is something that went wrong, listed once however often: hits with the same fingerprint.
type MemoryIssue struct {
	ID       string    `json:"fingerprint_id"`
	Kind     string    `json:"kind"`
	Severity string    `json:"severity"` // as stormlog names it
	Title    string    `json:"title"`
	Hits     uint64    `json:"hits"`
	Sessions uint64    `json:"sessions"`
	Ranks    []int64   `json:"ranks"`
	First    time.Time `json:"first_seen_at"`
	Last     time.Time `json:"last_seen_at"`
	Phase    string    `json:"first_phase"` // "" if it was not in a phase
}

// Bounds of what is read.
const maxMemoryPhases, maxMemoryIssues = 200, 200

func readMemoryPhases(in *memoryReader) error {
	from, args := in.asked("memory_phases")
	err := in.each(fmt.Sprintf(`SELECT phase, count(), sum(duration_ns), max(duration_ns), arraySort(groupUniqArray(rank)), `+
		`countIf(synthetic_end) FROM %s
		GROUP BY phase ORDER BY sum(duration_ns) DESC, phase LIMIT %d`, from, maxMemoryPhases), args, func(rows driver.Rows) error {
		var p MemoryPhase
		if err := rows.Scan(&p.Phase, &p.Times, &p.TotalNS, &p.LongNS, &p.Ranks, &p.Open); err != nil {
			return err
		}
		in.m.Phases = append(in.m.Phases, p)
		return nil
	})
	if err != nil || len(in.m.Phases) == 0 { // without phases there is nothing to count in them
		return err
	}
	from, args = in.asked("memory_gap_phases")
	return in.each(fmt.Sprintf("SELECT phase_path, count() FROM %s AND phase_path != '' GROUP BY phase_path", from), args,
		func(rows driver.Rows) error {
			var path string
			var n uint64
			if err := rows.Scan(&path, &n); err != nil {
				return err
			}
			i := slices.IndexFunc(in.m.Phases, func(p MemoryPhase) bool { return p.Phase == path })
			if i >= 0 {
				in.m.Phases[i].Findings = n
			}
			return nil
		})
}

func readMemoryIssues(in *memoryReader) error {
	from, args := in.asked("memory_issue_hits")
	return in.each(fmt.Sprintf(`SELECT fingerprint_id, any(kind), any(severity) AS how, argMin(title, (timestamp_ns, session_id)), count() `+
		`AS hits, uniqExact(session_id), arraySort(groupUniqArray(rank)),
			min(at), max(at), argMin(phase, (timestamp_ns, session_id))
		FROM %s GROUP BY tenant, fingerprint_id ORDER BY indexOf(['critical', 'error', 'warning', 'info'], how), hits DESC, fingerprint_id `+
		`LIMIT %d`, from, maxMemoryIssues), args, func(rows driver.Rows) error {
		var i MemoryIssue
		if err := rows.Scan(&i.ID, &i.Kind, &i.Severity, &i.Title, &i.Hits, &i.Sessions, &i.Ranks, &i.First, &i.Last, &i.Phase); err != nil {
			return err
		}
		in.m.Issues = append(in.m.Issues, i)
		return nil
	})
}
