-- The number of the token or session that a session or code was made of, with which it ends; 0 = none.

ALTER TABLE tokens ADD COLUMN maker BIGINT NOT NULL DEFAULT 0;
