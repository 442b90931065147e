# shellcheck shell=bash
# Sourced by the scripts that install and fetch; not run by itself.
#
# What is fetched is kept in the cache directory: OUTBOX_CACHE, else $XDG_CACHE_HOME/outbox-router;
# for root /var/cache/outbox-router, because PostgreSQL runs as user `postgres`, who cannot enter a
# root home. crates/testbed/src/cache.rs has the same rule. Progress goes to standard error.
set -euo pipefail
umask 022

kafka_version=4.3.1 # of the brokers, and of Connect for the bench
slf4j_version=1.7.36

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

if [ -n "${OUTBOX_CACHE:-}" ]; then
    cache="$OUTBOX_CACHE"
elif [ "$(id -u)" = 0 ]; then
    cache=/var/cache/outbox-router
else
    cache="${XDG_CACHE_HOME:-$HOME/.cache}/outbox-router"
fi

# Runs a command as root, or fails without asking for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2
}

apt_install() {
    can_install || die "$* is missing and cannot be installed from here: install it and run this again"
    say "installing $* with apt-get"
    apt_get install -y -q --no-install-recommends "$@" && return
    apt_get update -qq
    apt_get install -y -q --no-install-recommends "$@"
}

# Only one process at a time fetches NAME, because package managers do not work in parallel. The
# lock ends with the script.
lock() {
    mkdir -p "$cache" 2>/dev/null || die "cannot create $cache: set OUTBOX_CACHE to a directory you own"
    exec 9>"$cache/.lock-$1"
    if command -v flock >/dev/null; then flock 9; fi
}

# Makes the directory `work` inside the cache, so that a move out of it is atomic; it ends with the
# script.
make_work() {
    work="$(mktemp -d "$cache/.$1.XXXXXX")"
    # shellcheck disable=SC2064 # the directory of now is meant
    trap "rm -rf '$work'" EXIT
}

# Moves what was fetched to its place. If another process was first, its directory is kept.
keep() {
    mv -T "$1" "$2" 2>/dev/null || [ -d "$2" ]
}

# fetch_jars DIRECTORY GROUP:ARTIFACT:VERSION…: fetches these and their dependencies with Maven.
fetch_jars() {
    local target="$1" coordinates
    shift
    command -v mvn >/dev/null || apt_install maven
    make_work "${target##*/}"
    {
        echo '<project><modelVersion>4.0.0</modelVersion><groupId>testbed</groupId>'
        echo '<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
        for coordinates in "$@"; do
            # shellcheck disable=SC2086 # three words are meant
            printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n' \
                ${coordinates//:/ }
        done
        echo '</dependencies></project>'
    } >"$work/pom.xml"
    say "fetching $* with Maven"
    mvn -q -B -Dstyle.color=never -f "$work/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$work/jars" >&2
    keep "$work/jars" "$target"
}
