//! `check` refuses what `run` would refuse before it connects, in the same words, and connects
//! nowhere itself.

use std::{ffi::OsString, io, net::TcpListener, path::Path, process::Output, time::Duration};

use outbox_router::{
    cli::{self, Audience, Cli, Command, Exit, Terminal},
    config::Environment,
};

/// How a command ended, and what it wrote.
struct CommandOutput {
    exit: Exit,
    out: String,
    err: String,
}

fn command_line(settings: &[&str]) -> Cli {
    let arguments = ["outbox-router", "--config", "/dev/null", "check"].map(str::to_owned);
    let settings = settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]);
    Cli::read(arguments.into_iter().chain(settings).map(OsString::from)).expect("a command line")
}

async fn execute(cli: &Cli, environment: &Environment) -> CommandOutput {
    let loaded = match cli::load_config(cli, environment) {
        Ok(loaded) => loaded,
        Err(errors) => {
            return CommandOutput {
                exit: Exit::Configuration,
                out: String::new(),
                err: errors.to_string(),
            };
        }
    };
    let Command::Task(task) = &cli.command else { panic!("not a task") };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut io::empty(),
        audience: Audience::Machine,
    };
    let exit = cli::execute(cli, task, &loaded, environment, &mut terminal).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    CommandOutput { exit, out: text(out), err: text(err) }
}

async fn check_in(environment: &Environment, settings: &[&str]) -> CommandOutput {
    execute(&command_line(settings), environment).await
}

/// With a connection string, unless the settings bring their own.
async fn check(settings: &[&str]) -> CommandOutput {
    let url = ["postgres.url=postgres://u@127.0.0.1/shop"];
    let settings: Vec<&str> = url.iter().chain(settings).copied().collect();
    check_in(&Environment::default(), &settings).await
}

#[track_caller]
fn assert_refused(output: &CommandOutput, what: &str) {
    assert_eq!(output.exit, Exit::Configuration, "{what}: {}{}", output.out, output.err);
    assert!(output.err.contains(what), "{what} is not in:\n{}", output.err);
    assert!(output.out.is_empty(), "what is refused is not called valid: {}", output.out);
}

#[tokio::test]
async fn a_property_that_weakens_a_guarantee_is_refused() {
    for (setting, what) in [
        ("kafka.properties.acks=1", "C010: kafka.properties.acks is refused: only records on all"),
        ("kafka.properties.enable.idempotence=false", "kafka.properties.enable.idempotence is"),
        ("kafka.properties.request.required.acks=0", "kafka.properties.request.required.acks is"),
        ("kafka.properties.bootstrap.servers=a:1", "set kafka.bootstrap_servers"),
        ("kafka.properties.statistics.interval.ms=10000", "is refused: set kafka.statistics"),
        ("kafka.statistics=100ms", "is not between 1s and 1h"),
        ("kafka.properties.message.max.bytes=1000000", "a row of limits.row_bytes needs"),
    ] {
        assert_refused(&check(&[setting]).await, what);
    }
}

#[tokio::test]
async fn a_property_that_librdkafka_does_not_know_or_take_is_refused() {
    for (setting, what) in [
        ("kafka.properties.lingre.ms=5", "C010: kafka.properties.lingre.ms is refused: No such"),
        ("kafka.properties.linger.ms=soon", "C010: kafka.properties.linger.ms is refused"),
        ("kafka.properties.compression.type=zip", "kafka.properties.compression.type is refused"),
        ("kafka.properties.batch.size=many", "kafka.properties.batch.size is refused"),
    ] {
        assert_refused(&check(&[setting]).await, what);
    }
}

#[tokio::test]
async fn what_becomes_of_an_event_that_cannot_be_delivered_is_one_of_two_words() {
    for class in ["bad_row", "unroutable", "too_large", "rejected"] {
        let output = check(&[&format!("on_error.{class}=dead_letter")]).await;
        assert_eq!(output.exit, Exit::Done, "{}", output.err);
        assert!(output.out.contains(&format!("{class} = \"dead_letter\"")), "{}", output.out);
        let setting = format!("on_error.{class}=skip");
        assert_refused(&check(&[&setting]).await, &format!("on_error.{class} \"skip\" is not a"));
    }
    assert_refused(&check(&["on_error.missing_topic=dead_letter"]).await, "there is no key");
}

