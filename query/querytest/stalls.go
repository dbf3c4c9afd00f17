// Package querytest has rows for tests of what is read back.
package querytest

import (
	"strings"
	"testing"

	"github.com/warpline/warpline/sink/table/tabletest"
)

// Build ids of the cubins in Stalls, the whole name of two kernels that samples cannot tell apart, and a name that would like to be more.
var (
	Known, Old, Missing = strings.Repeat("a", 32), strings.Repeat("0a", 16), strings.Repeat("b", 32)
	Long                = "_Z9transformI" + strings.Repeat("N2ns4typeE", 20) + "EvPfi"
	Evil                = "evil\x1b[31m;\nname"
)

// stalls are rows of a Parca agent, which names things in each row and whose lines are in cubins, and of GPU Flight, which sends lines.
var stalls = []string{
	`sessions_data (tenant, session_id, source, app, host, started_at, first_event_at, last_event_at, samples, kernels, last_received_at)
		VALUES
		('acme', 'parca:node-1:100:train', 'parca', 'train', 'node-1', '2026-11-19 12:00:00', '2026-11-19 12:00:00', '2026-11-20 12:00:59', 100,
			3, '2026-11-20 12:01:00'),
		('acme', 'parca:node-2:-:serve', 'parca', 'serve', 'node-2', '2026-11-20 12:00:00', '2026-11-20 12:00:00', '2026-11-20 12:00:59', 40, 0,
			'2026-11-20 12:01:00'),
		('acme', 'flight', 'gpu-flight', 'flight.py', 'node-3', '2026-11-20 12:00:00', '2026-11-20 12:00:00', '2026-11-20 12:00:59', 10, 1,
			'2026-11-20 12:01:00'),
		('acme', 'cubin:` + Known + `', 'parca', '', '', '2026-11-20 12:00:00', '2026-11-20 12:00:00', '2026-11-20 12:00:00', 0, 0,
			'2026-11-20 12:01:00'),
		('other', 'parca:node-9:1:secret', 'parca', 'secret', 'node-9', '2026-11-20 12:00:00', '2026-11-20 12:00:00', '2026-11-20 12:00:00', 9, 0,
			'2026-11-20 12:01:00')`,
	// gemm is in a cubin that is known, before that in an older build of it; a launch stack is known of some of its samples.
	`pc_buckets_data (tenant, session_id, bucket, bucket_s, cubin, build_id, function, demangled, pc_offset, sass, stall_reason, period_ns,
		device_id, content_hi, content_lo, samples, gpu_ns, hits, received_day, retention_days)
		SELECT tenant, session, toDateTime64(minute, 9, 'UTC'), 60, 'cubin-00000000000000aa', build, function, name, offset, code,
			concat('{{stall}}', why), 1000, -1, stack, stack, n, 1000 * n, 1, today(), 400
		FROM (SELECT *, toUInt64(0) AS stack FROM values('tenant String, session String, minute String, build String, function String,
			name String, offset UInt64, code String, why String, n UInt64',
			('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', '{{known}}', '_Z4gemmPKfPf', 'gemm(float const*, float*)', 16, 'LDG',
				'long_scoreboard', 10),
			('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', '{{known}}', '_Z4gemmPKfPf', 'gemm(float const*, float*)', 16, 'LDG',
				'long_scoreboard_not_issued', 55),
			('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', '{{known}}', '_Z4gemmPKfPf', 'gemm(float const*, float*)', 32, 'BAR',
				'selected', 10),
			('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', '{{known}}', '_Z4gemmPKfPf', 'gemm(float const*, float*)', 32, 'FFMA',
				'selected', 10),
			('acme', 'parca:node-1:100:train', '2026-11-19 12:00:00', '{{old}}', '_Z4gemmPKfPf', 'gemm(float const*, float*)', 16, 'LDG',
				'long_scoreboard', 100),
			('acme', 'parca:node-1:100:train', '2026-11-19 12:00:00', '{{old}}', '_Z4gemmPKfPf', 'gemm(float const*, float*)', 32, 'BAR',
				'selected', 300),
			('acme', 'parca:node-2:-:serve', '2026-11-20 12:00:00', '{{missing}}', '{{evil}}', '', 16, '', 'wait', 30),
			('acme', 'parca:node-2:-:serve', '2026-11-20 12:00:00', '{{missing}}', '{{cut}}', '', 16, '', 'wait', 5),
			('other', 'parca:node-9:1:secret', '2026-11-20 12:00:00', '{{known}}', 'secret', 'secret', 16, 'LDG', 'wait', 9))
		UNION ALL SELECT 'acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', '{{known}}', '_Z4gemmPKfPf',
			'gemm(float const*, float*)', * FROM values('offset UInt64, code String, why String, n UInt64, stack UInt64',
			(16, 'LDG', 'long_scoreboard', 30, 1), (16, 'LDG', 'long_scoreboard', 20, 2), (32, 'BAR', 'barrier', 20, 1)))`,
	`pc_buckets_data (tenant, session_id, bucket, bucket_s, cubin, build_id, function, pc_offset, sass, stall_reason, period_ns, device_id,
		samples, gpu_ns, hits, received_day, retention_days) VALUES
		('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', 60, 'cubin-00000000000000aa', '{{known}}', '_Z4gemmPKfPf', 16, 'LDG',
			'stall_reason_7', 0, -1, 1000, 0, 1, today(), 400),
		('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', 60, 'cubin-00000000000000aa', '{{known}}', '_Z4gemmPKfPf', 16, 'LDG',
			'smsp__pcsamp_sample_count', 1000, -1, 60, 60000, 1, today(), 400)`,
	// 50 of the 60 at offset 16 have a stack, and the 20 at offset 32.
	`kernel_stacks_data (tenant, session_id, bucket, bucket_s, function, content_hi, content_lo, calls, kernel_ns, received_day,
		retention_days) VALUES
		('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', 60, '_Z4gemmPKfPf', 1, 1, 2, 700, today(), 400)`,
	// What the worker adds up beside the samples.
	`pc_cubins_data (tenant, session_id, bucket, bucket_s, build_id, cubin, samples, received_day, retention_days)
		SELECT tenant, session_id, bucket, bucket_s, build_id, cubin, sum(samples), received_day, retention_days FROM {db}.pc_buckets_data
		GROUP BY ALL`,
	`stack_frames_data (tenant, content_hi, content_lo, frames, received_day, retention_days) VALUES
		('acme', 1, 1, 'launch.cc:9 launch\nmain.py:3 <module>', today(), 400),
		('acme', 2, 2, 'libcuda.so+0x1234\nmain.py:4 <module>', today(), 400)`,
	`cubins_data (tenant, session_id, build_id, whole, status, sm, size_bytes, functions, lines, uploaded_at, received_day, retention_days)
		SELECT 'acme', concat('cubin:', b), b, 0, 'ok', 90, 1000, 1, 2, '2026-11-20 12:00:00', today(), 400
		FROM (SELECT arrayJoin(['{{known}}', '{{old}}']) AS b)`,
	`cubin_functions_data (tenant, session_id, build_id, whole, function, size_bytes, received_day, retention_days)
		SELECT 'acme', concat('cubin:', b), b, 0, '_Z4gemmPKfPf', 256, today(), 400 FROM (SELECT arrayJoin(['{{known}}', '{{old}}']) AS b)`,
	`cubin_lines_data (tenant, session_id, build_id, whole, function, pc_from, pc_to, file, line, inline_chain, received_day, retention_days)
		SELECT 'acme', concat('cubin:', b), b, 0, '_Z4gemmPKfPf', 32 * n, 32 * n + 32, ['gemm.cu', 'load.cuh'][n + 1], [42, 7][n + 1],
			['', 'load.cuh:7 _Z4loadPKf\ngemm.cu:43 _Z4gemmPKfPf'][n + 1], today(), 400
		FROM (SELECT arrayJoin(['{{known}}', '{{old}}']) AS b, arrayJoin([0, 1]) AS n)`,
	`pc_samples_data (tenant, session_id, bucket, bucket_s, function, function_id, pc_offset, stall_reason, metric_id, samples, gpu_ns, hits,
		device_id, file, line, received_day, retention_days) VALUES
		('acme', 'flight', '2026-11-20 12:00:00', 60, 'scan(int*)', 1, 16, '{{stall}}wait', 1, 7, 0, 1, 0, 'scan.cu', 5, today(), 400),
		('acme', 'flight', '2026-11-20 12:00:00', 60, 'scan(int*)', 1, 32, '{{stall}}barrier', 2, 3, 0, 1, 0, '', 0, today(), 400)`,
	`kernel_stats_data (tenant, session_id, bucket, bucket_s, kernel_id, kernel, calls, total_ns, min_ns, max_ns, received_day, retention_days)
		VALUES ('acme', 'parca:node-1:100:train', '2026-11-20 12:00:00', 60, 1, '_Z4gemmPKfPf', 3, 1000, 300, 400, today(), 400),
		('acme', 'parca:node-2:-:serve', '2026-11-20 12:00:00', 60, 1, concat('{{cut}}', 'A'), 1, 40, 40, 40, today(), 400),
		('acme', 'parca:node-2:-:serve', '2026-11-20 12:00:00', 60, 2, concat('{{cut}}', 'B'), 1, 60, 60, 60, today(), 400),
		('acme', 'flight', '2026-11-20 12:00:00', 60, 1, 'scan(int*)', 1, 500, 500, 500, today(), 400)`,
}

// Stalls returns a store with PC samples of a Parca agent and of GPU Flight, for tenant acme, and some of a tenant other. Of kind stall,
// acme has 100 samples of kernel gemm on 2026-11-20 and 400 the day before, 35 without a cubin, and 10 of GPU Flight.
func Stalls(t testing.TB) *tabletest.Store {
	t.Helper()
	s := tabletest.New(t, true)
	fill := strings.NewReplacer("{{stall}}", "smsp__pcsamp_warps_issue_stalled_", "{{known}}", Known, "{{old}}", Old, "{{missing}}", Missing,
		"{{evil}}", "evil\\x1b[31m;\\nname", "{{cut}}", Long[:127])
	for _, rows := range stalls {
		s.Exec("INSERT INTO {db}." + fill.Replace(rows))
	}
	return s
}
