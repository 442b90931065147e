#!/usr/bin/env bash
# Counts, on real servers, that a router stops for damage done while no router ran, and for nothing
# else: slots, servers and Kafka are replaced, each in so many rounds with a separate pipeline; then
# come restarts, kills and takeovers.
#
#   scripts/away.sh                            20 rounds and 200 restarts, on PostgreSQL 15 and 18
#                                              (up to half an hour each)
#   scripts/away.sh --postgres 18              on one version
#   scripts/away.sh --rounds 5 --restarts 40   fewer; 0 skips a part
#
# The last lines are, for each version:
#   PostgreSQL V · away: slot re-created 20/20 · slot advanced 20/20 · …
#   PostgreSQL V · restarts: 200 restarts and takeovers · 0 false stops
# Exits with 1 when a round failed, or a restart without damage stopped a router.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=20
restarts=200
versions=(15 18)
while [ $# -gt 0 ]; do
    case "$1" in
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --rounds) rounds="${2:?how many}"; shift 2 ;;
        --restarts) restarts="${2:?how many}"; shift 2 ;;
        --postgres) versions=("${2:?which version}"); shift 2 ;;
        *) echo "usage: scripts/away.sh [--rounds N] [--restarts N] [--postgres VERSION]" >&2; exit 2 ;;
    esac
done

scripts/install.sh build test
for version in "${versions[@]}"; do
    bin="$(scripts/postgres.sh "$version" | tail -n 1)"
    export "OUTBOX_PG_BIN_$version=$bin"
done
scripts/kafka.sh >/dev/null
cargo build --locked --package outbox-router
target="${CARGO_TARGET_DIR:-$PWD/target}"
mkdir -p "$target/away"
# A copy, because the next ordinary build replaces the file.
cp -f "$target/debug/outbox-router" "$target/away/outbox-router"
export OUTBOX_ROUTER_BIN="$target/away/outbox-router"

summary=
failed=0
# run_scenarios NAME VERSION ARGUMENT…: runs scenarios, and keeps the last line that begins with
# "NAME: ".
run_scenarios() {
    local name="$1" version="$2" log="$target/away/$1-$2.log"
    shift 2
    OUTBOX_PG_VERSION="$version" cargo test --locked --package e2e --test e2e -- --nocapture "$@" 2>&1 | tee "$log" || {
        failed=1
        echo "$name on PostgreSQL $version failed: see $log" >&2
    }
    summary+="PostgreSQL $version · $(grep -o "$name: .*" "$log" | tail -n 1 || echo "$name: no scenario was run")"$'\n'
}

for version in "${versions[@]}"; do
    # Four at a time: each waits most of the time.
    [ "$rounds" = 0 ] ||
        OUTBOX_ROUNDS="$rounds" run_scenarios away "$version" gaps::away --skip restarts --test-threads 4
    [ "$restarts" = 0 ] ||
        OUTBOX_RESTARTS="$restarts" run_scenarios restarts "$version" gaps::away::restarts
done
printf '\n%s' "$summary"
exit "$failed"