#[tokio::test]
async fn a_limit_by_which_nothing_could_be_held_is_refused() {
    for (setting, what) in [
        ("dead_letters.max_keys=0", "dead_letters.max_keys \"0\" is not a whole number from 1 to"),
        ("dead_letters.max_events=0", "dead_letters.max_events \"0\" is not a whole number from 1"),
        ("dead_letters.max_bytes=0MiB", "dead_letters.max_bytes \"0MiB\" is not between 1MiB and"),
        ("dead_letters.max_bytes=5", "dead_letters.max_bytes \"5\" has no unit"),
        ("dead_letters.hold_key=no", "dead_letters.hold_key \"no\" is not true or false"),
    ] {
        assert_refused(&check(&[setting]).await, what);
    }
    let output = check(&["dead_letters.hold_key=false", "dead_letters.topic="]).await;
    assert_eq!(output.exit, Exit::Done, "{}", output.err);
    assert!(output.out.contains("hold_key = false"), "{}", output.out);
}

/// Beyond them, a router could not begin with what it holds.
#[tokio::test]
async fn limits_above_what_a_router_can_read_when_it_begins_are_refused_with_the_reason() {
    for (setting, what) in [
        ("dead_letters.max_keys=100001", "\"100001\" is not a whole number from 1 to 100000"),
        ("dead_letters.max_events=2000001", "\"2000001\" is not a whole number from 1 to 2000000"),
    ] {
        let output = check(&[setting]).await;
        assert_refused(&output, what);
        assert!(output.err.contains("hint: a router reads what is held"), "{}", output.err);
    }
    let most = check(&["dead_letters.max_keys=100000", "dead_letters.max_events=2000000"]).await;
    assert_eq!(most.exit, Exit::Done, "{}", most.err);
}

#[tokio::test]
async fn dead_letters_do_not_go_to_the_state_topic() {
    let what = "C008: dead_letters.topic is the kafka.state_topic (t)";
    let settings = ["dead_letters.topic=t", "kafka.state_topic=t"];
    assert_refused(&check(&settings).await, what);
    assert_refused(&check(&["dead_letters.topic=no topic"]).await, "is no topic name");
    let neither = check(&["dead_letters.topic=", "kafka.state_topic="]).await;
    assert_eq!(neither.exit, Exit::Done, "{}", neither.err);
}

#[tokio::test]
async fn every_property_that_is_refused_is_named_at_once_with_its_place() {
    let output = check(&["kafka.properties.acks=1", "kafka.properties.lingre.ms=5"]).await;
    assert_refused(&output, "set by --set kafka.properties.acks=…");
    assert_refused(&output, "set by --set kafka.properties.lingre.ms=…");
}

#[tokio::test]
async fn errors_in_several_places_are_reported_at_once() {
    let output = check(&[
        "kafka.properties.acks=1",
        "kafka.bootstrap_servers=SSL://kafka:9092",
        "kafka.properties.compression.codec=zip",
        "postgres.url=host=db.example user=u sslrootcert=/nowhere/root.pem",
        "admin.listen=192.0.2.1:8788",
    ])
    .await;
    for what in [
        "kafka.properties.acks is refused",
        "kafka.bootstrap_servers is refused",
        "kafka.properties.compression.codec is refused",
        "cannot read /nowhere/root.pem",
        "cannot listen on 192.0.2.1:8788",
    ] {
        assert_refused(&output, what);
    }
}

#[tokio::test]
async fn properties_that_only_a_client_refuses_are_refused() {
    let protocol = "kafka.properties.security.protocol=ssl";
    for (settings, what) in [
        (
            vec![protocol, "kafka.properties.ssl.ca.location=/nowhere/ca.pem"],
            "C011: kafka.properties.ssl.ca.location: librdkafka refuses it: ",
        ),
        (
            vec![
                protocol,
                "kafka.properties.ssl.certificate.location=/nowhere/certificate.pem",
                "kafka.properties.ssl.key.location=/nowhere/key.pem",
            ],
            "kafka.properties.ssl.certificate.location: librdkafka refuses it: ",
        ),
        (
            vec![
                "kafka.properties.security.protocol=sasl_ssl",
                "kafka.properties.sasl.mechanism=OAUTHBEARER",
            ],
            "sasl.mechanism is refused: OAUTHBEARER is not supported",
        ),
        (
            vec!["kafka.properties.security.protocol=sasl_ssl"],
            "security.protocol is refused: it asks for SASL, and no mechanism is named",
        ),
        // Only the client that reads the state topic refuses it.
        (vec!["kafka.properties.receive.message.max.bytes=1000000"], "fetch.max.bytes"),
    ] {
        assert_refused(&check(&settings).await, what);
    }
}

