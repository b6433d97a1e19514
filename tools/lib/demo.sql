-- The demo's table: :rows orders of three years.
--
-- It was vacuumed after the load. Since then the oldest third rests; of the
-- others, spread evenly, 8 % were deleted and 5 % changed their status; and an
-- import at the end was rolled back. So a vacuum finds pages that it may skip,
-- dead rows with and without index entries, and an empty end to cut off.
-- No random numbers: every run makes the same rows.
CREATE DATABASE demo;
\connect demo
SET vacuum_resume.enabled = off;

CREATE TABLE orders (
	id bigint,
	customer int NOT NULL,
	ordered timestamptz NOT NULL,
	status text NOT NULL,
	amount numeric(10, 2) NOT NULL,
	note text
) WITH (fillfactor = 95);

INSERT INTO orders
	SELECT i, abs(hashint8(i)) % 100000,
		timestamptz '2023-01-01' + i * (interval '3 years' / :rows),
		'paid', abs(hashint8(-i)) % 100000 / 100.0, md5(i::text) || md5((-i)::text)
	FROM generate_series(1, :rows) i;
ALTER TABLE orders ADD PRIMARY KEY (id);
CREATE INDEX ON orders (customer, ordered);
CREATE INDEX ON orders (ordered);
VACUUM (FREEZE, ANALYZE) orders;

DELETE FROM orders WHERE id > :rows / 3 AND abs(hashint8(id + 1)) % 100 < 8;
UPDATE orders SET status = 'sent' WHERE id > :rows / 3 AND abs(hashint8(id + 2)) % 100 < 5;
BEGIN;
INSERT INTO orders
	SELECT :rows + i, 1, now(), 'imported', 0, md5(i::text) || md5((-i)::text)
	FROM generate_series(1, :rows / 10) i;
ROLLBACK;
