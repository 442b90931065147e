//! What the configuration accepts, where values come from, and that it never prints a secret.

use std::{io::Write as _, time::Duration};

use outbox_router::config::{self, Config, Environment, effective};
use relay::{
    BytesFormat, DEBEZIUM, EmptyPayload, EpochUnit, ExpandJson, FilterKind, Format, HeaderValue,
    MissingColumns, OnMismatch, OnNotJson, OnUpdate, Role, Template, Timestamp, TombstoneOn,
};

/// Loads a file's text with environment and flags.
fn load(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[&str],
) -> Result<Config, config::ConfigErrors> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let pairs = environment.iter().map(|(name, value)| (name.into(), value.into()));
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    config::load(Some(file.path()), &Environment::new(pairs), &flags).map(|loaded| loaded.config)
}

fn file(text: &str) -> Config {
    load(text, &[], &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn an_empty_configuration_is_every_default() {
    let config = config::load(None, &Environment::default(), &[]).unwrap().config;
    assert_eq!(config, Config::default());
    assert!(config.outboxes().tables.is_empty());
}

#[test]
fn values_arrive_typed() {
    let config = file(
        r#"
        name = "orders"
        [[outbox]]
        table = '"Weird Schema".outbox'
        preset = "debezium"
        format = "debezium"
        timestamp = "column"
        timestamp_unit = "us"
        columns.timestamp = "occurred_at"
        columns.partition = "shard"
        [kafka]
        create_topics = { partitions = 6 }
        [kafka.properties]
        "linger.ms" = 0.5
        compression.type = "lz4"
        socket.keepalive.enable = true
        [limits]
        window_events = 1_000
        row_bytes = "1MiB"
        [monitor]
        interval = "500ms"
        "#,
    );
    let table = config.outboxes().tables.remove(0);
    assert_eq!(table.name.schema, "Weird Schema");
    assert_eq!((table.preset, table.format), (Some(&DEBEZIUM), Format::Debezium));
    assert_eq!(
        (table.timestamp, table.timestamp_unit),
        (Timestamp::Column, EpochUnit::Microseconds)
    );
    assert_eq!(table.columns.get(Role::Partition), Some(&["shard".into()][..]));
    let create = config.kafka.create_topics.unwrap();
    assert_eq!((create.partitions, create.replication_factor), (6, -1));
    let properties: Vec<_> = config.kafka.properties.shown().collect();
    let expected =
        [("compression.type", "lz4"), ("linger.ms", "0.5"), ("socket.keepalive.enable", "true")];
    assert_eq!(properties, expected);
    assert_eq!((config.limits.window_events, config.limits.row_bytes), (1_000, 1 << 20));
    assert_eq!(config.monitor.interval, Duration::from_millis(500));
}

/// Every key that says where columns go.
const PLACEMENTS: &str = r#"
    [[outbox]]
    topic = "shop.${name}.$1"
    route_regex = '(?<name>[a-z]+)\..*$'
    on_route_mismatch = "value"
    key_format = "json"
    value_format = "json"
    expand_json = "drop_both"
    on_not_json = "as_text"
    tombstone_on = ["blank", "empty_bytea"]
    missing_columns = "ignore"
    on_update = "error"
    extra_headers = [
        { name = "tenant", column = "tenant_id" },
        { name = "source", value = "shop/${region|zone}" },
    ]
    envelope = [{ column = "version" }, { name = "kind", column = "event_type" }]
    where = { column = "status", not_in = ["done", "failed"] }
    columns.aggregate_id = ["ordering_key", "${payload#/customer/id|id}"]
    columns.tracing = "span"
"#;

#[test]
fn placements_arrive_typed() {
    let table = file(PLACEMENTS).outboxes().tables.remove(0);
    assert_eq!(table.topic.unwrap().to_string(), "shop.${name}.$1");
    assert_eq!(table.route_regex.unwrap().to_string(), r"(?<name>[a-z]+)\..*$");
    assert_eq!(table.on_route_mismatch, OnMismatch::Value);
    assert_eq!((table.key_format, table.value_format), (BytesFormat::Json, BytesFormat::Json));
    assert_eq!(table.expand_json, ExpandJson::DropBoth);
    assert_eq!(table.on_not_json, OnNotJson::AsText);
    let expected = vec![EmptyPayload::Blank, EmptyPayload::EmptyBytea];
    assert_eq!(table.tombstone_on, TombstoneOn(expected));
    assert_eq!(table.missing_columns, MissingColumns::Ignore);
    assert_eq!(table.on_update, OnUpdate::Error);
    let headers: Vec<&str> = table.extra_headers.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(headers, ["tenant", "source"]);
    let expected = HeaderValue::Template(Template::parse("shop/${region|zone}").unwrap());
    assert_eq!(table.extra_headers[1].value, expected);
    let members: Vec<(&str, &str)> =
        table.envelope.iter().map(|m| (m.name.as_str(), m.column.as_str())).collect();
    assert_eq!(members, [("version", "version"), ("kind", "event_type")]);
    let filter = table.filter.unwrap();
    assert_eq!((filter.column.as_str(), filter.kind), ("status", FilterKind::NotIn));
    assert_eq!(filter.values, ["done", "failed"]);
    let keys = table.columns.get(Role::AggregateId).unwrap();
    assert_eq!(keys[1].to_string(), "${payload#/customer/id|id}");
}

#[test]
fn placements_are_printed_as_they_are_read() {
    let config = file(PLACEMENTS);
    assert_eq!(file(&effective(&config)).outbox, config.outbox);
}

#[test]
fn placements_that_contradict_each_other_are_refused() {
    for (keys, expected) in [
        ("topic = \"a.$1\"", "C008: outbox[0].topic: $1 is a group of the route expression"),
        (
            "topic = \"a.${b}\"\nroute_regex = \"(.*)\"",
            "C008: outbox[0].topic: the route expression has no group b",
        ),
        ("route_regex = \"a(?=b)\"", "has what is not supported here"),
        ("route_regex = \"a*+\"", "has a possessive quantifier, or a second one at"),
        ("on_route_mismatch = \"value\"", "C008: outbox[0].on_route_mismatch needs route_regex"),
        ("extra_headers = [{ name = \"id\", value = \"x\" }]", "gives two headers the name"),
        ("extra_headers = [{ name = \"a\" }]", "has neither column nor value"),
        ("extra_headers = [{ value = \"a\" }]", "outbox[0].extra_headers[0] has no name"),
        (
            "extra_headers = [{ name = \"a\", value = \"b\", column = \"c\" }]",
            "has both column and value",
        ),
        ("extra_headers = [{ name = \"a\", valeu = \"b\" }]", "did you mean"),
        ("envelope = [{ name = \"a\" }]", "outbox[0].envelope[0] has no column"),
        ("envelope = [{ column = \"payload\" }]", "has the payload's own name"),
        (
            "envelope = [{ column = \"a\" }]\nvalue_format = \"string\"",
            "C008: outbox[0].envelope makes the value JSON",
        ),
        ("expand_json = \"as_is\"", "C008: outbox[0].expand_json has no effect"),
        ("expand_json = true", "must be a text"),
        ("on_not_json = \"as_text\"", "C008: outbox[0].on_not_json has no effect"),
        ("on_not_json = \"skip\"", "is not a choice"),
        ("decimals = \"string\"", "C008: outbox[0].decimals has no effect"),
        ("times = \"nanoseconds\"", "C008: outbox[0].times has no effect"),
        ("intervals = \"string\"", "C008: outbox[0].intervals has no effect"),
        ("format = \"debezium\"\ndecimals = \"float\"", "is not a choice"),
        ("where = { column = \"a\" }", "needs one of in and not_in"),
        ("where = { column = \"a\", in = [] }", "lists no value"),
        ("where = { in = [\"a\"] }", "has no column"),
        ("tombstone_on = [\"nil\"]", "is not a choice"),
        ("columns.partition = \"${a}\"", "is a text with ${…}"),
        ("columns.id = \"${a\"", "never closed"),
        ("preset = \"strem\"", "is not a choice"),
    ] {
        let refused = load(&format!("[[outbox]]\n{keys}\n"), &[], &[]);
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{keys}: {refused}");
    }
}

#[test]
fn columns_take_one_name_or_alternatives() {
    let config = file("[[outbox]]\ncolumns.id = \"ID\"\ncolumns.aggregate_id = [\"a\", \"b\"]");
    let columns = &config.outbox[0].table.columns;
    assert_eq!(columns.get(Role::Id).unwrap(), ["ID".into()]);
    assert_eq!(columns.get(Role::AggregateId).unwrap(), ["a".into(), "b".into()]);
    assert_eq!(columns.get(Role::Payload), None);
}

#[test]
fn a_flag_takes_precedence_over_the_environment_the_file_and_the_default() {
    let text = "[limits]\nwindow_events = 1\nwindow_bytes = \"20MiB\"\nshutdown = \"1s\"";
    let environment = [
        ("OUTBOX_ROUTER__LIMITS__WINDOW_EVENTS", "2"),
        ("OUTBOX_ROUTER__LIMITS__WINDOW_BYTES", "21MiB"),
        ("OUTBOX_ROUTER_CONFIG", "is none of our keys"),
    ];
    let limits = load(text, &environment, &["limits.window_events=3"]).unwrap().limits;
    assert_eq!(limits.window_events, 3);
    assert_eq!(limits.window_bytes, 21 << 20);
    assert_eq!(limits.shutdown, Duration::from_secs(1));
    assert_eq!(limits.row_bytes, 16 << 20);
}

#[test]
fn any_key_can_be_set_without_a_file() {
    let environment = [
        ("OUTBOX_ROUTER__KAFKA__BOOTSTRAP_SERVERS", "a:1,b:2"),
        ("OUTBOX_ROUTER__KAFKA__PROPERTIES__SASL_PASSWORD", "p"),
        ("OUTBOX_ROUTER__KAFKA__CREATE_TOPICS__PARTITIONS", "12"),
        ("OUTBOX_ROUTER__OUTBOX__0__TABLE", "a.b"),
        ("OUTBOX_ROUTER__OUTBOX__1__TABLE", "c.d"),
        ("OUTBOX_ROUTER__OUTBOX__1__COLUMNS__ID__0", "x"),
        ("OUTBOX_ROUTER__OUTBOX__1__COLUMNS__ID__1", "y"),
        ("OUTBOX_ROUTER__OUTBOX__2__TABLE", "${env:TABLE}"),
        ("OUTBOX_ROUTER__LIMITS__WINDOW_EVENTS", "1_000"),
        ("TABLE", "e.f"),
    ];
    let flags = ["kafka.properties.linger.ms=7", "outbox.0.topic=one"].map(str::to_owned);
    let environment = Environment::new(environment.map(|(n, v)| (n.into(), v.into())));
    let config = config::load(None, &environment, &flags).unwrap().config;
    assert_eq!(config.kafka.bootstrap_servers, "a:1,b:2");
    assert_eq!(config.kafka.properties.get("sasl.password").unwrap().expose(), "p");
    assert_eq!(config.kafka.properties.get("linger.ms").unwrap().expose(), "7");
    assert_eq!(config.kafka.create_topics.unwrap().partitions, 12);
    assert_eq!(config.limits.window_events, 1_000);
    let tables: Vec<String> = config.tables().map(|o| o.name.to_string()).collect();
    assert_eq!(tables, ["a.b", "c.d", "e.f"]);
    assert_eq!(config.outbox[0].table.topic.as_ref().unwrap().to_string(), "one");
    assert_eq!(config.outbox[1].table.columns.get(Role::Id).unwrap(), ["x".into(), "y".into()]);
}

#[test]
fn an_override_replaces_the_files_value_of_the_same_property() {
    let variable = ("OUTBOX_ROUTER__KAFKA__PROPERTIES__COMPRESSION_TYPE", "zstd");
    let config = load("[kafka.properties]\ncompression.type = \"lz4\"", &[variable], &[]).unwrap();
    let properties: Vec<_> = config.kafka.properties.shown().collect();
    assert_eq!(properties, [("compression.type", "zstd")]);
}

#[test]
fn no_secret_is_ever_printed() {
    let text = r#"
        [postgres]
        url = "postgres://u:canary@h/db?sslmode=require"
        [kafka.properties]
        "sasl.password" = "canary"
        "ssl.key.pem" = "canary"
    "#;
    let variable = ("OUTBOX_ROUTER__KAFKA__PROPERTIES__SSL_KEY_PASSWORD", "canary");
    let config = load(text, &[variable], &[]).unwrap();
    for shown in [format!("{config:?}"), format!("{config:#?}"), effective(&config)] {
        assert!(!shown.contains("canary"), "{shown}");
    }
    assert!(effective(&config).contains("postgres://u:***@h/db?sslmode=require"));

    let refused = [
        "[postgres]\nurl = \"postgres://u:canary@h\nslot = 5",
        "[postgres]\nurl = canary",
        "[postgres]\npassword = \"canary\"",
        "[postgres]\nurl = [\"canary\"]",
        "[kafka.properties]\nsasl.password = [\"canary\"]",
        "[kafka]\nsasl.password = \"canary\"",
        "kafka.properties = { \"sasl.password\" = \"canary\" \"x\" }",
    ];
    for text in refused {
        let error = load(text, &[], &[]).unwrap_err();
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[test]
fn the_effective_configuration_reads_back_as_itself() {
    let config = file(
        r#"
        name = "x"
        [postgres]
        url = "postgres://u@h/db"
        [[outbox]]
        table = '"A ""b".outbox'
        topic = "t.${aggregate_type}"
        columns.id = ["a", "ü\"\\"]
        columns.headers = []
        headers.id = "$${x}"
        [kafka]
        create_topics = { partitions = 3, replication_factor = 1 }
        properties.linger.ms = "3"
        [monitor]
        bytes_behind = { warning = "1000B", critical = "3MiB" }
        "#,
    );
    assert_eq!(file(&effective(&config)), config);
    let defaults = Config::default();
    assert_eq!(file(&effective(&defaults)), defaults);
}
