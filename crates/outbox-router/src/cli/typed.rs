//! A command that is shown in a comment, with the flags that were typed.

/// The command with these flags, in one line, since a second one would be no part of the comment.
/// Whoever names the flags leaves out `--config` and `--set`, as in every command that is shown,
/// and what may have a password in it.
pub(super) fn in_comment(command: &str, flags: impl IntoIterator<Item = Option<String>>) -> String {
    let line: Vec<String> =
        std::iter::once(command.to_owned()).chain(flags.into_iter().flatten()).collect();
    line.join(" ").replace(['\n', '\r'], " ")
}
