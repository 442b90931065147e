#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks, through Debian's packages.
#
#   scripts/install.sh build          C and C++ compilers, make, OpenSSL's headers, for librdkafka
#   scripts/install.sh build test     also promtool, chromium, pgbouncer, libfaketime, and what the
#                                     temporary servers are started with
#
# Does nothing if everything is installed. Where it may not install, it prints what is missing and
# how to get it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/fetching.sh"

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }

for what in "${@:-build}"; do
    case "$what" in
        build)
            need_command cargo rust
            need_command cc gcc
            need_command c++ g++
            need_command make make
            need_command pkg-config pkg-config
            { command -v pkg-config >/dev/null && pkg-config --exists openssl; } || missing+=(libssl-dev)
            ;;
        test)
            need_command promtool prometheus
            need_command docker-compose docker-compose
            need_command systemd-analyze systemd
            need_command setpriv util-linux
            need_command flock util-linux
            need_command ipcrm util-linux
            need_command valgrind valgrind
            need_command chromium chromium
            PATH="$PATH:/usr/sbin" need_command pgbouncer pgbouncer
            need_command faketime faketime
            ;;
        *) die "usage: scripts/install.sh [build] [test]" ;;
    esac
done

case " ${missing[*]-} " in
    *" rust "*) die "cargo is missing: install Rust 1.95 or newer with rustup, then run this again" ;;
esac
[ "${#missing[@]}" = 0 ] && exit 0

command -v apt-get >/dev/null \
    || die "missing: ${missing[*]}; install them with this system's package manager, then run this again"
can_install || die "missing: ${missing[*]}; run: sudo apt-get install ${missing[*]}"

say "installing ${missing[*]}"
apt_get update -q
apt_get install -y -q --no-install-recommends "${missing[@]}"
