package telemetry_test

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// addSession tells the session of a case of rollups, as its sink's manifest does.
func (s *store) addSession(tenant string, summary json.RawMessage) {
	s.Helper()
	var of struct {
		SessionID string `json:"session_id"`
		Started   int64  `json:"started_at_ns"`
		Ended     int64  `json:"ended_at_ns"`
	}
	if err := json.Unmarshal(summary, &of); err != nil {
		s.Fatal(err)
	}
	s.Exec(fmt.Sprintf(`INSERT INTO {db}.sessions_data (tenant, session_id, source, started_at, ended_at, completed,
    received_day, retention_days)
		SELECT '%s', '%s', 'telemetry', fromUnixTimestamp64Nano(toInt64(%d)), fromUnixTimestamp64Nano(toInt64(%d)), %t, today(), 30`, tenant,
		of.SessionID, of.Started, of.Ended, of.Ended > 0))
}

// peak is the highest value of a counter and where it was.
type peak struct {
	Value     *int64
	Timestamp *int64 `json:"timestamp_ns"`
	Rank      *int64
	Device    *int64 `json:"device_id"`
}

type rolledPeaks struct {
	Allocated peak `json:"allocator_allocated_bytes"`
	Reserved  peak `json:"allocator_reserved_bytes"`
	Used      peak `json:"device_used_bytes"`
}

const peaksOf = `CAST(((peak_allocated_bytes, peak_allocated_timestamp_ns, peak_allocated_rank, peak_allocated_device_id),
    (peak_reserved_bytes, peak_reserved_timestamp_ns, peak_reserved_rank, peak_reserved_device_id),
	(peak_used_bytes, peak_used_timestamp_ns, peak_used_rank, peak_used_device_id)),
    'Tuple(allocator_allocated_bytes Tuple(value Nullable(Int64), timestamp_ns Nullable(Int64), rank Nullable(Int64), device_id
    Nullable(Int64)),
	allocator_reserved_bytes Tuple(value Nullable(Int64), timestamp_ns Nullable(Int64), rank Nullable(Int64), device_id Nullable(Int64)),
device_used_bytes Tuple(value Nullable(Int64), timestamp_ns Nullable(Int64),
    rank Nullable(Int64), device_id Nullable(Int64)))') AS counters`

