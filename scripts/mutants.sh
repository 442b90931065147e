#!/usr/bin/env bash
# Plants bugs in a copy of the sources, one after the other, and checks that the simulation catches
# each.
#
#   scripts/mutants.sh                    all patches of crates/simulation/mutants
#   scripts/mutants.sh --only NAME        one
#   scripts/mutants.sh --sample N         N of them; which ones depends on the day
#   scripts/mutants.sh --check            only checks that every patch has its header and applies,
#                                         and that docs/planted-bugs.md has it
#   scripts/mutants.sh --table            plants nothing, and writes the table of that page
#
# The copy and what is built of it stay in the target directory, under mutants/. Ends with "caught N
# of M"; exit 1 if a bug survives, is caught by an invariant that its patch does not name, or does
# not compile.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo run --quiet --locked --profile checked --package simulation --bin mutants -- "$@"
