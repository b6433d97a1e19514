# shellcheck shell=bash disable=SC2154
#
# A private copy of the installed server, with pg_vacuum_resume built into it.
#
# A server finds its files relative to its own program file, so a copy that
# keeps the layout is a whole installation: the library can be installed into
# it without touching the machine's, and is loaded just as a user loads it.
#
# Sourced after environment.sh and packages.sh.

server_prefix=	# the copy's root, holding usr/
bindir=		# its programs

copy_server()
{
	local folder option path

	server_prefix=$scratch/server
	bindir=$server_prefix/usr/lib/postgresql/$pg_major/bin
	for folder in lib/postgresql/$pg_major share/postgresql/$pg_major include/postgresql; do
		unprivileged mkdir -p "$server_prefix/usr/$(dirname "$folder")"
		unprivileged cp -a "/usr/$folder" "$server_prefix/usr/$folder"
	done
	for option in bindir pkglibdir sharedir includedir-server pgxs; do
		path=$("$bindir/pg_config" --$option)
		[[ $path == "$server_prefix"/* ]] ||
			die "the copied server's $option is $path, outside of the copy"
	done
}

# Builds the library and the tool and installs both into the copy. A compiler's
# warning about a file of ours is an error.
build_extension()
{
	local log=$scratch/build.log
	local warnings

	say "Building against PostgreSQL $("$bindir/postgres" --version | sed 's/^[^0-9]*//')"
	build_target all >"$log" 2>&1 || {
		cat "$log" >&2
		die "the build failed"
	}
	cat "$log"
	warnings=$(grep 'warning:' "$log" | grep -v "^$server_prefix/" || :)
	[ -z "$warnings" ] || die "the build warns about our own files"
	build_target install >"$log" 2>&1 || {
		cat "$log" >&2
		die "the installation failed"
	}
}

build_target()
{
	interruptible unprivileged make -s --no-print-directory -j2 -C "$scratch/source" \
		PG_CONFIG="$bindir/pg_config" "$1"
}
