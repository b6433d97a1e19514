# shellcheck shell=bash disable=SC2154
#
# A throw-away server with the demo's table, for tools/demo and tools/twin.
#
# Sourced after environment.sh, packages.sh and server.sh.

rows=	# of the table

# Sets the table's size from ROWS, or to what the caller takes by default.
set_rows()
{
	rows=${ROWS:-$1}
	[[ $rows =~ ^[1-9][0-9]{3,8}$ ]] || die "ROWS must be a number from 1000 to 999999999"
}

# Runs psql against the server that is up; reads the commands from a file or -c.
demo_psql()
{
	unprivileged "$bindir/psql" -X -q -At -v ON_ERROR_STOP=1 -h "$scratch/tmp" -U demo "$@"
}

start_server()
{
	local copy=$1

	unprivileged "$bindir/pg_ctl" -s -w -D "$scratch/$copy" -l "$scratch/$copy.log" start || {
		tail -n 20 "$scratch/$copy.log" >&2
		die "the server does not start"
	}
}

stop_server()
{
	local copy=$1

	unprivileged "$bindir/pg_ctl" -s -w -D "$scratch/$copy" -m fast stop
}

make_server()
{
	local copy=$1

	unprivileged "$bindir/initdb" -D "$scratch/$copy" -U demo -A trust -E UTF8 --no-locale -N \
		>"$scratch/initdb.log" 2>&1 || {
		cat "$scratch/initdb.log" >&2
		die "initdb failed"
	}
	unprivileged tee -a "$scratch/$copy/postgresql.conf" >/dev/null <<-CONF
		shared_preload_libraries = 'pg_vacuum_resume'
		listen_addresses = ''
		unix_socket_directories = '$scratch/tmp'
		vacuum_resume.min_table_size = 0
		autovacuum = off
		fsync = off
		shared_buffers = ${shared_buffers:-128MB}
		max_wal_size = 4GB
		min_wal_size = 32MB
		wal_recycle = off
		checkpoint_timeout = 1h
	CONF
}

make_table()
{
	interruptible demo_psql -d postgres -v rows="$rows" -f "$scratch/source/tools/lib/demo.sql"
	demo_psql -d demo <<-'SQL'
		SELECT format('  orders: %s rows, heap %s, %s indexes %s',
			(SELECT count(*) FROM orders), pg_size_pretty(pg_relation_size(oid)),
			(SELECT count(*) FROM pg_index WHERE indrelid = oid),
			pg_size_pretty(pg_indexes_size(oid)))
		FROM pg_class WHERE oid = 'orders'::regclass
	SQL
}

# 1234567 -> 1,234,567
grouped()
{
	sed -E ':next; s/^([0-9]+)([0-9]{3})/\1,\2/; t next' <<<"$1"
}
