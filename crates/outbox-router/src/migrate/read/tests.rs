use super::*;

fn value<'s>(source: &'s Source, name: &str) -> (&'s str, usize) {
    let property = source.properties.get(name).unwrap_or_else(|| panic!("no {name}"));
    (&property.value, property.line)
}

#[track_caller]
fn refused(text: &str, line: Option<usize>, message: &str, hint: &str) {
    let error = read(text).expect_err(text);
    assert_eq!(error.line, line, "{error}");
    assert!(error.message.contains(message), "{error}");
    assert!(error.hint.contains(hint), "{}", error.hint);
}

#[test]
fn the_form_is_told_by_the_content() {
    for (text, form) in [
        ("{\"connector.class\": \"x\"}", Form::ConnectJson),
        ("\u{feff}\n { \"name\": \"n\", \"config\": {} }", Form::ConnectJson),
        ("# a comment\nconnector.class=x", Form::ConnectProperties),
        ("connector.class = x", Form::ConnectProperties),
        ("debezium.sink.type=kafka", Form::ServerProperties),
        ("%prod.x=1\ndebezium.sink.type=kafka", Form::ServerProperties),
        ("connector.class: x", Form::Yaml),
        ("---\nkind: KafkaConnector\nspec:\n  class: x", Form::Yaml),
    ] {
        assert_eq!(
            read(text).unwrap_or_else(|error| panic!("{text}: {error}")).form,
            form,
            "{text}"
        );
    }
}

#[test]
fn what_is_none_of_the_forms_is_refused_with_what_was_seen() {
    refused("", None, "no property", "give a connector as JSON");
    refused("; debezium.sink.type=kafka\n", None, "no property", "JSON");
    refused("\n[{}]", Some(2), "a list", "JSON");
    refused("curl -X POST http://x -d '{", Some(1), "a shell command", "after -d");
    refused("{{ if .Values.x }}\na: b", Some(1), "not valid JSON", "without");
    refused("<xml/>", Some(1), "XML", "JSON");
    refused("\n\njust words\n", Some(3), "neither JSON, properties nor YAML", "JSON");
}

#[test]
fn json_gives_every_value_as_text_with_its_line() {
    let text = "{\n  \"name\": \"n\",\n  \"config\": {\n    \"tasks.max\": 1,\n    \
                \"b\": true,\n    \"c\": null,\n    \"x\": \" y \"\n  },\n  \"tasks\": []\n}";
    let source = read(text).unwrap();
    assert_eq!(value(&source, "name"), ("n", 2));
    assert_eq!(value(&source, "tasks.max"), ("1", 4));
    assert_eq!(value(&source, "b"), ("true", 5));
    assert_eq!(value(&source, "c"), ("", 6));
    assert_eq!(value(&source, "x"), ("y", 7));
    assert!(source.properties.get("tasks").is_none(), "Kafka Connect's own member");
}

#[test]
fn malformed_json_is_refused_with_its_line() {
    refused("{\n  \"a\": \"b\",\n}", Some(3), "trailing comma", "without comments");
    refused("{\n  \"a\": 1 // why\n}", Some(2), "expected `,` or `}`", "without comments");
    refused("{\n \"a\": 1,\n \"b\": {\"c\": 1}\n}", Some(3), "b is no single value", "flat");
    refused("{\"a\": 1}'", Some(1), "trailing characters", "a shell puts around it");
}

#[test]
fn properties_are_read_as_java_does() {
    let text =
        "! comment\na=1\nb : 2\nc 3\nd=one \\\n   two\ne=\\u00e9\\t\\=\nf=C:\\\\x\ng=\na=again\n";
    let source = read(text).unwrap();
    assert_eq!(value(&source, "a"), ("again", 10), "the last one wins");
    assert_eq!(value(&source, "b"), ("2", 3));
    assert_eq!(value(&source, "c"), ("3", 4));
    assert_eq!(value(&source, "d"), ("one two", 5));
    assert_eq!(value(&source, "e"), ("é\t=", 7));
    assert_eq!(value(&source, "f"), ("C:\\x", 8));
    assert_eq!(value(&source, "g"), ("", 9));
}

