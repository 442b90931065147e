//! The bytes of key, value and headers.

use super::{
    CONNECTOR, Given, GivenConverter, debezium, differs, given, has, lacks, migrate, migrate_with,
    outbox, writes, writes_nothing_of,
};

#[test]
fn a_null_is_what_the_converter_writes() {
    let json = Given { value_converter: Some(GivenConverter::Json), ..given() };
    let on = "transforms.outbox.route.tombstone.on.empty.payload=true\n";
    writes_nothing_of(&migrate(""), "tombstone_on");
    writes(&migrate_with("", &json), &["tombstone_on = []"]);
    for given in [given(), json] {
        writes(&migrate_with(on, &given), &["tombstone_on = [\"null\", \"blank\"]"]);
    }
}

#[test]
fn expansion_keeps_debeziums_defaults_and_its_options() {
    let json = Given { value_converter: Some(GivenConverter::Json), ..given() };
    let expand = "transforms.outbox.table.expand.json.payload=true\n";
    let migration = migrate_with(expand, &json);
    writes(&migration, &["value_format = \"json\"", "expand_json = \"drop_both\""]);
    writes(&migration, &["on_not_json = \"as_text\""]);
    differs(&migration, "transforms.outbox.table.expand.json.payload", "as null, those that only");
    let nulls = "transforms.outbox.table.json.payload.null.behavior=optional_bytes\n";
    let arrays = "transforms.outbox.table.json.payload.empty.array.behavior=optional_string\n";
    for (keep, how) in [
        (nulls.to_owned(), "drop_empty_arrays"),
        (arrays.to_owned(), "drop_nulls"),
        (format!("{nulls}{arrays}"), "compact"),
    ] {
        let migration = migrate_with(&format!("{expand}{keep}"), &json);
        writes(&migration, &[&format!("expand_json = \"{how}\"")]);
    }
    for (option, words) in [
        ("table.json.payload.null.behavior", "neither ignore nor optional_bytes"),
        ("table.json.payload.empty.array.behavior", "neither ignore nor optional_string"),
    ] {
        let option = format!("transforms.outbox.{option}");
        let with = |value: &str| migrate_with(&format!("{expand}{option}={value}\n"), &json);
        lacks(&with("keep"), &option, words);
        assert!(with("IGNORE").is_complete());
        // Debezium reads it also where nothing is expanded.
        lacks(&migrate(&format!("{option}=keep\n")), &option, words);
    }
    let as_text = migrate(expand);
    writes_nothing_of(&as_text, "expand_json");
    differs(&as_text, "transforms.outbox.table.expand.json.payload", "Struct{…}");
}

#[test]
fn updates_stop_the_router_where_they_stop_the_task() {
    let option = "table.op.invalid.behavior";
    writes_nothing_of(&outbox(&[(option, "warn")]), "on_update");
    writes(&outbox(&[(option, "fatal")]), &["on_update = \"error\""]);
    lacks(
        &outbox(&[(option, "explode")]),
        "transforms.outbox.table.op.invalid.behavior",
        "refuses",
    );
}

#[test]
fn modes_of_types_are_carried() {
    let migrated = |mode: &str| debezium(&format!("{CONNECTOR}{mode}\n"), &given()).unwrap();
    for (mode, key) in [
        ("decimal.handling.mode=string", "decimals = \"string\""),
        ("decimal.handling.mode=double", "decimals = \"double\""),
        (
            "time.precision.mode=adaptive_time_microseconds",
            "times = \"adaptive_time_microseconds\"",
        ),
        ("interval.handling.mode=string", "intervals = \"string\""),
    ] {
        let migration = migrated(mode);
        assert!(migration.is_complete());
        writes(&migration, &[key]);
    }
    for (mode, key) in [
        ("decimal.handling.mode=precise", "decimals"),
        ("time.precision.mode=adaptive", "times"),
        ("interval.handling.mode=numeric", "intervals"),
    ] {
        writes_nothing_of(&migrated(mode), key);
    }
    for mode in ["connect", "isostring", "structured"] {
        let migration = migrated(&format!("time.precision.mode={mode}"));
        writes(&migration, &[&format!("times = \"{mode}\"")]);
        differs(&migration, "time.precision.mode", "R008");
    }
    let structured = migrated("time.precision.mode=structured");
    differs(&structured, "time.precision.mode", "an interval");
    lacks(&migrated("time.precision.mode=iso"), "time.precision.mode", "refuses");
    lacks(&migrated("decimal.handling.mode=float"), "decimal.handling.mode", "refuses");
}

