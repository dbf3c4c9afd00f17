-- A row is the start of a session, as its first line says it.
SELECT
    tenant, session_id, at, pid, app, log_path, hostname, ip, cpu_pct, ram_used_bytes, ram_total_bytes, session_kind,
    profiling_engine, analysis_id, pass_index, pass_count, run_id, segment_index, roll_chain_id, part_index, previous_run_id
FROM {{db}}.job_starts_data
