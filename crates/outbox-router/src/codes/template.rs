//! Fills the names of a failure into the text of a remedy.

use relay::{Name, Names, PRESETS, Role, source::publication::statements};

use super::hint::Hint;

/// Stands for the command by which a person accepts a gap.
const ACCEPT: &str = "accept";
/// Stands for the roles that a column may be mapped to.
const ROLES: &str = "roles";

/// Where to connect for what the router's role may not do.
pub const ADMIN: &str = "--admin-url postgres://ADMIN@HOST:PORT/DATABASE";

/// What sends again every row that the tables have.
pub const REPLAY_ALL: &str =
    "outbox-router replay --all --admin-url postgres://ADMIN@HOST:PORT/DATABASE";

/// What several remedies contain, by its placeholder.
const SHARED: [(&str, &str); 10] = [
    ("admin", ADMIN),
    (
        "make_room",
        "`outbox-router dead-letters list` shows what is held and why; when its cause is removed, \
         `outbox-router dead-letters requeue --code CODE --admin-url \
         postgres://ADMIN@HOST:PORT/DATABASE`, or drop in the place of requeue, makes room",
    ),
    (
        "recover",
        "`outbox-router recover --admin-url postgres://ADMIN@HOST:PORT/DATABASE` sends the \
         missing rows and closes the gap (docs/recover.md)",
    ),
    ("replay", REPLAY_ALL),
    (
        "replay_rows",
        "`outbox-router replay --where SQL --admin-url postgres://ADMIN@HOST:PORT/DATABASE` \
         (docs/replay.md)",
    ),
    (
        "refusing",
        "change or drop what refuses it: `alter table {quoted_table} drop constraint NAME`, or \
         `alter table {quoted_table} disable trigger NAME`; or let outbox.mark name words that the \
         table permits, and restart the router",
    ),
    ("rewrite", "insert the missing rows again (docs/recover.md, \"By hand\")"),
    ("setup", "outbox-router setup --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE"),
    ("teardown", "outbox-router teardown --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE"),
    (
        "undoing",
        "find the rule or the trigger: `select tgname from pg_trigger where tgrelid = \
         '{quoted_table}'::regclass and not tgisinternal` names the triggers of the table, `select \
         rulename from pg_rewrite where ev_class = '{quoted_table}'::regclass` its rules (in psql \
         \\d shows both; a partition may have its own); drop it, let it leave the columns of the \
         marks alone, or `alter table {quoted_table} disable trigger NAME`",
    ),
];

fn shared(name: &str) -> Option<&'static str> {
    SHARED.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}

/// A piece of a text.
enum Piece<'t> {
    Text(&'t str),
    Placeholder(&'t str),
}

/// Placeholders that stand for a command, or for statements, as a whole.
const COMMANDS: [&str; 9] = [
    ACCEPT,
    "setup",
    "teardown",
    "replay",
    Name::AddTables.as_str(),
    Name::AddAgain.as_str(),
    Name::RenameBack.as_str(),
    Name::Statements.as_str(),
    Name::EndTransactions.as_str(),
];

/// The hint that a text makes, with every `{name}` replaced. A name that the failure does not have
/// is replaced by a word for the reader to replace, as in `--topic TOPIC`. Commands stand between
/// backticks in the text, or are a placeholder of [`COMMANDS`].
pub(super) fn fill(text: &str, names: &Names, gap: Option<&str>) -> Hint {
    let mut filling = Filling { names, gap, hint: Hint::default(), command: None };
    filling.add(text);
    filling.hint
}

struct Filling<'f> {
    names: &'f Names,
    gap: Option<&'f str>,
    hint: Hint,
    /// The command that has begun.
    command: Option<String>,
}

impl Filling<'_> {
    fn add(&mut self, text: &str) {
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => {
                    for (nth, text) in text.split('`').enumerate() {
                        if nth > 0 {
                            self.mark();
                        }
                        self.push(text);
                    }
                }
                Piece::Placeholder(name) if COMMANDS.contains(&name) && self.command.is_none() => {
                    let command = self.value(name);
                    self.hint.push_command(&command);
                }
                Piece::Placeholder(name)
                    if let Some(text) = shared(name).filter(|text| text.contains('`')) =>
                {
                    self.add(text);
                }
                Piece::Placeholder(name) => {
                    let value = self.value(name);
                    self.push(&value);
                }
            }
        }
    }

    /// A command begins or ends.
    fn mark(&mut self) {
        match self.command.take() {
            Some(command) => self.hint.push_command(&command),
            None => self.command = Some(String::new()),
        }
    }

    fn push(&mut self, text: &str) {
        match &mut self.command {
            Some(command) => command.push_str(text),
            None => self.hint.push_text(text),
        }
    }

    fn value(&self, name: &str) -> String {
        match name {
            ACCEPT => accept(self.gap),
            ROLES => roles(),
            name if let Some(text) = shared(name) => text.to_owned(),
            name => {
                let value = Name::parse(name).and_then(|name| self.names.get(name));
                value.map_or_else(|| unknown(name), str::to_owned)
            }
        }
    }
}

fn accept(gap: Option<&str>) -> String {
    let gap = gap.map(|gap| format!(" --gap {gap}")).unwrap_or_default();
    format!("outbox-router accept{gap}")
}

fn roles() -> String {
    let [first @ .., last] = Role::ALL.map(Role::as_str);
    format!("{} and {last}", first.join(", "))
}

fn unknown(name: &str) -> String {
    match Name::parse(name) {
        Some(Name::Brokers) => "HOST:PORT".to_owned(),
        Some(Name::ReplicationFactor) => "N".to_owned(),
        Some(Name::ReplicationOption | Name::TypedFlags) => String::new(),
        Some(Name::GiveUp) => " --give-up TABLE".to_owned(),
        Some(Name::AddTables) => statements::add_placeholder(),
        Some(Name::AddAgain) => statements::add_again_placeholder(),
        Some(Name::RenameBack) => "alter table NEW_NAME rename to OLD_NAME".to_owned(),
        Some(Name::EndTransactions) => "select pg_terminate_backend(PID)".to_owned(),
        Some(Name::RowId) => "ID".to_owned(),
        Some(Name::QuotedTable) => "TABLE".to_owned(),
        Some(Name::Presets) => PRESETS.map(|preset| preset.name).join(" or "),
        Some(_) | None => name.to_ascii_uppercase(),
    }
}

/// Splits a text at `{` followed by a name and `}`. Other braces are text, as in JSON.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = placeholder(rest) {
            rest = after;
            return Some(Piece::Placeholder(name));
        }
        let skip = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[skip..]
            .match_indices('{')
            .map(|(at, _)| at + skip)
            .find(|at| placeholder(&rest[*at..]).is_some())
            .unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Piece::Text(text))
    })
}

fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix('{')?.split_once('}')?;
    let is_known =
        [ACCEPT, ROLES].contains(&name) || shared(name).is_some() || Name::parse(name).is_some();
    is_known.then_some((name, after))
}
