package table_test

import (
	"strings"
	"testing"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

const inSession = "('acme', 's', "

// launch inserts what a kernel was launched with; its name is k<id>.
func (s *store) launch(id, registers, occupancy, regOccupancy, spilled string) {
	s.Helper()
	s.Exec("INSERT INTO {db}.launches (tenant, session_id, launch_id, kernel_id, config_id, registers, received_day, retention_days) " +
		"VALUES " + inSession + id + ", " + id + ", " + id + ", " + registers + ", today(), 30)")
	s.Exec("INSERT INTO {db}.launch_configs (tenant, session_id, config_id, occupancy, reg_occupancy, limiting_resource, " +
		"local_mem_per_thread_bytes, received_day, retention_days) VALUES " +
		inSession + id + ", " + occupancy + ", " + regOccupancy + ", 'registers', " + spilled + ", today(), 30)")
	s.Exec("INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value, received_day, retention_days) VALUES ('acme', 's', " +
		"'kernel_dict', " + id + ", 'k" + id + "', today(), 30)")
}

// Each rule speaks just beyond its threshold and keeps silent just before it.
func TestInsightRules(t *testing.T) {
	for name, c := range map[string]struct {
		silent, speaks func(s *store)
		want           string // rule, severity, subject, value, threshold, share
	}{
		"occupancy": {
			func(s *store) { s.launch("1", "32", "0.5", "1", "0"); s.launch("2", "32", "0", "0", "0") }, // 0 is not known
			func(s *store) {
				s.launch("3", "32", "0.49", "1", "0")
				s.Exec("INSERT INTO {db}.kernel_stats_data (tenant, session_id, bucket, kernel_id, kernel, calls, total_ns, " +
					"received_day, retention_days) VALUES ('acme', 's', now(), 3, 'k3', 1, 30, today(), 30), ('acme', 's', now(), 9, " +
					"'other', 1, 90, today(), 30), ('acme', 's2', now(), 3, 'k3', 1, 900, today(), 30)")
			},
			"occupancy\thigh\tk3\t0.49\t0.5\t0.25",
		},
		"spill": {
			func(s *store) { s.launch("1", "32", "1", "1", "0") },
			func(s *store) { s.launch("2", "32", "1", "1", "1") },
			"spill\tmedium\tk2\t1\t0\t\\N",
		},
		"registers": {
			func(s *store) { s.launch("1", "32", "1", "0.1", "0"); s.launch("2", "200", "1", "0.6", "0") },
			func(s *store) { s.launch("3", "33", "1", "0.59", "0") },
			"registers\tmedium\tk3\t0.59\t0.6\t\\N",
		},
		"stall": {
			func(s *store) { // 40 of 100, and what is work rather than waiting
				s.sample("f", 1, 0, stalled+"long_scoreboard", 40, "", 0)
				s.sample("f", 1, 16, stalled+"selected", 60, "", 0)
				s.sample("f", 1, 0, stalled+"long_scoreboard_not_issued", 900, "", 0)
			},
			func(s *store) { s.sample("f", 1, 32, stalled+"long_scoreboard", 1, "", 0) },
			"stall\tmedium\tf\t0.406\t0.4\t1",
		},
		"divergence": {
			func(s *store) {
				s.metric("f", 1, 0, "smsp__sass_inst_executed", 100, "", 0)
				s.metric("f", 1, 0, "smsp__sass_thread_inst_executed", 2400, "", 0)
				s.metric("amd", 2, 0, "SQ_INSTS_VALU", 7, "", 0)
			},
			func(s *store) { s.metric("f", 1, 16, "smsp__sass_inst_executed", 1, "", 0) },
			"divergence\tmedium\tf\t0.743\t0.75\t1",
		},
		"temperature": {
			func(s *store) { s.temperature(84) },
			func(s *store) { s.temperature(85) },
			"temperature\thigh\tGPU 0 H100\t85\t85\t\\N",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, true)
			s.Exec("INSERT INTO {db}.devices_data (tenant, session_id, device_id, name, received_day, retention_days) VALUES ('acme', " +
				"'s', 0, 'H100', today(), 30)")
			c.silent(s)
			s.Want("SELECT * FROM {db}.insights", "")
			c.speaks(s)
			s.Want("SELECT rule, severity, subject, round(value, 3), threshold, share FROM {db}.insights", c.want)
			s.Want("SELECT rule FROM {db}.insight_"+name, name)
			// Whatever it says, it says what to do, and the numbers behind it.
			s.Want("SELECT countIf(length(message) > 40 AND endsWith(message, '.') AND notEmpty(numbers) AND category != '' AND "+
				"metric != '') FROM {db}.insights", "1")
		})
	}
}

