-- How many transactions the leader of this term has committed. A leader whose connection broke
-- during a commit finds out by this number whether that commit took place.
ALTER TABLE leases ADD COLUMN batch BIGINT NOT NULL DEFAULT 0;
