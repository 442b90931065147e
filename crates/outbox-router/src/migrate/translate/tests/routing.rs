//! Tables, columns, topics and placements.

use super::{
    CONNECTOR, Given, debezium, differs, given, has, lacks, outbox, writes, writes_nothing_of,
};

#[test]
fn debeziums_defaults_need_no_columns() {
    let migration = outbox(&[]);
    assert!(migration.is_complete(), "{:#?}", migration.unsupported);
    writes(
        &migration,
        &[
            "name = \"n\"",
            "url = \"postgres://u@db/shop?sslmode=verify-full\"",
            "slot = \"debezium\"",
            "publication = \"dbz_publication\"",
            "preset = \"debezium\"",
            "format = \"debezium\"",
            "topic = \"outbox.event.${aggregate_type}\"",
        ],
    );
    for key in ["columns.", "route_regex", "key_format", "value_format", "tombstone_on"] {
        writes_nothing_of(&migration, key);
    }
}

#[test]
fn one_column_of_another_name_writes_them_all_out() {
    let migration = outbox(&[("table.field.event.payload", "data")]);
    writes(
        &migration,
        &[
            "columns.id = \"id\"",
            "columns.aggregate_type = \"aggregatetype\"",
            "columns.aggregate_id = \"aggregateid\"",
            "columns.payload = \"data\"",
        ],
    );
}

#[test]
fn a_column_that_would_be_missing_in_debezium_is_proposed() {
    let migration = outbox(&[("table.field.event.key", "aggregate_id")]);
    writes(&migration, &["columns.aggregate_type = [\"aggregatetype\", \"aggregate_type\"]"]);
    differs(&migration, "route.by.field", "fails at the first row");
    let migration = outbox(&[("route.by.field", "aggregateType")]);
    writes(&migration, &["columns.aggregate_id = [\"aggregateid\", \"aggregateId\"]"]);
    // An id of another kind tells nothing about the other names.
    let migration = outbox(&[("table.field.event.key", "order_number")]);
    writes(&migration, &["columns.aggregate_type = \"aggregatetype\""]);
}

#[test]
fn topics_follow_regex_and_replacement() {
    for (regex, replacement, lines) in [
        (None, "${routedByValue}.events", &["topic = \"${aggregate_type}.events\""][..]),
        (None, "fixed", &["topic = \"fixed\""]),
        (Some("(?<r>.*)"), "a.${r}", &["topic = \"a.${aggregate_type}\""]),
        (Some("(.*)"), "a.$1", &["topic = \"a.${aggregate_type}\""]),
        (None, "${env:TOPIC}", &["topic = \"${env:TOPIC}\""]),
        (
            Some("(?<a>.*)-(?<v>v1)"),
            "${a}.${v}",
            &[
                "topic = \"${a}.${v}\"",
                "route_regex = \"(?<a>.*)-(?<v>v1)\"",
                "on_route_mismatch = \"value\"",
            ],
        ),
        (Some("(order)"), "x.$1", &["topic = \"x.$1\"", "route_regex = \"(order)\""]),
        // Java reads as many digits as make a group that exists.
        (Some("(.*)"), "a.$12", &["topic = \"a.${aggregate_type}2\""]),
        (Some("(order)"), "x.$10", &["topic = \"x.$10\"", "route_regex = \"(order)\""]),
        (
            None,
            "${routedByValue}.${routedByValue}",
            &["topic = \"${routedByValue}.${routedByValue}\"", "on_route_mismatch = \"value\""],
        ),
    ] {
        let mut options = vec![("route.topic.replacement", replacement)];
        options.extend(regex.map(|regex| ("route.topic.regex", regex)));
        let migration = outbox(&options);
        writes(&migration, lines);
        let option = "transforms.outbox.route.topic.replacement";
        assert!(!has(&migration.different, option, "has no group"), "{replacement}");
    }
}

#[test]
fn a_group_that_the_regex_lacks_would_fail_in_debezium() {
    let migration = outbox(&[("route.topic.replacement", "${routedBy}.events")]);
    writes(&migration, &["topic = \"${aggregate_type}.events\""]);
    differs(&migration, "transforms.outbox.route.topic.replacement", "no group ${routedBy}");
}

#[test]
fn placements_become_headers_envelope_and_partition() {
    let placement = "type:header:eventType, version:envelope,p:partition";
    let migration = outbox(&[("table.fields.additional.placement", placement)]);
    writes(
        &migration,
        &[
            "extra_headers = [{ name = \"eventType\", column = \"type\" }]",
            "envelope = [{ name = \"version\", column = \"version\" }]",
            "columns.partition = \"p\"",
        ],
    );
    for (placement, why) in [
        ("type", "is not column:placement"),
        ("a:b:c:d", "is not column:placement"),
        ("type:headers", "fails at the first row"),
        ("", "is not column:placement"),
        ("x:envelope:payload", "member payload already"),
        ("payload:envelope", "member payload already"),
        ("x:envelope:kind, kind:envelope", "member kind already"),
    ] {
        let migration = outbox(&[("table.fields.additional.placement", placement)]);
        lacks(&migration, "transforms.outbox.table.fields.additional.placement", why);
    }
    let twice = outbox(&[("table.fields.additional.placement", "x:envelope:kind,y:envelope:kind")]);
    writes(&twice, &["envelope = [{ name = \"kind\", column = \"x\" }]"]);
}

#[test]
fn placements_are_read_as_debezium_does() {
    let placement = "type:HEADER:,p:partition,q:Partition,version:Envelope";
    let migration = outbox(&[("table.fields.additional.placement", placement)]);
    assert!(migration.is_complete(), "{:#?}", migration.unsupported);
    writes(
        &migration,
        &[
            "extra_headers = [{ name = \"type\", column = \"type\" }]",
            "envelope = [{ name = \"version\", column = \"version\" }]",
            // The last one decides.
            "columns.partition = \"q\"",
        ],
    );
    writes_nothing_of(&migration, "columns.partition = \"p\"");
}

#[test]
fn tables_come_from_the_list_or_from_a_flag() {
    let tables = |list: &str, given: &Given| {
        let text = CONNECTOR.replace("public.outbox\n", &format!("{list}\n"));
        debezium(&text, given).unwrap()
    };
    let two = tables("a.outbox,b\\\\.outbox", &given());
    assert_eq!(two.toml.as_deref().unwrap().matches("[[outbox]]").count(), 2);
    writes(&two, &["table = \"a.outbox\"", "table = \"b.outbox\""]);
    let pattern = tables(".*outbox", &given());
    lacks(&pattern, "table.include.list", "--table");
    let told = Given { tables: vec!["shop.events".to_owned()], ..given() };
    assert!(tables(".*outbox", &told).is_complete());
    writes(&tables(".*outbox", &told), &["table = \"shop.events\""]);
}
