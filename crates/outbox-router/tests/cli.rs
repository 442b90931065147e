//! What may be typed, what the commands print that connect nowhere, and the exit codes that scripts
//! rely on.

use std::{ffi::OsString, io, time::Duration};

use clap::CommandFactory as _;
use outbox_router::{
    cli::{
        self, Audience, Cli, Command, Confirmation, DeadLetterTables, DeadLetters, Effect, Exit,
        ExitOnFatal, Extent, Form, MissingTable, Production, RecordPart, Repeat, Scope, SqlMode,
        Task, Terminal,
    },
    config::Environment,
};

fn read(line: &str) -> Result<Cli, clap::Error> {
    let arguments = ["outbox-router"].into_iter().chain(line.split_whitespace());
    Cli::read(arguments.map(OsString::from))
}

/// The output of a command that connects nowhere.
async fn output_of(line: &str) -> (Exit, String) {
    let cli = read(line).expect("a command line");
    let environment = Environment::default();
    let config = cli::load_config(&cli, &environment).expect("a configuration");
    let Command::Task(task) = &cli.command else { panic!("not a task") };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut io::empty(),
        audience: Audience::Machine,
    };
    let exit = cli::execute(&cli, task, &config, &environment, &mut terminal).await;
    assert!(err.is_empty());
    (exit, String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn a_code_is_explained_without_a_configuration() {
    let explained = |line: &str| {
        let cli = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Command::Explain(args) = &cli.command else { panic!("{line}") };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut terminal = Terminal {
            out: &mut out,
            err: &mut err,
            input: &mut io::empty(),
            audience: Audience::Machine,
        };
        let explanation = args.explanation.expect("a code");
        assert_eq!(cli::explain(explanation, &mut terminal), Exit::Done);
        String::from_utf8(out).expect("UTF-8")
    };
    let missing = explained("explain k010");
    assert!(
        missing.starts_with("K010: a topic does not exist (transport)\n\nThe router never"),
        "{missing}"
    );
    let command =
        "\nWhat to type:\n      kafka-topics.sh --bootstrap-server HOST:PORT --create --topic";
    assert!(missing.contains(command), "{missing}");
    assert!(missing.contains("\nIf it is the state topic:\n      kafka-topics.sh "), "{missing}");
    let gap = explained("explain P010@0/16B3748");
    assert!(gap.contains("\n      outbox-router recover "), "{gap}");
    assert!(gap.contains("\n      outbox-router accept\n  gives them up\n"), "{gap}");
    assert!(explained("explain C003").starts_with("C003: there is no key of that name\n"));
    assert!(
        explained("explain P009")
            .contains("\nIf the router's own process did not run for a while:\n")
    );
    let unknown = read("explain P099").unwrap_err().to_string();
    assert!(unknown.contains("no such code; there are P001 P002 "), "{unknown}");
}

#[test]
fn run_stays_up_by_default() {
    for (line, expected) in [("run", ExitOnFatal::Stay), ("run --exit-on-fatal", ExitOnFatal::Exit)]
    {
        let Command::Run(args) = read(line).unwrap().command else { panic!("{line}") };
        assert_eq!((args.exit_on_fatal, args.dry_run.production), (expected, Production::Real));
    }
}

#[test]
fn a_dry_run_is_asked_for_and_alone_takes_a_number_of_records_and_a_form() {
    let Command::Run(args) = read("run --dry-run --records 3 --json").unwrap().command else {
        panic!("not run")
    };
    let args = args.dry_run;
    assert_eq!((args.production, args.form), (Production::Dry, Form::Json));
    assert_eq!(args.records.map(u64::from), Some(3));
    for line in ["run --records 3", "run --json", "run --dry-run --records 0"] {
        assert_eq!(read(line).unwrap_err().exit_code(), 2, "{line}");
    }
    assert_eq!(read("run --dry-run --exit-on-fatal").unwrap_err().exit_code(), 2);
}

#[test]
fn where_takes_an_id_or_a_key_or_an_id_with_its_key() {
    let sought = |line| {
        let Command::Task(Task::Where(args)) = read(line).unwrap().command else {
            panic!("{line}")
        };
        args
    };
    let args = sought("where 7");
    assert_eq!((args.id.as_deref(), args.key, args.limit), (Some("7"), None, 10));
    assert_eq!((args.form, args.timeout), (Form::Text, Duration::from_secs(60)));
    let args = sought("where --key order-7 --limit 1000 --json");
    assert_eq!((args.id, args.key.as_deref(), args.limit), (None, Some("order-7"), 1_000));
    let args = sought("where 7 --key order-7 --since 2h --table sales.outbox");
    assert!(args.id.is_some() && args.key.is_some() && args.since.is_some());
    for line in
        ["where", "where --limit 3", "where 7 --limit 3", "where --key a --limit 0", "where 7 8"]
    {
        assert_eq!(read(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn setup_prints_unless_apply_is_given() {
    let setup = |line| {
        let Command::Task(Task::Setup(args)) = read(line).unwrap().command else {
            panic!("{line}")
        };
        args
    };
    let args = setup("setup");
    assert_eq!(args.record, RecordPart::Include);
    assert_eq!(setup("setup --skip-kafka").record, RecordPart::Skip);
    assert_eq!((args.write, args.table), (SqlMode::Print, MissingTable::Expect));
    assert_eq!(args.dead_letters, DeadLetterTables::Skip);
    assert_eq!(setup("setup --dead-letters").dead_letters, DeadLetterTables::Make);
    assert_eq!((args.role, args.wait), (None, Duration::from_secs(60)));
    let args = setup("setup --apply --create-table --role r --wait 2m --admin-url canary");
    assert_eq!((args.write, args.table), (SqlMode::Apply, MissingTable::Create));
    assert_eq!((args.role.as_deref(), args.wait), (Some("r"), Duration::from_secs(120)));
    assert!(!format!("{args:?}").contains("canary"));
}

#[test]
fn teardown_asks_for_confirmation_by_default() {
    let Command::Task(Task::Teardown(args)) = read("teardown --apply").unwrap().command else {
        panic!("not teardown")
    };
    assert_eq!((args.write, args.confirmation), (SqlMode::Apply, Confirmation::Ask));
}

#[test]
fn accept_takes_everything_unless_something_is_named_and_asks_for_confirmation() {
    let accept = |line| {
        let Command::Task(Task::Accept(args)) = read(line).unwrap().command else {
            panic!("{line}")
        };
        args
    };
    let args = accept("accept");
    assert_eq!((args.gaps, args.by, args.confirmation), (vec![], None, Confirmation::Ask));
    let args = accept("accept --gap p010@0/16b3748 --gap K022@0/1 --by ann --yes");
    let names: Vec<String> = args.gaps.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["P010@0/16B3748", "K022@0/1"]);
    assert_eq!((args.by.as_deref(), args.confirmation), (Some("ann"), Confirmation::Yes));
}

#[test]
fn dead_letters_are_decided_about_when_they_are_selected_and_after_asking() {
    for (line, scope, confirmation, effect) in [
        ("requeue --all", Scope::All, Confirmation::Ask, Effect::Real),
        ("drop --key a --id 7 --yes", Scope::Selected, Confirmation::Yes, Effect::Real),
        ("requeue --key-hex ff --dry-run", Scope::Selected, Confirmation::Ask, Effect::Dry),
        ("drop --since 2h", Scope::Selected, Confirmation::Ask, Effect::Real),
        ("drop --code R003", Scope::Selected, Confirmation::Ask, Effect::Real),
    ] {
        let command = read(&format!("dead-letters {line}")).unwrap().command;
        let Command::Task(Task::DeadLetters(command)) = command else { panic!("{line}") };
        let args = match command {
            DeadLetters::Requeue(args) => args,
            DeadLetters::Drop(args) => {
                assert_eq!(args.extent, Extent::Letters, "{line}");
                args.decide
            }
            DeadLetters::List(_) | DeadLetters::Show(_) | DeadLetters::Adopt(_) => panic!("{line}"),
        };
        let decision = &args.decision;
        let found = (args.scope, decision.how.confirmation, decision.how.effect);
        assert_eq!(found, (scope, confirmation, effect));
    }
}

#[test]
fn rows_of_another_cluster_are_adopted_after_asking() {
    let adopt = |flags: &str| {
        let command = read(&format!("dead-letters adopt {flags}")).unwrap().command;
        let Command::Task(Task::DeadLetters(DeadLetters::Adopt(args))) = command else {
            panic!("{flags}")
        };
        (args.confirmation, args.effect)
    };
    assert_eq!(adopt(""), (Confirmation::Ask, Effect::Real));
    assert_eq!(adopt("--yes"), (Confirmation::Yes, Effect::Real));
    assert_eq!(adopt("--dry-run"), (Confirmation::Ask, Effect::Dry));
}

#[test]
fn one_row_is_skipped_by_its_position_and_its_id_if_it_has_one() {
    for (line, id, reason) in [
        ("--lsn 0/16b3748 --id 7 --yes --by ann --reason test", Some("7"), Some("test")),
        ("--lsn 0/16B3748 --id=--all --yes --by ann", Some("--all"), None),
        ("--lsn 0/16B3748 --yes --by ann", None, None),
    ] {
        let Command::Task(Task::Skip(args)) = read(&format!("skip {line}")).unwrap().command else {
            panic!("{line}")
        };
        assert_eq!((args.lsn.to_string().as_str(), args.id.as_deref()), ("0/16B3748", id));
        let decision = &args.decision;
        assert_eq!((decision.reason.as_deref(), decision.how.by.as_deref()), (reason, Some("ann")));
        assert_eq!(
            (decision.how.confirmation, decision.how.effect),
            (Confirmation::Yes, Effect::Real)
        );
        assert_eq!(decision.form, Form::Text);
    }
}

#[test]
fn status_is_text_and_printed_once_by_default() {
    for (line, form, repeat) in
        [("status", Form::Text, Repeat::Once), ("status --json --watch", Form::Json, Repeat::Watch)]
    {
        let Command::Task(Task::Status(args)) = read(line).unwrap().command else {
            panic!("{line}")
        };
        assert_eq!((args.form, args.repeat), (form, repeat));
    }
}

#[test]
fn wrong_usage_ends_with_code_two() {
    for line in [
        "",
        "fly",
        "setup --wait 5",
        "setup --apply yes",
        "status --yaml",
        "accept --gap P010",
        "accept --gap P999@0/1",
        "accept --gap P010@one",
        "accept --by  --yes",
        "dead-letters",
        "dead-letters show",
        "dead-letters requeue",
        "dead-letters drop --yes --reason x",
        "dead-letters drop --all --key a",
        "dead-letters requeue --all --since 2h",
        "dead-letters list --key-hex f",
        "dead-letters list --code R999",
        "dead-letters list --yes",
        "skip",
        "skip --id 7",
        "skip --lsn 16B3748 --id 7",
        "skip --lsn 0/1 --id",
        "skip --lsn 0/1 --lsn 0/2",
        "skip --lsn 0/1 --id 7 --id 8",
        "skip --lsn 0/1 --all",
    ] {
        assert_eq!(read(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn the_version_names_librdkafka_too() {
    let told = read("--version").unwrap_err();
    assert_eq!(told.exit_code(), 0);
    let text = told.to_string();
    let (own, librdkafka) = text.trim().split_once(" (librdkafka ").unwrap();
    assert_eq!(own, format!("outbox-router {}", env!("CARGO_PKG_VERSION")));
    assert!(librdkafka.starts_with(|c: char| c.is_ascii_digit()), "{text}");
}

#[test]
fn every_command_has_an_example_in_its_help() {
    for command in Cli::command().get_subcommands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let name = command.get_name();
        assert!(help.contains(&format!("outbox-router {name}")), "{name}");
    }
}

#[test]
fn exit_codes_are_the_documented_ones() {
    let all = [
        Exit::Done,
        Exit::Failure,
        Exit::Usage,
        Exit::Bug,
        Exit::Unconfirmed,
        Exit::Configuration,
        Exit::PersonNeeded,
    ];
    assert_eq!(all.map(Exit::code), [0, 1, 2, 70, 75, 78, 79]);
}

#[test]
fn the_file_is_named_by_flag_before_environment() {
    let environment = Environment::new([("OUTBOX_ROUTER_CONFIG".into(), "/b.toml".into())]);
    let file = |line: &str| cli::config_file(&read(line).unwrap(), &environment).unwrap();
    assert_eq!(file("check --config /a.toml").to_str(), Some("/a.toml"));
    assert_eq!(file("check").to_str(), Some("/b.toml"));
}

#[test]
fn keys_set_before_and_after_the_command_count_alike() {
    let cli = read("--set a=1 --set b=1 check --set b=2").unwrap();
    assert_eq!(cli.flags(), ["a=1", "b=1", "b=2"]);
}

#[tokio::test]
async fn check_shows_the_whole_configuration_without_secrets() {
    let (exit, out) =
        output_of("check --set postgres.url=postgres://u:canary@h/db --set name=shop").await;
    assert_eq!(exit, Exit::Done);
    assert!(out.contains("name = \"shop\""));
    assert!(out.contains("url = \"postgres://u:***@h/db\""));
    assert!(out.contains("window_events = 20000"));
    assert!(!out.contains("canary"));
}

#[tokio::test]
async fn setup_prints_the_sql_in_the_order_that_matters() {
    let (exit, out) = output_of(
        "setup --create-table --role router --set postgres.url=postgres://u@h/shop \
         --set outbox.0.table=sales.outbox --set postgres.slot=s --set postgres.publication=p",
    )
    .await;
    assert_eq!(exit, Exit::Done);
    let statements = [
        "create table \"sales\".\"outbox\" (",
        "create role \"router\" login replication;",
        "grant connect on database \"shop\" to \"router\";",
        "create publication \"p\" for table \"sales\".\"outbox\" with (publish = 'insert', publish_via_partition_root = true);",
        "pg_create_logical_replication_slot('s', 'pgoutput');",
        "-- kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --create --topic outbox-router.state \
         --partitions 1 --config cleanup.policy=compact",
    ];
    let places: Vec<_> = statements.iter().map(|text| out.find(text).expect(text)).collect();
    assert!(places.is_sorted(), "{out}");
}

#[tokio::test]
async fn setup_prints_the_tables_of_dead_letters_with_the_grants_of_the_routers_role() {
    let line = "setup --dead-letters --set postgres.url=postgres://own@h/shop";
    for (role, granted) in [("", "own"), (" --role other", "other")] {
        let (exit, out) = output_of(&format!("{line}{role}")).await;
        assert_eq!(exit, Exit::Done);
        let grant = format!(
            "grant select, insert, update on table \"outbox_router\".\"held\", \
             \"outbox_router\".\"held_version\" to \"{granted}\";"
        );
        let statements = [
            "create schema if not exists \"outbox_router\";",
            grant.as_str(),
            "create publication",
        ];
        let places: Vec<_> = statements.iter().map(|text| out.find(text).expect(text)).collect();
        assert!(places.is_sorted(), "{out}");
    }
    let (_, out) = output_of("setup --set postgres.url=postgres://own@h/shop").await;
    assert!(!out.contains("outbox_router\".\"held"), "{out}");
}

#[tokio::test]
async fn teardown_prints_the_sql() {
    let (exit, out) =
        output_of("teardown --set postgres.slot=s --set postgres.publication=p").await;
    assert_eq!(exit, Exit::Done);
    let slot = out.find("select pg_drop_replication_slot('s');").unwrap();
    assert!(slot < out.find("drop publication \"p\";").unwrap());
    let (_, out) = output_of("teardown --role r --yes").await;
    let apply = "\n-- to run it: outbox-router teardown --apply --yes --role r\n";
    assert!(out.ends_with(apply), "{out}");
}

#[tokio::test]
async fn setup_says_of_which_flags_the_stream_makes_no_use() {
    let (exit, out) = output_of("setup --dead-letters --notify").await;
    assert_eq!(exit, Exit::Done);
    for note in ["-- note: no class of [on_error] is", "-- note: --notify makes no trigger, since"]
    {
        assert!(out.contains(note), "{out}");
    }
    let (_, out) = output_of("setup").await;
    assert!(!out.contains("note:"), "{out}");
}

/// In another directory every key has its default, and what fails then misleads.
#[test]
fn where_no_configuration_is_found_it_is_said_where_it_was_looked_for() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_outbox-router"));
        command.current_dir(directory.path()).env_clear().envs(variables.iter().copied());
        String::from_utf8(command.args(arguments).output().unwrap().stderr).unwrap()
    };
    let note = "note: no configuration file was found at ./outbox-router.toml and \
                /etc/outbox-router/outbox-router.toml";
    for command in ["check", "alerts"] {
        assert!(run(&[command], &[]).starts_with(note), "{command}");
    }
    let set = [("OUTBOX_ROUTER__NAME", "shop")];
    assert!(!run(&["check"], &set).contains("no configuration file"));
    assert!(!run(&["check", "--set", "name=shop"], &[]).contains("no configuration file"));
    assert!(!run(&["explain", "K010"], &[]).contains("no configuration file"));
    std::fs::write(directory.path().join("outbox-router.toml"), "name = \"shop\"").unwrap();
    assert!(!run(&["check"], &[]).contains("no configuration file"));
}
