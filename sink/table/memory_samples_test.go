package table_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// morning is when the telemetry of these tests begins.
var morning = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

const mib, gib = 1 << 20, 1 << 30

// looks makes events of a tracker that looks ten times a second; change says what each look sees.
func looks(n int, change func(i int, e *memoryEvent)) (events []memoryEvent) {
	for i := range n {
		total := int64(80 * gib)
		e := memoryEvent{
			Tenant: "acme", TimestampNS: morning.Add(time.Duration(i) * 100 * time.Millisecond).UnixNano(), EventType: "sample", Collector: "stormlog.cuda_tracker",
			SamplingIntervalMS: 100, Host: "node-1", Allocated: gib, Reserved: 2 * gib, Used: 2 * gib, Total: &total, Metadata: []byte("{}"),
		}
		change(i, &e)
		events = append(events, e)
	}
	return events
}

// Trackers without events of type sample are analysed all the same: the result is that of the same events as samples.
func TestMemoryFindingsWithoutSamples(t *testing.T) {
	s := newStore(t, true)
	var all []memoryEvent
	for _, c := range memoryCases(t) {
		if c.Name != "collective_non_sample_ignored" && c.Name != "cross_non_sample_only" {
			continue
		}
		for _, e := range c.Events {
			e.Tenant = c.Name
			all = append(all, e)
			e.Tenant += "_as_samples"
			if e.EventType == "allocation" {
				e.EventType = "sample"
			}
			all = append(all, e)
		}
	}
	s.addMemory(all...)
	with, without := suspects(s, "cross_non_sample_only_as_samples"), suspects(s, "cross_non_sample_only")
	if len(with) == 0 || !slices.Equal(with, without) {
		t.Errorf("suspects differ: %+v, as samples %+v", without, with)
	}
	s.want("SELECT DISTINCT sampled FROM {db}.memory_runs WHERE tenant = 'cross_non_sample_only'", "0")
	s.want("SELECT count() FROM {db}.memory_cross_rank WHERE tenant = 'cross_non_sample_only' AND sampled = 1", "0") // as the peer
	s.want("SELECT count() FROM {db}.memory_collectives WHERE tenant = 'collective_non_sample_ignored' AND sampled = 1", "0")
	a, b := collectives(s, "collective_non_sample_ignored_as_samples", "medium", 0), collectives(s, "collective_non_sample_ignored", "medium", 0)
	if len(a) != 2 || len(b) != len(a) {
		t.Fatalf("%d intervals, as samples %d", len(b), len(a))
	}
	for i := range a {
		// The markers themselves count as looks here, so the deviation is another; what is found is not.
		if a[i].Rank != b[i].Rank || a[i].Start != b[i].Start || a[i].End != b[i].End || a[i].Classification != b[i].Classification {
			t.Errorf("got %+v, as samples %+v", b[i], a[i])
		}
	}
}

// A tracker's look writes several events, microseconds apart; they are one sample and give one alert of a kind.
func TestMemoryAlertsCountMomentsOnce(t *testing.T) {
	s := newStore(t, true)
	var all []memoryEvent
	for i, e := range looks(3, func(i int, e *memoryEvent) {
		e.Allocated, e.Reserved, e.Change = 78*gib, 79*gib, 200*mib
		e.Used = e.Reserved
	}) {
		for j, kind := range []string{"peak", "allocation", "critical", "warning", "warning"} {
			if i == 2 && j < 3 { // nothing changed any more, only the warnings repeat
				continue
			}
			e.EventType = kind
			e.TimestampNS += int64(j) * 30_000
			all = append(all, e)
		}
	}
	s.addMemory(all...)
	s.want("SELECT event_type, count() FROM {db}.memory_samples GROUP BY event_type ORDER BY event_type", "peak\t2\nwarning\t1")
	s.want("SELECT source, severity, kind, count(), any(threshold) FROM {db}.memory_alerts GROUP BY ALL ORDER BY ALL", strings.Join([]string{
		"sample\tcritical\tusage\t3\t95", "sample\twarning\tlarge_allocation\t3\t104857600", "tracker\tcritical\ttracker\t2\t0", "tracker\twarning\ttracker\t6\t0",
	}, "\n"))
	// Two exports of one ring bring the same samples twice.
	split := int64(gib)
	again := looks(4, func(i int, e *memoryEvent) { e.Session, e.Inactive = "ring", &split })
	s.addMemory(again...)
	s.addMemory(again...)
	s.want("SELECT count() FROM {db}.memory_samples WHERE session_id = 'ring'", "4")
	s.want("SELECT count() FROM {db}.memory_alerts WHERE session_id = 'ring' AND kind = 'fragmentation'", "4")
}