/// What only follows from a mechanism that is refused is not reported beside it.
#[tokio::test]
async fn oauthbearer_is_one_finding() {
    for mechanism in ["sasl.mechanism", "sasl.mechanisms"] {
        let output = check(&[
            "kafka.properties.security.protocol=SASL_SSL",
            &format!("kafka.properties.{mechanism}=OAUTHBEARER"),
            "kafka.properties.sasl.oauthbearer.method=oidc",
        ])
        .await;
        assert_refused(&output, "OAUTHBEARER is not supported");
        assert_eq!(output.err.matches("C010").count(), 1, "{}", output.err);
        assert!(!output.err.contains("no mechanism"), "{}", output.err);
    }
}

#[tokio::test]
async fn a_broker_that_no_client_would_contact_is_refused() {
    for (servers, what) in [
        ("kafka.bootstrap_servers=SSL://kafka:9092", "security.protocol"),
        ("kafka.bootstrap_servers=http://kafka:9092", "security.protocol"),
        ("kafka.bootstrap_servers=kafka:0", "is no list of brokers"),
        ("kafka.bootstrap_servers=kafka:99999", "is no list of brokers"),
    ] {
        assert_refused(&check(&[servers]).await, what);
    }
    let output = check(&["kafka.bootstrap_servers=PLAINTEXT://kafka:9092,other"]).await;
    assert_eq!(output.exit, Exit::Done, "{}", output.err);
}

#[tokio::test]
async fn a_connection_string_that_cannot_be_used_is_refused() {
    for (url, what) in [
        ("postgres://x@h:99999/db", "C006: postgres.url: connection parameter port must be"),
        ("postgres://x@h/db?sslmode=sometimes", "connection parameter sslmode must be"),
        (
            "postgres://x@h/db?target_session_attrs=standby",
            "connection parameter target_session_attrs must be any, read-write or primary",
        ),
        (
            "postgres://x@h/db?keepalives_idle=30",
            "C006: postgres.url: connection parameter keepalives_idle is not supported; leave it out",
        ),
        ("service=shop", "connection parameter service is not supported; write what"),
        ("postgres://x@h/db?nonsense=1", "\"nonsense\" is not supported; supported are host"),
        ("postgres://x@h1,h2/db", "several hosts are given"),
        ("nonsense", "neither a postgres:// URL nor"),
        ("postgres://h/db", "no user is given"),
        ("host=h user=u sslcert=/x", "connection parameter sslkey must be"),
    ] {
        let setting = format!("postgres.url={url}");
        let output = check(&[&setting]).await;
        assert_refused(&output, what);
        assert_refused(&output, "set by --set postgres.url=…");
    }
}

#[tokio::test]
async fn the_variables_of_libpq_are_read_as_run_reads_them() {
    let environment = |pairs: &[(&str, &str)]| {
        Environment::new(pairs.iter().map(|(name, value)| (name.into(), value.into())))
    };
    let output = check_in(&environment(&[("PGUSER", "u"), ("PGPORT", "many")]), &[]).await;
    assert_refused(&output, "C006: postgres.url: connection parameter port must be");
    let output = check_in(&environment(&[("PGUSER", "u"), ("PGSERVICE", "x")]), &[]).await;
    assert_refused(&output, "environment variable PGSERVICE is set but not supported");
    let output = check_in(&environment(&[]), &[]).await;
    assert_refused(&output, "no user is given");
    let output = check_in(&environment(&[("PGUSER", "u")]), &[]).await;
    assert_eq!(output.exit, Exit::Done, "{}", output.err);
}

