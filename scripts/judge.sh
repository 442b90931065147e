#!/usr/bin/env bash
# Judges the router from outside: random rounds of writers, removers, faults and commands on real
# servers. The truth is kept in the writers' transactions, and compared with tables and topics.
#
#   scripts/judge.sh                           two minutes, on PostgreSQL 18, from a fresh seed
#   scripts/judge.sh --seconds 3600 --postgres 15
#   scripts/judge.sh --scenario recover --seed 7 --seconds 1       one round, as it was drawn
#   scripts/judge.sh --help                    all flags and scenarios
#
# Each round prints a line. The last line is, here wrapped:
#   rounds N · events N · lost 0 · removed unsent 0 · stale 0 · order 0 · altered 0 · phantom 0 ·
#   repeated 0 · taken 0 · stopped 0 · wrong while OK 0 · duplicates D
# Exits with 1 if anything is wrong, with the seed, and keeps the logs of such a round. The router
# is built with debug assertions, unless OUTBOX_ROUTER_BIN names another.
set -euo pipefail
cd "$(dirname "$0")/.."

version="${OUTBOX_PG_VERSION:-18}"
previous=
for argument in "$@"; do
    case "$argument" in --postgres=*) version="${argument#--postgres=}" ;; esac
    case "$previous" in --postgres) version="$argument" ;; esac
    previous="$argument"
done

scripts/install.sh build
binaries="$(scripts/postgres.sh "$version" | tail -n 1)"
export "OUTBOX_PG_BIN_$version=$binaries"
scripts/kafka.sh >/dev/null

target="${CARGO_TARGET_DIR:-$PWD/target}"
if [ -z "${OUTBOX_ROUTER_BIN:-}" ]; then
    cargo build --locked --package outbox-router
    # A copy, because the next build of another kind replaces the file.
    mkdir -p "$target/judge"
    cp -f "$target/debug/outbox-router" "$target/judge/outbox-router"
    export OUTBOX_ROUTER_BIN="$target/judge/outbox-router"
fi
# With the tests, whose dependencies are compiled already.
cargo build --locked --workspace --tests --bin judge
export OUTBOX_PG_VERSION="$version"
exec "$target/debug/judge" --keep "$target/judge/kept" "$@"
