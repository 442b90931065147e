//! Known outbox tables. A preset is data: which column has which role, and by which columns such a
//! table is recognised.

use super::Role;

/// A known outbox table.
#[derive(Debug)]
pub struct Preset {
    /// The name in the configuration and in messages.
    pub name: &'static str,
    /// Where such tables come from, and what a user has to know of them.
    pub about: &'static str,
    /// What may stand for a role: columns' names or templates, of which the first that a table has
    /// is taken. A role that is not listed has no column.
    pub columns: &'static [(Role, &'static [&'static str])],
    /// Columns that tell such a table from others, beside those that the roles require.
    pub signature: &'static [&'static str],
    /// The topic where none is configured.
    pub topic: &'static str,
    /// Headers from columns: the name of both.
    pub headers: &'static [&'static str],
    /// A table that it fits, and a row of it.
    pub example: Example,
}

/// A table, a row of it, and the record that the router makes of the row.
#[derive(Debug)]
pub struct Example {
    /// `CREATE TABLE`; the table is named `outbox`.
    pub table: &'static str,
    /// The topic to configure, where the preset has none that fits.
    pub topic: Option<&'static str>,
    /// `INSERT INTO`.
    pub row: &'static str,
    /// The record.
    pub record: ExampleRecord,
}

/// A record, as texts.
#[derive(Debug)]
pub struct ExampleRecord {
    /// Its topic.
    pub topic: &'static str,
    /// Its key.
    pub key: &'static str,
    /// Its value.
    pub value: &'static str,
    /// Its headers, in their order.
    pub headers: &'static [(&'static str, Option<&'static str>)],
}

/// Debezium's default, which suits every table that has an aggregate type.
const BY_TYPE: &str = "outbox.event.${aggregate_type}";

/// Every preset.
pub const PRESETS: [&Preset; 7] =
    [&DEFAULT, &DEBEZIUM, &PAYLOAD, &ORDERING_KEY, &STREAM, &SPRING_MODULITH, &EVENTUATE];

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.into_iter().find(|preset| preset.name == name)
    }

    /// What may stand for a role.
    pub fn alternatives(&self, role: Role) -> &'static [&'static str] {
        let found = self.columns.iter().find(|(known, _)| *known == role);
        found.map_or(&[], |(_, names)| names)
    }
}

impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Preset {}

/// The router's own table, which `setup --create-table` makes.
pub const DEFAULT: Preset = Preset {
    name: "default",
    about: "The router's own table, and any other with these common names.",
    columns: &[
        (Role::Id, &["id"]),
        (Role::AggregateType, &["aggregate_type"]),
        (Role::AggregateId, &["aggregate_id"]),
        (Role::EventType, &["event_type"]),
        (Role::Payload, &["payload"]),
        (Role::Headers, &["headers"]),
        (Role::TraceParent, &["traceparent"]),
        (Role::TraceState, &["tracestate"]),
        (Role::Timestamp, &["created_at"]),
    ],
    signature: &[],
    topic: BY_TYPE,
    headers: &[],
    example: Example {
        table: "CREATE TABLE outbox (\n    \
                id uuid PRIMARY KEY DEFAULT gen_random_uuid(),\n    \
                aggregate_type text NOT NULL,\n    \
                aggregate_id text NOT NULL,\n    \
                event_type text NOT NULL,\n    \
                payload jsonb,\n    \
                created_at timestamptz NOT NULL DEFAULT now(),\n    \
                published_at timestamptz\n)",
        topic: None,
        row: "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload) VALUES\n    \
              ('0198c3f2-7d1a-7c3e-8b4f-000000000001', 'order', '42', 'OrderPlaced', \
              '{\"total\": 1.50}')",
        record: ExampleRecord {
            topic: "outbox.event.order",
            key: "42",
            value: "{\"total\": 1.50}",
            headers: &[
                ("id", Some("0198c3f2-7d1a-7c3e-8b4f-000000000001")),
                ("type", Some("OrderPlaced")),
            ],
        },
    },
};

