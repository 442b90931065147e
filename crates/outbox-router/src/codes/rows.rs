//! Rows, and the mapping of their columns.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

pub(super) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Code::KeyIsNull.as_str(),
        title: "the key column is NULL",
        meaning: "Without a key the event has no place in an order. The router stops at the row \
                  and tries it again every 30 s.",
        remedy: "map columns.aggregate_id to a column that is never NULL and restart; every later \
                 event then has its key from that column, so the former mapping may be restored \
                 when this row is through",
        cases: &[],
    },
    Explanation {
        code: Code::TopicIsNull.as_str(),
        title: "the column that selects the topic is NULL",
        meaning: "The event has no topic. The router stops at the row and tries it again every 30 \
                  s.",
        remedy: "set a topic without that column and restart; if it is ${aggregate_type}, \
                 columns.aggregate_type may be mapped to another column instead",
        cases: &[],
    },
    Explanation {
        code: Code::TopicIllegal.as_str(),
        title: "the topic's name is not legal in Kafka",
        meaning: "A topic's name has 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' \
                  or '..'; that of kafka.state_topic takes no events, and of two names that \
                  differ in '.' and '_' alone Kafka has one. The router rejects other names and never rewrites them. It stops at the row and tries it again every 30 s.",
        remedy: "set a topic without that column and restart; if it is ${aggregate_type}, \
                 columns.aggregate_type may be mapped to another column instead; correct what \
                 writes such names",
        cases: &[],
    },
    Explanation {
        code: Code::IdIsNull.as_str(),
        title: "the id column is NULL",
        meaning: "Consumers recognise a repeated event by its id. The router stops at the row and \
                  tries it again every 30 s.",
        remedy: "map columns.id to a column that is never NULL and restart",
        cases: &[],
    },
    Explanation {
        code: Code::RowTooLarge.as_str(),
        title: "the row is larger than limits.row_bytes",
        meaning: "The limit bounds the router's memory. The router stops at the row and tries it again \
                  every 30 s.",
        remedy: "set limits.row_bytes above {bytes} bytes (and limits.window_bytes to no less), \
                 see that the topic's max.message.bytes allows it, and restart",
        cases: &[case_remedy(
            Case::RowTooLargeForKey,
            "it is to be a dead letter, but its key did not arrive, so nobody knows which later \
             events would have to be held behind it",
            "set limits.row_bytes above {bytes} bytes (and limits.window_bytes to no less) and \
             restart, so that the whole row arrives; for rows to come, let the columns of the key \
             precede the large ones",
        )],
    },
    Explanation {
        code: Code::ColumnMissing.as_str(),
        title: "a column that the configuration needs is not in the table",
        meaning: "The configuration or the preset names a column that the row's table does not \
                  have. The router stops at the table's first row and tries it again every 30 s.",
        remedy: "in the table's [[outbox]] block, correct what names a column that the table \
                 lacks: where, topic, extra_headers or envelope; or map the role, for example columns.aggregate_id = \
                 [\"old_name\", \"new_name\"] (missing_columns = \"ignore\" leaves out a header or a member without its \
                 column), and restart; the roles are {roles}",
        cases: &[case_remedy(
            Case::ColumnGone,
            "rows before had it",
            "their records would go without it. If the column was renamed, rename it back, or name \
             both in columns (columns.headers = [\"old_name\", \"new_name\"]) and restart; if the \
             publication left it out for a while, the monitor finds that (P021), and `outbox-router \
             recover` sends the rows as the table has them; if nothing needs it any more, restart",
        )],
    },
    Explanation {
        code: Code::PresetUnclear.as_str(),
        title: "no preset fits the table, or more than one does",
        meaning: "With preset = \"auto\" the table's columns decide, and these decide nothing. \
                  The router stops at the table's first row and tries it again every 30 s.",
        remedy: "map the columns by hand, e.g. columns.aggregate_id = [\"old_name\", \
                 \"new_name\"] in its [[outbox]] block, and restart",
        cases: &[
            case_remedy(
                Case::SeveralPresetsFit,
                "more than one preset fits",
                "set preset in its [[outbox]] block to {presets}, and restart",
            ),
            case_remedy(
                Case::SeveralColumnsFit,
                "more than one column may be the payload, the key, or another part of a record",
                "name the one that rows have, as columns.payload in its [[outbox]] block, and \
                 restart: one that was added just now is NULL in every row, and records would have \
                 no value, or no key",
            ),
        ],
    },
    Explanation {
        code: Code::ColumnType.as_str(),
        title: "a column's type cannot be used for what it is mapped to",
        meaning: "A record's time is a timestamp, a date or an integer, a partition is an integer. \
                  With key_format or value_format \"bytes\" the column is a bytea, with \"string\" \
                  it is not. In format \"debezium\" the column has one of the types that the \
                  router writes as Debezium does. The router stops at the table's first row and \
                  tries it again every 30 s.",
        remedy: "use format = \"plain\", or take the column out of extra_headers or envelope, and \
                 restart; for rows to come, change the column's type (in format \"debezium\", \
                 text, varchar, uuid, integers, json and jsonb are always written)",
        cases: &[
            case_remedy(
                Case::FilterWord,
                "a word of `where` is no value of its column",
                "correct the word in the table's where and restart: with it the list would leave out \
                 rows, or let them through, and nothing would say so (of json and jsonb a word is \
                 JSON, with its quotes; of an array or an interval there is none); of an enum `select \
                 enum_range(null::TYPE)` shows the labels; if a label was renamed, and rows from \
                 before may wait in the slot, these have the former one: name both in the list and \
                 restart, and only then `alter type TYPE add value 'FORMER'`: the router goes on \
                 within 30 s",
            ),
            case_remedy(
                Case::FilterLabel,
                "a value of the column of `where` is no label that its enum had when the session \
                 began",
                "a label that was added needs nothing: the next session knows it, at once; if a \
                 label was renamed, rows from before wait in the slot with the former one: if they \
                 are events, name it in the table's where beside the new one and restart, and only \
                 then `alter type TYPE add value 'FORMER'`: the router goes on within 30 s; the \
                 other way round the list would leave them out",
            ),
            case_remedy(
                Case::TimeType,
                "the column of the time is no time",
                "set timestamp = \"commit\", or \"now\" where rows are polled, in the table's \
                 [[outbox]] block and restart; for rows to come, make the column a timestamp, a date or an integer",
            ),
            case_remedy(
                Case::PartitionType,
                "the column of the partition is no integer",
                "map columns.partition = [] in the table's [[outbox]] block and restart; for rows \
                 to come, make the column an integer",
            ),
            case_remedy(
                Case::BytesType,
                "key_format or value_format excludes the column's type",
                "set key_format = \"auto\" or value_format = \"auto\", as the message names the key's \
                 or the value's, in the table's [[outbox]] block and restart",
            ),
        ],
    },
    Explanation {
        code: Code::HeadersMalformed.as_str(),
        title: "a header cannot be made from the row",
        meaning: "columns.headers is a column with a JSON object, or an array (text[]) of names \
                  and values in turn: at most 256, no name twice, and in an object none with the \
                  name of a header that the format writes. columns.tracing is the text of a \
                  java.util.Properties. A header of extra_headers with a pointer needs a column of \
                  JSON. The router stops at the row and tries it again every 30 s.",
        remedy: "to leave the column out, map columns.headers = [] and restart; correct what writes the column",
        cases: &[
            case_remedy(
                Case::TracingMalformed,
                "the trace context is no text of a java.util.Properties",
                "to leave the column out, map columns.tracing = [] and restart; correct what writes the column",
            ),
            case_remedy(
                Case::ExtraHeader,
                "a header of extra_headers cannot be made",
                "take the header that is named out of extra_headers and restart; correct what writes its column",
            ),
        ],
    },
    Explanation {
        code: Code::ValueForm.as_str(),
        title: "a value arrived in a form that an INSERT in text mode never has",
        meaning: "The stream breaks a rule of pgoutput. The router ends the session and replays; \
                  when this happens for the third time at one position, its state is failed, and it \
                  tries again every 30 s.",
        remedy: "",
        cases: &[case_remedy(
            Case::ByteaForm,
            "a bytea value is not in hexadecimal form",
            "show bytea_output as the router's role in this database; alter role or alter \
             database resets what is set there (the router itself asks for hex, so a pooler in \
             between may change it)",
        )],
    },
    Explanation {
        code: Code::TooManyTopics.as_str(),
        title: "more topics than one router follows",
        meaning: "Each topic costs memory in router and brokers; the limit is 65,536. The router stops \
                  at the row and tries it again every 30 s.",
        remedy: "use a topic template with fewer results, such as one topic for all, and restart",
        cases: &[],
    },
    Explanation {
        code: Code::TimestampUnusable.as_str(),
        title: "a column's value cannot be a record's timestamp",
        meaning: "With timestamp = \"column\", the column is each record's time. A record's time \
                  is finite and after the beginning of 1970; where the column is NULL, it is the \
                  commit time. The router stops at the row and tries it again every 30 s.",
        remedy: "set timestamp = \"commit\" for this table and restart; for rows to come, correct \
                 what writes the column, or timestamp_unit if the column is a number",
        cases: &[],
    },
    Explanation {
        code: Code::PartitionUnusable.as_str(),
        title: "a column's value is no partition of the topic",
        meaning: "Partitions are numbered from 0 to one less than the topic has; where the column is \
                  NULL, the key decides. The router stops at the row and tries it again every 30 s.",
        remedy: "give topic {topic} more partitions: `kafka-topics.sh --bootstrap-server \
                 {brokers} --alter --topic {topic} --partitions N`; or map columns.partition = [] \
                 for this table and restart",
        cases: &[case_remedy(
            Case::PartitionNumber,
            "the number is negative, or larger than any partition's",
            "map columns.partition = [] for this table and restart; correct what writes the column",
        )],
    },
    Explanation {
        code: Code::NotJson.as_str(),
        title: "a value is not JSON, or cannot be written as JSON",
        meaning: "expand_json and a ${column#/pointer} read a column as JSON, and value_format, \
                  key_format and envelope write columns as JSON. The router stops at the row and \
                  tries it again every 30 s.",
        remedy: "if it is the payload, set on_not_json = \"as_text\" to have it as a string; else \
                 take the column out of the envelope or the template; then restart, and for rows to \
                 come correct what writes the column",
        cases: &[],
    },
    Explanation {
        code: Code::RouteMismatch.as_str(),
        title: "the aggregate type does not match route_regex",
        meaning: "Only an aggregate type that matches as a whole has a topic. The router stops at \
                  the row and tries it again every 30 s.",
        remedy: "extend route_regex, or set on_route_mismatch = \"value\" to have the aggregate \
                 type as the topic, and restart",
        cases: &[],
    },
    Explanation {
        code: Code::RowUpdated.as_str(),
        title: "a row of an outbox was updated",
        meaning: "An event is sent when its row is inserted; an update of it is no event. With \
                  on_update = \"error\" the router stops there and tries again every 30 s.",
        remedy: "set on_update = \"ignore\" for this table and restart; to have no updates sent, \
                 publish inserts only: `alter publication {publication} set (publish = 'insert')`",
        cases: &[],
    },
    Explanation {
        code: Code::HeldFull.as_str(),
        title: "as many events are held as [dead_letters] allows",
        meaning: "The event has to be held, since it cannot be delivered or its key is held, and \
                  dead_letters.max_keys, max_events or max_bytes is reached. The router stops at \
                  the row and tries it again every 30 s; nothing is lost.",
        remedy: "{make_room}",
        cases: &[
            case_remedy(
                Case::HeldKeysFull,
                "as many keys are held",
                "{make_room}; or raise max_keys in [dead_letters], and restart",
            ),
            case_remedy(
                Case::HeldEventsFull,
                "as many events are held",
                "{make_room}; or raise max_events in [dead_letters], and restart",
            ),
            case_remedy(
                Case::HeldBytesFull,
                "as many bytes are held",
                "{make_room}; or raise max_bytes in [dead_letters], and restart",
            ),
        ],
    },
];
