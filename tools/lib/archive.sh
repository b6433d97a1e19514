# The server's sources, and older packages of it, from the archives that this
# machine installs packages from. They end up in the scratch folder; apt's own
# lists and caches are neither used nor changed.
#
# Sourced after environment.sh, packages.sh and server.sh.

archive=		# apt's lists and caches, in the scratch folder
server_sources=		# the unpacked sources
sources_version=	# their package version

# apt-get and apt-cache with the lists in the scratch folder.
archive_apt()
{
	local program=$1
	shift

	unprivileged "$program" -o Dir::Etc::sourcelist=/dev/null \
		-o Dir::Etc::sourceparts="$archive/sources.list.d" \
		-o Dir::State::lists="$archive/lists" -o Dir::Cache="$archive/cache" "$@"
}

# Reads the package lists, sources included, of the archives that carry the
# server.
open_archive()
{
	local file name uri uris

	archive=$scratch/archive
	unprivileged mkdir -p "$archive/sources.list.d" "$archive/lists/partial" \
		"$archive/cache/archives/partial"

	uris=$(apt-cache policy postgresql-$pg_major |
		sed -n 's/^ *-\{0,1\}[0-9]* \(http[^ ]*\) .*/\1/p' | sort -u)
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
		[ -f "$file" ] || continue
		name=$(basename "$file")
		for uri in ${uris:-http}; do
			grep -qF "$uri" "$file" || continue
			sed -e 's/^Types:.*/Types: deb deb-src/' -e '/^deb-src/d' \
				-e 's/^deb\([[:space:]].*\)/&\ndeb-src\1/' "$file" |
				unprivileged tee "$archive/sources.list.d/$name" >/dev/null
			break
		done
	done

	# One archive that does not answer need not be the one with the server.
	archive_apt apt-get -qq update || :
}

# Fetches and unpacks the sources: those of the installed server, or else the
# newest that are to be had.
fetch_server_sources()
{
	local installed version versions log=$scratch/archive.log

	command -v dpkg-source >/dev/null || die "dpkg-source is missing (apt-get install dpkg-dev)"
	open_archive
	installed=$(installed_version postgresql-$pg_major)
	versions=$(archive_apt apt-cache showsrc postgresql-$pg_major |
		sed -n 's/^Version: //p' | sort -Vru)
	for version in $(grep -Fx "$installed" <<<"$versions" || :) \
		$(grep -Fxv "$installed" <<<"$versions" || :); do
		(cd "$archive" && archive_apt apt-get -qq --download-only source \
			"postgresql-$pg_major=$version") >"$log" 2>&1 || continue
		(cd "$archive" && unprivileged dpkg-source -x \
			"postgresql-${pg_major}_${version#*:}.dsc" sources) >"$log" 2>&1 || break
		server_sources=$archive/sources
		sources_version=$version
		return
	done
	cat "$log" >&2
	die "no sources of postgresql-$pg_major in this machine's archives (wanted: $installed)"
}

# Like copy_server, but with the server's packages of that version in place of
# the installed ones.
unpack_server()
{
	local version=$1
	local package log=$scratch/archive.log

	server_prefix=$scratch/server
	bindir=$server_prefix/usr/lib/postgresql/$pg_major/bin
	unprivileged mkdir -p "$server_prefix" "$archive/packages"
	for package in postgresql postgresql-client postgresql-server-dev; do
		(cd "$archive/packages" && archive_apt apt-get -qq download \
			"$package-$pg_major=$version") >"$log" 2>&1 || {
			cat "$log" >&2
			die "$package-$pg_major $version is not to be had"
		}
		unprivileged dpkg-deb -x "$archive/packages/$package-$pg_major"_*.deb "$server_prefix"
	done
	# What comes from packages without a version of their own in the archive.
	unprivileged cp -rn /usr/include/postgresql "$server_prefix/usr/include/"
}
