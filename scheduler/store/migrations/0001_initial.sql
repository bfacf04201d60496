-- The first schema. Columns are for people and reports; `data` is the complete row as JSON and is
-- what the scheduler loads. Times are UTC text that sorts; NULL = has not happened.

CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  term BIGINT NOT NULL,
  holder TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  expires_ns BIGINT NOT NULL
);

CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value BIGINT NOT NULL
);

CREATE TABLE nodes (
  id BIGINT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  node_group TEXT NOT NULL,
  zone TEXT NOT NULL,
  leaf TEXT NOT NULL,
  state TEXT NOT NULL,
  state_since TEXT,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  job BIGINT,
  cpus BIGINT NOT NULL,
  memory_bytes BIGINT NOT NULL,
  gpus BIGINT NOT NULL,
  gpu_model TEXT NOT NULL,
  faults BIGINT NOT NULL,
  data TEXT NOT NULL
);

CREATE TABLE jobs (
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
CREATE INDEX jobs_by_user ON jobs (user_name);

CREATE TABLE attempts (
  job BIGINT NOT NULL REFERENCES jobs (id),
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

CREATE TABLE tasks (
  job BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  task BIGINT NOT NULL,
  node BIGINT NOT NULL REFERENCES nodes (id),
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
  PRIMARY KEY (job, epoch, task),
  FOREIGN KEY (job, epoch) REFERENCES attempts (job, epoch)
);

CREATE TABLE incidents (
  id BIGINT PRIMARY KEY,
  node BIGINT NOT NULL REFERENCES nodes (id),
  kind TEXT NOT NULL,
  code BIGINT NOT NULL,
  device TEXT NOT NULL,
  meaning TEXT NOT NULL,
  action TEXT NOT NULL,
  job BIGINT,
  observed BIGINT NOT NULL,
  first_seen_at TEXT,
  last_seen_at TEXT,
  recorded_at TEXT,
  cleared_at TEXT,
  data TEXT NOT NULL
);
CREATE INDEX incidents_by_node ON incidents (node);

CREATE TABLE events (
  seq BIGINT PRIMARY KEY,
  at TEXT,
  at_ns BIGINT NOT NULL,
  type TEXT NOT NULL,
  job BIGINT,
  node BIGINT,
  data TEXT NOT NULL
);
CREATE INDEX events_by_job ON events (job, seq);

-- One row for every verdict ever given, kept when the next validation replaces those of the node.
CREATE TABLE validations (
  seq BIGINT NOT NULL REFERENCES events (seq),
  item BIGINT NOT NULL,
  node BIGINT NOT NULL REFERENCES nodes (id),
  request_id TEXT NOT NULL,
  at TEXT,
  validator TEXT NOT NULL,
  verdict TEXT NOT NULL,
  value DOUBLE PRECISION,
  unit TEXT NOT NULL,
  evidence TEXT NOT NULL,
  seconds DOUBLE PRECISION,
  PRIMARY KEY (seq, item)
);
CREATE INDEX validations_by_node ON validations (node, seq);
