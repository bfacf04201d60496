-- The cluster whose state this is, one row: a random id, made with the store. Agents obey the cluster that they
-- joined and no other.

CREATE TABLE cluster (
  id TEXT PRIMARY KEY
);
