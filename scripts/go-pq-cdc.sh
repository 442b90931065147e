#!/usr/bin/env bash
# Finds or builds the bench's program around go-pq-cdc-kafka, and prints its path.
#
#   scripts/go-pq-cdc.sh
#
# Built by Go 1.25 or newer from crates/bench/go-pq-cdc, with the modules that its go.mod names,
# into the cache directory (fetching.sh says where that is). Where the module proxy does not have
# Trendyol's modules, set OUTBOX_GO_PQ_CDC_SOURCES to a directory with checkouts of both:
# go-pq-cdc-kafka and go-pq-cdc. Only scripts/bench.sh --peers needs it. Progress goes to standard
# error.
. "$(dirname "$0")/fetching.sh"

project="$(cd "$(dirname "$0")/../crates/bench/go-pq-cdc" && pwd)"
sources="${OUTBOX_GO_PQ_CDC_SOURCES:-}"
built="$cache/go-pq-cdc-$(cat "$project"/* | sha256sum | cut -c1-12)/go-pq-cdc"
if [ ! -x "$built" ]; then
    command -v go >/dev/null || die "Go is missing: install Go 1.25 or newer, then run this again"
    lock go-pq-cdc
    make_work go-pq-cdc
    mkdir "$work/built"
    cp "$project"/* "$work"
    cd "$work"
    if [ -n "$sources" ]; then
        for module in go-pq-cdc-kafka go-pq-cdc; do
            go mod edit -replace "github.com/Trendyol/$module=$(cd "$sources/$module" && pwd)"
        done
    fi
    say "building go-pq-cdc-kafka with $(go env GOVERSION)"
    # Go writes go.sum itself, from its checksum database.
    go build -mod=mod -o built/go-pq-cdc . >&2 \
        || die "go-pq-cdc-kafka cannot be built: see above, and OUTBOX_GO_PQ_CDC_SOURCES in this script"
    keep "$work/built" "${built%/*}"
fi
printf '%s\n' "$built"
