#!/usr/bin/env bash
# Measures the router on real servers, and compares it with `pg_recvlogical`, which writes to
# /dev/null.
#
#   scripts/bench.sh [WHAT]… [--all] [--runs N] [--events N] [--shape ROWSxBYTES,…] [--rate R,…]
#                    [--latency-runs N]
#                    [--pg VERSION,…] [--socket tcp,tls,unix] [--congestion bbr,cubic]
#                    [--outage 10m] [--idle 60s]
#                    [--retention 1h] [--retention-mode off,delete]
#                    [--series topics,keys,partitions,rows] [--held latency,drain,release,start]
#                    [--peers[=debezium,debezium-tuned,go-pq-cdc]] [--binary PATH]…
#                    [--json FILE] [--plots DIR]
#   scripts/bench.sh --from FILE --plots DIR   draws an earlier run, without measuring
#
# WHAT is any of: drain latency memory start (these four when nothing is named), outage takeover
# idle scrape held retention polling flat; --all measures all of it, in every shape: over TCP, TLS
# and the unix socket on PostgreSQL 17, over TCP on 15 and 18. Installs and builds what is missing;
# a router given by --binary is not built, and two of them are compared with each other, in
# alternating runs.
# Figures go to standard output as tables, to FILE as JSON lines (default: bench/TIME.jsonl in the
# build directory) and to DIR as SVG. Each run of draining says what it was: congestion control,
# mean segment size, how the backlog was read, and which limit held (docs/performance.md, "What a
# run was"). Targets that this machine cannot show are marked as not measurable.
# With --peers, Debezium on Kafka Connect and go-pq-cdc-kafka take part in draining and latency; the
# latter is left out where Go or its modules are missing. With --congestion, which needs root, the
# machine's net.ipv4.tcp_congestion_control is changed during the runs; in a network namespace only
# what runs there is concerned: unshare --net sh -c 'ip link set lo up && exec scripts/bench.sh …'.
# --help explains each option. Exits with 0 when every event arrived once and in order, whatever the
# figures are. Only an outage may repeat some.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-$PWD/target}"
versions=
own_json=1
peers=
own_binary=1
measures=1
previous=
for argument in "$@"; do
    case "$previous" in --pg) versions="$argument" ;; esac
    case "$argument" in
        --pg=*) versions="${argument#--pg=}" ;;
        --all) all=1 ;;
        --peers) peers=debezium,go-pq-cdc ;;
        --peers=*) peers="${argument#--peers=}" ;;
        --json | --json=*) own_json=0 ;;
        --binary | --binary=*) own_binary=0 ;;
        --from | --from=* | -h | --help) measures=0 ;;
    esac
    previous="$argument"
done
if [ -z "$versions" ]; then versions="${all:+15,18,}17"; fi

scripts/install.sh build
if [ "$measures" = 1 ]; then
    for version in ${versions//,/ }; do
        bin="$(scripts/postgres.sh "$version" | tail -n 1)"
        export "OUTBOX_PG_BIN_$version=$bin"
    done
    if [ -z "${OUTBOX_PG_RECVLOGICAL:-}" ]; then
        OUTBOX_PG_RECVLOGICAL="$(scripts/postgres.sh 15 | tail -n 1)/pg_recvlogical"
        export OUTBOX_PG_RECVLOGICAL
    fi
    scripts/kafka.sh >/dev/null
    case "$peers" in *debezium*)
        if [ -z "${OUTBOX_DEBEZIUM:-}" ]; then
            OUTBOX_DEBEZIUM="$(scripts/debezium.sh | tail -n 1)"
            export OUTBOX_DEBEZIUM
        fi ;;
    esac
    case "$peers" in *go-pq-cdc*)
        # The bench says that it leaves it out.
        if [ -z "${OUTBOX_GO_PQ_CDC:-}" ] && peer="$(scripts/go-pq-cdc.sh | tail -n 1)"; then
            export OUTBOX_GO_PQ_CDC="$peer"
        fi ;;
    esac
    # One cargo call each: built together, the two would share features that the product is not
    # shipped with.
    if [ "$own_binary" = 1 ]; then cargo build --release --locked --package outbox-router; fi
    if [ "$own_json" = 1 ]; then
        mkdir -p "$target/bench"
        json="$target/bench/$(date +%Y%m%d-%H%M%S).jsonl"
        echo "JSON lines: $json"
        set -- "$@" --json "$json"
    fi
fi
cargo build --release --locked --package bench
exec "$target/release/bench" "$@"