// Trackers that cannot ask the driver repeat what the allocator reserved; GPU Flight on the same host and device knows better.
func TestMemoryUsedComesFromDeviceMetrics(t *testing.T) {
	s := newStore(t, true)
	leaky := func(i int, e *memoryEvent) { e.Used = e.Reserved }
	var all []memoryEvent
	for session, host := range map[string]string{"mine": "node-1", "elsewhere": "node-2", "driver": "node-1"} {
		for i, e := range looks(60, leaky) {
			e.Session, e.Host = session, host
			if session == "driver" {
				e.Used += int64(i) // asked the driver itself
			}
			all = append(all, e)
		}
	}
	for _, e := range looks(60, leaky) { // the processor, and the device next to it
		e.Session, e.DeviceID = "other", 1
		all = append(all, e)
	}
	all = append(all, looks(1, func(_ int, e *memoryEvent) {
		e.Session, e.TimestampNS = "late", morning.Add(8*time.Second).UnixNano()
		leaky(0, e)
	})...)
	s.addMemory(all...)
	s.exec(`INSERT INTO {db}.sessions_data (tenant, session_id, source, host, received_day, retention_days) VALUES ('acme', 'gpu', 'gpu-flight', 'NODE-1', today(), 30), ('rival', 'gpu', 'gpu-flight', 'node-2', today(), 30)`)
	// Memory outside the allocator grows by 1 GiB a second.
	for _, tenant := range []string{"acme", "rival"} {
		s.exec(`INSERT INTO {db}.device_metrics_data (tenant, session_id, at, device_id, used_bytes, total_bytes, received_at, retention_days)
			SELECT '` + tenant + `', 'gpu', toDateTime64('2026-11-20 10:00:00', 9, 'UTC') + number, 0, 1073741824 * (6 + number), 85899345920, now(), 30 FROM numbers(6)`)
	}
	s.want("SELECT DISTINCT used_source FROM {db}.memory_used", "event") // as long as no minute is known to have telemetry
	s.exec(`INSERT INTO {db}.memory_stats_data (tenant, session_id, device_id, rank, bucket, bucket_s, host, received_day, retention_days)
		SELECT tenant, session_id, device_id, rank, toStartOfMinute(at), 60, any(host), today(), 30 FROM {db}.memory_events_data GROUP BY ALL`)
	s.want("SELECT session_id, used_source, count(), min(used_bytes), max(used_bytes) FROM {db}.memory_used GROUP BY ALL ORDER BY ALL", strings.Join([]string{
		fmt.Sprintf("driver\tdevice_metrics\t1\t%d\t%d", 6*gib, 6*gib), // its first number is what the others say too
		fmt.Sprintf("driver\tevent\t59\t%d\t%d", 2*gib+1, 2*gib+59),
		fmt.Sprintf("elsewhere\tevent\t60\t%d\t%d", 2*gib, 2*gib),
		fmt.Sprintf("late\tevent\t1\t%d\t%d", 2*gib, 2*gib), // too long after the last
		fmt.Sprintf("mine\tdevice_metrics\t60\t%d\t%d", 6*gib, 11*gib),
		fmt.Sprintf("other\tevent\t60\t%d\t%d", 2*gib, 2*gib),
	}, "\n"))
	s.want("SELECT session_id, severity, used_source, round(evidence['slope_bytes_per_sec'] / 1073741824, 1) FROM {db}.memory_gaps WHERE classification = 'persistent_drift'", "mine\tcritical\tdevice_metrics\t1")
}

