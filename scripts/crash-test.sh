#!/usr/bin/env bash
# Kills the router at random instants and at every failpoint, on real servers, and checks slot,
# witness, topics and the table of held events before it starts again; holds the broker's responses,
# and checks slot, witness and table. Kills `outbox-router switch` between each two of its writes.
#
#   scripts/crash-test.sh                              40 kills, 3 rounds of held responses (1 min)
#   scripts/crash-test.sh --kills 500                  random instants and failpoints, alternately
#   scripts/crash-test.sh --per-failpoint 20 --seed 7  kills at each failpoint, and once at those of
#                                                      the switch; --seed repeats one
#   scripts/crash-test.sh --per-failpoint 5 --only held,released     kills at these failpoints
#   scripts/crash-test.sh --hold 30 --kills 0          held responses only
#   scripts/crash-test.sh --switch                     those of the switch only (2 min)
#   scripts/crash-test.sh --postgres 18                on another version of PostgreSQL than 15
#
# The last line of the router's kills, here wrapped, is:
#   kills N · lost 0 · order violations 0 · confirmed ahead 0 · slot ahead of witness 0 ·
#   witness ahead of acks 0 · covered and repeated 0 ·
#   released ahead of acks 0 · dead letters passed 0 · duplicates D
# Exits with 1 on any violation, and when a failpoint was never reached, which makes the run
# invalid.
set -euo pipefail
cd "$(dirname "$0")/.."

version="${OUTBOX_PG_VERSION:-15}"
run=yes
switch=no
previous=
for argument in "$@"; do
    case "$argument" in
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --postgres=*) version="${argument#--postgres=}" ;;
        --per-failpoint | --per-failpoint=*) [ "$switch" = never ] || switch=yes ;;
        --only | --only=*) switch=never ;;
        --switch) run=no; switch=yes ;;
    esac
    case "$previous" in --postgres) version="$argument" ;; esac
    previous="$argument"
done

scripts/install.sh build
binaries="$(scripts/postgres.sh "$version" | tail -n 1)"
export "OUTBOX_PG_BIN_$version=$binaries"
scripts/kafka.sh >/dev/null

target="${CARGO_TARGET_DIR:-$PWD/target}"
# With debug assertions, which the feature requires. A copy, because the next ordinary build
# replaces the file.
cargo build --locked --package outbox-router --features failpoints
mkdir -p "$target/crash-test"
cp -f "$target/debug/outbox-router" "$target/crash-test/outbox-router"
export OUTBOX_ROUTER_BIN="$target/crash-test/outbox-router"
export OUTBOX_PG_VERSION="$version"
if [ "$switch" = yes ]; then
    # Each has its own servers, and waits for leases most of the time.
    cargo test --locked --workspace --test e2e -- \
        --ignored polling::switch::kills --test-threads 5 --show-output
fi
if [ "$run" = yes ]; then
    # With the tests, whose dependencies are compiled already.
    cargo build --locked --workspace --tests --bin crash-test
    exec "$target/debug/crash-test" "$@"
fi