#[test]
fn converters_are_carried_or_named() {
    let value = |class: &str| {
        let text = CONNECTOR.replace(
            "value.converter=org.apache.kafka.connect.storage.StringConverter\n",
            &format!("value.converter={class}\n"),
        );
        debezium(&text, &given()).unwrap()
    };
    let json = "org.apache.kafka.connect.json.JsonConverter";
    lacks(&value(json), "value.converter", "JSON with a schema beside every value");
    let plain = value(&format!("{json}\nvalue.converter.schemas.enable=false"));
    assert!(plain.is_complete());
    writes(&plain, &["value_format = \"json\""]);
    for class in [
        "io.debezium.converters.BinaryDataConverter",
        "io.debezium.converters.ByteBufferConverter",
        "org.apache.kafka.connect.converters.ByteArrayConverter",
    ] {
        writes(&value(class), &["value_format = \"bytes\""]);
    }
    for class in [
        "io.confluent.connect.avro.AvroConverter",
        "io.confluent.connect.protobuf.ProtobufConverter",
        "io.debezium.converters.CloudEventsConverter",
        "io.apicurio.registry.utils.converter.AvroConverter",
        "com.example.Converter",
    ] {
        lacks(&value(class), "value.converter", class);
    }
}

#[test]
fn a_key_of_a_registry_comes_into_other_partitions() {
    let class = |part: &str| {
        let from = format!("{part}.converter=org.apache.kafka.connect.storage.StringConverter");
        let to = format!("{part}.converter=io.confluent.connect.avro.AvroConverter");
        debezium(&CONNECTOR.replace(&from, &to), &given()).unwrap()
    };
    lacks(&class("key"), "key.converter", "other bytes, and so other partitions");
    let value = class("value");
    assert!(!has(&value.unsupported, "value.converter", "other partitions"), "a value has none");
}

#[test]
fn a_boundary_of_transactions_belongs_to_exactly_once() {
    for option in ["transaction.boundary=poll", "transaction.boundary.interval.ms=9"] {
        let name = option.split('=').next().unwrap();
        differs(&migrate(&format!("{option}\n")), name, "at least once");
    }
    let topic = migrate("transaction.topic=t\n");
    assert!(has(&topic.carried, "transaction.topic", "metadata"));
}

#[test]
fn settings_of_confluents_managed_connector_are_translated() {
    let text = CONNECTOR.lines().filter(|line| !line.contains("converter"));
    let text = text
        .collect::<Vec<_>>()
        .join("\n")
        .replace("io.debezium.connector.postgresql.PostgresConnector", "PostgresCdcSourceV2");
    let with = |more: &str| debezium(&format!("{text}\n{more}"), &given()).unwrap();
    let migration = with(
        "output.key.format=STRING\noutput.data.format=JSON\njson.output.decimal.format=BASE64\n\
         kafka.auth.mode=SERVICE_ACCOUNT\nkafka.service.account.id=sa-1\n",
    );
    assert!(migration.is_complete(), "{:#?}", migration.unsupported);
    let user = "\"sasl.username\" = \"${env:KAFKA_USERNAME}\"";
    let protocol = "\"security.protocol\" = \"SASL_SSL\"";
    writes(&migration, &["value_format = \"json\"", protocol, user]);
    writes_nothing_of(&migration, "key_format");
    differs(&migration, "kafka.service.account.id", "--service-account sa-1");
    let keyed = with("kafka.auth.mode=KAFKA_API_KEY\nkafka.api.key=K\nkafka.api.secret=canary\n");
    let password = "\"sasl.password\" = \"${env:KAFKA_PASSWORD}\"";
    writes(&keyed, &["\"sasl.username\" = \"K\"", password]);
    assert!(!format!("{keyed:?}").contains("canary"));
    let registry = with("output.key.format=AVRO\noutput.data.format=JSON_SR\n");
    lacks(&registry, "output.key.format", "other partitions");
    lacks(&registry, "output.data.format", "schema registry");
    let decimals = with("json.output.decimal.format=NUMERIC\n");
    differs(&decimals, "json.output.decimal.format", "outbox.decimals = \"double\"");
}

#[test]
fn without_converters_the_worker_decides_and_a_flag_answers() {
    let text = CONNECTOR.lines().filter(|line| !line.contains("converter"));
    let text = text.collect::<Vec<_>>().join("\n");
    let assumed = debezium(&text, &given()).unwrap();
    differs(&assumed, "key.converter", "other partitions");
    differs(&assumed, "value.converter", "StringConverter is assumed");
    let given = Given {
        key_converter: Some(GivenConverter::Json),
        value_converter: Some(GivenConverter::Bytes),
        ..given()
    };
    let told = debezium(&text, &given).unwrap();
    writes(&told, &["key_format = \"json\"", "value_format = \"bytes\""]);
    assert!(!has(&told.different, "key.converter", ""));
}

