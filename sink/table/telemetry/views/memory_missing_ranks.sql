-- A row is a rank that a run should have and that sent nothing.
SELECT tenant, job_id, run, missing_rank AS rank, world_size, participating_ranks, started_at, ended_at
FROM {{db}}.memory_runs
ARRAY JOIN missing_ranks AS missing_rank
