//! What `outbox-router alerts` prints.

use std::{ffi::OsString, io};

use outbox_router::{
    alerts::{DEFAULT_RUNBOOK, Form, Pace, Rules, Scope},
    cli::{self, Audience, Cli, Command, Exit, Terminal},
    config::Environment,
};

use super::{rules, shop};

/// The output of the command for the pipeline `shop` with the slot `s`.
async fn printed(flags: &[&str]) -> String {
    let line = ["outbox-router", "--config", "/dev/null", "alerts", "--set", "name=shop"];
    let line = line.iter().chain(&["--set", "postgres.slot=s"]).chain(flags);
    let cli = Cli::read(line.map(OsString::from)).unwrap();
    let environment = Environment::default();
    let loaded = cli::load_config(&cli, &environment).unwrap();
    let Command::Task(task) = &cli.command else { panic!("not a task") };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut io::empty(),
        audience: Audience::Machine,
    };
    let exit = cli::execute(&cli, task, &loaded, &environment, &mut terminal).await;
    assert_eq!(exit, Exit::Done, "{}", String::from_utf8_lossy(&err));
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn the_rules_of_the_configured_pipeline_are_printed() {
    assert_eq!(printed(&[]).await, rules(&shop()).print(Form::Prometheus));
    assert_eq!(printed(&["--format", "kubernetes"]).await, rules(&shop()).print(Form::Kubernetes));
}

#[tokio::test]
async fn the_rules_of_every_pipeline_are_those_of_the_file() {
    let file = include_str!("../../../../config/alerts/outbox-router.rules.yml");
    let printed = printed(&["--every-pipeline"]).await;
    assert!(file.ends_with(&printed), "{printed}");
}

#[tokio::test]
async fn the_base_of_the_runbook_and_the_pace_are_as_typed() {
    let flags = ["--runbook-base", "https://wiki.example/outbox", "--faster", "4"];
    let fast = Rules {
        scope: &shop(),
        pace: Pace::faster(4.try_into().unwrap()),
        runbook: "https://wiki.example/outbox/",
    };
    let text = printed(&flags).await;
    assert_eq!(text, fast.print(Form::Prometheus));
    assert!(text.contains("runbook_url: https://wiki.example/outbox/OutboxSlotLost.md"), "{text}");
    assert!(!text.contains(DEFAULT_RUNBOOK), "{text}");
    assert!(text.contains("for: 30s") && !text.contains("for: 2m\n"), "{text}");
    let shipped = rules(&Scope::Every).print(Form::Prometheus);
    assert!(shipped.contains("for: 2m\n"), "{shipped}");
}
