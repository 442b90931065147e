//! The options of `io.debezium.transforms.outbox.EventRouter`, without the prefix of its alias.

use super::connector::NAMES_STAY;
use super::rule::{Outcome, Rule, by_value, carried, different, same};

pub(in super::super) const EVENT_ROUTER_OPTIONS: &[Rule] = &[
    carried("outbox.on_update", &["table.op.invalid.behavior"]),
    carried("outbox.columns.id", &["table.field.event.id"]),
    carried("outbox.columns.aggregate_id", &["table.field.event.key"]),
    carried("outbox.columns.payload", &["table.field.event.payload"]),
    carried("outbox.columns.timestamp", &["table.field.event.timestamp"]),
    carried("outbox.columns.aggregate_type", &["route.by.field"]),
    carried("outbox.route_regex", &["route.topic.regex"]),
    carried("outbox.topic", &["route.topic.replacement"]),
    carried("outbox.tombstone_on", &["route.tombstone.on.empty.payload"]),
    carried("outbox.extra_headers", &["table.fields.additional.placement"]),
    carried("outbox.missing_columns", &["table.field.additional.missing"]),
    carried(
        "outbox.expand_json",
        &[
            "table.expand.json.payload",
            "table.json.payload.null.behavior",
            "table.json.payload.empty.array.behavior",
        ],
    ),
    carried("outbox.columns.tracing", &["tracing.span.context.field"]),
    same(
        "no effect in Debezium either: EventRouter never reads it, and writes the type only where \
         table.fields.additional.placement says so",
        &["table.field.event.type"],
    ),
    carried("outbox.extra_headers", &["table.field.event.schema.version"]),
    different(
        "the router opens no span: with OpenTelemetry Debezium opens one of this name for each row",
        &["tracing.operation.name"],
    ),
    by_value(
        &["tracing.with.context.field.only"],
        &["true"],
        Outcome::Same("only a row with a context gets headers of it"),
        Outcome::Different(
            "a row without a context gets no traceparent: with OpenTelemetry Debezium begins a \
             trace of its own there",
        ),
    ),
    // EventRouter reads one of its own, beside the connector's.
    by_value(
        &["field.name.adjustment.mode"],
        &["none"],
        Outcome::Same(NAMES_STAY),
        Outcome::Different(
            "members of an expanded payload keep their names and values; Debezium changes names \
             that Avro does not allow, and writes null for them",
        ),
    ),
    same("EventRouter has not read it since 1.3", &["table.field.event.payload.id"]),
];
