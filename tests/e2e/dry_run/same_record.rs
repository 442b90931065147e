//! `run --dry-run`, `explain --id` and `explain --row` read a row in three ways: from the stream,
//! by a query, and from its JSON. Random rows of many types become the same records, or are refused
//! with the same code. `OUTBOX_SEED` gives other rows than the default run has.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::*;

/// How many rows each configuration sees.
const ROWS: usize = 8;

/// A column: its name, its type, what `--type` says of it (nothing where JSON tells the type, or
/// the type has a text like any other), and texts of values.
type Column = (&'static str, &'static str, Option<&'static str>, &'static [&'static str]);

const COLUMNS: [Column; 26] = [
    ("c_bool", "bool", None, &["t", "f"]),
    ("c_int2", "int2", Some("int2"), &["0", "1", "2", "-32768"]),
    ("c_int4", "int4", Some("int4"), &["-1", "2147483647"]),
    ("c_int8", "int8", None, &["9223372036854775807", "-9223372036854775808", "0"]),
    (
        "c_numeric",
        "numeric",
        Some("numeric"),
        &["1.50", "-0.000001", "1e30", "0.0", "NaN", "Infinity"],
    ),
    ("c_scale", "numeric(10,3)", Some("numeric(10,3)"), &["1", "-7.125", "1234567.891"]),
    ("c_float4", "real", Some("real"), &["1.5", "-0.1", "100000", "0"]),
    ("c_float8", "float8", Some("float8"), &["0.1", "123456789012345", "-2.5", "NaN"]),
    ("c_text", "text", None, &["", "ä \"q\" \\ {}", "two\nlines", "null", "😀"]),
    ("c_varchar", "varchar(20)", Some("varchar(20)"), &["v", " v "]),
    ("c_char", "char(5)", Some("char(5)"), &["a", "abcde", ""]),
    ("c_uuid", "uuid", Some("uuid"), &["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]),
    ("c_bytea", "bytea", Some("bytea"), &["", "\\x00ff", "plain"]),
    ("c_date", "date", Some("date"), &["2026-02-28", "0044-03-15 BC", "infinity"]),
    ("c_time", "time", Some("time"), &["12:34:56.789", "24:00:00", "00:00"]),
    ("c_timetz", "timetz", Some("timetz"), &["12:34:56+05:30", "00:00:00.5-08"]),
    ("c_stamp", "timestamp", Some("timestamp"), &["2026-01-31 23:59:59.5", "infinity"]),
    ("c_stamp3", "timestamp(3)", Some("timestamp(3)"), &["1969-12-31 23:59:59.9996"]),
    ("c_zone", "timestamptz", Some("timestamptz"), &["2026-07-01 12:00+02", "-infinity"]),
    ("c_interval", "interval", Some("interval"), &["1 year 2 mons 3 days 04:05:06.7", "-1 day"]),
    // `to_jsonb` forgets how a json is written, and that a null in it is not NULL.
    ("c_json", "json", Some("json"), &["{\"a\": [], \"b\": 1.0}", "\"x\"", "1.50"]),
    ("c_jsonb", "jsonb", Some("jsonb"), &["{\"b\": 1.0, \"a\": [\"ä\", null]}", "\"x\"", "12.50"]),
    ("c_texts", "text[]", Some("text[]"), &["{}", "{a,\"b c\",NULL,\"NULL\",\"\"}", "{x}"]),
    ("c_ints", "int4[]", Some("int4[]"), &["{1,NULL,-2}", "{}"]),
    ("c_inet", "inet", Some("inet"), &["10.0.0.1", "10.0.0.0/8", "::1"]),
    ("c_mood", "mood", None, &["happy", "so so"]),
];

/// What the rows are configured for.
const CONFIGURATIONS: [&str; 3] = [
    "timestamp = 'column'\ncolumns.timestamp = 'due'",
    "format = 'debezium'\ntimestamp = 'now'",
    "timestamp = 'now'\ncolumns.partition = 'c_int2'\nkey_format = 'json'",
];

/// A value of a column as a literal of SQL.
fn literal(column: Column, random: &mut StdRng) -> String {
    let (_, sql_type, _, values) = column;
    let text = match sql_type {
        _ if random.random_ratio(1, 6) => return "NULL".to_owned(),
        "int4" => random.random::<i32>().to_string(),
        "int8" => random.random::<i64>().to_string(),
        "numeric" if random.random() => {
            format!("{}.{:03}", random.random::<i64>(), random.random_range(0..1_000))
        }
        _ => (*values.choose(random).unwrap()).to_owned(),
    };
    format!("'{}'::{sql_type}", text.replace('\'', "''"))
}

async fn add_columns(fixture: &Fixture) {
    let columns = COLUMNS.map(|(name, sql_type, ..)| format!("ADD COLUMN {name} {sql_type}"));
    let session = fixture.session().await.unwrap();
    let sql = format!(
        "CREATE TYPE mood AS ENUM ('happy', 'so so'); CREATE DOMAIN moment AS timestamptz(0); \
         ALTER TABLE outbox ADD COLUMN due moment, {}",
        columns.join(", ")
    );
    session.batch_execute(&sql).await.unwrap();
}

/// Inserts random rows. Returns the id of each, and the row in JSON.
async fn insert_rows(fixture: &Fixture, random: &mut StdRng) -> Vec<(String, String)> {
    let session = fixture.session().await.unwrap();
    let names = COLUMNS.map(|(name, ..)| name).join(", ");
    let mut rows = Vec::new();
    for number in 0..ROWS {
        let values = COLUMNS.map(|column| literal(column, random)).join(", ");
        let headers = ["NULL", "'{\"tenant\": \"ä\"}'", "'[]'", "'{\"n\": 1}'"].choose(random);
        let sql = format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers, due, \
             {names}) VALUES ('{}', 'key-{number}', 'Made', '{{\"n\": 1.50}}', {}, now(), {values}) \
             RETURNING id::text, to_jsonb(outbox)::text",
            fixture.schema.types.first().unwrap(),
            headers.unwrap()
        );
        let row = session.query_one(&sql, &[]).await.unwrap();
        rows.push((row.get(0), row.get(1)));
    }
    rows
}

fn configure(fixture: &Fixture, settings: &str) {
    let headers = COLUMNS.map(|(name, ..)| format!("{{ name = '{name}', column = '{name}' }}"));
    // The last section of the file is that of the table.
    let more = format!("{settings}\nextra_headers = [{}]\n", headers.join(", "));
    fixture.router.set_config(&format!("{}\n{more}", fixture.config)).unwrap();
}

/// A line of the dry run as `explain` shows it, as far as both show it.
fn of_line(line: &Value) -> Value {
    if let Some(code) = line.pointer("/refused/code") {
        return json!({ "refused": code });
    }
    let mut shown = without_lsn(line.clone());
    let bytes = line["value"].as_str().map(str::len);
    shown.as_object_mut().unwrap().insert("value".into(), bytes.into());
    shown
}

fn of_answer(answer: &Value) -> Value {
    match answer.pointer("/refused/code") {
        Some(code) => json!({ "refused": code }),
        None => explained_record(answer),
    }
}

#[tokio::test]
async fn a_row_becomes_the_same_record_from_the_stream_from_a_query_and_from_json() {
    let given = std::env::var("OUTBOX_SEED").ok();
    let seed = given.map_or(1, |seed| seed.parse::<u64>().unwrap());
    let mut random = StdRng::seed_from_u64(seed);
    let fixture = Fixture::builder().prepare().await.unwrap();
    add_columns(&fixture).await;
    let rows = insert_rows(&fixture, &mut random).await;
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let mut types = vec!["--type=id=uuid".to_owned(), "--type=due=timestamptz(0)".to_owned()];
    let of_column =
        |(name, _, given, _): Column| given.map(|given| format!("--type={name}={given}"));
    types.extend(COLUMNS.into_iter().filter_map(of_column));
    let mut unexpected = Vec::new();
    for settings in CONFIGURATIONS {
        configure(&fixture, settings);
        let (_, lines, errors) = dry_run(&fixture, &[]).await;
        assert_eq!(lines.len(), rows.len(), "OUTBOX_SEED={seed}: {errors}");
        for ((id, json), line) in rows.iter().zip(&lines) {
            let from_json: Vec<&str> = ["--row", json.as_str(), "--partitions", "3"]
                .into_iter()
                .chain(types.iter().map(String::as_str))
                .collect();
            let from_table = ["--id", id.as_str(), "--admin-url", admin.as_str()];
            for arguments in [from_table.as_slice(), &from_json] {
                let (exit, answer, errors) = explain(&fixture, arguments).await;
                assert!(!answer.is_null(), "OUTBOX_SEED={seed}: {exit:?}: {errors}\n{json}");
                let (streamed, explained) = (of_line(line), of_answer(&answer));
                if streamed != explained {
                    let way = arguments[0];
                    unexpected.push(format!("{settings:?} {way}:\n{streamed}\n{explained}"));
                }
            }
        }
    }
    assert!(unexpected.is_empty(), "OUTBOX_SEED={seed}: {}", unexpected.join("\n"));
}