func sameRollup(s *store, c memoryCase) error {
	type sessionRollup struct {
		Events   int64  `json:"event_count"`
		Samples  int64  `json:"sample_count"`
		First    *int64 `json:"first_timestamp_ns"`
		Last     *int64 `json:"last_timestamp_ns"`
		Counters rolledPeaks
		Alerts   struct {
			Total      int64            `json:"total_count"`
			Severities map[string]int64 `json:"severity_counts"`
			Types      map[string]int64 `json:"event_type_counts"`
		}
		Health struct {
			Transitions int64   `json:"transition_count"`
			Degraded    int64   `json:"degraded_count"`
			Recovered   int64   `json:"recovered_count"`
			Time        int64   `json:"degraded_time_ns"`
			Last        *string `json:"last_status"`
		} `json:"collector_health"`
		OOM struct {
			Events  int64 `json:"event_count"`
			Bundles int64 `json:"bundle_path_count"`
		}
	}
	type rankRollup struct {
		Rank      int64
		LocalRank int64 `json:"local_rank"`
		World     int64 `json:"world_size"`
		Events    int64 `json:"event_count"`
		Samples   int64 `json:"sample_count"`
		First     int64 `json:"first_timestamp_ns"`
		Last      int64 `json:"last_timestamp_ns"`
		Counters  rolledPeaks
		GapFirst  *int64   `json:"hidden_gap_first_bytes"`
		GapLatest *int64   `json:"hidden_gap_latest_bytes"`
		GapPeak   *int64   `json:"hidden_gap_peak_bytes"`
		GapDelta  *int64   `json:"hidden_gap_delta_bytes"`
		GapDrift  *float64 `json:"hidden_gap_drift_bytes_per_second"`
	}
	type windowRollup struct {
		Index       int64
		Start       int64 `json:"start_ns"`
		Events      int64 `json:"event_count"`
		Samples     int64 `json:"sample_count"`
		Ranks       int64 `json:"rank_count"`
		Counters    rolledPeaks
		Alerts      int64 `json:"alert_count"`
		Transitions int64 `json:"collector_transition_count"`
		OOMs        int64 `json:"oom_count"`
	}
	var want sessionRollup
	var parts struct {
		Ranks   []rankRollup
		Windows []windowRollup
	}
	if err := json.Unmarshal(c.Output, &want); err != nil {
		return err
	}
	if err := json.Unmarshal(c.Output, &parts); err != nil {
		return err
	}
	sessions := of[sessionRollup](s, c.Name, `SELECT tenant, events AS event_count, samples AS sample_count, first_timestamp_ns, `+
		`last_timestamp_ns, `+peaksOf+`,
		CAST((alerts, alert_severities, alert_event_types),
    'Tuple(total_count UInt64, severity_counts Map(String, UInt64), event_type_counts Map(String, UInt64))') AS alerts,
		CAST((collector_transitions, collector_degradations, collector_recoveries, degraded_ns, collector_health),
			'Tuple(transition_count UInt64, degraded_count UInt64, recovered_count UInt64, degraded_time_ns UInt64, last_status
    Nullable(String))') AS collector_health,
		CAST((ooms, oom_bundles), 'Tuple(event_count UInt64, bundle_path_count UInt64)') AS oom FROM {db}.memory_session_rollups`)
	if want.Events == 0 {
		if len(sessions) != 0 {
			return fmt.Errorf("something is said of nothing: %+v", sessions)
		}
		return nil
	}
	if len(sessions) != 1 {
		return fmt.Errorf("%d sessions", len(sessions))
	}
	if a, b := marshal(sessions[0]), marshal(want); a != b {
		return fmt.Errorf("got %s, want %s", a, b)
	}
	ranks := of[rankRollup](s, c.Name, `SELECT tenant, rank, local_rank, world_size, events AS event_count, samples AS sample_count, `+
		`first_timestamp_ns, last_timestamp_ns, `+peaksOf+`,
		hidden_gap_first_bytes, hidden_gap_latest_bytes, hidden_gap_peak_bytes, hidden_gap_delta_bytes, hidden_gap_drift_bytes_per_second
    FROM {db}.memory_rank_rollups ORDER BY rank`)
	if len(ranks) != len(parts.Ranks) {
		return fmt.Errorf("%d ranks, want %d", len(ranks), len(parts.Ranks))
	}
	for i, w := range parts.Ranks {
		g := ranks[i]
		if (w.GapDrift == nil) != (g.GapDrift == nil) || w.GapDrift != nil && !rounded(*w.GapDrift, *g.GapDrift, 6) {
			return fmt.Errorf("the gap of rank %d drifts %s, want %s", w.Rank, marshal(g.GapDrift), marshal(w.GapDrift))
		}
		w.GapDrift, g.GapDrift = nil, nil
		if !reflect.DeepEqual(g, w) {
			return fmt.Errorf("got %s, want %s", marshal(g), marshal(w))
		}
	}
	windows := of[windowRollup](s, c.Name, `SELECT tenant, window_index AS index, start_timestamp_ns AS start_ns, events AS `+
		`event_count, samples AS sample_count, ranks AS rank_count, `+peaksOf+`,
		alerts AS alert_count, collector_transitions AS collector_transition_count, ooms AS oom_count FROM {db}.memory_window_rollups
    ORDER BY window_index`)
	if a, b := marshal(windows), marshal(parts.Windows); a != b {
		return fmt.Errorf("got %s, want %s", a, b)
	}
	return nil
}

func sameDerived(s *store, c memoryCase) error {
	type derived struct {
		Gap           *int64   `json:"allocator_gap_bytes"`
		Utilization   *float64 `json:"utilization_ratio"`
		Fragmentation *float64 `json:"fragmentation_ratio"`
		Cache         *float64 `json:"allocator_cache_ratio"`
		Degraded      bool     `json:"is_degraded_collector"`
	}
	var want derived
	if err := json.Unmarshal(c.Output, &want); err != nil {
		return err
	}
	got := of[derived](s, c.Name, `SELECT tenant, allocator_gap_bytes, utilization_ratio, fragmentation_ratio, allocator_cache_ratio, `+
		`is_degraded_collector = 1 ? true : false AS is_degraded_collector FROM {db}.memory_events`)
	if len(got) != 1 || marshal(got[0]) != marshal(want) {
		return fmt.Errorf("got %s, want %s", marshal(got), marshal(want))
	}
	return nil
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
