#!/usr/bin/env bash
# Counts the instructions that an event costs in the core, decode + route + ledger, and compares
# them with what they cost before. Time on a shared machine cannot be compared to a few per cent;
# instructions under callgrind can.
#
#   scripts/instructions.sh                    compares with crates/relay/instructions.toml; exit 1
#                                              if a shape of event costs over 3 % more than there
#   scripts/instructions.sh --update           writes what it counted there
#   scripts/instructions.sh --functions SHAPE  also lists the costliest functions of one shape
#
# The program is crates/relay/examples/instructions, in the product's own profile (`release`:
# thin LTO, one codegen unit) for the target's plain CPU, whatever RUSTFLAGS say. Each shape runs
# twice, the second time with twice the events: the difference is what the events cost, without
# start and warm-up. Instructions are attributed to the source line that they were inlined from, so
# those of the program itself, which simulates a broker, do not count. glibc is kept from choosing
# by CPU, and only hash seeds differ between two runs, which changes a figure by less than 0.1 %.
#
# Figures are valid for one compiler. rust-toolchain.toml pins it, so another one is a failure: a
# change that raises the version updates the figures, too. On another architecture there are no
# figures to compare with, and the script says so.
set -euo pipefail
cd "$(dirname "$0")/.."

figures=crates/relay/instructions.toml
tolerance=3 # per cent
events=4000
update=0
listed=
usage() { echo "usage: scripts/instructions.sh [--update | --functions SHAPE]" >&2; exit 2; }
while [ $# -gt 0 ]; do
    case "$1" in
        --update) update=1 ;;
        --functions) listed="${2:-}"; [ -n "$listed" ] || usage; shift ;;
        *) usage ;;
    esac
    shift
done
say() { printf 'instructions.sh: %s\n' "$*" >&2; }

scripts/install.sh build test
# Built alone: with the simulation beside it, the core would carry its failpoints.
env -u CARGO_ENCODED_RUSTFLAGS RUSTFLAGS='' \
    cargo build --quiet --release --locked --package relay --example instructions
program="$(realpath "${CARGO_TARGET_DIR:-target}/release/examples/instructions")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

count() { # SHAPE EVENTS OUT: one run; OUT has the cost of every instruction
    env GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX_Fast_Unaligned_Load,-BMI2,-ERMS,-FSRM,-SSSE3" \
        valgrind --tool=callgrind --quiet --dump-instr=yes --compress-pos=no --compress-strings=no \
        --callgrind-out-file="$3" "$program" "$1" "$2" 2>"$3.log" || { cat "$3.log" >&2; return 1; }
}

# Two of callgrind's files → "INSTRUCTIONS ADDRESS" of the program's own code, "INSTRUCTIONS -
# FUNCTION" of libraries; what the second has more than the first, per event.
difference() {
    awk -v program="$program" -v events="$events" '
        FNR == 1 { file++ }
        inclusive { inclusive = 0; next } # the line after calls= is what the callee cost
        /^ob=/ { object = substr($0, 4) }
        /^fn=/ { name = substr($0, 4) }
        /^calls=/ { inclusive = 1 }
        /^0x/ {
            key = object == program ? $1 : "- " name
            cost[key] += file == 1 ? -$3 : $3
        }
        END { for (key in cost) if (cost[key] != 0) printf "%.4f %s\n", cost[key] / events, key }' "$1" "$2"
}