func (s *store) temperature(c uint64) {
	s.Helper()
	m := table.DeviceMetrics1m
	s.Seed(m, 1, func(b *table.Batch, _ int) {
		session(m.Head, b)
		m.BucketS.Append(b, 60)
		m.DeviceID.Append(b, 0)
		m.Samples.Append(b, 1)
		key := []int16{3} // temp_c
		m.Sums.AppendPairs(b, key, []uint64{c})
		m.Lows.AppendPairs(b, key, []uint64{c})
		m.Highs.AppendPairs(b, key, []uint64{c})
	})
}

// syncRule returns the SELECT of a rule about synchronisation.
func syncRule(t *testing.T, name, database string) string {
	t.Helper()
	for _, v := range tabletest.Schema().Views(table.Options{Database: database}) {
		if v.Name == name {
			return v.Body
		}
	}
	t.Fatal("no view " + name)
	return ""
}

// The two rules about synchronisation, over plain tables with the columns of the views that they read.
func TestSyncInsights(t *testing.T) {
	s := newStore(t, false)
	s.Exec("CREATE DATABASE {db}")
	s.Exec("CREATE TABLE {db}.sync_stats (tenant LowCardinality(String), session_id LowCardinality(String), bucket DateTime64(9, " +
		"'UTC'), function_id UInt32, stack_trace String, sync_type LowCardinality(String), calls UInt64, total_ns UInt64, max_ns " +
		"UInt64) ENGINE = Memory")
	s.Exec("CREATE TABLE {db}.syncs (tenant LowCardinality(String), session_id LowCardinality(String), started_at DateTime64(9, " +
		"'UTC'), duration_ns UInt64, sync_type LowCardinality(String), stream_id UInt64, corr_id UInt32, function_id UInt32, " +
		"stack_trace String) ENGINE = Memory")
	s.Exec("CREATE VIEW {db}.syncs_data AS SELECT * FROM {db}.syncs")
	s.Exec("CREATE TABLE {db}.sessions (tenant LowCardinality(String), session_id LowCardinality(String), started_at DateTime64(9, " +
		"'UTC'), ended_at DateTime64(9, 'UTC'), last_event_at DateTime64(9, 'UTC')) ENGINE = Memory")
	s.Exec("CREATE TABLE {db}.kernels_data (tenant LowCardinality(String), session_id LowCardinality(String), started_at " +
		"DateTime64(9, 'UTC')) ENGINE = Memory")
	// A session of 100 s; call sites that take 10, 11, 50 and 51 s of it in two rows each, and one without a stack.
	s.Exec("INSERT INTO {db}.sessions VALUES ('acme', 's', '1970-01-01 01:00:00', '1970-01-01 01:01:40', '1970-01-01 01:01:00'), " +
		"('acme', 'without a start', '1970-01-01 00:00:00', '1970-01-01 01:01:40', '1970-01-01 01:01:00')")
	s.Exec(`INSERT INTO {db}.sync_stats SELECT 'acme', arrayJoin(['s', 'without a start']), 1000, 7, if(number = 9, '',
    concat('main|train|step', toString(number))), 'stream', 1, number * 500000000, 1
		FROM numbers(1) ARRAY JOIN [10, 11, 50, 51, 9, 9, 9] AS number ARRAY JOIN [1, 2] AS twice`)
	s.Want("SELECT rule, severity, subject, round(value, 3), threshold, numbers['calls'] FROM ("+syncRule(t, "insight_sync_time",
		s.Opts.Database)+") ORDER BY value", strings.Join([]string{
		"sync_time\tmedium\tmain|train|step11\t0.11\t0.1\t2",
		"sync_time\tmedium\tstream at call stack 7\t0.27\t0.1\t6",
		"sync_time\tmedium\tmain|train|step50\t0.5\t0.1\t2",
		"sync_time\thigh\tmain|train|step51\t0.51\t0.5\t2",
	}, "\n"))
	// A kernel a second. The site "loop" is called at 2.5, 5.5 and 8.5: three kernels between. "short" has three and then two, "twice"
	// three once.
	s.Exec("INSERT INTO {db}.kernels_data SELECT 'acme', 's', toDateTime64(1000 + number, 9, 'UTC') FROM numbers(20)")
	s.Exec("INSERT INTO {db}.kernels_data SELECT 'rival', 's', toDateTime64(1000 + number / 100, 9, 'UTC') FROM numbers(2000)")
	s.Exec(`INSERT INTO {db}.syncs SELECT 'acme', 's', toDateTime64(1000, 9, 'UTC') + toIntervalMillisecond(at), 5, 'stream', 0, 0, 0, site
		FROM values('site String, at Int64', ('loop', 8500), ('loop', 2500), ('loop', 5500), ('short', 2500), ('short', 5500), ('short', 7500),
    ('twice', 1500), ('twice', 9500), ('early', -900), ('early', -800), ('early', -700))`)
	s.Want("SELECT rule, severity, subject, value, threshold, numbers['kernels_between'], numbers['calls'] FROM ("+syncRule(t,
		"insight_sync_loop", s.Opts.Database)+")", "sync_loop\tmedium\tloop\t3\t3\t3\t3")
}
