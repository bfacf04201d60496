-- Finished jobs that the scheduler keeps in memory no more. Their rows move here, with the events
-- that name them; nothing here ever changes again.

CREATE TABLE archived_jobs (
  id BIGINT PRIMARY KEY,
  name TEXT NOT NULL,
  user_name TEXT NOT NULL,
  project TEXT NOT NULL,
  node_group TEXT NOT NULL,
  state TEXT NOT NULL,
  outcome TEXT,
  exit_code BIGINT,
  priority BIGINT NOT NULL,
  nodes BIGINT NOT NULL,
  gpus_per_node BIGINT NOT NULL,
  submitted_at TEXT,
  state_since TEXT,
  starts BIGINT NOT NULL,
  wait_seconds DOUBLE PRECISION,
  run_seconds DOUBLE PRECISION NOT NULL,
  suspensions BIGINT NOT NULL,
  hardware_restarts BIGINT NOT NULL,
  failure_restarts BIGINT NOT NULL,
  checkpoint_step BIGINT,
  detail TEXT NOT NULL,
  data TEXT NOT NULL
);
CREATE INDEX archived_jobs_by_user ON archived_jobs (user_name);

CREATE TABLE archived_attempts (
  job BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  start_reason TEXT NOT NULL,
  end_cause TEXT,
  end_detail TEXT NOT NULL,
  nodes BIGINT NOT NULL,
  placed_at TEXT,
  running_at TEXT,
  notice_at TEXT,
  saved_at TEXT,
  released_at TEXT,
  run_seconds DOUBLE PRECISION,
  gpu_seconds DOUBLE PRECISION,
  data TEXT NOT NULL,
  PRIMARY KEY (job, epoch)
);

CREATE TABLE archived_tasks (
  job BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  task BIGINT NOT NULL,
  node BIGINT NOT NULL,
  state TEXT NOT NULL,
  started_at TEXT,
  exited_at TEXT,
  exit_reason TEXT,
  exit_code BIGINT,
  exit_signal BIGINT,
  exit_rank BIGINT,
  message TEXT,
  saved_step BIGINT,
  data TEXT NOT NULL,
  PRIMARY KEY (job, epoch, task)
);

CREATE TABLE archived_events (
  seq BIGINT PRIMARY KEY,
  at TEXT,
  at_ns BIGINT NOT NULL,
  type TEXT NOT NULL,
  job BIGINT,
  node BIGINT,
  data TEXT NOT NULL
);
CREATE INDEX archived_events_by_job ON archived_events (job, seq);

-- What decisions still ask of archived jobs: what each owner used lately, decayed to as_of, and the
-- newest past runs, for estimates.
CREATE TABLE archived_use (
  project TEXT NOT NULL,
  user_name TEXT NOT NULL,
  gpu_seconds DOUBLE PRECISION NOT NULL,
  as_of TEXT,
  data TEXT NOT NULL,
  PRIMARY KEY (project, user_name)
);

CREATE TABLE archived_runs (
  job BIGINT PRIMARY KEY,
  project TEXT NOT NULL,
  user_name TEXT NOT NULL,
  ended_at TEXT,
  run_seconds DOUBLE PRECISION NOT NULL,
  data TEXT NOT NULL
);

-- The reports show what is archived as well.
DROP VIEW usage_by_day;
CREATE VIEW usage_by_day AS
SELECT substr(released_at, 1, 10) AS day,
  project,
  user_name,
  count(DISTINCT job) AS jobs,
  count(*) AS attempts,
  sum(coalesce(gpu_seconds, 0.0)) / 3600 AS gpu_hours,
  sum(coalesce(run_seconds, 0.0) * nodes) / 3600 AS node_hours
FROM (
  SELECT a.released_at, j.project, j.user_name, a.job, a.gpu_seconds, a.run_seconds, a.nodes
  FROM attempts a JOIN jobs j ON j.id = a.job
  WHERE a.released_at IS NOT NULL
  UNION ALL
  SELECT a.released_at, j.project, j.user_name, a.job, a.gpu_seconds, a.run_seconds, a.nodes
  FROM archived_attempts a JOIN archived_jobs j ON j.id = a.job
  WHERE a.released_at IS NOT NULL
) released
GROUP BY substr(released_at, 1, 10), project, user_name;

DROP VIEW waits_by_day;
CREATE VIEW waits_by_day AS
SELECT substr(submitted_at, 1, 10) AS day,
  project,
  priority,
  count(*) AS jobs,
  avg(wait_seconds) AS mean_wait_seconds,
  max(wait_seconds) AS longest_wait_seconds,
  avg(nodes) AS mean_nodes
FROM (
  SELECT submitted_at, project, priority, wait_seconds, nodes FROM jobs
  WHERE starts > 0 AND submitted_at IS NOT NULL
  UNION ALL
  SELECT submitted_at, project, priority, wait_seconds, nodes FROM archived_jobs
  WHERE starts > 0 AND submitted_at IS NOT NULL
) started
GROUP BY substr(submitted_at, 1, 10), project, priority;

DROP VIEW failures;
CREATE VIEW failures AS
SELECT a.released_at AS at,
  a.job AS job,
  j.name AS job_name,
  j.project AS project,
  j.user_name AS user_name,
  a.epoch AS epoch,
  a.end_cause AS cause,
  a.end_detail AS detail,
  a.run_seconds AS run_seconds,
  n.name AS node_name,
  t.exit_reason AS exit_reason,
  t.exit_code AS exit_code,
  t.exit_signal AS exit_signal,
  t.message AS message
FROM attempts a JOIN jobs j ON j.id = a.job
LEFT JOIN tasks t ON t.job = a.job AND t.epoch = a.epoch
  AND t.exit_reason NOT IN ('none', 'succeeded', 'suspended', 'stopped')
LEFT JOIN nodes n ON n.id = t.node
WHERE a.end_cause IN ('failed', 'fault', 'time_limit')
UNION ALL
SELECT a.released_at, a.job, j.name, j.project, j.user_name, a.epoch, a.end_cause, a.end_detail,
  a.run_seconds, n.name, t.exit_reason, t.exit_code, t.exit_signal, t.message
FROM archived_attempts a JOIN archived_jobs j ON j.id = a.job
LEFT JOIN archived_tasks t ON t.job = a.job AND t.epoch = a.epoch
  AND t.exit_reason NOT IN ('none', 'succeeded', 'suspended', 'stopped')
LEFT JOIN nodes n ON n.id = t.node
WHERE a.end_cause IN ('failed', 'fault', 'time_limit');

DROP VIEW history;
CREATE VIEW history AS
SELECT e.seq AS seq,
  e.at AS at,
  e.type AS type,
  e.job AS job,
  j.name AS job_name,
  j.user_name AS user_name,
  n.name AS node_name,
  e.data AS data
FROM events e LEFT JOIN jobs j ON j.id = e.job LEFT JOIN nodes n ON n.id = e.node
UNION ALL
SELECT e.seq, e.at, e.type, e.job, j.name, j.user_name, n.name, e.data
FROM archived_events e LEFT JOIN archived_jobs j ON j.id = e.job LEFT JOIN nodes n ON n.id = e.node;
