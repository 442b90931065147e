#!/usr/bin/env bash
# Everything that a change must pass.
#
#   scripts/test.sh               all of it: format, unit and property tests, kills, end to end on
#                                 18, and on 15 what depends on the server's version; beside these
#                                 lints, docs, simulation and some planted bugs
#   scripts/test.sh --fast        format, lints, unit and property tests, docs
#   scripts/test.sh --prove       simulation, some planted bugs, kills of the real router, and
#                                 random rounds around it
#   scripts/test.sh --e2e 15      only the end-to-end scenarios, all on one version of PostgreSQL
#   scripts/test.sh --debezium    the real Debezium: on the cases that the default tests compare
#                                 with, where the real router answers `compare` and runs beside it,
#                                 on random rows from a seed that it prints, and handing its slot
#                                 over and getting it back; and `compare` on a million events
#   scripts/test.sh --debezium record          what it does in the cases is recorded
#   scripts/test.sh --debezium random [SEED]   only the random rows, from this seed
#
# Installs what is missing. A server that cannot be installed is a failure, and never a skipped
# test.
set -euo pipefail
cd "$(dirname "$0")/.."

versions=(18 15)
parts=(fast prove e2e)
# Whether every part runs.
whole=
# Scenarios in which a version of PostgreSQL has never mattered: they run on the first one alone,
# and all on each by --e2e VERSION. Catalogs, publications, slots and partitions run on every one.
of_one_version=(backfill:: backlog:: bad_rows:: brokers:: compare:: dead_letters:: delivery::
    dry_run:: faults:: hostile_clients:: kills:: lost_topics:: page:: polling:: recover:: replay::
    service:: shutdown:: standbys:: statistics:: tap:: where_is::)
case "${1:-}" in
    "") whole=yes ;;
    --fast) parts=(fast) ;;
    --prove) parts=(prove) ;;
    --e2e) parts=(e2e); [ -z "${2:-}" ] || versions=("$2") ;;
    --debezium) parts=(debezium) ;;
    *) echo "usage: scripts/test.sh [--fast | --prove | --e2e [VERSION] | --debezium [record | random [SEED]]]" >&2
        exit 2 ;;
esac

# A failed test prints what it waited for and what it read; a backtrace of the runtime would hide
# that.
export RUST_BACKTRACE=0

# The servers of each test write some thousand files, which takes a quarter of the time on a disk:
# where there is room, they are in memory.
own_tmpdir=
keep_in_memory() {
    local room free
    room="$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" || return 0
    free="$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)"
    if [ -n "${TMPDIR:-}" ] || [ "${room:-0}" -lt 8000000 ] || [ "$free" -lt 14000000 ]; then
        return
    fi
    own_tmpdir="$(mktemp -d /dev/shm/outbox-router.XXXXXX)"
    chmod 755 "$own_tmpdir" # PostgreSQL has a user of its own
    # Tests also execute what is in it, which a mount may forbid.
    install -m 755 /dev/null "$own_tmpdir/program"
    if "$own_tmpdir/program" 2>/dev/null; then export TMPDIR="$own_tmpdir"; fi
}

clean_up() {
    # What failed stays the last that is said.
    [ "$?" != 0 ] || times
    rm -f "$slowest"
    if [ -n "${computing:-}" ]; then
        kill -- "-$computing" 2>/dev/null || true
        wait "$computing" || true
        rm -rf "$computed"
    fi
    [ -z "$own_tmpdir" ] || rm -rf "$own_tmpdir"
}
slowest="$(mktemp)"
trap clean_up EXIT

# The steps so far, and when each began.
steps=()
began=()
step() {
    [ ! -e "${computed:-}/failed" ] || end_computing
    steps+=("$*")
    began+=("$SECONDS")
    printf '\n== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60))
}

