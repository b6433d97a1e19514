# What the benches share: one server with the library installed, data
# directories that are made once and restored before every run, and the two
# sides: stock (without our library) and ours (with it).
#
# A bench runs the two sides in pairs, one after the other from the same state,
# and alternates which goes first. It writes a line per run to a CSV file and
# has summarize print the medians.
#
# Sourced; the caller has set -euo pipefail. Data lies in the scratch folder of
# environment.sh, so TMPDIR says on which file system.

source "$(dirname "${BASH_SOURCE[0]}")/../lib/environment.sh"
source "$tools_lib/packages.sh"
source "$tools_lib/server.sh"

bench_dir=$source_root/tools/bench

# Settings of every server that is measured. Nothing but the vacuum may work
# while it is timed: no checkpoint, no background writer, no autovacuum, no
# waiting for the disk.
readonly bench_settings="
shared_buffers = 128MB
maintenance_work_mem = 64MB
fsync = off
wal_init_zero = off
max_wal_size = 16GB
checkpoint_timeout = 1d
bgwriter_lru_maxpages = 0
autovacuum = off
"

# Prints the comment that the script begins with.
print_usage()
{
	awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"
}

set_up_bench()
{
	install_missing_packages
	make_scratch_folder "$1"
	copy_sources
	copy_server
	build_extension
	mkdir -p "$(dirname "$csv")"
}

# States what the numbers depend on.
describe_machine()
{
	say "$("$bindir/postgres" --version | sed 's/^[^0-9]*/PostgreSQL /'), $(uname -sr)"
	say "$(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
	say "data on $(df --output=fstype "$scratch" | tail -n 1), files in the OS cache, empty shared buffers"
	say "settings: $(sed '/^$/d;s/ = /=/' <<<"$bench_settings" | paste -sd' ')"
	say "cpu_ms is the backend's time on a core, as the kernel accounts for it"
}

# Makes a data directory; more settings are read from standard input.
make_data()
{
	local data=$scratch/$1

	unprivileged "$bindir/initdb" --no-sync --locale=C --encoding=UTF8 --auth=trust -D "$data" \
		>"$scratch/initdb.log" 2>&1 || {
		cat "$scratch/initdb.log" >&2
		die "initdb failed"
	}
	{
		echo "$bench_settings"
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$scratch/tmp'"
		cat
	} >>"$data/postgresql.conf"
}

# A copy of a stopped data directory, in the place of what was there.
copy_data()
{
	local from=$scratch/$1 to=$scratch/$2

	rm -rf "$to"
	unprivileged cp -a --reflink=auto "$from" "$to"
	# Or the kernel would write it out while we measure.
	sync -f "$to"
}

# Starts the server of a data directory as one of the sides, with further
# settings as arguments.
start_server()
{
	local data=$scratch/$1 side=$2
	shift 2
	local setting options=

	if [ "$side" = ours ]; then
		options="-c shared_preload_libraries=pg_vacuum_resume"
	fi
	for setting in "$@"; do
		options+=" -c $setting"
	done
	unprivileged env -C "$data" "$bindir/pg_ctl" -s -w -D "$data" -l "$data/server.log" -o "$options" start || {
		tail -n 20 "$data/server.log" >&2
		die "the server does not start ($side)"
	}
}

stop_server()
{
	unprivileged env -C "$scratch/$1" "$bindir/pg_ctl" -s -w -m fast -D "$scratch/$1" stop
}

# psql without its start-up file, for results that are read by a program.
query()
{
	unprivileged env -C "$scratch" PGHOST="$scratch/tmp" PGDATABASE=postgres "$bindir/psql" \
		-qAtX -v ON_ERROR_STOP=1 "$@"
}

# The order of the sides in a pair.
sides_of_pair()
{
	if [ $(($1 % 2)) -eq 1 ]; then
		echo stock ours
	else
		echo ours stock
	fi
}

# Prints the argument scaled, rounded, and at least 1.
scaled()
{
	awk -v number="$1" -v scale="$scale" \
		'BEGIN { n = int(number * scale + 0.5); print n < 1 ? 1 : n }'
}
