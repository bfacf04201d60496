-- Secrets of users. `sealed` is hex of what scheduler/store/seal.h makes: without the key, which is in no
-- database, it says nothing but the length.

CREATE TABLE secrets (
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  sealed TEXT NOT NULL,
  changed_at TEXT NOT NULL,
  PRIMARY KEY (owner, name)
);
