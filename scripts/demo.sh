#!/usr/bin/env bash
# Shows the product in about half a minute: rows of an outbox table arrive in Kafka while the broker
# is stopped and started again and the router is killed. The last line is the count.
#
#   scripts/demo.sh                     with an embedded broker (librdkafka's mock cluster)
#   scripts/demo.sh --real-kafka        with a temporary Apache Kafka
#   scripts/demo.sh --kafka HOST:PORT   with your own Kafka
#   scripts/demo.sh --sabotage          drops one record before the count: lost 1, exit code 1
#   scripts/demo.sh --keep              leaves everything running, and prints commands to inspect it
#
# Installs what is missing (a compiler, PostgreSQL) and builds, with little optimisation: a few
# minutes on two cores the first time, and a few seconds after that.
# What it starts listens on the loopback address, keeps its data in temporary directories, and is
# removed at the end. OUTBOX_PG_VERSION chooses the version of PostgreSQL; otherwise one that is
# installed or packaged is used.
set -euo pipefail
cd "$(dirname "$0")/.."

for argument in "$@"; do
    case "$argument" in
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    esac
done

has_package() { LC_ALL=C apt-cache policy "postgresql-$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }

# Any version from 14 on: one that is installed, else one of this system's packages.
postgres_version() {
    local version
    for version in 15 16 17 18 14; do
        [ -x "/usr/lib/postgresql/$version/bin/postgres" ] && echo "$version" && return
    done
    for version in 15 16 17 18 14; do
        has_package "$version" && echo "$version" && return
    done
    echo 15
}

scripts/install.sh build
export OUTBOX_PG_VERSION="${OUTBOX_PG_VERSION:-$(postgres_version)}"
binaries="$(scripts/postgres.sh "$OUTBOX_PG_VERSION" | tail -n 1)"
export "OUTBOX_PG_BIN_$OUTBOX_PG_VERSION=$binaries"

# Both in one build, so that librdkafka is compiled once.
if [ ! -x "${CARGO_TARGET_DIR:-target}/trial/demo" ]; then
    echo "demo.sh: the first build takes a few minutes on two cores, the demo half a minute" >&2
fi
cargo build --profile trial --locked --package outbox-router --package demo
target="$(cargo metadata --format-version 1 --no-deps --locked |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')"
# Only the binaries that were just built.
export OUTBOX_ROUTER_BIN="$target/trial/outbox-router"
exec "$target/trial/demo" "$@"