#[test]
fn only_what_java_calls_white_space_ends_a_name_and_only_its_line_ends_end_a_line() {
    let text =
        "a=\\uD83D\\uDE00\rb\u{a0}c=d\u{2028}e\r\nf=g,\\\r\n  h\r\n\\\n#comment\ni\u{2003} j\n";
    let source = read(text).unwrap();
    assert_eq!(value(&source, "a"), ("😀", 1));
    assert_eq!(value(&source, "b\u{a0}c"), ("d\u{2028}e", 2));
    assert_eq!(value(&source, "f"), ("g,h", 3));
    assert_eq!(value(&source, "i\u{2003}"), ("j", 7));
}

#[test]
fn malformed_properties_are_refused_with_their_line() {
    refused("a=1\nb", Some(2), "a name has no value", "name=value");
    for value in ["\\u12", "\\u+123", "\\uD83D", "\\uDE00\\uD83D"] {
        let text = format!("a=1\nb={value}");
        refused(&text, Some(2), "\\u is not followed by four digits", "hexadecimal");
    }
}

#[test]
fn a_comment_behind_a_value_is_taken_off_and_reported() {
    let source = read("a=x   # why\nsql=select 1 #2\ndatabase.password=a #b\n").unwrap();
    assert_eq!(value(&source, "a"), ("x", 1));
    assert_eq!(value(&source, "sql"), ("select 1 #2", 2));
    assert_eq!(value(&source, "database.password"), ("a #b", 3));
    assert_eq!(source.remarks.iter().map(|remark| remark.line).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn what_kafka_connect_reads_as_iso_8859_1_is_reported() {
    let remarks = |text: &str| {
        let source = read(text).unwrap();
        source.remarks.iter().map(|remark| remark.line).collect::<Vec<_>>()
    };
    let text = "# été\na=caf\\u00e9\nb=café\nc=d\nétat=1\n";
    assert_eq!(value(&read(text).unwrap(), "b"), ("café", 3));
    assert_eq!(remarks(text), [Some(3), Some(5)]);
    assert_eq!(remarks(&format!("debezium.sink.type=kafka\n{text}")), [], "it reads UTF-8");
}

#[test]
fn debezium_servers_names_become_those_of_a_connector() {
    let text = "debezium.source.slot.name=s\ndebezium.transforms=outbox\n\
                debezium.source.transforms.outbox.type=T\ndebezium.predicates.p.type=P\n\
                debezium.sink.kafka.producer.acks=all\ndebezium.format.key=json\n";
    let source = read(text).unwrap();
    for name in [
        "slot.name",
        "transforms",
        "transforms.outbox.type",
        "predicates.p.type",
        "producer.override.acks",
        "debezium.format.key",
    ] {
        assert!(source.properties.get(name).is_some(), "{name}");
    }
    assert_eq!(source.properties.get("slot.name").unwrap().written, "debezium.source.slot.name");
}

#[test]
fn debezium_servers_variables_are_its_properties() {
    let file = "POSTGRES_PASSWORD=canary\nDEBEZIUM_SOURCE_CONNECTOR_CLASS=C\n# comment\n\
                DEBEZIUM_TRANSFORMS_O_REGEX='a\\.b'\nDEBEZIUM_SINK_KAFKA_PRODUCER_LINGER_MS=5\n";
    let map = "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: canary\n  cdc:\n    \
               environment:\n      DEBEZIUM_SOURCE_CONNECTOR_CLASS: C\n      \
               DEBEZIUM_TRANSFORMS_O_REGEX: a\\.b\n      \
               DEBEZIUM_SINK_KAFKA_PRODUCER_LINGER_MS: 5\n";
    let list = "services:\n  cdc:\n    environment:\n    - DEBEZIUM_SOURCE_CONNECTOR_CLASS=C\n    \
                - DEBEZIUM_TRANSFORMS_O_REGEX=a\\.b\n    \
                - DEBEZIUM_SINK_KAFKA_PRODUCER_LINGER_MS=5\n";
    for (text, line) in [(file, 5), (map, 9), (list, 6)] {
        let source = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(source.form, Form::ServerProperties);
        assert_eq!(value(&source, "connector.class").0, "C");
        assert_eq!(value(&source, "transforms.o.regex").0, "a\\.b", "{text}");
        assert_eq!(value(&source, "producer.override.linger.ms"), ("5", line), "{text}");
        let written = &source.properties.get("connector.class").unwrap().written;
        assert_eq!(written, "DEBEZIUM_SOURCE_CONNECTOR_CLASS");
        assert!(!format!("{source:?}").contains("canary"), "variables of others");
    }
    let dollars = map.replace("a\\.b", "$$$${x}");
    assert_eq!(value(&read(&dollars).unwrap(), "transforms.o.regex").0, "$${x}", "of compose");
    let two = format!("{map}  other:\n    environment: [DEBEZIUM_SOURCE_CONNECTOR_CLASS=C]\n");
    refused(&two, Some(11), "several Debezium Servers", "give one");
}

#[test]
fn a_resource_of_debeziums_operator_is_a_debezium_server() {
    let text = "kind: DebeziumServer\nspec:\n  quarkus:\n    config:\n      log.console.json: false\n  \
                sink:\n    type: kafka\n    config:\n      producer.acks: all\n  format:\n    key:\n      \
                type: json\n      config:\n        schemas.enable: false\n  source:\n    class: C\n    \
                config:\n      slot.name: s\n  transforms:\n  - type: T\n    predicate: p\n    \
                negate: true\n    config:\n      a.b: x\n  predicates:\n    p:\n      type: P\n      \
                config:\n        pattern: y\n";
    let source = read(text).unwrap();
    assert_eq!(source.form, Form::ServerProperties);
    for (name, expected) in [
        ("connector.class", ("C", 16)),
        ("slot.name", ("s", 18)),
        ("quarkus.log.console.json", ("false", 5)),
        ("debezium.sink.type", ("kafka", 7)),
        ("producer.override.acks", ("all", 9)),
        ("debezium.format.key", ("json", 12)),
        ("debezium.format.key.schemas.enable", ("false", 14)),
        ("transforms", ("t0", 19)),
        ("transforms.t0.type", ("T", 20)),
        ("transforms.t0.predicate", ("p", 21)),
        ("transforms.t0.negate", ("true", 22)),
        ("transforms.t0.a.b", ("x", 24)),
        ("predicates", ("p", 25)),
        ("predicates.p.type", ("P", 27)),
        ("predicates.p.pattern", ("y", 29)),
    ] {
        assert_eq!(value(&source, name), expected, "{name}");
    }
    let written = &source.properties.get("slot.name").unwrap().written;
    assert_eq!(written, "spec.source.config.slot.name");
    refused(&text.replace("slot.name: s", "slot.name: [s]"), Some(18), "no single value", "flat");
}

#[test]
fn terraforms_maps_are_a_configuration() {
    let text = "{\"id\": \"lcc-1\", \"kafka_cluster\": [{\"id\": \"lkc-1\"}], \n\
                \"config_nonsensitive\": {\"name\": \"n\",\n\"slot.name\": \"s\"},\n\
                \"config_sensitive\": {\"database.password\": \"p\"}, \"status\": \"RUNNING\"}";
    let source = read(text).unwrap();
    assert_eq!(value(&source, "slot.name"), ("s", 3));
    assert_eq!(value(&source, "database.password"), ("p", 4));
    assert_eq!(source.properties.iter().count(), 3);
    let hcl = "resource \"confluent_connector\" \"cdc\" {\n}\n";
    refused(hcl, Some(1), "Terraform's language", "terraform show -json | jq 'first(..");
}

const CONNECTOR: &str = "kind: KafkaConnector\nmetadata:\n  name: one\nspec:\n  class: C\n  \
                         tasksMax: 1\n  config:\n    a.b: \"x\"\n    n: ~\n";

#[test]
fn a_strimzi_connector_is_found_among_other_resources() {
    let text = format!(
        "kind: KafkaTopic\n---\nkind: KafkaConnect\nspec:\n  bootstrapServers: k:9092\n  \
         config:\n    key.converter: K\n    group.id: g\n---\n{CONNECTOR}"
    );
    let source = read(&text).unwrap();
    assert_eq!(value(&source, "name").0, "one");
    assert_eq!(value(&source, "connector.class"), ("C", 14));
    assert_eq!(value(&source, "a.b"), ("x", 17));
    assert_eq!(value(&source, "n").0, "");
    assert_eq!(value(&source, "producer.override.bootstrap.servers"), ("k:9092", 5));
    assert_eq!(value(&source, "key.converter"), ("K", 7));
    assert!(source.properties.get("group.id").is_none(), "it is the worker's own");
}

#[test]
fn a_connectors_own_converter_inherits_no_option_of_the_workers() {
    let text = format!(
        "kind: KafkaConnect\nspec:\n  config:\n    value.converter: W\n    \
         value.converter.schemas.enable: false\n---\n{CONNECTOR}    value.converter: C\n"
    );
    let source = read(&text).unwrap();
    assert_eq!(value(&source, "value.converter").0, "C");
    assert!(source.properties.get("value.converter.schemas.enable").is_none());
}

#[test]
fn a_template_fills_in_its_parameters() {
    let text = "kind: Template\nobjects:\n- kind: KafkaConnector\n  spec:\n    class: C\n    \
                tasksMax: ${{MAX}}\n    config:\n      port: ${PORT}\n      user: ${USER}\n\
                parameters:\n- name: PORT\n  value: \"5432\"\n- name: MAX\n  \
                value: \"1\"\n- name: USER\n";
    let source = read(text).unwrap();
    assert_eq!(value(&source, "tasks.max").0, "1");
    assert_eq!(value(&source, "port").0, "5432");
    assert_eq!(value(&source, "user").0, "${USER}");
}

#[test]
fn malformed_yaml_is_refused_with_its_line() {
    refused("a: b\n c: d\n", Some(2), "not valid YAML", "indentation");
    refused(
        "kind: KafkaConnector\nspec:\n  config:\n    a: [1]\n",
        Some(4),
        "a is no single",
        "flat",
    );
    refused("x: &a 1\ny: *a\n", Some(2), "alias", "write the value");
    refused(
        "kind: ConfigMap\ndata: {}\n",
        None,
        "no KafkaConnector among ConfigMap",
        "application",
    );
    refused("a: b\n", None, "without a connector.class", "KafkaConnector");
    let two = format!("{CONNECTOR}---\n{CONNECTOR}");
    refused(&two, Some(11), "several connectors", "give one");
    let deep = "[".repeat(100);
    refused(&format!("a: {deep}"), Some(1), "more than 32 levels", "alone");
}

#[test]
fn of_several_connectors_the_one_with_an_event_router_is_taken() {
    let router = "    transforms.o.type: io.debezium.transforms.outbox.EventRouter\n";
    let text = format!("{CONNECTOR}---\n{}{router}", CONNECTOR.replace("one", "two"));
    assert_eq!(value(&read(&text).unwrap(), "name").0, "two");
}

proptest::proptest! {
    #[test]
    fn whatever_a_file_holds_is_read_or_refused(
        lines in proptest::collection::vec(
            "[ -]{0,4}[{}\\[\"a.#&*|>]{0,3}(connector.class|kind|a|debezium.x|config)?[:= \"]{0,3}.{0,12}",
            0..12,
        )
    ) {
        let given = crate::migrate::Given::default();
        // Neither a panic nor an endless loop.
        if let Err(error) = crate::migrate::debezium(&lines.join("\n"), &given) {
            proptest::prop_assert!(!error.message.is_empty() && !error.hint.is_empty());
        }
    }
}
