//! `explain --row` answers by the configuration alone: what the router makes of a row, and which
//! rule decided; or the code at which `run` would stop.

use std::{ffi::OsString, io};

use outbox_router::{
    cli::{self, Audience, Cli, Command, Exit, Terminal},
    config::Environment,
};
use serde_json::{Value, json};

struct Output {
    exit: Exit,
    out: String,
    err: String,
}

/// Runs `explain` with one outbox table, `public.outbox`, and these lines of its configuration.
async fn explain(settings: &[&str], arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("outbox-router.toml");
    let config = format!("[[outbox]]\ntable = \"public.outbox\"\n{}\n", settings.join("\n"));
    std::fs::write(&file, config).expect("a file");
    let file = file.to_str().expect("a path");
    let mut line = vec!["outbox-router", "--config", file, "explain"];
    line.extend(arguments);
    explain_line(&line).await
}

async fn explain_line(line: &[&str]) -> Output {
    let cli = Cli::read(line.iter().map(OsString::from)).expect("a command line");
    let environment = Environment::default();
    let loaded = cli::load_config(&cli, &environment).expect("a configuration");
    let Command::Explain(args) = &cli.command else { panic!("not explain") };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut io::empty(),
        audience: Audience::Machine,
    };
    let exit = cli::explain_row(args, &loaded, &environment, &mut terminal).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Output { exit, out: text(out), err: text(err) }
}

async fn explained(settings: &[&str], row: &Value, more: &[&str]) -> Value {
    let row = row.to_string();
    let mut arguments = vec!["--json", "--row", &row];
    arguments.extend(more);
    let output = explain(settings, &arguments).await;
    let found = serde_json::from_str(&output.out);
    found.unwrap_or_else(|_| panic!("{}{}", output.out, output.err))
}

fn row() -> Value {
    json!({
        "id": "0198", "aggregate_type": "order", "aggregate_id": "42", "event_type": "Placed",
        "payload": { "total": 1.5 },
    })
}

/// The usual row with other values; null takes the place of a value.
fn row_with(columns: &Value) -> Value {
    let mut row = row();
    let (Value::Object(all), Value::Object(changed)) = (&mut row, columns) else {
        panic!("{columns}")
    };
    all.extend(changed.clone());
    row
}

fn headers(found: &Value) -> Vec<[&str; 3]> {
    let Some(headers) = found.get("headers").and_then(Value::as_array) else { panic!("{found:#}") };
    let members = ["name", "value", "source"];
    headers
        .iter()
        .map(|one| members.map(|of| one.get(of).and_then(Value::as_str).unwrap_or("null")))
        .collect()
}

#[tokio::test]
async fn people_see_the_record_and_the_rule_behind_each_part() {
    let row = row_with(&json!({ "headers": { "tenant": "acme" } })).to_string();
    let output = explain(&[], &["--row", &row, "--partitions", "6"]).await;
    let wanted = "\
        table      public.outbox, preset default, format plain\n\
        topic      outbox.event.order, from outbox.event.${aggregate_type}, aggregate_type from column aggregate_type\n\
        partition  4 of 6: the key's murmur2 hash 417700972 mod 6\n\
        key        42 (2 bytes), from column aggregate_id\n\
        value      14 bytes, from column payload\n\
        timestamp  the transaction's commit time\n\
        headers    id: 0198  (format, column id)\n           \
        type: Placed  (format, column event_type)\n           \
        tenant: acme  (member of column headers)\n";
    assert_eq!(output.out, wanted);
    let note = "note: assumed types: aggregate_id text, aggregate_type text, event_type text, \
                headers jsonb, id text, payload jsonb; give another by --type COLUMN=TYPE\n";
    assert_eq!((output.err.as_str(), output.exit), (note, Exit::Done));
    let types = [
        "aggregate_id=text",
        "aggregate_type=text",
        "event_type=text",
        "headers=jsonb",
        "id=uuid",
        "payload=jsonb",
    ];
    let mut arguments = vec!["--row", row.as_str()];
    arguments.extend(types.iter().flat_map(|given| ["--type", *given]));
    assert_eq!(explain(&[], &arguments).await.err, "");
}

#[tokio::test]
async fn without_a_partition_count_the_hash_is_shown() {
    let output = explain(&[], &["--row", &row().to_string()]).await;
    let line = "partition  the key's murmur2 hash 417700972 mod the topic's partition count\n";
    assert!(output.out.contains(line), "{}", output.out);
    let found = explained(&[], &row(), &[]).await;
    let wanted = json!({ "number": null, "count": null, "hash": 417_700_972, "column": null });
    assert_eq!(found["partition"], wanted);
}

