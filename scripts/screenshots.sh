#!/usr/bin/env bash
# Makes the pictures of the page in docs/images: a router that is well, and one whose broker is
# away, in light and dark and on a phone. Real PostgreSQL, real Kafka, the real router, a real
# browser; it takes about three minutes once everything is built.
#
#   scripts/screenshots.sh [DIRECTORY]      default: docs/images
#
# Installs what is missing. OUTBOX_PG_VERSION chooses the version of PostgreSQL (default 18).
. "$(dirname "$0")/fetching.sh"
cd "$(dirname "$0")/.."

folder="${1:-docs/images}"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"

scripts/install.sh build test
command -v pngquant >/dev/null || apt_install pngquant
fc-list 2>/dev/null | grep -qi 'Inter-Regular' || apt_install fonts-inter

export OUTBOX_PG_VERSION="${OUTBOX_PG_VERSION:-18}"
bin="$(scripts/postgres.sh "$OUTBOX_PG_VERSION" | tail -n 1)"
export "OUTBOX_PG_BIN_$OUTBOX_PG_VERSION=$bin"
scripts/kafka.sh >/dev/null
cargo build --locked --package outbox-router
export OUTBOX_ROUTER_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/outbox-router"

OUTBOX_SCREENSHOTS="$folder" cargo test --package e2e --locked -- --ignored page::screenshots

for picture in "$folder"/page-*.png; do
    # 64 colours are enough for a page of two typefaces and seven colours.
    pngquant --force --skip-if-larger --strip --speed 1 --output "$picture" 64 "$picture" || [ $? = 98 ]
    bytes="$(stat -c %s "$picture")"
    [ "$bytes" -lt 150000 ] || die "$picture has $bytes bytes: more than 150 kB"
    say "${picture##*/}: $bytes bytes"
done