#[tokio::test]
async fn a_tls_file_that_cannot_be_used_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "nothing here").unwrap();
    let empty = empty.display();
    for (parameters, what) in [
        ("sslrootcert=/nowhere/root.pem".to_owned(), "cannot read /nowhere/root.pem"),
        (format!("sslrootcert={empty}"), "contains no certificate"),
        (format!("sslmode=require sslcert={empty} sslkey=/x"), "contains no certificate"),
        ("sslmode=prefer sslcert=/nowhere/a sslkey=/x".to_owned(), "cannot read /nowhere/a"),
    ] {
        let setting = format!("postgres.url=host=db.example user=u {parameters}");
        let output = check(&[&setting]).await;
        assert_refused(&output, what);
        assert_refused(&output, "C011: postgres.url: ");
    }
    // As in libpq, sslmode says nothing about a unix socket.
    let setting = "postgres.url=host=/run user=u sslmode=verify-full sslrootcert=/nowhere/root.pem";
    assert_eq!(check(&[setting]).await.exit, Exit::Done);
}

#[tokio::test]
async fn a_socket_directory_that_no_socket_address_can_hold_is_refused() {
    let setting = format!("postgres.url=host=/{} user=u", "x".repeat(120));
    assert_refused(&check(&[&setting]).await, "C011: postgres.url: ");
}

#[tokio::test]
async fn an_admin_address_of_another_machine_is_refused() {
    // TEST-NET-1 (RFC 5737) is nobody's.
    let output = check(&["admin.listen=192.0.2.1:8788"]).await;
    assert_refused(&output, "C011: admin.listen: cannot listen on 192.0.2.1:8788: ");
    assert_refused(&output, "set by --set admin.listen=…");
}

#[tokio::test]
async fn an_admin_address_that_is_in_use_may_be_the_routers_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let setting = format!("admin.listen={}", listener.local_addr().unwrap());
    assert_eq!(check(&[&setting]).await.exit, Exit::Done);
}

#[tokio::test]
async fn an_outbox_that_no_table_can_serve_is_refused() {
    let output = check(&["outbox.0.topic=outbox-router.state"]).await;
    assert_refused(&output, "C008: outbox[0].topic is the kafka.state_topic");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f.toml");
    for (preset, columns, what) in [
        ("auto", "payload = []", "C008: outbox[0].columns leaves out payload"),
        ("debezium", "aggregate_id = []", "C008: outbox[0].columns leaves out aggregate_id"),
        ("default", "event_type = []", "C008: outbox[0].columns leaves out event_type"),
    ] {
        let text = format!("[[outbox]]\npreset = \"{preset}\"\ncolumns.{columns}\n");
        std::fs::write(&file, text).unwrap();
        assert_refused(&check_file(&file).await, what);
    }
    std::fs::write(&file, "[[outbox]]\nformat = \"debezium\"\ncolumns.event_type = []\n").unwrap();
    assert_eq!(check_file(&file).await.exit, Exit::Done);
}

async fn check_file(file: &Path) -> CommandOutput {
    let arguments = ["outbox-router", "check", "--config"].map(OsString::from);
    let url = ["--set", "postgres.url=postgres://u@127.0.0.1/shop"].map(OsString::from);
    let cli =
        Cli::read(arguments.into_iter().chain([file.into()]).chain(url)).expect("a command line");
    execute(&cli, &Environment::default()).await
}

#[tokio::test]
async fn a_message_quotes_no_secret() {
    for settings in [
        vec!["postgres.url=postgres://u:canary@h:99999/db"],
        vec!["kafka.properties.sasl.password=canary", "kafka.properties.acks=canary"],
        vec![
            "kafka.properties.ssl.key.pem=canary",
            "kafka.properties.security.protocol=ssl",
            "kafka.properties.ssl.key.password=canary",
        ],
    ] {
        let output = check(&settings).await;
        assert_eq!(output.exit, Exit::Configuration, "{}", output.out);
        assert!(!output.err.contains("canary"), "{}", output.err);
    }
}