#[tokio::test]
async fn each_preset_has_its_columns() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let debezium = json!({
        "id": "7", "aggregatetype": "Order", "aggregateid": "42", "type": "Created",
        "timestamp": "2026-01-01T00:00:00", "payload": "{}",
        "tracingspancontext": format!("#c\ntraceparent={trace}\n"),
    });
    let found = explained(&[], &debezium, &[]).await;
    assert_eq!(
        (&found["preset"], &found["topic"]["name"]),
        (&json!("debezium"), &json!("outbox.event.Order"))
    );
    assert_eq!(
        headers(&found),
        [
            ["id", "7", "format, column id"],
            ["type", "Created", "format, column type"],
            ["traceparent", trace, "trace context in column tracingspancontext"],
        ]
    );
    let ordering_key = json!({
        "outbox_route": "shop.orders", "event_id": "7", "event_type": "Placed", "payload": {},
        "tenant_id": "acme", "correlation_id": null, "ordering_key": null,
    });
    let found = explained(&[], &ordering_key, &[]).await;
    assert_eq!(found["preset"], "ordering_key");
    let topic = json!({
        "name": "shop.orders", "template": "${outbox_route}", "route_regex": null,
        "aggregate_type": null,
    });
    assert_eq!(found["topic"], topic);
    let key = json!({ "value": "7", "bytes": 1, "source": "text ${ordering_key|event_id}" });
    assert_eq!(found["key"], key);
    assert_eq!(
        headers(&found)[2..],
        [
            ["tenant_id", "acme", "preset, column tenant_id"],
            ["correlation_id", "null", "preset, column correlation_id"],
        ]
    );
    let stream = json!({
        "id": 7, "stream_name": "orders", "aggregate_id": "42", "event_type": "Placed",
        "payload": {}, "metadata": { "tenant": "acme" }, "status": "pending", "locked_by": null,
        "locked_until": null,
    });
    let found = explained(&[], &stream, &[]).await;
    assert_eq!(
        (&found["preset"], &found["key"]["source"]),
        (&json!("stream"), &json!("column aggregate_id"))
    );
    assert_eq!(headers(&found)[2], ["tenant", "acme", "member of column metadata"]);
}

/// Without one the key is the event's id, as `each_preset_has_its_columns` shows.
#[tokio::test]
async fn with_the_preset_ordering_key_the_key_is_the_rows_ordering_key() {
    let mut row = json!({
        "outbox_route": "shop.orders", "event_id": "7", "event_type": "Placed", "payload": {},
        "tenant_id": "acme", "correlation_id": null, "ordering_key": null,
    });
    let source = "text ${ordering_key|event_id}";
    for (ordering_key, key) in [(json!("order-42"), "order-42"), (Value::Null, "7")] {
        row["ordering_key"] = ordering_key;
        let found = explained(&[], &row, &[]).await;
        assert_eq!(found["preset"], "ordering_key");
        let wanted = json!({ "value": key, "bytes": key.len(), "source": source });
        assert_eq!(found["key"], wanted);
        assert_eq!(headers(&found)[0], ["id", "7", "format, column event_id"]);
    }
}

#[tokio::test]
async fn the_configuration_decides_where_each_part_comes_from() {
    let settings = [
        "topic = 'shop.${tenant}'",
        "timestamp = 'column'",
        "columns.timestamp = 'at'",
        "columns.partition = 'part'",
        "extra_headers = [{ name = 'source', value = 'shop' }, { name = 'tenant', column = 'tenant' }, \
         { name = 't', value = '${tenant}!' }]",
        "envelope = [{ name = 'kind', column = 'event_type' }]",
        "where = { column = 'event_type', not_in = ['Ignored'] }",
    ];
    let more = json!({ "tenant": "acme", "at": "2026-01-01T00:00:00+00:00", "part": 5 });
    let row = row_with(&more);
    let types = ["--type", "at=timestamptz"];
    let found = explained(&settings, &row, &types).await;
    assert_eq!(found["topic"]["name"], "shop.acme", "{found:#}");
    assert_eq!(found["topic"]["template"], "shop.${tenant}");
    assert_eq!(
        (&found["partition"]["number"], &found["partition"]["column"]),
        (&json!(5), &json!("part"))
    );
    let time = json!({ "milliseconds": 1_767_225_600_000_i64, "source": "column at" });
    assert_eq!(found["timestamp"], time);
    let source = "column payload, in an envelope with kind (column event_type)";
    assert_eq!(found["value"]["source"], source);
    assert_eq!(
        headers(&found)[2..],
        [
            ["source", "shop", "extra_headers, constant"],
            ["tenant", "acme", "extra_headers, column tenant"],
            ["t", "acme!", "extra_headers, text ${tenant}!"],
        ]
    );
    let null = row_with(&json!({ "tenant": "acme", "at": null, "part": null }));
    let types = ["--type", "at=timestamptz", "--type", "part=int4"];
    let found = explained(&settings, &null, &types).await;
    assert_eq!(
        (&found["timestamp"]["source"], &found["partition"]["column"]),
        (&json!("commit"), &Value::Null)
    );
    let ignored =
        row_with(&json!({ "event_type": "Ignored", "tenant": "a", "at": null, "part": 1 }));
    let found = explained(&settings, &ignored, &["--type", "at=timestamptz"]).await;
    assert_eq!(found["outcome"], "filtered");
    let output =
        explain(&settings, &["--row", &ignored.to_string(), "--type", "at=timestamptz"]).await;
    assert_eq!(output.exit, Exit::Done);
    assert!(output.out.ends_with("no event: filtered by `where`\n"), "{}", output.out);
}