// The ranks of a job come in sessions of their own; without a job each session stands alone.
func TestMemoryRunsSpanSessions(t *testing.T) {
	s := newStore(t, true)
	var all []memoryEvent
	job := "train-7"
	for rank := range 3 {
		if rank == 1 {
			continue
		}
		for _, e := range looks(10, func(i int, e *memoryEvent) {
			if i >= 6-rank {
				e.Used += 10 * gib
			}
		}) {
			e.Session, e.Rank, e.WorldSize, e.DeviceID = fmt.Sprint("rank-", rank), int64(rank), 3, int64(rank)
			e.JobID = &job
			all = append(all, e)
			e.JobID, e.Session = nil, "lone-"+e.Session
			all = append(all, e)
		}
	}
	s.addMemory(all...)
	s.want("SELECT run, world_size, participating_ranks, missing_ranks, suspects FROM {db}.memory_runs ORDER BY run", "lone-rank-0\t3\t[0]\t[1,2]\t0\nlone-rank-2\t3\t[2]\t[0,1]\t0\ntrain-7\t3\t[0,2]\t[1]\t2")
	s.want("SELECT rank, session_id, confidence, lead_over_cluster_onset_ns FROM {db}.memory_cross_rank WHERE job_id = 'train-7' ORDER BY position", "2\trank-2\tlow\t200000000\n0\trank-0\tlow\t0")
	s.want("SELECT job_id, rank FROM {db}.memory_missing_ranks WHERE job_id != ''", "train-7\t1")
	s.want("SELECT rank, availability, samples, earliest FROM {db}.memory_ranks WHERE job_id = 'train-7' ORDER BY rank", "0\tpresent\t10\t0\n1\tmissing\t0\t0\n2\tpresent\t10\t1")
}

func TestMemoryLeaks(t *testing.T) {
	s := newStore(t, true)
	s.addMemory(looks(50, func(i int, e *memoryEvent) { e.Session = "leak"; e.Allocated += int64(i) * 100 * mib })...)
	s.addMemory(looks(50, func(i int, e *memoryEvent) { e.Session = "saw"; e.Allocated += int64(i%5) * 100 * mib })...)
	s.addMemory(looks(50, func(i int, e *memoryEvent) { e.Session = "crumbs"; e.Allocated += int64(i) * 1000 })...)
	s.addMemory(looks(50, func(i int, e *memoryEvent) {
		e.Session = "peak"
		if i == 25 {
			e.Allocated += gib
		}
	})...)
	s.addMemory(looks(50, func(i int, e *memoryEvent) { e.Session = "from-nothing"; e.Allocated = int64(i / 45 * gib) })...)
	s.addMemory(looks(9, func(i int, e *memoryEvent) { e.Session = "short"; e.Allocated += int64(i) * gib })...)
	s.want("SELECT session_id, kind, severity FROM {db}.memory_leaks ORDER BY session_id, kind", strings.Join([]string{
		"from-nothing\tgrowth\twarning", "leak\tgrowth\twarning", "leak\trising_steps\tcritical", "leak\ttrend\tcritical", "peak\toutliers\tinfo",
	}, "\n"))
	s.want("SELECT evidence['slope_bytes_per_sec'], round(evidence['r_squared'], 6), round(evidence['growth_bytes']) FROM {db}.memory_leaks WHERE kind = 'trend'", fmt.Sprintf("%d\t1\t%d", 1000*mib, 4900*mib))
}

