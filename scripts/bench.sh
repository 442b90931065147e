#!/usr/bin/env bash
# Measures the router on real servers, beside `pg_recvlogical` into nothing.
#
#   scripts/bench.sh [drain] [latency] [memory] [start] [--runs N] [--events N] [--rate R…] [--pg VERSION]
#                    [--socket tcp|unix] [--binary PATH]… [--json FILE]
#
# Without a word of what to measure: everything, on PostgreSQL 17. Installs and builds what is missing; a router
# given by --binary is not built, and two of them are compared with each other. Figures go to standard output as
# tables, and to FILE as JSON lines (default: bench/TIME.jsonl in the build directory).
# Exits with 0 when every event arrived once and in order, whatever the figures are.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-$PWD/target}"
version=17
own_json=1
own_binary=1
previous=
for argument in "$@"; do
    case "$previous" in --pg) version="$argument" ;; esac
    case "$argument" in
        --pg=*) version="${argument#--pg=}" ;;
        --json | --json=*) own_json=0 ;;
        --binary | --binary=*) own_binary=0 ;;
    esac
    previous="$argument"
done

scripts/install.sh build
bin="$(scripts/postgres.sh "$version" | tail -n 1)"
export "OUTBOX_PG_BIN_$version=$bin"
if [ -z "${OUTBOX_PG_RECVLOGICAL:-}" ]; then
    OUTBOX_PG_RECVLOGICAL="$(scripts/postgres.sh 15 | tail -n 1)/pg_recvlogical"
    export OUTBOX_PG_RECVLOGICAL
fi
scripts/kafka.sh >/dev/null

# One cargo call each: built together, the two would share features that the product is not shipped with.
if [ "$own_binary" = 1 ]; then cargo build --release --locked --package outbox-router; fi
cargo build --release --locked --package testbed --bin bench
bench="$target/release/bench"
if [ "$own_json" = 1 ]; then
    mkdir -p "$target/bench"
    json="$target/bench/$(date +%Y%m%d-%H%M%S).jsonl"
    echo "JSON lines: $json"
    set -- "$@" --json "$json"
fi
exec "$bench" "$@"
