#!/usr/bin/env bash
# Finds or fetches Debezium's PostgreSQL connector and Kafka Connect, and prints the directory with
# their jars.
#
#   scripts/debezium.sh
#
# Fetched by Maven coordinates into the cache directory (fetching.sh says where that is). Only
# scripts/bench.sh --peers and scripts/test.sh --debezium need it. Progress goes to standard error.
. "$(dirname "$0")/fetching.sh"

debezium_version=3.7.0.Final
jars="$cache/debezium-$debezium_version"
"$(dirname "$0")/kafka.sh" >/dev/null # installs Java
if [ ! -d "$jars" ]; then
    lock debezium
    # The connector's dependencies with scope "provided" are listed after it, because it runs inside
    # Connect.
    [ -d "$jars" ] || fetch_jars "$jars" "io.debezium:debezium-connector-postgres:$debezium_version" \
        "org.apache.kafka:connect-runtime:$kafka_version" "org.apache.kafka:connect-json:$kafka_version" \
        "org.apache.kafka:kafka-clients:$kafka_version" \
        "org.slf4j:slf4j-api:$slf4j_version" "org.slf4j:slf4j-simple:$slf4j_version"
fi
printf '%s\n' "$jars"
