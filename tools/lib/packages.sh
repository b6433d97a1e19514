# shellcheck shell=bash disable=SC2154
#
# Which Debian packages building and testing takes, and which of them are missing.
#
# Sourced by tools/test, tools/demo and install-packages.

readonly pg_major=15
readonly build_packages=(gcc libc6-dev make perl libipc-run-perl liblmdb-dev libjansson-dev libpq-dev)

# Prints the version of an installed package, or nothing.
installed_version()
{
	dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null |
		sed -n '/^installed /{s///p;q}' || :
}

# Prints the packages that are missing. The server's headers are missing also
# when they belong to another minor release than the installed server: the
# library refuses a server older than its headers.
missing_packages()
{
	local package server headers

	for package in "${build_packages[@]}"; do
		[ -n "$(installed_version "$package")" ] || echo "$package"
	done

	server=$(installed_version postgresql-$pg_major)
	headers=$(installed_version postgresql-server-dev-$pg_major)
	[ -n "$server" ] || echo postgresql-$pg_major
	if [ -z "$headers" ] || [ "$headers" != "$server" ]; then
		echo postgresql-server-dev-$pg_major
	fi
}

# Installs what is missing: as root, or through sudo.
install_missing_packages()
{
	local missing

	command -v dpkg-query >/dev/null ||
		die "this script knows Debian only; README.md says what a build needs elsewhere"
	missing=$(missing_packages)
	[ -n "$missing" ] || return 0

	say "Installing: ${missing//$'\n'/ }"
	if [ "$(id -u)" -eq 0 ]; then
		bash "$tools_lib/install-packages" || die "could not install what is missing"
	elif command -v sudo >/dev/null; then
		sudo bash "$tools_lib/install-packages" || die "could not install what is missing"
	else
		die "these packages are missing, and installing them takes root or sudo: ${missing//$'\n'/ }"
	fi
}