func TestMemoryOOMs(t *testing.T) {
	s := newStore(t, true)
	text := "forward"
	bundle := func(session string, said bool) []memoryEvent {
		all := looks(12, func(i int, e *memoryEvent) {
			e.Session, e.Origin, e.EventType, e.Context = session, "oom", "allocation", &text
			e.Change = int64(i+1) * gib
			e.Allocated = int64(i+1) * 6 * gib
			e.Reserved = e.Allocated + gib
			e.Used = e.Reserved
			if i == 11 {
				e.Change = 0
				e.EventType = "error"
			}
		})
		if said {
			all[11].Metadata = []byte(`{"oom_reason":"torch.cuda.OutOfMemoryError"}`)
		}
		return all
	}
	s.addMemory(bundle("told", true)...)
	s.addMemory(bundle("silent", false)...)
	live := bundle("live", true)
	for i := range live {
		live[i].Origin = "json"
	}
	s.addMemory(append(live, looks(1, func(_ int, e *memoryEvent) { e.Session = "live"; e.TimestampNS += 1e10 })...)...)
	quiet := bundle("quiet", false)
	for i := range quiet {
		quiet[i].Origin = "json"
	}
	s.addMemory(quiet...)
	s.want("SELECT session_id, reason, events, peak_allocated_bytes, last_allocation_bytes, largest_allocation_bytes, last_allocation_context, filled_by FROM {db}.memory_ooms ORDER BY session_id", strings.Join([]string{
		fmt.Sprintf("live\ttorch.cuda.OutOfMemoryError\t12\t%d\t%d\t%d\tforward\tallocations", 72*gib, 11*gib, 11*gib),
		fmt.Sprintf("silent\t\t12\t%d\t%d\t%d\tforward\tallocations", 72*gib, 11*gib, 11*gib),
		fmt.Sprintf("told\ttorch.cuda.OutOfMemoryError\t12\t%d\t%d\t%d\tforward\tallocations", 72*gib, 11*gib, 11*gib),
	}, "\n"))
}

// How full a device is says what is allocated, or what is used where the collector cannot measure that; fragmentation is what is split and
// free, of collectors that know. A change that the sample, the peak and the alert of a step repeat is one.
func TestMemoryAlertsOfVersion4(t *testing.T) {
	s := newStore(t, true)
	split := int64(gib)
	const cannot = `{"memory_capabilities":{"supports_allocator_inactive":%t,"supports_fragmentation_analysis":%t,"supports_allocator_allocated":%t}}`
	for session, change := range map[string]func(e *memoryEvent){
		"cached":      func(e *memoryEvent) { e.Allocated, e.Metadata = gib/2, fmt.Appendf(nil, cannot, true, true, true) },
		"split":       func(e *memoryEvent) { e.Inactive, e.Metadata = &split, fmt.Appendf(nil, cannot, true, true, true) },
		"not-split":   func(e *memoryEvent) { e.Inactive, e.Metadata = &split, fmt.Appendf(nil, cannot, true, false, true) },
		"not-counted": func(e *memoryEvent) { e.Inactive, e.Metadata = &split, fmt.Appendf(nil, cannot, false, true, true) },
		"used": func(e *memoryEvent) {
			e.Null, e.Allocated, e.Used, e.Metadata = 1<<9|1<<11, 0, 77*gib, fmt.Appendf(nil, cannot, true, true, false)
		},
		"null": func(e *memoryEvent) {
			e.Null, e.Allocated, e.Used, e.Metadata = 1<<9|1<<11, 0, 77*gib, fmt.Appendf(nil, cannot, true, true, true)
		},
		"repeated": func(e *memoryEvent) { e.Change, e.Metadata = 200*mib, fmt.Appendf(nil, cannot, true, true, true) },
	} {
		for _, e := range looks(2, func(i int, e *memoryEvent) { e.Session, e.SchemaVersion = session, 4; change(e) }) {
			for j, kind := range []string{"peak", "allocation", "warning", "sample"} {
				e.EventType = kind
				e.TimestampNS += int64(j) * 256
				s.addMemory(e)
			}
		}
	}
	s.want("SELECT session_id, severity, kind, count(), any(value) FROM {db}.memory_alerts WHERE source = 'sample' GROUP BY ALL ORDER BY ALL", strings.Join([]string{
		fmt.Sprintf("repeated\twarning\tlarge_allocation\t2\t%d", 200*mib), "split\twarning\tfragmentation\t2\t0.5", "used\tcritical\tusage\t2\t96.25",
	}, "\n"))
	s.want("SELECT allocation_bytes, deallocation_bytes, least_allocated_bytes FROM {db}.memory_rank_rollups WHERE session_id = 'repeated'", fmt.Sprintf("%d\t0\t%d", 400*mib, gib))
}

