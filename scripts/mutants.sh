#!/usr/bin/env bash
# Plants every seeded bug in turn, and sees that the simulation catches it.
#
#   scripts/mutants.sh                    all of them
#   scripts/mutants.sh --only NAME        one
#   scripts/mutants.sh --table docs/testing.md
#                                         and writes the table into that document
#
# Ends with "caught N of M"; exit 1 if one survives.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo run --quiet --locked --profile checked --package simulation --bin mutants -- "$@"
