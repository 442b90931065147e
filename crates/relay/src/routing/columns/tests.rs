//! Which column of a relation has which role.

use pgoutput::{Message, TupleColumns};

use super::*;
use crate::{
    Case,
    routing::{
        table::{self, ColumnNames, DEFAULT, Format, TableName},
        topic::TopicTemplate,
    },
    testing::wire::{self, TEXT, Value as Wire},
};

const OURS: [&str; 5] = ["id", "aggregate_type", "aggregate_id", "event_type", "payload"];
const DEBEZIUM: [&str; 5] = ["id", "aggregatetype", "aggregateid", "type", "payload"];

fn table() -> OutboxTable {
    OutboxTable::with_defaults(TableName { schema: "public".into(), name: "outbox".into() })
}

fn resolve(table: &OutboxTable, columns: &[(&str, u32)]) -> Result<Columns, Failure> {
    let bytes = wire::relation_message(1, "outbox", columns);
    let Ok(Message::Relation(relation)) = Message::parse(&bytes) else { panic!("a relation") };
    Columns::resolve(table, &relation, &TypeNames::default(), None)
}

fn of_text<'a>(names: &[&'a str]) -> Vec<(&'a str, u32)> {
    names.iter().map(|name| (*name, TEXT)).collect()
}

fn refusal(table: &OutboxTable, names: &[&str]) -> Failure {
    resolve(table, &of_text(names)).unwrap_err()
}

/// The roles by column, in the order of the relation: `-` where there is none.
fn roles(table: &OutboxTable, names: &[&str]) -> Vec<&'static str> {
    let columns = resolve(table, &of_text(names)).unwrap();
    let role = |position| {
        let one: Option<&Option<Use>> = columns.uses.get(position);
        one.copied().flatten().map_or("-", |one| role_of(one.index).as_str())
    };
    (0..columns.width).map(role).collect()
}

fn with_row<T>(values: &[Wire<'_>], read: impl FnOnce(TupleColumns<'_>) -> T) -> T {
    let bytes = wire::insert_message(1, values);
    let Ok(Message::Insert(insert)) = Message::parse(&bytes) else { panic!("an insert") };
    read(insert.tuple.iter())
}

fn read<'a>(columns: &Columns, row: TupleColumns<'a>) -> Result<Event<'a>, Failure> {
    let mut event = Event::default();
    columns.read(row, &mut event).map(|()| event)
}

fn role_of(index: ValueIndex) -> Role {
    Role::ALL.into_iter().find(|role| role.value_index() == Some(index)).unwrap()
}

/// An application adds the column before it writes it.
#[test]
fn a_column_that_takes_anothers_place_is_refused_until_one_is_named() {
    let start = ["id", "stream_name", "message_key", "message_type", "data", "metadata"];
    let locks = ["status", "locked_by", "locked_until"];
    let with = |added: &[&'static str]| [&start[..], &locks, added].concat();
    assert_eq!(roles(&table(), &with(&[]))[..6], roles(&table(), &with(&["body"]))[..6]);
    for (added, role, former) in [
        ("payload", Role::Payload, "data"),
        ("aggregate_id", Role::AggregateId, "message_key"),
        ("event_type", Role::EventType, "message_type"),
        ("headers", Role::Headers, "metadata"),
    ] {
        let failure = refusal(&table(), &with(&[added]));
        assert_eq!(failure.case, Some(Case::SeveralColumnsFit));
        let role_name = role.as_str();
        let named = format!("columns.{role_name} = \"{former}\" or = \"{added}\"");
        assert!(failure.message.ends_with(&named), "{failure:#}");
        for one in [former, added] {
            let mut named = table();
            named.columns.set(role, vec![one.into()]);
            let with_one = roles(&named, &with(&[added]));
            let position = with(&[added]).iter().position(|name| *name == one).unwrap();
            assert_eq!(with_one[position], role_name);
        }
        // A list in the configuration is for a column that is renamed.
        let mut listed = table();
        listed.columns.set(role, vec![added.into(), former.into()]);
        assert_eq!(roles(&listed, &with(&[]))[..6], roles(&table(), &with(&[]))[..6]);
        assert_eq!(refusal(&listed, &with(&[added])).case, Some(Case::SeveralColumnsFit));
        listed.columns.set(role, vec![former.into(), added.into()]);
        assert_eq!(roles(&listed, &with(&[added]))[..6], roles(&table(), &with(&[]))[..6]);
    }
}

#[test]
fn each_value_index_is_of_one_role() {
    let mut indexes: Vec<usize> =
        Role::ALL.iter().filter_map(|r| r.value_index()).map(ValueIndex::get).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, (0..ValueIndex::COUNT).collect::<Vec<_>>());
}