/// Debezium's table.
pub const DEBEZIUM: Preset = Preset {
    name: "debezium",
    about: "The table of Debezium's outbox event router, also as the Quarkus extension makes it, \
            with timestamp and tracingspancontext.",
    columns: &[
        (Role::Id, &["id"]),
        (Role::AggregateType, &["aggregatetype"]),
        (Role::AggregateId, &["aggregateid"]),
        (Role::EventType, &["type"]),
        (Role::Payload, &["payload"]),
        (Role::TraceParent, &["traceparent"]),
        (Role::TraceState, &["tracestate"]),
        (Role::Timestamp, &["timestamp"]),
        (Role::Tracing, &["tracingspancontext"]),
    ],
    signature: &[],
    topic: BY_TYPE,
    headers: &[],
    example: Example {
        table: "CREATE TABLE outbox (\n    \
                id uuid PRIMARY KEY,\n    \
                aggregatetype varchar(255) NOT NULL,\n    \
                aggregateid varchar(255) NOT NULL,\n    \
                type varchar(255) NOT NULL,\n    \
                timestamp timestamp NOT NULL DEFAULT now(),\n    \
                payload varchar(8000),\n    \
                tracingspancontext varchar(256)\n)",
        topic: None,
        row: "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, \
              tracingspancontext) VALUES\n    \
              ('0198c3f2-7d1a-7c3e-8b4f-000000000002', 'Order', '42', 'OrderCreated', \
              '{\"total\": 1.50}',\n     \
              E'#context\\ntraceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\\n')",
        record: ExampleRecord {
            topic: "outbox.event.Order",
            key: "42",
            value: "{\"total\": 1.50}",
            headers: &[
                ("id", Some("0198c3f2-7d1a-7c3e-8b4f-000000000002")),
                ("type", Some("OrderCreated")),
                ("traceparent", Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")),
            ],
        },
    },
};

/// A table with a payload and headers, and nothing to route by.
const PAYLOAD: Preset = Preset {
    name: "payload",
    about: "A table of payloads and headers that a polling publisher marks as published. It has no \
            column for a topic, so the topic must be configured, and none for a key, so the key is \
            the id: events of one aggregate have no order among each other.",
    columns: &[
        (Role::Id, &["id"]),
        (Role::AggregateId, &["id"]),
        (Role::Payload, &["payload"]),
        (Role::Headers, &["headers"]),
        (Role::Timestamp, &["created_at"]),
    ],
    signature: &["headers", "created_at", "published", "published_at"],
    // Needs an aggregate type, which the table lacks; so the preset fits only where a topic is
    // configured.
    topic: BY_TYPE,
    headers: &[],
    example: Example {
        table: "CREATE TABLE outbox (\n    \
                id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY,\n    \
                payload bytea NOT NULL,\n    \
                headers json NOT NULL,\n    \
                created_at timestamp NOT NULL DEFAULT now(),\n    \
                published boolean NOT NULL DEFAULT false,\n    \
                published_at timestamp\n)",
        topic: Some("shop.events"),
        row: "INSERT INTO outbox (payload, headers) VALUES\n    \
              ('\\x7b7d', '{\"tenant\": \"acme\"}')",
        record: ExampleRecord {
            topic: "shop.events",
            key: "1",
            value: "{}",
            headers: &[("id", Some("1")), ("tenant", Some("acme"))],
        },
    },
};

/// A table with a route, and a key that orders events.
const ORDERING_KEY: Preset = Preset {
    name: "ordering_key",
    about: "A table whose rows name their route and, where their order matters, an ordering key. \
            Without one the key is the event's id.",
    columns: &[
        (Role::Id, &["event_id"]),
        (Role::AggregateType, &["outbox_route"]),
        (Role::AggregateId, &["${ordering_key|event_id}"]),
        (Role::EventType, &["event_type"]),
        (Role::Payload, &["payload"]),
        (Role::Timestamp, &["occurred_at"]),
    ],
    signature: &["outbox_route", "ordering_key"],
    topic: "${outbox_route}",
    headers: &["tenant_id", "correlation_id", "causation_id"],
    example: Example {
        table: "CREATE TABLE outbox (\n    \
                id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,\n    \
                outbox_route text NOT NULL,\n    \
                event_id uuid NOT NULL,\n    \
                event_type text NOT NULL,\n    \
                tenant_id text,\n    \
                execution_id text,\n    \
                correlation_id text,\n    \
                causation_id text,\n    \
                occurred_at timestamptz NOT NULL DEFAULT now(),\n    \
                payload jsonb NOT NULL,\n    \
                status text NOT NULL DEFAULT 'pending',\n    \
                created_at timestamptz NOT NULL DEFAULT now(),\n    \
                published_at timestamptz,\n    \
                processing_at timestamptz,\n    \
                last_error text,\n    \
                attempts int NOT NULL DEFAULT 0,\n    \
                available_at timestamptz NOT NULL DEFAULT now(),\n    \
                ordering_key text,\n    \
                hlc text\n)",
        topic: None,
        row: "INSERT INTO outbox (outbox_route, event_id, event_type, tenant_id, payload) VALUES\n    \
              ('shop.orders', '0198c3f2-7d1a-7c3e-8b4f-000000000003', 'OrderPlaced', 'acme', \
              '{\"total\": 1.50}')",
        record: ExampleRecord {
            topic: "shop.orders",
            key: "0198c3f2-7d1a-7c3e-8b4f-000000000003",
            value: "{\"total\": 1.50}",
            headers: &[
                ("id", Some("0198c3f2-7d1a-7c3e-8b4f-000000000003")),
                ("type", Some("OrderPlaced")),
                ("tenant_id", Some("acme")),
                ("correlation_id", None),
                ("causation_id", None),
            ],
        },
    },
};

/// A table of streams that workers lock.
const STREAM: Preset = Preset {
    name: "stream",
    about: "A table whose rows name their stream, and that workers lock. The stream is the topic; \
            the key is the first of aggregate_id, partition_key, message_key and id that the table \
            has. A column that stands behind another that fits, too, is refused until the \
            configuration names one: it may have been added just now.",
    columns: &[
        (Role::Id, &["event_id", "message_id", "id"]),
        (Role::AggregateType, &["stream_name"]),
        (Role::AggregateId, &["aggregate_id", "partition_key", "message_key", "id"]),
        (Role::EventType, &["event_type", "message_type", "type"]),
        (Role::Payload, &["payload", "data", "body"]),
        (Role::Headers, &["headers", "metadata"]),
        (Role::Timestamp, &["occurred_at", "created_at"]),
    ],
    signature: &["stream_name", "status", "locked_by", "locked_until"],
    topic: "${stream_name}",
    headers: &[],
    example: Example {
        table: "CREATE TABLE outbox (\n    \
                id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,\n    \
                stream_name text NOT NULL,\n    \
                aggregate_id text NOT NULL,\n    \
                event_type text NOT NULL,\n    \
                payload jsonb NOT NULL,\n    \
                metadata jsonb,\n    \
                status text NOT NULL DEFAULT 'pending',\n    \
                locked_by text,\n    \
                locked_until timestamptz,\n    \
                created_at timestamptz NOT NULL DEFAULT now()\n)",
        topic: None,
        row: "INSERT INTO outbox (stream_name, aggregate_id, event_type, payload, metadata) VALUES\n    \
              ('orders', '42', 'OrderPlaced', '{\"total\": 1.50}', '{\"tenant\": \"acme\"}')",
        record: ExampleRecord {
            topic: "orders",
            key: "42",
            value: "{\"total\": 1.50}",
            headers: &[("id", Some("1")), ("type", Some("OrderPlaced")), ("tenant", Some("acme"))],
        },
    },
};

/// Spring Modulith's event publication registry.
const SPRING_MODULITH: Preset = Preset {
    name: "spring_modulith",
    about: "Spring Modulith's event_publication. It holds one row for each listener of an event, so \
            an event with two listeners becomes two records, unless a filter on listener_id takes \
            those of one. It has no key, so the key is the id, unless a template names one within \
            the event.",
    columns: &[
        (Role::Id, &["id"]),
        (Role::AggregateType, &["event_type"]),
        (Role::AggregateId, &["id"]),
        (Role::EventType, &["event_type"]),
        (Role::Payload, &["serialized_event"]),
        (Role::Timestamp, &["publication_date"]),
    ],
    signature: &["listener_id", "serialized_event", "publication_date"],
    topic: BY_TYPE,
    headers: &[],
    example: Example {
        table: "CREATE TABLE outbox (\n    \
                id uuid PRIMARY KEY,\n    \
                listener_id text NOT NULL,\n    \
                event_type text NOT NULL,\n    \
                serialized_event text NOT NULL,\n    \
                publication_date timestamptz NOT NULL,\n    \
                completion_date timestamptz\n)",
        topic: None,
        row: "INSERT INTO outbox (id, listener_id, event_type, serialized_event, publication_date) \
              VALUES\n    \
              ('0198c3f2-7d1a-7c3e-8b4f-000000000004', 'example.Inventory.on(example.OrderPlaced)',\n     \
              'example.OrderPlaced', '{\"orderId\": 42}', now())",
        record: ExampleRecord {
            topic: "outbox.event.example.OrderPlaced",
            key: "0198c3f2-7d1a-7c3e-8b4f-000000000004",
            value: "{\"orderId\": 42}",
            headers: &[
                ("id", Some("0198c3f2-7d1a-7c3e-8b4f-000000000004")),
                ("type", Some("example.OrderPlaced")),
            ],
        },
    },
};

/// Eventuate Tram's messages.
const EVENTUATE: Preset = Preset {
    name: "eventuate",
    about: "Eventuate Tram's message. The record's value is the payload alone and the message's \
            headers are the record's, where Eventuate's CDC service writes one JSON text of both.",
    columns: &[
        (Role::Id, &["id"]),
        (Role::AggregateType, &["destination"]),
        (Role::AggregateId, &["${headers#/PARTITION_ID|id}"]),
        (Role::Payload, &["payload"]),
        (Role::Headers, &["headers"]),
        (Role::Timestamp, &["creation_time"]),
    ],
    signature: &["destination", "headers", "published", "creation_time"],
    topic: "${destination}",
    headers: &[],
    example: Example {
        table: "CREATE TABLE outbox (\n    \
                id varchar(1000) PRIMARY KEY,\n    \
                destination text NOT NULL,\n    \
                headers text NOT NULL,\n    \
                payload text NOT NULL,\n    \
                published smallint DEFAULT 0,\n    \
                message_partition smallint,\n    \
                creation_time bigint\n)",
        topic: None,
        row: "INSERT INTO outbox (id, destination, headers, payload) VALUES\n    \
              ('0000018a-1', 'example.Order', '{\"PARTITION_ID\":\"42\",\"ID\":\"0000018a-1\"}', '{}')",
        record: ExampleRecord {
            topic: "example.Order",
            key: "42",
            value: "{}",
            headers: &[
                ("id", Some("0000018a-1")),
                ("PARTITION_ID", Some("42")),
                ("ID", Some("0000018a-1")),
            ],
        },
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{table::ColumnName, topic::TopicTemplate};

    #[test]
    fn names_are_unique_and_found() {
        for preset in PRESETS {
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
        assert_eq!(Preset::named("auto"), None);
    }

    #[test]
    fn topics_and_columns_are_well_formed() {
        for preset in PRESETS {
            assert!(TopicTemplate::parse(preset.topic).is_ok(), "{}", preset.name);
            for (role, names) in preset.columns {
                for name in *names {
                    let read = ColumnName::parse(name);
                    let is_template = matches!(read, Ok(ColumnName::Template(_)));
                    assert!(read.is_ok(), "{}: {name}", preset.name);
                    assert!(!is_template || role.takes_template(), "{}: {name}", preset.name);
                }
            }
        }
    }
}
