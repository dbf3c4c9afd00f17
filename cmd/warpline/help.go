package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/warpline/warpline/cmd/warpline/bench"
)

// helpTexts are those helps of flags and commands that are too long for a line of code, by the names that stand in their tags.
var helpTexts = kong.Vars{
	"audit_accept": "Forget, once they are printed, what the roles found until now (messages set aside, chunks " +
		"that were missing, damaged bytes, replay windows that were cut), and delete what was set aside. What the audit finds itself stays.",
	"audit_deep": "Look at every row too: count the rows of each chunk, and compare with what the ledger says of its range. Takes some " +
		"seconds for 10 million rows.",
	"bench_against": "Print each workload's figures in parts of those in FILE, which --record wrote, corrected by the speed of the " +
		"machine.",
	"bench_dir": "Folder for generated windows and, without --url, for the service's data; removed at the end. " +
		"By default in the folder for temporary files.",
	"bench_read": "Measure questions instead: fill a service with one session, ask, add the others, ask again. It asks " +
		"the report, the questions of docs/queries.md and some views.",
	"bench_soak": "Measure a load for so long instead: short sessions come all the time, in bursts of 10 s, and every " +
		"minute one line says what the service keeps.",
	"bench_url": "Send to this gateway instead of a service of the bench's own; needs --key and " +
		"--clickhouse-http.",
	"bench_workload": "What to send: columnar, full, mixed, hour, pc (PC samples over gRPC), regions (intra-kernel captures), " +
		"trace (of PyTorch) or noisy (a quiet tenant beside noisy ones); several run one after the other, each on an empty service.",
	"bench_neighbour_sessions": "Workload noisy: sessions that neighbour sessions has when the quiet tenant is measured; then it begins " +
		"more. A million take five minutes on two cores.",
	"bench_neighbours":    strings.Join(bench.Neighbours(), ", "),
	"chunk_names_memory":  "Memory for the names of all sessions; what is beyond is loaded again when a session speaks.",
	"clickhouse_http":     "The same server's HTTP protocol; by default the host of --clickhouse at port 8123.",
	"clickhouse_password": "That user's password; better by the environment than as a flag.",
	"commands_demo":       "Show it all: start everything, replay captured sessions, print a report, leave nothing behind.",
	"commands_ikp": "Write what the intra-kernel profiler's write_trace would, from its buffers (trace, summary, distributions of blocks) " +
		"or from its trace (all but that), without a server; with \"ikp plot\" draw the distributions.",
	"commands_report": "Print what arrived, the hottest kernels, scopes, stalls and copies, or with \"report " +
		"memory\" the memory of ranks, with \"report stalls\" where warps waited, with \"report trace\" where the time of a trace went.",
	"cost_cpu": "Microseconds of CPU that an event takes in all roles and ClickHouse; " +
		"docs/sizing.md measures it.",
	"gateway_admin_listen": "Where the admin API is, at /api/v1/admin/; by default nowhere. Usage and rejects need --clickhouse.",
	"gateway_grpc_listen":  "Where Parca agents send, over gRPC; by default nowhere.",
	"gateway_metrics_listen": "Where /metrics, /healthz and /readyz are too. Where others than this machine can reach --listen, /metrics is " +
		"here alone.",
	"gateway_tenants": "Tenants and their limits, YAML: \"tenants:\", names, and below each note, disabled, and limits named as the flags. " +
		"Looked at every 2 s.",
	"gateway_ui_url": "Where people see sessions: answers to traces have the link <URL>/session?session=<id> then.",
	"gateway_listen": "Where clients send, and where /healthz and /readyz are, and on loopback /metrics.",
	"tls_client_ca":  "Certificates, PEM, one of which must have signed that of each client of --listen.",
	"grpc_client_ca": "Certificates, PEM, one of which must have signed that of each client of --grpc-listen.",
	"ikp_input": "JSON with the session, region names, block filter, options and path of the launch: what was given to the " +
		"profiler's init and write_trace. - is stdin.",
	"ikp_plot": "Draw summaries and distributions of blocks: each region, all over each other, blocks over each other, and a heat map of " +
		"blocks and regions.",
	"ikp_plot_path": "Summaries (_summary.json), distributions (block_N.json, or their folder _block_region_dists), or a folder " +
		"that \"warpline ikp\" wrote to; what is packed with gzip is unpacked.",
	"ikp_write": "Write what write_trace would, from buffers or from its trace. The word \"write\" may be left out; \"warpline ikp plot\" " +
		"draws what is there.",
	"ikp_trace": "A trace that write_trace wrote, instead of buffers. Without --input what it does not say is 0, and a region's id " +
		"is the lowest of its colour.",
	"change_limit_events_per_second": "Events a second; 0 for the default again, as with all below. What is left out stays.",
	"metrics_tenants":                "Tenants that have series of their own in /metrics; the rest is (other).",
	"limit_active_sessions":          "Sessions of one tenant that may be active at once, at most 65536; 0: any number.",
	"limit_pending_bytes":            "Bytes of one tenant, before compression, that may be accepted and not in SQL yet; 0: any number.",
	"key_limit_events_per_second":    "Events a second of this key or tenant; by default the service's limit, as with all below.",
	"pprof_type": "What to write: pc, samples of instructions (kind stall alone), with inline frames, launch stacks and the labels " +
		"stall_reason and sass; or kernels, calls and durations.",
	"retention_classes": "Retention classes that tenants and keys can have, as short=1d/30d: days that raw rows are kept, and rollups. " +
		"At most 7 beside class default, which --retention-days and --rollup-days make.",
	"retention_class":        "Retention class of what it sends: one that the gateways have.",
	"change_raw_rows":        "Whether raw rows are kept of what comes from now on, on or off; --raw-rows= is the default again.",
	"change_retention_class": "Retention class of what it sends from now on; --retention-class= is none again.",
	"purge_revoke_keys": "Revoke its keys first, so that nothing more comes, and with --clickhouse drop its user there. Otherwise they stay " +
		"valid.",
	"web_secret": "Secret that the passwords are made from of users as which \"warpline web\" asks: the same there and in \"warpline tenant " +
		"sql-user\".",
	"rejects_max": "Most bytes of what was refused that are kept of one tenant, in ClickHouse and NATS: beyond it the oldest rejects are " +
		"dropped, save the newest of each kind; 0: no bound but their retention.",
	"report_all": "What arrived, the hottest kernels, scopes, stalls and copies. The word \"all\" may be left " +
		"out. There are \"warpline report memory\", \"stalls\", \"regions\" and \"trace\" beside it.",
	"report_base_build": "Compare with samples of this build id, or of those that begin so: which shares rose? Without --build all other " +
		"builds are compared.",
	"report_base_since": "Compare with another time, from here on: which shares rose?",
	"report_base_until": "The end of that time; by default --since.",
	"selection_since": "Only minutes (after 30 days, hours) that begin at this time or later: 2026-11-20T12:00:00Z, or how long ago, as " +
		"90m, 24h or 7d.",
	"send_attempts": "Give up a window after N tries; 0 tries for ever, as the agent does. A wrong key or address " +
		"is told at once.",
	"send_data": "Data folder of a \"warpline up\" on this machine, for its address and its key.",
	"send_path": "Session folders, folders of session folders, .log, .ndjson and .gz files, memory telemetry " +
		"(.json, .ndjson and .csv exports, oom_dump folders), files of Parca agents (.padata, .padata.zst), cubins (.cubin, a stripped one " +
		"named <build id>.cubin), captures and traces (.json, .json.gz), or folders of all of them.",
	"send_url": "The gateway, with its path prefix if it has one; by default that of the \"warpline up\" on " +
		"--data, or else http://127.0.0.1:8080.",
	"telemetry_check_file": "A JSON file: one record, an array, or an object with a list of events. Named .ndjson, .jsonl " +
		"or .csv it is read as that, and .gz is unpacked, as send does; send takes bundles and track files too. - reads stdin.",
	"telemetry_default_sampling_interval_ms": "Sampling interval of converted telemetry that has none.",
	"telemetry_permissive_legacy":            "Convert telemetry of before schema version 2; --permissive-legacy=false refuses it.",
	"telemetry_rules_peer": "Judge telemetry as this release of stormlog does: 0.4.3 takes schema versions 1 to 4, 0.2.9 " +
		"those up to 2.",
	"trace_export": "Write sessions of a service as one trace for Perfetto or in Chrome's JSON: traces, GPU Flight's sessions, PC samples, " +
		"memory records and intra-kernel captures.",
	"trace_export_out": "File to write, - is stdout: .json and .json.gz for Chrome's JSON, else Perfetto's own.",
	"trace_open":       "Serve a trace, or sessions of a service, on this machine, and print the link that opens it in Perfetto's viewer.",
	"trace_session":    "A session, or how it begins; several, as the ranks of a job, become one trace.",
	"trace_fix": "Write traces anew with every arrow on the slices that it was meant for, overlaps in rows of their own, broken JSON " +
		"mended, and the ranks of a job in one file.",
	"trace_lint": "Say which arrows of a trace Perfetto and chrome://tracing draw on other slices than was meant, backwards or not at all, " +
		"and at which byte Perfetto stops reading it.",
	"up_admin_listen":         "Where the admin API is, at /api/v1/admin/, beside --listen, which has it where it is on loopback.",
	"up_clickhouse_http_port": "HTTP port of the embedded ClickHouse, on 127.0.0.1; 0 for any free one.",
	"up_clickhouse_tcp_port":  "Native port of the embedded ClickHouse, on 127.0.0.1; 0 for any free one.",
	"up_open_sql":             "Let user reader read the rows of all tenants on 127.0.0.1, with its password; --open-sql=false ends that.",
	"up_sql_tenants": "Tenants that can ask at /clickhouse/ at once, at most 256; the slot of a silent one is lent to the next. 0: none can " +
		"ask.",
	"up_durability": "What \"accepted\" means: os survives a killed process, fsync survives a power cut and is slower. On a " +
		"cluster, --replicas 3 makes it survive the loss of a machine.",
	"up_grpc_listen": "Where Parca agents send, over gRPC; empty for nowhere.",
	"up_nats_listen": "Where the embedded NATS listens, for \"warpline key\" and other roles; empty for nowhere.",
	"up_store_max":   "Most that the embedded NATS may write; 0 for what the streams may take, never over 40 % of the free space.",
	"verdict_wait":   "How long to wait, when everything is taken, until the workers have said what they refused of it; then it ends with 3.",
}
