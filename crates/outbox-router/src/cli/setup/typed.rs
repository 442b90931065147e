//! The command that runs what was printed.

use std::time::Duration;

use clap::ValueEnum;

use super::{BackfillArgs, OlderRows, SetupArgs, TableForm};
use crate::{
    cli::{
        BadRow, DeadLetterTables, DroppedSlot, MissingTable, RecordPart, flags::NotifyTrigger,
        typed::in_comment,
    },
    codes::ADMIN,
    config::print_duration,
    shell_word::shell_word,
};

/// What `--wait` is where nobody types it.
const WAIT: Duration = Duration::from_secs(60);

/// `setup --apply` with the flags that were typed. A password may be in `--admin-url`.
pub(super) fn to_apply(args: &SetupArgs) -> String {
    let BackfillArgs { rows, condition, rate, dropped, bad } = &args.backfill;
    let flags = [
        (args.table == MissingTable::Create).then_some("--create-table"),
        (args.table_form == TableForm::Partitioned).then_some("--partitioned"),
        (args.dead_letters == DeadLetterTables::Make).then_some("--dead-letters"),
        (args.notify == NotifyTrigger::Make).then_some("--notify"),
        (args.record == RecordPart::Skip).then_some("--skip-kafka"),
        (*rows == OlderRows::Send).then_some("--backfill"),
        (*dropped == DroppedSlot::Any).then_some("--drop-slot"),
        (*bad == BadRow::Skip).then_some("--skip-bad"),
        args.admin.admin_url.as_ref().map(|_| ADMIN),
    ];
    let managed = args.managed.and_then(|hoster| hoster.to_possible_value());
    let with_values = [
        args.role.as_ref().map(|role| format!("--role {}", shell_word(role))),
        managed.map(|hoster| format!("--managed {}", hoster.get_name())),
        (args.wait != WAIT).then(|| format!("--wait {}", print_duration(args.wait))),
        condition.as_ref().map(|condition| format!("--where {}", shell_word(condition))),
        rate.map(|rate| format!("--rate {rate}")),
    ];
    let flags = flags.map(|flag| flag.map(str::to_owned));
    in_comment("outbox-router setup --apply", flags.into_iter().chain(with_values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, Task};

    fn typed(flags: &[&str]) -> String {
        let line = ["outbox-router", "setup"].iter().chain(flags);
        let Command::Task(Task::Setup(args)) = Cli::read(line).unwrap().command else {
            panic!("{flags:?}")
        };
        to_apply(&args)
    }

    #[test]
    fn what_was_typed_is_typed_again_with_apply() {
        assert_eq!(typed(&[]), "outbox-router setup --apply");
        for flags in [
            &["--create-table", "--role", "router"][..],
            &["--create-table", "--partitioned", "--dead-letters", "--notify", "--skip-kafka"],
            &["--role", "router", "--managed", "rds", "--wait", "2m"],
        ] {
            let expected = format!("outbox-router setup --apply {}", flags.join(" "));
            assert_eq!(typed(flags), expected);
        }
        let backfill =
            ["--apply", "--backfill", "--skip-bad", "--where", "a is\nnull", "--rate", "5"];
        let expected =
            "outbox-router setup --apply --backfill --skip-bad --where 'a is null' --rate 5";
        assert_eq!(typed(&backfill), expected);
    }

    #[test]
    fn a_password_is_not_printed() {
        let secret = ["--admin-url", "postgres://a:canary@b/c", "--set", "kafka.x=canary"];
        assert_eq!(typed(&secret), format!("outbox-router setup --apply {ADMIN}"));
    }
}
