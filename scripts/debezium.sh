#!/usr/bin/env bash
# Finds or fetches Debezium's PostgreSQL connector and Kafka Connect, and prints the directory with their jars.
#
#   scripts/debezium.sh
#
# Fetched by Maven coordinates into the cache directory (OUTBOX_CACHE, else $XDG_CACHE_HOME/outbox-router; for root
# /var/cache/outbox-router). Only the bench needs it: scripts/bench.sh --peers. Progress goes to standard error.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

debezium_version=3.7.0.Final
kafka_version=4.3.1
slf4j_version=1.7.36

say() { printf 'debezium.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# The directory above Kafka's own jars is the cache; asking for them also sees to Java.
cache="$(dirname "$(scripts/kafka.sh | tail -n 1)")"
jars="$cache/debezium-$debezium_version"

dependency() {
    printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n' "$@"
}

fetch() {
    command -v mvn >/dev/null || die "mvn is missing: install Maven and run this again"
    local work
    work="$(mktemp -d "$cache/.debezium.XXXXXX")"
    # shellcheck disable=SC2064 # the directory of now is meant
    trap "rm -rf '$work'" EXIT
    {
        echo '<project><modelVersion>4.0.0</modelVersion><groupId>testbed</groupId>'
        echo '<artifactId>debezium</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
        dependency io.debezium debezium-connector-postgres "$debezium_version"
        # What the connector calls provided: it runs inside Connect.
        dependency org.apache.kafka connect-runtime "$kafka_version"
        dependency org.apache.kafka connect-json "$kafka_version"
        dependency org.apache.kafka kafka-clients "$kafka_version"
        dependency org.slf4j slf4j-api "$slf4j_version"
        dependency org.slf4j slf4j-simple "$slf4j_version"
        echo '</dependencies></project>'
    } >"$work/pom.xml"
    say "fetching Debezium $debezium_version and Kafka Connect $kafka_version with Maven"
    mvn -q -B -Dstyle.color=never -f "$work/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$work/jars" >&2
    # Whoever comes second finds the directory there and leaves it alone.
    mv -T "$work/jars" "$jars" 2>/dev/null || [ -d "$jars" ]
}

if [ ! -d "$jars" ]; then
    exec 9>"$cache/.lock-debezium"
    if command -v flock >/dev/null; then flock 9; fi
    [ -d "$jars" ] || fetch
fi
printf '%s\n' "$jars"