# What `difference` prints → "INSTRUCTIONS<tab>STAGE<tab>FUNCTION, FILE".
stages() {
    awk '$2 != "-" { print $2 }' "$1" | addr2line -a -i -f -C -e "$program" >"$1.frames"
    awk '
        function settle() { # the innermost place in our own crates, else the outermost
            if (address != "") { places[address] = ours != "" ? ours : last }
            ours = ""
        }
        function plain(hex) { sub(/^0x0*/, "", hex); return hex }
        function stage(file) {
            if (file ~ /^pgoutput\//) return "decode"
            if (file ~ /^relay\/examples\//) return "stand-in"
            if (file ~ /^relay\/src\/routing\/columns/) return "columns"
            if (file ~ /^relay\/src\/routing\/headers/ || file ~ /serde/) return "headers"
            if (file ~ /^relay\/src\/routing\//) return "route"
            if (file ~ /^relay\/src\/(progress\/(ledger|ticket)|ports)/) return "ledger"
            if (file ~ /^relay\/src\/(progress\/feedback|session\/status)/) return "feedback"
            if (file ~ /^relay\//) return "session"
            return "library"
        }
        FILENAME ~ /frames$/ && /^0x/ { settle(); address = plain($0); odd = 1; next }
        FILENAME ~ /frames$/ && odd { called = $0; odd = 0; next }
        FILENAME ~ /frames$/ {
            odd = 1
            sub(/:[0-9?]+( .*)?$/, "")
            own = $0 ~ /(^|\/)crates\/(pgoutput|relay)\//
            if (own) sub(/.*crates\//, ""); else sub(/.*\/(library|registry\/src\/[^\/]*)\//, "")
            last = called "\t" $0
            if (own && ours == "") ours = last
            next
        }
        !settled { settle(); settled = 1 }
        {
            split($2 == "-" ? substr($0, index($0, "-") + 2) "\tlibrary" : places[plain($2)], place, "\t")
            printf "%s\t%s\t%s, %s\n", $1, stage(place[2]), place[1], place[2]
        }' "$1.frames" "$1"
}

shapes="$("$program")"
for shape in $shapes; do
    count "$shape" "$events" "$work/$shape.once" &
    once=$!
    count "$shape" "$((2 * events))" "$work/$shape.twice"
    wait "$once"
    difference "$work/$shape.once" "$work/$shape.twice" >"$work/$shape"
    stages "$work/$shape" >"$work/$shape.stages"
done

compiler="$(rustc --version)"
machine="$(rustc -vV | sed -n 's/^host: //p')"
stored() { [ ! -e "$figures" ] || sed -n "s/^$1 = \"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$figures"; }

columns="decode columns route headers ledger session feedback library"
printf 'instructions per event\n%-12s' shape
printf '%9s' $columns total stored change
printf '\n'
: >"$work/new"
worse=
better=0
unknown=
for shape in $shapes; do
    before="$(stored "$shape")"
    awk -F '\t' -v shape="$shape" -v columns="$columns" -v before="$before" -v new="$work/new" '
        { cost[$2] += $1 }
        END {
            count = split(columns, names, " ")
            printf "%-12s", shape
            for (i = 1; i <= count; i++) { total += cost[names[i]]; printf "%9.0f", cost[names[i]] }
            total = sprintf("%.0f", total)
            printf "%9d", total
            if (before > 0) printf "%9d%+8.1f%%", before, 100 * total / before - 100
            printf "\n"
            printf "%s = %d\n", shape, total >> new
        }' "$work/$shape.stages"
    now="$(sed -n "s/^$shape = //p" "$work/new")"
    if [ -z "$before" ]; then
        unknown="$unknown $shape"
    elif [ "$((now * 100))" -gt "$((before * (100 + tolerance)))" ]; then
        worse="$worse $shape"
    elif [ "$((now * 100))" -lt "$((before * (100 - tolerance)))" ]; then
        better=1
    fi
done

if [ -n "$listed" ]; then
    [ -e "$work/$listed.stages" ] || { say "no shape is called $listed"; exit 2; }
    printf '\ncostliest functions of %s\n' "$listed"
    awk -F '\t' '{ cost[$2 "\t" $3] += $1 } END { for (place in cost) printf "%.1f\t%s\n", cost[place], place }' \
        "$work/$listed.stages" | sort -rn | awk -F '\t' 'NR <= 30 { printf "%9.1f  %-9s %s\n", $1, $2, $3 }'
fi

if [ "$update" = 1 ]; then
    {
        echo "# Instructions per event in the core, by shape. Written by scripts/instructions.sh --update."
        printf 'rustc = "%s"\ntarget = "%s"\n\n[shapes]\n' "$compiler" "$machine"
        cat "$work/new"
    } >"$figures"
    echo "instructions updated"
elif [ -e "$figures" ] && [ "$(stored target)" != "$machine" ]; then
    echo "instructions not compared: the stored figures are of $(stored target), this is $machine"
elif [ -n "$unknown" ]; then
    say "no figure is stored for$unknown: scripts/instructions.sh --update"
    exit 1
elif [ "$(stored rustc)" != "$compiler" ]; then
    say "the stored figures are of $(stored rustc), this is $compiler; if that is meant: scripts/instructions.sh --update"
    exit 1
elif [ -n "$worse" ]; then
    say "over $tolerance % more than before:$worse; scripts/instructions.sh --functions SHAPE shows where"
    say "if it is worth that: scripts/instructions.sh --update, and say in the commit what it buys"
    exit 1
else
    if [ "$better" = 1 ]; then
        echo "over $tolerance % better: keep it with scripts/instructions.sh --update"
    fi
    echo "instructions ok"
fi
