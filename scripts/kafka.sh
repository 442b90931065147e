#!/usr/bin/env bash
# A real Apache Kafka for tests and experiments: one KRaft node on the loopback address.
#
#   scripts/kafka.sh                         fetch it; prints the directory with its jars
#   scripts/kafka.sh start [PORT]            start one node (default 9092; PORT+1 is its controller)
#   scripts/kafka.sh topic NAME PARTITIONS   create a topic on it
#   scripts/kafka.sh stop                    stop it and delete its data
#
# Fetched by Maven coordinates into the cache directory (fetching.sh says where that is). Progress
# goes to standard error. KAFKA_HEAP (default 512m) is the heap, KAFKA_JVM_OPTS holds further flags
# for the JVM.
. "$(dirname "$0")/fetching.sh"

java_major() {
    java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

ensure_java() {
    local major
    major="$(java_major || true)"
    if [ "${major:-0}" -lt 17 ]; then apt_install default-jre-headless; fi
    major="$(java_major || true)"
    [ "${major:-0}" -ge 17 ] || die "Kafka $kafka_version needs Java 17 or newer, found ${major:-none}"
}

jars="$cache/kafka-$kafka_version"

fetch() {
    ensure_java
    [ -d "$jars" ] && return
    lock kafka
    [ -d "$jars" ] && return
    fetch_jars "$jars" "org.apache.kafka:kafka_2.13:$kafka_version" \
        "org.apache.kafka:kafka-tools:$kafka_version" "org.slf4j:slf4j-simple:$slf4j_version"
}

state="${TMPDIR:-/tmp}/outbox-router-kafka-$(id -u)"

kafka_java() {
    java -cp "$jars/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn "$@"
}

# The pid of the running node; fails when there is none.
running() {
    [ -f "$state/pid" ] && kill -0 "$(cat "$state/pid")" 2>/dev/null && cat "$state/pid"
}

announce() { printf 'bootstrap %s pid %s\n' "$(cat "$state/bootstrap")" "$(cat "$state/pid")"; }

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

write_properties() {
    cat >"$state/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$(($1 + 1))
listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$(($1 + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$1
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$state/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
PROPERTIES
}

start() {
    local port="${1:-9092}"
    [[ "$port" =~ ^[0-9]+$ ]] || die "usage: scripts/kafka.sh start [PORT]"
    fetch
    if running >/dev/null; then
        say "already running"
        announce
        return
    fi
    for taken in "$port" "$((port + 1))"; do
        if port_open "$taken"; then
            die "port $taken is in use: choose another one, scripts/kafka.sh start PORT"
        fi
    done
    rm -rf "$state"
    mkdir -m 700 "$state"
    write_properties "$port"
    kafka_java kafka.tools.StorageTool format -c "$state/server.properties" \
        -t "$(kafka_java kafka.tools.StorageTool random-uuid)" >"$state/format.log" 2>&1 ||
        die "formatting the storage failed, see $state/format.log"
    # shellcheck disable=SC2086 # several flags in one variable are meant to be split
    setsid nohup java -cp "$jars/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
        "-Xmx${KAFKA_HEAP:-512m}" ${KAFKA_JVM_OPTS:-} kafka.Kafka "$state/server.properties" \
        >"$state/log" 2>&1 </dev/null 9>&- &
    echo "$!" >"$state/pid"
    echo "127.0.0.1:$port" >"$state/bootstrap"
    for _ in $(seq 300); do
        if port_open "$port"; then
            announce
            return
        fi
        running >/dev/null || die "the node ended while starting, see $state/log"
        sleep 0.1
    done
    die "the node did not open port $port within 30 s, see $state/log"
}

stop() {
    local pid
    if pid="$(running)"; then
        kill "$pid"
        for _ in $(seq 150); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
        say "stopped"
    else
        say "not running"
    fi
    rm -rf "$state"
}

topic() {
    [ $# = 2 ] || die "usage: scripts/kafka.sh topic NAME PARTITIONS"
    running >/dev/null || die "no node is running: scripts/kafka.sh start"
    kafka_java org.apache.kafka.tools.TopicCommand --bootstrap-server "$(cat "$state/bootstrap")" \
        --create --if-not-exists --topic "$1" --partitions "$2" --replication-factor 1
}

command="${1:-fetch}"
[ $# = 0 ] || shift
case "$command" in
    fetch) fetch && printf '%s\n' "$jars" ;;
    start) start "$@" ;;
    stop) stop ;;
    topic) topic "$@" ;;
    *) die "usage: scripts/kafka.sh [start [PORT] | topic NAME PARTITIONS | stop]" ;;
esac
