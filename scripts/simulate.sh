#!/usr/bin/env bash
# Deterministic simulation: the real core between a simulated PostgreSQL and a simulated Kafka, from
# seeds.
#
#   scripts/simulate.sh                            20,000 seeds from seed 0
#   scripts/simulate.sh --seeds N [--start S]      N seeds from seed S
#   scripts/simulate.sh --fresh --seconds 20       for 20 seconds, from a seed made from the clock
#   scripts/simulate.sh --polling [...]            only the polling source; without this, one seed
#                                                  of it for every four of the stream
#   scripts/simulate.sh --rows [...]               only the life of rows (what removes them)
#   scripts/simulate.sh --repairs [...]            only repairs (what closes gaps, and switches)
#   scripts/simulate.sh [--polling|--rows|--repairs] --seed S [--faults 0,3] [--trace]
#                                                  only seed S, as a failing run prints it
#
# Ends with "seeds N · violations V · seeds/s R", and the arguments that run each violation again;
# exit 1 after a violation, or when something was never reached.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo run --quiet --locked --profile checked --package simulation --bin simulate -- "$@"