#[test]
fn debezium_servers_formats_and_dollars_are_its_own() {
    let text = "debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.table.include.list=public.outbox
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
debezium.transforms.outbox.route.topic.replacement=DOLLAR{routedByValue}
debezium.transforms.outbox.table.field.event.timestamp=at
debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=k:1
debezium.format.key=simplestring
debezium.format.value=json
debezium.format.schemas.enable=false
debezium.source.value.converter=x.StringConverter
";
    let doubled = debezium(&text.replace("DOLLAR", "$$"), &given()).unwrap();
    assert!(doubled.is_complete(), "{:#?}", doubled.unsupported);
    writes(&doubled, &["topic = \"${aggregate_type}\"", "value_format = \"json\""]);
    writes_nothing_of(&doubled, "key_format");
    differs(&doubled, "debezium.source.value.converter", "debezium.format.value decides");
    differs(&doubled, "debezium.format.header", "into quotes");
    let with = |format: &str| {
        let text = format!("{text}debezium.format.header={format}\n").replace("DOLLAR", "$$");
        debezium(&text, &given()).unwrap()
    };
    differs(&with("jsonbytearray"), "debezium.format.header", "into quotes");
    differs(&with("simplestring"), "debezium.format.header", "does not start with this value");
    lacks(&with("clientprovided"), "debezium.format.header", "is not known");
    let option = "debezium.transforms.outbox.table.field.event.timestamp";
    differs(&doubled, option, "sends it without any");
    let single = debezium(&text.replace("DOLLAR", "$"), &given()).unwrap();
    writes(&single, &["topic = \"${aggregate_type}\""]);
    let option = "debezium.transforms.outbox.route.topic.replacement";
    differs(&single, option, "the dollar has to be doubled");
}

#[test]
fn other_texts_of_bytea_are_not_written() {
    let migrated = |mode: &str| migrate(&format!("binary.handling.mode={mode}\n"));
    assert!(migrated("bytes").is_complete());
    for mode in ["base64", "base64-url-safe", "hex"] {
        lacks(&migrated(mode), "binary.handling.mode", "key (and with it the partition)");
        lacks(&migrated(mode), "binary.handling.mode", "--accept, if no column");
    }
    lacks(&migrated("bits"), "binary.handling.mode", "Debezium refuses it");
}

#[test]
fn what_stops_the_router_and_not_debezium_is_told() {
    let hint = "columns.aggregate_id = \"${order_id|event_id}\"";
    let migration =
        outbox(&[("table.field.event.key", "order_id"), ("table.field.event.id", "event_id")]);
    differs(&migration, "NULL as a key or an id", hint);
    differs(&migration, "NULL as a key or an id", "(R001, R004)");
    let timestamp = "table.field.event.timestamp";
    differs(&outbox(&[(timestamp, "at")]), &format!("transforms.outbox.{timestamp}"), "(R012)");
    let placement = "table.fields.additional.placement";
    let migration = outbox(&[(placement, "price:header")]);
    differs(&migration, &format!("transforms.outbox.{placement}"), "NaN in a numeric");
}

#[test]
fn what_the_router_leaves_out_is_told() {
    let prefix = |property: &str| migrate(&format!("message.prefix.{property}\n"));
    differs(&prefix("include.list=x"), "message.prefix.include.list", "pg_logical_emit_message");
    differs(&prefix("exclude.list=x"), "message.prefix.exclude.list", "PREFIX.message");
    assert!(has(&prefix("exclude.list=.*").carried, "message.prefix.exclude.list", "not read"));

    let tracing = "tracing.span.context.field";
    differs(&outbox(&[]), tracing, "columns.tracing = \"tracingspancontext\"");
    assert!(!has(&outbox(&[(tracing, "trace")]).different, tracing, ""));
    let option = "tracing.operation.name";
    differs(&outbox(&[(option, "read")]), &format!("transforms.outbox.{option}"), "no span");
    let option = "tracing.with.context.field.only";
    differs(&outbox(&[(option, "false")]), &format!("transforms.outbox.{option}"), "trace of its");
}

#[test]
fn the_version_as_a_header_is_a_comment() {
    let option = "table.field.event.schema.version";
    let migration = outbox(&[(option, "version")]);
    let line = "{ name = \"version\", column = \"version\" }";
    writes(&migration, &[&format!("# extra_headers, one more: {line}")]);
    differs(&migration, &format!("transforms.outbox.{option}"), line);
}

#[test]
fn a_publication_by_leaf_is_told() {
    let migrated = |by: &str| migrate(&format!("publish.via.partition.root={by}\n"));
    assert!(has(&migrated("true").carried, "publish.via.partition.root", ""));
    differs(&migrated("false"), "publish.via.partition.root", "P025");
    differs(&migrate(""), "publish.via.partition.root", "P025");
}

