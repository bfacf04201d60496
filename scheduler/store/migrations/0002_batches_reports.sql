-- How many transactions the leader of this term has committed. One whose connection broke during a
-- commit finds out by this number whether the commit took place.
ALTER TABLE leases ADD COLUMN batch BIGINT NOT NULL DEFAULT 0;

-- Reports for people; the scheduler reads none of them. Days are UTC.

-- What was used, on the day on which it was given back. An attempt that still runs is not in it.
CREATE VIEW usage_by_day AS
SELECT substr(a.released_at, 1, 10) AS day,
  j.project AS project,
  j.user_name AS user_name,
  count(DISTINCT a.job) AS jobs,
  count(*) AS attempts,
  sum(coalesce(a.gpu_seconds, 0.0)) / 3600 AS gpu_hours,
  sum(coalesce(a.run_seconds, 0.0) * a.nodes) / 3600 AS node_hours
FROM attempts a JOIN jobs j ON j.id = a.job
WHERE a.released_at IS NOT NULL
GROUP BY substr(a.released_at, 1, 10), j.project, j.user_name;

-- How long jobs waited for their first start, by the day of their submission.
CREATE VIEW waits_by_day AS
SELECT substr(submitted_at, 1, 10) AS day,
  project,
  priority,
  count(*) AS jobs,
  avg(wait_seconds) AS mean_wait_seconds,
  max(wait_seconds) AS longest_wait_seconds,
  avg(nodes) AS mean_nodes
FROM jobs
WHERE starts > 0 AND submitted_at IS NOT NULL
GROUP BY substr(submitted_at, 1, 10), project, priority;

-- Attempts that ended badly, with the tasks that say why.
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
WHERE a.end_cause IN ('failed', 'fault', 'time_limit');

-- What broke where, and whether it is over.
CREATE VIEW node_incidents AS
SELECT i.id AS incident,
  n.name AS node_name,
  n.zone AS zone,
  n.leaf AS leaf,
  n.state AS node_state,
  i.kind AS kind,
  i.code AS code,
  i.device AS device,
  i.meaning AS meaning,
  i.action AS action,
  i.observed AS observed,
  i.job AS job,
  i.first_seen_at AS first_seen_at,
  i.last_seen_at AS last_seen_at,
  i.cleared_at AS cleared_at
FROM incidents i JOIN nodes n ON n.id = i.node;

-- Nodes that take no work, since when and why.
CREATE VIEW nodes_out_of_service AS
SELECT n.name AS node_name,
  n.zone AS zone,
  n.state AS state,
  n.state_since AS state_since,
  n.reason AS reason,
  n.actor AS actor,
  count(i.id) AS open_incidents
FROM nodes n LEFT JOIN incidents i ON i.node = n.id AND i.cleared_at IS NULL
WHERE n.state NOT IN ('ready', 'probation')
GROUP BY n.name, n.zone, n.state, n.state_since, n.reason, n.actor;

-- The log with names: of one job (WHERE job = 12), of one node (WHERE node_name = 'a-n1').
CREATE VIEW history AS
SELECT e.seq AS seq,
  e.at AS at,
  e.type AS type,
  e.job AS job,
  j.name AS job_name,
  j.user_name AS user_name,
  n.name AS node_name,
  e.data AS data
FROM events e LEFT JOIN jobs j ON j.id = e.job LEFT JOIN nodes n ON n.id = e.node;

-- How a validator's value drifts on a node.
CREATE VIEW validator_history AS
SELECT v.at AS at,
  n.name AS node_name,
  v.validator AS validator,
  v.verdict AS verdict,
  v.value AS value,
  v.unit AS unit,
  v.evidence AS evidence
FROM validations v JOIN nodes n ON n.id = v.node;