#[tokio::test]
async fn every_row_at_which_run_would_stop_is_named_by_its_code() {
    let cases: [(&str, &[&str], Value, &[&str]); 13] = [
        ("R001", &[], row_with(&json!({ "aggregate_id": null })), &[]),
        ("R002", &[], row_with(&json!({ "aggregate_type": null })), &[]),
        ("R003", &[], row_with(&json!({ "aggregate_type": "a b" })), &[]),
        ("R004", &[], row_with(&json!({ "id": null })), &[]),
        ("R006", &["preset = 'default'"], json!({ "id": "1" }), &[]),
        ("R007", &[], json!({ "id": "1" }), &[]),
        ("R008", &["columns.partition = 'part'"], row_with(&json!({ "part": "x" })), &[]),
        ("R009", &[], row_with(&json!({ "headers": [1] })), &[]),
        ("R010", &[], row_with(&json!({ "payload": "no hex" })), &["--type", "payload=bytea"]),
        (
            "R012",
            &["timestamp = 'column'", "columns.timestamp = 'at'"],
            row_with(&json!({ "at": "infinity" })),
            &["--type", "at=timestamptz"],
        ),
        (
            "R013",
            &["columns.partition = 'part'"],
            row_with(&json!({ "part": 6 })),
            &["--partitions", "6"],
        ),
        (
            "R014",
            &["columns.aggregate_id = '${payload#/a}'"],
            row_with(&json!({ "payload": "x" })),
            &[],
        ),
        ("R015", &["route_regex = 'x.*'"], row(), &[]),
    ];
    for (code, settings, row, more) in cases {
        let found = explained(settings, &row, more).await;
        assert_eq!(found["outcome"], "refused", "{code}: {found:#}");
        assert_eq!(found["refused"]["code"], code, "{found:#}");
        let row = row.to_string();
        let arguments: Vec<&str> =
            ["--row", &row].into_iter().chain(more.iter().copied()).collect();
        let output = explain(settings, &arguments).await;
        assert_eq!(output.exit, Exit::Failure, "{code}");
        let line = format!("\noutcome    run would stop: {code}: ");
        assert!(output.out.contains(&line), "{}", output.out);
        let has_hint = output.out.contains("\n           hint: ");
        assert_eq!(has_hint, found["refused"]["hint"].is_string(), "{}", output.out);
    }
}

#[tokio::test]
async fn a_row_is_too_large_where_the_stream_would_refuse_it() {
    let with_payload = |length: usize| async move {
        let row = row_with(&json!({ "payload": "x".repeat(length) })).to_string();
        explain_line(&[
            "outbox-router",
            "--config",
            "/dev/null",
            "--set",
            "limits.row_bytes=64KiB",
            "--set",
            "outbox.0.table=public.outbox",
            "explain",
            "--row",
            &row,
        ])
        .await
    };
    // The limit holds for the values; the frame around them is larger.
    let others = "0198".len() + "order".len() + "42".len() + "Placed".len();
    let output = with_payload((64 << 10) - others).await;
    assert_eq!(output.exit, Exit::Done, "{}{}", output.out, output.err);
    let output = with_payload(80_000).await;
    assert_eq!(output.exit, Exit::Failure);
    let refused = "run would stop: R005: the row with id 0198 of public.outbox: ";
    assert!(output.out.contains(refused), "{}{}", output.out, output.err);
}