#[test]
fn every_role_of_the_default_preset_is_found_by_name() {
    let all = [
        "tracestate",
        "payload",
        "created_at",
        "traceparent",
        "headers",
        "event_type",
        "aggregate_id",
        "aggregate_type",
        "id",
    ];
    let expected = [
        "tracestate",
        "payload",
        "-",
        "traceparent",
        "headers",
        "event_type",
        "aggregate_id",
        "aggregate_type",
        "id",
    ];
    assert_eq!(roles(&table(), &all), expected);
}

#[test]
fn the_debezium_preset_leaves_a_headers_column_to_the_application() {
    let names = ["id", "aggregatetype", "aggregateid", "type", "payload", "headers"];
    let expected = ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "-"];
    assert_eq!(roles(&table(), &names), expected);
}

#[test]
fn auto_refuses_a_table_that_fits_no_preset_and_names_what_each_lacks() {
    let failure = refusal(&table(), &["id", "aggregate_type", "payload", "type"]);
    assert_eq!(failure.code, Code::PresetUnclear);
    assert!(
        failure.message.contains("default lacks aggregate_id, event_type")
            && failure.message.contains("debezium lacks aggregate_type, aggregate_id"),
        "{failure}"
    );
}

#[test]
fn auto_refuses_a_table_that_fits_both_presets_until_one_is_named() {
    let both: Vec<&str> = OURS.into_iter().chain(DEBEZIUM[1..4].iter().copied()).collect();
    assert_eq!(refusal(&table(), &both).code, Code::PresetUnclear);
    let named = OutboxTable { preset: Some(&table::DEBEZIUM), ..table() };
    assert_eq!(roles(&named, &both)[1..4], ["-", "-", "-"]);
    let named = OutboxTable { preset: Some(&DEFAULT), ..table() };
    assert_eq!(roles(&named, &both)[5..], ["-", "-", "-"]);
}

#[test]
fn auto_accepts_a_table_for_which_the_configuration_makes_both_presets_the_same() {
    let mut columns = ColumnNames::default();
    columns.set(Role::AggregateType, vec!["kind".into()]);
    columns.set(Role::AggregateId, vec!["key".into()]);
    columns.set(Role::EventType, vec!["what".into()]);
    let table = OutboxTable { columns, ..table() };
    let expected = ["id", "aggregate_type", "aggregate_id", "event_type", "payload"];
    assert_eq!(roles(&table, &["id", "kind", "key", "what", "payload"]), expected);
}

#[test]
fn a_named_preset_reports_which_columns_are_missing() {
    let table = OutboxTable { preset: Some(&DEFAULT), ..table() };
    let failure = refusal(&table, &["id", "aggregate_type", "event_type"]);
    assert_eq!(failure.code, Code::ColumnMissing);
    assert!(failure.message.ends_with("has no column for aggregate_id, payload"), "{failure}");
}

#[test]
fn a_named_preset_says_which_columns_it_is_known_by() {
    let mut columns = ColumnNames::default();
    columns.set(Role::Headers, vec!["metadata".into()]);
    let preset = table::PRESETS.iter().find(|preset| preset.name == "payload");
    let table = OutboxTable { preset: preset.copied(), columns, ..table() };
    let failure = refusal(&table, &["id", "aggregate_id", "metadata", "created_at", "payload"]);
    assert_eq!(failure.code, Code::ColumnMissing);
    let known = "has no column called headers, published, published_at, which every table of the \
                 preset payload has";
    assert!(failure.message.contains(known), "{failure}");
}

#[test]
fn a_role_is_required_where_every_preset_needs_it() {
    assert!(is_role_required(&table(), Role::AggregateId));
    assert!(!is_role_required(&table(), Role::EventType), "the preset payload has no type");
    let named = OutboxTable { preset: Some(&DEFAULT), ..table() };
    assert!(is_role_required(&named, Role::EventType));
}

#[test]
fn the_first_alternative_that_the_relation_has_is_taken() {
    let mut columns = ColumnNames::default();
    columns.set(Role::AggregateId, vec!["aggregate_id".into(), "agg_id".into()]);
    let table = OutboxTable { preset: Some(&DEFAULT), columns, ..table() };
    let renamed = ["id", "aggregate_type", "agg_id", "event_type", "payload"];
    assert_eq!(roles(&table, &OURS)[2], "aggregate_id");
    assert_eq!(roles(&table, &renamed)[2], "aggregate_id");
    let neither = ["id", "aggregate_type", "key", "event_type", "payload"];
    assert_eq!(refusal(&table, &neither).code, Code::ColumnMissing);
}

#[test]
fn an_optional_column_that_the_configuration_names_must_be_there() {
    let mut columns = ColumnNames::default();
    columns.set(Role::TraceParent, vec!["trace".into()]);
    let table = OutboxTable { preset: Some(&DEFAULT), columns, ..table() };
    assert_eq!(refusal(&table, &OURS).code, Code::ColumnMissing);
}