// A collector that does not work says 0 bytes: no minimum, and no start that what comes later is a leak against.
func TestMemoryOfACollectorThatDoesNotWork(t *testing.T) {
	s := newStore(t, true)
	ill := []byte(`{"collector_health_status":"degraded"}`)
	for session, worksFrom := range map[string]int{"never": 20, "late": 6} {
		s.addMemory(looks(20, func(i int, e *memoryEvent) {
			e.Session, e.SchemaVersion = session, 4
			if i < worksFrom {
				e.Allocated, e.Reserved, e.Used, e.Metadata = 0, 0, 0, ill
			}
		})...)
	}
	s.want("SELECT session_id, least_allocated_bytes, least_used_bytes, peak_allocated_bytes FROM {db}.memory_session_rollups ORDER BY session_id", fmt.Sprintf("late\t%d\t%d\t%d\nnever\t\\N\t\\N\t0", gib, 2*gib, gib))
	s.want("SELECT session_id, samples, least_reserved_bytes FROM {db}.memory_window_rollups ORDER BY session_id", fmt.Sprintf("late\t20\t%d\nnever\t20\t\\N", 2*gib))
	s.want("SELECT count() FROM {db}.memory_leaks", "0")
}

// memoryViews are the views that look for something.
var memoryViews = strings.Fields("memory_used memory_samples memory_alerts memory_gaps memory_leaks memory_collectives memory_runs memory_cross_rank memory_missing_ranks memory_clock_skew memory_anomalies memory_ranks memory_ooms " +
	"memory_marked memory_session_rollups memory_rank_rollups memory_window_rollups " +
	"memory_phases memory_event_phases memory_gap_phases memory_issue_hits memory_issues memory_sessions memory_summaries memory_markers")

// No value that the validator lets through makes a view fail or take for ever.
func TestMemoryViewsEndureExtremes(t *testing.T) {
	s := newStore(t, true)
	extremes := []int64{0, 1, math.MaxInt64, math.MaxInt64 - 1, 1 << 40}
	s.addMemory(looks(60, func(i int, e *memoryEvent) {
		v := func(k int) int64 { return extremes[(i*7+k*3)%len(extremes)] }
		e.TimestampNS = []int64{v(0), int64(i), math.MaxInt64 - int64(i)}[i%3]
		e.SamplingIntervalMS, e.WorldSize, e.Rank, e.DeviceID = v(1), math.MaxInt64, v(2)/2, v(3)-5
		e.Allocated, e.Reserved, e.Used, e.Change = v(4), v(5), v(6), -v(7)-1
		total := v(8)
		e.Total = &total
		e.EventType = []string{"sample", "nccl", "allocation", "error", "warning"}[i%5]
		e.Metadata = []byte(`{"nccl":"\\\"barrier\":","a":["all-reduce",{}],"oom_reason":7}`)
	})...)
	for _, v := range memoryViews {
		if n, err := strconv.Atoi(s.query("SELECT count() FROM (SELECT * FROM {db}."+v+")", "max_execution_time=20")); err != nil {
			t.Errorf("%s: %d, %v", v, n, err)
		}
	}
	s.want("SELECT count() FROM (SELECT run, count() AS n FROM {db}.memory_missing_ranks GROUP BY run) WHERE n > 65536", "0")
}