# Where the time went: the steps, and the slowest scenarios.
times() {
    local number last=$((${#steps[@]} - 1))
    if [ -s "$slowest" ]; then
        printf '\n== the slowest scenarios, in seconds\n'
        sort -rn "$slowest" | head -n 10
    fi
    printf '\n== minutes\n'
    began+=("$SECONDS")
    for number in $(seq 0 "$last"); do
        awk -v from="${began[number]}" -v to="${began[number + 1]}" -v what="${steps[number]}" \
            'BEGIN { if (to > from) printf "%6.1f  %s\n", (to - from) / 60, what }'
    done
    awk -v all="$SECONDS" 'BEGIN { printf "%6.1f  in all\n", all / 60 }'
}

# Cargo compiles the dependencies anew for each set of features, and that set follows from the
# packages that are selected. So all tests are of one selection, the workspace; the router alone is
# built by itself, because the others' features are no part of the product.
e2e() {
    local host
    host="$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')"
    (
        # The harness of a stable compiler says only then how long each test took.
        export "CARGO_TARGET_${host}_RUNNER=env RUSTC_BOOTSTRAP=1"
        tests --test e2e --locked -- -Z unstable-options --report-time "$@"
    )
}

# A failed test prints the logs of its servers after what it asserts, and a log that is read from
# its end shows those alone: so the assertions are said once more at the end.
tests() {
    local output status=0
    output="$(mktemp)"
    cargo test --workspace "$@" 2>&1 | tee "$output" || status=$?
    [ "$status" = 0 ] || { printf '\n== failed\n'; grep -A 6 ' panicked at ' "$output" | cut -c 1-600; } || true
    sed -nE 's/^test ([^ ]+) \.\.\. .*<([0-9.]+)s>$/\2  \1/p' "$output" >>"$slowest"
    rm -f "$output"
    return "$status"
}

# What is linked into the routers that are built later; not their programs, since the tests run the
# one that is in the place of both.
routers() {
    step "libraries of the routers"
    cargo build --locked --package outbox-router --lib --features failpoints
    cargo build --locked --package outbox-router --lib
}

lints() {
    step "lints"
    cargo clippy --workspace --all-targets --locked -- -D warnings
}

documentation() {
    step "documentation"
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
}

instructions() {
    step "instructions per event"
    scripts/instructions.sh
}

simulation() { # how long
    step "simulation, from fresh seeds"
    scripts/simulate.sh --fresh "$@"
    step "planted bugs"
    scripts/mutants.sh --check
    # Every bug is planted within five weeks.
    scripts/mutants.sh --sample 5
}

# What only computes has the processor whenever no test wants it: those with servers wait most of
# the time. When it fails, the next step ends the run.
begin_computing() {
    computed="$(mktemp -d)"
    set -m # a process group of its own, to be ended as one
    (
        trap '[ "$?" = 0 ] || touch "$computed/failed"' EXIT
        chrt --idle -p 0 "$BASHPID" || true
        routers
        lints
        documentation
        instructions
        # As many as ten seconds have, however long that takes.
        simulation --seeds 10000
    ) >"$computed/output" 2>&1 &
    computing=$!
    set +m
}

end_computing() {
    rm -f "$computed/failed"
    step "what was computed meanwhile"
    local status=0
    wait "$computing" || status=$?
    cat "$computed/output"
    [ "$status" = 0 ] || exit "$status"
}

# With debug assertions and overflow checks, because the end-to-end scenarios reach rare states.
build_router() {
    cargo build --locked --package outbox-router
    OUTBOX_ROUTER_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/outbox-router"
    export OUTBOX_ROUTER_BIN
}

keep_in_memory
step "missing packages and servers"
scripts/install.sh build test
for version in "${versions[@]}"; do
    bin="$(scripts/postgres.sh "$version" | tail -n 1)"
    export "OUTBOX_PG_BIN_$version=$bin"
done
scripts/kafka.sh >/dev/null

for part in "${parts[@]}"; do
    case "$part" in
        fast)
            step "format"
            cargo fmt --all --check
            if [ -n "$whole" ]; then begin_computing; else lints; fi
            step "unit and property tests"
            # Four at a time: the tests with servers wait most of the time.
            tests --exclude e2e --locked -- --test-threads 4
            if [ -z "$whole" ]; then instructions; documentation; fi
            ;;
        prove)
            step "a release has no failpoints"
            if cargo tree --locked --package outbox-router --edges features,normal |
                grep -E 'feature "(failpoints|testing)"'; then
                echo "a feature for tests is part of the product" >&2
                exit 1
            fi
            [ -n "$whole" ] || simulation --seconds 20
            step "kills at every failpoint, and held responses"
            cargo test --workspace --locked --features outbox-router/failpoints --lib failpoint
            scripts/crash-test.sh --per-failpoint 1 --hold 2 --postgres 18
            step "random rounds, judged from outside"
            scripts/judge.sh --seconds 120 --postgres 18
            ;;
        debezium)
            step "the real Debezium"
            OUTBOX_DEBEZIUM="$(scripts/debezium.sh | tail -n 1)"
            export OUTBOX_DEBEZIUM
            build_router
            cargo run --locked --package differential -- "${2:-check}" ${3:+"$3"}
            if [ "${2:-check}" = check ]; then
                step "the real Debezium, on random rows from a fresh seed"
                cargo run --locked --package differential -- random
                step "a slot from the real Debezium and back"
                # One at a time: two cores do not carry two loads of 1,000 events a second.
                OUTBOX_PG_VERSION=18 e2e --ignored take_over --test-threads 1 --show-output
                step "compare on a million events, with each difference planted"
                OUTBOX_COMPARE_EVENTS=1000000 OUTBOX_PG_VERSION=18 e2e compare::planted
            fi
            ;;
        e2e)
            build_router
            skipped=(--skip alerts::)
            for version in "${versions[@]}"; do
                step "end to end on PostgreSQL $version"
                # Five at a time: each scenario has its own servers and waits most of the time.
                OUTBOX_PG_VERSION="$version" e2e "${skipped[@]}" --test-threads 5
                skipped+=("${of_one_version[@]/#/--skip=}")
            done
            [ -z "$whole" ] || end_computing
            # Twelve clusters at once, so nothing beside them. The rules know no versions.
            step "alerts of a real Prometheus, on PostgreSQL $version"
            OUTBOX_PG_VERSION="$version" e2e alerts::
            ;;
    esac
done
step "everything passed"