#[test]
fn headers_of_another_converter_are_told() {
    let class =
        |class: &str| migrate(&format!("header.converter=org.apache.kafka.connect.{class}\n"));
    let simple = class("storage.SimpleHeaderConverter");
    assert!(has(&simple.carried, "header.converter", "texts as they are"));
    differs(&class("storage.StringConverter"), "header.converter", "cannot be read back");
    let json = class("json.JsonConverter");
    differs(&json, "header.converter", "into quotes");
    differs(&json, "header.converter", "compare finds none of its records");
    lacks(&class("converters.ByteArrayConverter"), "header.converter", "is not known");
}

#[test]
fn names_that_debezium_adjusts_are_told() {
    let option = "field.name.adjustment.mode";
    let connector = |mode: &str| migrate(&format!("{option}={mode}\n"));
    let router = |mode: &str| outbox(&[(option, mode)]);
    let of_router = format!("transforms.outbox.{option}");
    assert!(has(&connector("none").carried, option, "as they are"));
    assert!(has(&router("none").carried, &of_router, "as they are"));
    for mode in ["avro", "avro_unicode"] {
        differs(&connector(mode), option, "the table's name");
        differs(&router(mode), &of_router, "writes null for them");
    }
    let before = |value: &str| migrate(&format!("sanitize.field.names={value}\n"));
    differs(&before("true"), "sanitize.field.names", "the table's name");
    assert!(has(&before("false").carried, "sanitize.field.names", "as they are"));
}

#[test]
fn columns_of_hstore_and_money_are_told() {
    differs(&migrate("hstore.handling.mode=map\n"), "hstore.handling.mode", "(R008)");
    differs(&migrate("money.fraction.digits=3\n"), "money.fraction.digits", "(R008)");
}

#[test]
fn what_debezium_adds_to_a_row_is_told() {
    let unknown = |value: &str| migrate(&format!("include.unknown.datatypes={value}\n"));
    assert!(has(&unknown("false").carried, "include.unknown.datatypes", ""));
    differs(&unknown("true"), "include.unknown.datatypes", "(R008)");
    let reselect = "post.processors=r\npost.processors.r.type=x.ReselectColumnsPostProcessor\n";
    lacks(&migrate(reselect), "post.processors", "values of columns are not changed");
    lacks(&migrate(reselect), "post.processors.r.type", "values of columns are not changed");
}

#[test]
fn heartbeats_end_with_the_connector() {
    let interval = "heartbeat.interval.ms";
    let query = "heartbeat.action.query=INSERT INTO beats VALUES (1)\n";
    let topic = "topic.heartbeat.prefix=beats\n";
    for off in ["", "heartbeat.interval.ms=0\n"] {
        let migration = migrate(&format!("{off}{query}{topic}"));
        assert!(has(&migration.carried, "heartbeat.action.query", "without heartbeats"));
        assert!(has(&migration.carried, "topic.heartbeat.prefix", "without heartbeats"));
        assert!(off.is_empty() || has(&migration.carried, interval, "without heartbeats"));
    }
    for on in ["10000", "${env:HEARTBEAT}"] {
        let migration = migrate(&format!("{interval}={on}\n"));
        differs(&migration, interval, "__debezium-heartbeat.PREFIX end with the connector");
        let migration = migrate(&format!("{interval}={on}\n{query}{topic}"));
        differs(&migration, interval, "beats.PREFIX end with the connector");
        differs(&migration, "topic.heartbeat.prefix", "beats.PREFIX end with the connector");
        differs(&migration, "heartbeat.action.query", "runs no SQL");
        let named = format!("{interval}={on}\ntopic.heartbeat.name=pulse\n{topic}");
        differs(&migrate(&named), interval, "in pulse end with the connector");
    }
}

#[test]
fn a_slot_of_another_plugin_is_not_to_be_dropped_before_its_rows_are_sent() {
    let text = CONNECTOR.replace("plugin.name=pgoutput\n", "");
    for (text, plugin) in
        [(text.clone(), "decoderbufs"), (format!("{text}plugin.name=wal2json\n"), "wal2json")]
    {
        let migration = debezium(&text, &given()).unwrap();
        differs(&migration, "plugin.name", plugin);
        differs(&migration, "plugin.name", "what it has yet to send is lost with its slot");
    }
    // Confluent's managed connector always has pgoutput.
    let managed =
        text.replace("io.debezium.connector.postgresql.PostgresConnector", "PostgresCdcSourceV2");
    let migration = debezium(&managed, &given()).unwrap();
    assert!(!has(&migration.different, "plugin.name", ""), "{:#?}", migration.different);
    assert!(has(&migration.carried, "plugin.name", "pgoutput"), "{:#?}", migration.carried);
}
