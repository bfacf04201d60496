-- Users, projects and their members, tokens. Numbers are given once (counters) and never again. A user who was
-- removed stays, as jobs and secrets of that name do. Of a token there is the SHA-256 of its secret alone. Moments are text in UTC; '' = none.

CREATE TABLE users (
  number BIGINT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL,
  uid BIGINT NOT NULL,
  gids TEXT NOT NULL,
  project TEXT NOT NULL,
  created_at TEXT NOT NULL,
  removed BIGINT NOT NULL
);

CREATE TABLE projects (
  number BIGINT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  visible BIGINT NOT NULL,
  created_at TEXT NOT NULL
);

CREATE TABLE members (
  project TEXT NOT NULL,
  user_name TEXT NOT NULL,
  max_class BIGINT NOT NULL,
  exec BIGINT NOT NULL,
  PRIMARY KEY (project, user_name)
);

CREATE TABLE tokens (
  number BIGINT PRIMARY KEY,
  user_name TEXT NOT NULL,
  kind TEXT NOT NULL,
  label TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  used_at TEXT NOT NULL
);

-- Who changed what, or looked at what is another's: written once, never changed.
CREATE TABLE audit (
  seq BIGINT PRIMARY KEY,
  at TEXT NOT NULL,
  user_name TEXT NOT NULL,
  token BIGINT NOT NULL,
  address TEXT NOT NULL,
  operation TEXT NOT NULL,
  object TEXT NOT NULL,
  owner TEXT NOT NULL,
  outcome TEXT NOT NULL,
  detail TEXT NOT NULL,
  request_id TEXT NOT NULL
);
