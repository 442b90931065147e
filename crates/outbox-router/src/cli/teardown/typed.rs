//! The command that runs what was printed.

use crate::{
    cli::{Confirmation, OpenGaps, RecordPart, TeardownArgs, typed::in_comment},
    codes::ADMIN,
    shell_word::shell_word,
};

/// `teardown --apply` with the flags that were typed. A password may be in `--admin-url`.
pub(super) fn to_apply(args: &TeardownArgs) -> String {
    let role = args.role.as_ref().map(|role| format!("--role {}", shell_word(role)));
    let flags = [
        (args.confirmation == Confirmation::Yes).then_some("--yes"),
        (args.record == RecordPart::Skip).then_some("--skip-kafka"),
        (args.open == OpenGaps::Forget).then_some("--forget"),
        role.as_deref(),
        args.admin.admin_url.as_ref().map(|_| ADMIN),
    ];
    in_comment("outbox-router teardown --apply", flags.map(|flag| flag.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, Task};

    fn typed(flags: &[&str]) -> String {
        let line = ["outbox-router", "teardown"].iter().chain(flags);
        let Command::Task(Task::Teardown(args)) = Cli::read(line).unwrap().command else {
            panic!("{flags:?}")
        };
        to_apply(&args)
    }

    #[test]
    fn what_was_typed_is_typed_again_with_apply() {
        assert_eq!(typed(&[]), "outbox-router teardown --apply");
        for flags in [&["--yes", "--forget", "--role", "router"][..], &["--skip-kafka"]] {
            assert_eq!(typed(flags), format!("outbox-router teardown --apply {}", flags.join(" ")));
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let secret = ["--admin-url", "postgres://a:canary@b/c", "--set", "kafka.x=canary"];
        assert_eq!(typed(&secret), format!("outbox-router teardown --apply {ADMIN}"));
    }
}