#[tokio::test]
async fn the_table_is_named_where_it_is_not_clear() {
    let row = row().to_string();
    let base = ["outbox-router", "--config", "/dev/null", "explain", "--row", &row];
    let with = |more: &[&'static str]| {
        let mut line = base.to_vec();
        line.extend(more);
        async move { explain_line(&line).await }
    };
    let none = with(&[]).await;
    assert_eq!(none.exit, Exit::Usage);
    assert!(
        none.err.contains("no table is configured; say whose row it is: --table"),
        "{}",
        none.err
    );
    let named = with(&["--table", "sales.outbox"]).await;
    assert!(named.out.starts_with("table      sales.outbox, preset default"), "{}", named.out);
    let two = ["--set", "outbox.0.table=public.a", "--set", "outbox.1.table=public.b"];
    let several = with(&two).await;
    assert_eq!(several.exit, Exit::Usage);
    assert!(several.err.contains("--table, one of public.a, public.b"), "{}", several.err);
    let mut one = two.to_vec();
    one.extend(["--table", "b"]);
    assert!(with(&one).await.out.starts_with("table      public.b, "));
    let mut other = two.to_vec();
    other.extend(["--table", "c"]);
    let other = with(&other).await;
    assert_eq!(other.exit, Exit::Usage);
    assert!(other.err.contains("public.c is no configured outbox"), "{}", other.err);
    let unknown = with(&["--table", "public.a", "--type", "x=uuid"]).await;
    assert_eq!(unknown.exit, Exit::Usage);
    assert!(unknown.err.contains("--type x=…: --row has no such column"), "{}", unknown.err);
}

#[test]
fn one_of_code_id_and_row_is_explained() {
    let read = |line: &[&str]| Cli::read(["outbox-router", "explain"].iter().chain(line));
    for line in [
        &[][..],
        &["K010", "--id", "7"],
        &["--id", "7", "--row", "{}"],
        &["K010", "--json"],
        &["K010", "--table", "public.outbox"],
        &["--id", "7", "--partitions", "3"],
        &["--id", "7", "--type", "a=uuid"],
        &["--row", "[]"],
        &["--row", "{}", "--type", "a=citext"],
        &["--row", "{}", "--partitions", "0"],
        &["--row", "{}", "--table", "Public.Outbox"],
    ] {
        assert_eq!(read(line).map(drop).map_err(|error| error.exit_code()), Err(2), "{line:?}");
    }
    assert!(read(&["--id", "7", "--json", "--admin-url", "canary"]).is_ok());
}

#[tokio::test]
async fn a_hint_names_the_brokers_of_the_configuration() {
    let row = row_with(&json!({ "part": 6 })).to_string();
    let settings = ["columns.partition = 'part'"];
    let output = explain(&settings, &["--row", &row, "--partitions", "6"]).await;
    let command = "kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --alter --topic";
    assert!(output.out.contains(command), "{}", output.out);
}

const POLLED: [&str; 3] = ["", "[postgres]", "source = \"polling\""];

#[tokio::test]
async fn of_a_row_that_is_polled_nothing_is_said_of_a_transaction() {
    let at = row_with(&json!({ "created_at": "2026-01-01T00:00:00+00:00" })).to_string();
    let line = ["--row", &at, "--type", "created_at=timestamptz"];
    let output = explain(&POLLED, &line).await;
    assert!(output.out.contains("\ntimestamp  that of column created_at\n"), "{}", output.out);
    let output = explain(&POLLED, &["--row", &row().to_string()]).await;
    assert!(output.out.contains("\ntimestamp  when the row is read\n"), "{}", output.out);
    let found = explained(&POLLED, &row(), &[]).await;
    assert_eq!(found["timestamp"], json!({ "milliseconds": null, "source": "reading" }));
}

#[tokio::test]
async fn a_row_that_is_polled_is_corrected_and_one_that_is_streamed_is_routed_otherwise() {
    let row = row_with(&json!({ "aggregate_id": null }));
    let settings = ["columns.aggregate_id = \"aggregate_id\""];
    let output = explain(&POLLED, &["--row", &row.to_string()]).await;
    let outcome = "outcome    run would try it again until it can be delivered: R001: ";
    assert!(output.out.contains(outcome), "{}", output.out);
    let polled = explained(&[&settings[..], &POLLED[..]].concat(), &row, &[]).await;
    let hint = polled["refused"]["hint"].as_str().expect("a hint");
    let update =
        "update \"public\".\"outbox\" set \"aggregate_id\" = VALUE where \"id\" = '0198'; or,";
    assert!(hint.starts_with(update) && !hint.contains("--dead-letters"), "{hint}");
    let streamed = explained(&settings, &row, &[]).await;
    let hint = streamed["refused"]["hint"].as_str().expect("a hint");
    assert!(hint.starts_with("map columns.aggregate_id ") && !hint.contains("update"), "{hint}");
}