/// Brokers and a server that count who comes: nobody does.
#[tokio::test]
async fn check_connects_nowhere() {
    let [postgres, kafka] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("postgres.url=postgres://u@{}/db", postgres.local_addr().unwrap());
    let servers = format!("kafka.bootstrap_servers={}", kafka.local_addr().unwrap());
    let output = check(&[&url, &servers]).await;
    assert_eq!(output.exit, Exit::Done, "{}", output.err);
    tokio::time::sleep(Duration::from_millis(300)).await;
    for listener in [postgres, kafka] {
        listener.set_nonblocking(true).unwrap();
        let refused = listener.accept().expect_err("nobody connects");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }
}

#[test]
fn run_ends_with_the_same_message_and_exit_code() {
    for settings in [
        ["postgres.url=postgres://u@h/db", "kafka.properties.acks=1"],
        ["postgres.url=postgres://u@h:99999/db", "kafka.properties.lingre.ms=1"],
        ["postgres.url=postgres://u@h/db", "kafka.bootstrap_servers=SSL://kafka:9092"],
    ] {
        let [first, second] = settings;
        let [run, check] = ["run", "check"].map(|command| run_binary(command, [first, second]));
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(78), "{told}");
        assert!(told.contains("is refused: "), "{told}");
        assert_eq!(run, check);
    }
}

/// The program's own output; `run` is ended where it is not refused.
fn run_binary(command: &str, settings: [&str; 2]) -> Output {
    let program = env!("CARGO_BIN_EXE_outbox-router");
    let [first, second] = settings;
    // timeout(1) sends SIGKILL, which no drain delays.
    std::process::Command::new("timeout")
        .env_clear()
        .args(["--signal=KILL", "20", program, "--config", "/dev/null", command])
        .args(["--set", first, "--set", second])
        .output()
        .expect("the program starts")
}

#[tokio::test]
async fn a_timestamp_column_that_is_not_read_is_refused() {
    let output = check(&["outbox.0.columns.timestamp=created_at"]).await;
    assert_refused(&output, "outbox[0].columns.timestamp names a column that is not read");
    let settings = ["outbox.0.columns.timestamp=created_at", "outbox.0.timestamp=column"];
    let output = check(&settings).await;
    assert_eq!(output.exit, Exit::Done, "{}", output.err);
}

#[tokio::test]
async fn retention_that_contradicts_itself_is_refused() {
    let outbox = "outbox.0.table=public.outbox";
    for (settings, what) in [
        (&["retention.mode=delete"][..], "retention.mode deletes rows, and no [[outbox]] is"),
        (
            &["retention.mode=delete", "retention.archive_table=public.old", outbox],
            "retention.archive_table is public.old, and retention.mode is not \"archive\"",
        ),
        (
            &["retention.mode=archive", "retention.archive_table=public.outbox", outbox],
            "retention.archive_table is the outbox public.outbox",
        ),
        (
            &[
                "retention.mode=archive",
                "retention.archive_table=public.old",
                outbox,
                "outbox.1.table=public.other",
            ],
            "retention.archive_table is public.old, and there are several [[outbox]]",
        ),
        (
            &["retention.mode=drop_partitions", "retention.partition_by=5s", outbox],
            "retention.partitions_ahead is 7 of 5s each, which is less than two retention.interval",
        ),
        (
            &["retention.partition_by=1500ms"],
            "retention.partition_by is 1500ms, which is no number of whole seconds",
        ),
        (&["retention.mode=drop"], "retention.mode \"drop\" is not a choice"),
        (&["retention.keep=7"], "retention.keep \"7\" has no unit"),
        (&["retention.batch=0"], "retention.batch \"0\" is not a whole number from 1"),
        (&["retention.url=postgres://u@h/d?sslmode=no"], "retention.url: "),
        (
            &["postgres.url=postgres://u@h/shop", "retention.url=postgres://u@h/mail"],
            "retention.url: it names the database mail, and postgres.url names shop",
        ),
    ] {
        assert_refused(&check(settings).await, what);
    }
    let deletes = ["retention.mode=delete", "retention.keep=0s", outbox];
    assert_eq!(check(&deletes).await.exit, Exit::Done);
    let drops = ["retention.mode=drop_partitions", "retention.partition_by=1h", outbox];
    assert_eq!(check(&drops).await.exit, Exit::Done);
    let archives = ["retention.mode=archive", "retention.archive_table=old.outbox", outbox];
    assert_eq!(check(&archives).await.exit, Exit::Done);
}
