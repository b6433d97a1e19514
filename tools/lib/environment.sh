# shellcheck shell=bash
#
# Where and as whom tools/test and tools/demo work.
#
# Everything happens in one scratch folder, as a user that PostgreSQL accepts
# (it refuses root). The folder goes away however the script ends, and before
# that every process that was started from the private server in it. Nothing
# outside of it is written, except for packages that were missing.
#
# Sourced; the caller has set -euo pipefail.

source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
readonly source_root
readonly tools_lib=$source_root/tools/lib

# The servers' socket lies 30 characters below the scratch folder and must fit
# into the 107 characters that a socket's address has.
readonly longest_scratch_path=75

scratch=		# the scratch folder, once there is one
unprivileged_user=	# whom unprivileged() runs commands as
running_group=		# process group that interruptible() waits for

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

# The caller's server settings, locale and make flags must not reach ours.
clean_environment()
{
	local name

	for name in "${!PG@}"; do
		[[ $name == PG_* || $name == PGVR_* ]] || unset "$name"
	done
	unset "${!LC_@}" LANGUAGE MAKEFLAGS MFLAGS MAKELEVEL
	export LANG=C.UTF-8
}

# Runs a command as the unprivileged user, with a home and a temporary folder
# inside the scratch folder.
unprivileged()
{
	local as_user=()

	if [ "$(id -u)" -eq 0 ]; then
		as_user=(setpriv --reuid="$unprivileged_user" --regid="$(id -g "$unprivileged_user")"
			--init-groups --inh-caps=-all --no-new-privs)
	fi
	"${as_user[@]}" env HOME="$scratch/home" TMPDIR="$scratch/tmp" USER="$unprivileged_user" \
		LOGNAME="$unprivileged_user" "$@"
}

# Runs a command in a process group of its own and waits for it. A signal to
# this script then ends the wait at once, and the way out ends the group.
interruptible()
{
	local status=0

	set -m
	"$@" </dev/null &
	running_group=$!
	set +m
	wait "$running_group" || status=$?
	running_group=
	return "$status"
}

# Makes the scratch folder where the unprivileged user can reach it, can run
# programs from it and has so many megabytes; TMPDIR is asked first.
make_scratch_folder()
{
	local megabytes=$1
	local parent reason reasons=

	if [ "$(id -u)" -ne 0 ]; then
		unprivileged_user=$(id -un)
	elif id postgres >/dev/null 2>&1; then
		unprivileged_user=postgres
	else
		unprivileged_user=nobody
	fi

	trap clean_up EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM

	for parent in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
		reason=$(cd "$parent" 2>&1 && test -w . || echo "$parent is not writable")
		if [ -z "$reason" ]; then
			scratch=$(mktemp -d "$(cd "$parent" && pwd -P)/pg_vacuum_resume.XXXXXX")
			reason=$(why_unusable "$megabytes")
			[ -n "$reason" ] || break
			rm -rf "$scratch"
			scratch=
		fi
		reasons+=$'\n'"  $reason"
	done
	[ -n "$scratch" ] || die "no folder to work in (TMPDIR says where):$reasons"

	cd "$scratch"
	unprivileged mkdir home tmp
	if [ -n "${KEEP:-}" ]; then
		say "Keeping $scratch"
	fi
}

# Prints what is wrong with the scratch folder, or nothing.
why_unusable()
{
	local megabytes=$1

	[ "$(id -u)" -ne 0 ] || chown "$unprivileged_user:" "$scratch"
	if [ ${#scratch} -gt $longest_scratch_path ]; then
		echo "$scratch: too long a path for a server's socket"
	elif [ "$(df -Pm "$scratch" | awk 'NR == 2 { print $4 }')" -lt "$megabytes" ]; then
		echo "$scratch: less than $megabytes MB free"
	elif ! unprivileged sh -c 'cd "$1" && cp /bin/true . && ./true && rm true' \
		sh "$scratch" 2>/dev/null; then
		echo "$scratch: user $unprivileged_user cannot run programs there"
	fi
}

# Copies the work tree, less what git ignores, to $scratch/source: the
# unprivileged user may be unable to read it, and builds leave files behind.
copy_sources()
{
	local file

	unprivileged mkdir "$scratch/source"
	(
		cd "$source_root"
		if git -c safe.directory="$source_root" rev-parse --is-inside-work-tree \
			>/dev/null 2>&1; then
			git -c safe.directory="$source_root" ls-files -z \
				--cached --others --exclude-standard |
				while IFS= read -r -d '' file; do
					# A file may be deleted, but not yet in the index.
					[ ! -f "$file" ] || printf '%s\0' "$file"
				done |
				tar -c --null --no-recursion --files-from=-
		else
			tar -c --exclude-vcs --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
				--exclude=./tmp_check --exclude=./tools/pg_vacuum_resume .
		fi
	) | unprivileged tar -x -C "$scratch/source"
}

# The processes that run a program from inside the scratch folder.
own_processes()
{
	local link

	for link in /proc/[0-9]*/exe; do
		if [[ $(readlink "$link" 2>/dev/null || :) == "$scratch"/* ]]; then
			link=${link#/proc/}
			echo "${link%/exe}"
		fi
	done
}

# Ends our servers at once, each by its pid; what they hold is thrown away.
stop_processes()
{
	local pid title attempt

	for pid in $(own_processes); do
		title=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" || :)
		case $title in
			postgres:*) ;;	# ended by its postmaster
			*/postgres\ *) kill -QUIT "$pid" 2>/dev/null || : ;;
			*) kill -TERM "$pid" 2>/dev/null || : ;;
		esac
	done
	for attempt in {1..100}; do
		[ -n "$(own_processes)" ] || return 0
		sleep 0.1
	done
	for pid in $(own_processes); do
		kill -KILL "$pid" 2>/dev/null || :
	done
}

clean_up()
{
	trap '' HUP INT TERM
	if [ -n "$running_group" ]; then
		kill -TERM -- "-$running_group" 2>/dev/null || :
		wait "$running_group" 2>/dev/null || :
	fi
	[ -n "$scratch" ] || return 0
	stop_processes
	cd /
	if [ -z "${KEEP:-}" ]; then
		rm -rf "$scratch"
	fi
}

clean_environment