#[test]
fn an_empty_list_leaves_a_column_out() {
    let mut columns = ColumnNames::default();
    columns.set(Role::Headers, vec![]);
    let table = OutboxTable { columns, ..table() };
    let names = ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "headers"];
    assert_eq!(roles(&table, &names)[5], "-");
}

#[test]
fn a_topic_that_no_row_chooses_needs_no_aggregate_type() {
    let topic = Some(TopicTemplate::parse("orders").unwrap());
    let table = OutboxTable { topic, preset: Some(&DEFAULT), ..table() };
    assert!(resolve(&table, &of_text(&["id", "aggregate_id", "event_type", "payload"])).is_ok());
}

#[test]
fn one_column_may_have_two_roles() {
    // The remedy for a NULL key: the id is never NULL.
    let mut names = ColumnNames::default();
    names.set(Role::AggregateId, vec!["id".into()]);
    let table = OutboxTable { columns: names, preset: Some(&DEFAULT), ..table() };
    let columns = resolve(&table, &of_text(&OURS)).unwrap();
    let values: Vec<Wire<'_>> = OURS.iter().map(|name| Wire::Text(name)).collect();
    with_row(&values, |row| {
        let event = read(&columns, row).unwrap();
        assert_eq!(event.get(Role::Id), Value::Some(b"id", Encoding::Text));
        assert_eq!(event.get(Role::AggregateId), event.get(Role::Id));
    });
}

#[test]
fn the_debezium_format_takes_only_types_whose_text_debezium_would_write() {
    const TIMESTAMPTZ: u32 = 1184;
    const BOOL: u32 = 16;
    const NUMERIC: u32 = 1700;
    let strict = OutboxTable { format: Format::Debezium, ..table() };
    for (type_oid, format_allows) in [
        (2950, true),
        (20, true),
        (3802, true),
        (17, true),
        (90_000, true),
        (TIMESTAMPTZ, true),
        (BOOL, true),
        (NUMERIC, false),
    ] {
        let mut columns = of_text(&DEBEZIUM);
        columns[2].1 = type_oid;
        let found = resolve(&strict, &columns).map_err(|failure| failure.code);
        assert_eq!(found.is_ok(), format_allows, "{type_oid}: {found:?}");
        if !format_allows {
            assert_eq!(found.unwrap_err(), Code::ColumnType);
            assert!(resolve(&table(), &columns).is_ok(), "the plain format takes any text");
        }
    }
    // Only a text or a number is a topic.
    for type_oid in [17, BOOL, TIMESTAMPTZ] {
        let mut columns = of_text(&DEBEZIUM);
        columns[1].1 = type_oid;
        assert_eq!(resolve(&strict, &columns).unwrap_err().code, Code::ColumnType);
    }
    // The type is no part of the record, so it may be anything.
    let mut columns = of_text(&DEBEZIUM);
    columns[3].1 = NUMERIC;
    assert!(resolve(&strict, &columns).is_ok());
    // A column without a role may be anything.
    let mut columns = of_text(&DEBEZIUM);
    columns.push(("created_at", TIMESTAMPTZ));
    assert!(resolve(&strict, &columns).is_ok());
}

#[test]
fn values_go_to_their_roles_whatever_the_order_of_the_columns() {
    let columns = resolve(
        &table(),
        &[
            ("note", TEXT),
            ("payload", 17),
            ("event_type", TEXT),
            ("id", 2950),
            ("aggregate_id", TEXT),
            ("aggregate_type", TEXT),
        ],
    )
    .unwrap();
    let values = [
        Wire::Text("n"),
        Wire::Text("\\x00"),
        Wire::Null,
        Wire::Text("i"),
        Wire::Text("k"),
        Wire::Text("t"),
    ];
    with_row(&values, |row| {
        let event = read(&columns, row).unwrap();
        assert_eq!(event.get(Role::Payload), Value::Some(b"\\x00", Encoding::Hex));
        assert_eq!(event.get(Role::EventType), Value::Null);
        assert_eq!(event.get(Role::Id), Value::Some(b"i", Encoding::Text));
        assert_eq!(event.get(Role::AggregateId), Value::Some(b"k", Encoding::Text));
        assert_eq!(event.get(Role::AggregateType), Value::Some(b"t", Encoding::Text));
        assert_eq!(event.get(Role::Headers), Value::Absent);
    });
}

#[test]
fn a_row_that_does_not_match_its_relation_is_refused() {
    let columns = resolve(&table(), &of_text(&OURS)).unwrap();
    let short = [Wire::Text("i"); 4];
    assert_eq!(with_row(&short, |row| read(&columns, row).unwrap_err().code), Code::ValueForm);
    let mut toast = [Wire::Text("i"); 5];
    toast[4] = Wire::Unchanged;
    assert_eq!(with_row(&toast, |row| read(&columns, row).unwrap_err().code), Code::ValueForm);
}