// A question about one session reads that session alone, and one about a tenant without GPU Flight no device metrics.
func TestMemoryViewsReadWhatIsAsked(t *testing.T) {
	s := newStore(t, true)
	const sessions, rows = 20, 200_000
	s.exec(fmt.Sprintf("INSERT INTO {db}.memory_events_data (tenant, session_id, at, timestamp_ns, event_type, received_at, retention_days) SELECT 'acme', toString(number %% %d), fromUnixTimestamp64Nano(toInt64(number)), number, 'sample', now(), 30 FROM numbers(%d)", sessions, rows))
	s.exec(fmt.Sprintf("INSERT INTO {db}.device_metrics_data (tenant, session_id, at, received_at, retention_days) SELECT 'rival', toString(number %% %d), fromUnixTimestamp64Nano(toInt64(number)), now(), 30 FROM numbers(%d)", sessions, rows))
	for _, v := range memoryViews {
		ask := "tenant = 'acme' AND session_id = '7'"
		bound := rows / 2 // some views read a session several times, up to two granules more each time
		if slices.Contains(strings.Fields("memory_collectives memory_runs memory_cross_rank memory_missing_ranks memory_clock_skew memory_anomalies memory_ranks memory_issues"), v) {
			ask, bound = "tenant = 'nobody'", 0 // sessions of a job lie anywhere in its tenant
		}
		read := strings.Fields(s.query("SELECT table, sum(rows) FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}." + v + " WHERE " + ask + ")) WHERE table IN ('memory_events_data', 'device_metrics_data') GROUP BY table ORDER BY table"))
		for i := 0; i < len(read); i += 2 {
			most := bound
			if read[i] == "device_metrics_data" {
				most = 0
			}
			if n, err := strconv.Atoi(read[i+1]); err != nil || n > most {
				t.Errorf("%s reads %s rows of %s, want at most %d (%v)", v, read[i+1], read[i], most, err)
			}
		}
		if bound > 0 && len(read) == 0 {
			t.Errorf("%s reads nothing", v)
		}
	}
}

// The alerts that a track file has beside its events show once, however often they were stored, and not where an event says the same.
func TestMemoryAlertsOfTrackFiles(t *testing.T) {
	s := newStore(t, true)
	for range 2 {
		s.exec(`INSERT INTO {db}.memory_track_alerts_data (tenant, session_id, at, timestamp_ns, host, job_id, rank, device_id, memory_mb, threshold_mb, message, received_at, retention_days)
		SELECT 'acme', 'track', fromUnixTimestamp64Nano(ns), 1795000000000000000 + number * 250000000 AS ns, 'h', 'j', 1, -1, 500.5 + number, 300, concat('over ', toString(number)), now(), 30 FROM numbers(5)`)
	}
	s.exec(`INSERT INTO {db}.memory_events_data (tenant, session_id, at, timestamp_ns, event_type, host, rank, device_id, received_at, retention_days) VALUES
		('acme', 'track', fromUnixTimestamp64Nano(toInt64(1795000000250000000)), 1795000000250000000, 'Warning', 'h', 1, -1, now(), 30),
		('acme', 'track', fromUnixTimestamp64Nano(toInt64(1795000000500000000)), 1795000000500000000, 'warning', 'h', 1, 0, now(), 30),
		('acme', 'other', fromUnixTimestamp64Nano(toInt64(1795000000500000000)), 1795000000500000000, 'warning', 'h', 1, -1, now(), 30)`)
	s.want("SELECT session_id, source, severity, kind, count(), max(value), max(threshold), any(job_id), any(host) FROM {db}.memory_alerts GROUP BY ALL ORDER BY ALL", strings.Join([]string{
		"other\ttracker\twarning\ttracker\t1\t0\t0\t\th", "track\ttrack_file\twarning\tthreshold\t4\t529006592\t314572800\tj\th", "track\ttracker\twarning\ttracker\t2\t0\t0\t\th",
	}, "\n"))
	s.want("SELECT rank, device_id, allocated_bytes, context, timestamp_ns FROM {db}.memory_alerts WHERE session_id = 'track' AND source = 'track_file' ORDER BY at LIMIT 1",
		"1\t-1\t524812288\tover 0\t1795000000000000000")
}
