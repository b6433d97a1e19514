# The tables that vacuums are timed on. Each case is a data directory with one
# table "bench", made from the same base.
#
# Sourced after common.sh.

# 61 rows a page: 500 MB.
readonly rows_at_scale_1=3904000

readonly all_cases="spread noindex freeze dirty"

# What a case's VACUUM is called with. PARALLEL 0: two workers on two cores
# measure the machine's other load.
vacuum_options()
{
	case $1 in
		freeze) echo "FREEZE, PARALLEL 0" ;;
		*) echo "PARALLEL 0" ;;
	esac
}

describe_case()
{
	case $1 in
		spread) echo "three b-trees, every tenth row deleted" ;;
		noindex) echo "no index, every tenth row deleted" ;;
		freeze) echo "three b-trees, all-visible, nothing frozen: VACUUM (FREEZE)" ;;
		dirty) echo "three b-trees, all-visible but for one deleted row on every hundredth page" ;;
	esac
}

# Loads the table that all cases begin with: vacuumed, all-visible, not frozen.
make_base()
{
	local rows
	rows=$(scaled $rows_at_scale_1)

	make_data base </dev/null
	start_server base stock
	query <<-SQL
		CREATE TABLE warm_up (id int);
		INSERT INTO warm_up VALUES (1);
		CREATE TABLE bench (id bigint, a int, b int, filler text);
		INSERT INTO bench
		SELECT i, hashint4(i), (i * 48271::bigint) % 2147483647, repeat('x', 80)
		FROM generate_series(1, $rows) AS i;
		CREATE INDEX ON bench (id);
		CREATE INDEX ON bench (a);
		CREATE INDEX ON bench (b);
		VACUUM bench;
	SQL
	stop_server base
}

# Makes the data directory of a case, named after it.
make_case()
{
	local name=$1

	copy_data base "$name"
	start_server "$name" stock
	case $name in
		spread) query -c "DELETE FROM bench WHERE id % 10 = 0" ;;
		noindex)
			query -c "DROP INDEX bench_id_idx, bench_a_idx, bench_b_idx" \
				-c "DELETE FROM bench WHERE id % 10 = 0"
			;;
		freeze) ;;
		dirty)
			query -c "
				DELETE FROM bench
				WHERE (ctid::text::point)[0]::int % 100 = 0 AND (ctid::text::point)[1] = 1"
			;;
	esac
	query -c "CHECKPOINT"
	stop_server "$name"
}

# Starts a side's server on a fresh copy of a case's data, its files cached.
start_case()
{
	local name=$1 side=$2
	local settings=()

	copy_data "$name" run
	if [ "$side" = ours ]; then
		settings=(vacuum_resume.min_table_size=0)
	fi
	start_server run "$side" "${settings[@]}"
	cat "$scratch"/run/base/*/* >/dev/null
}

# Prints the SQL that vacuums the table in a session that has vacuumed before,
# with what is needed to tell time and which pass it was. Time on a core is in
# nanoseconds, and empty where the kernel does not account for it.
vacuum_script()
{
	local on_core="SELECT 'on core: ' || split_part(
		pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1);"

	cat <<-SQL
		SET client_min_messages = debug1;
		VACUUM warm_up;
		CHECKPOINT;
		$on_core
		\\timing on
		VACUUM (VERBOSE, $(vacuum_options "$1")) bench;
		\\timing off
		$on_core
	SQL
}

# Stops the bench if the output of a vacuum is not that of the side.
check_side()
{
	local side=$1 output=$2
	local seen=stock

	if grep -q 'vacuuming table "postgres.public.bench" with pg_vacuum_resume' "$output"; then
		seen=ours
	fi
	if [ $seen != "$side" ]; then
		cat "$output" >&2
		die "this should have been a vacuum of side $side"
	fi
}
