//! What every transaction begins with. Nothing of a session outlives it, because behind a pooler
//! each transaction may run in another one; so names of tables are qualified, and the settings that
//! a statement relies on are set in its own transaction.

use super::literals::literal;
use crate::postgres::{Lasting, Strangers, VALUE_FORMS, refuse_views};

/// What a transaction may do. A standby refuses to begin one that writes, so that pending rows are
/// never read where marks arrive late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    ReadWrite,
}

/// Whether the way through a table is prescribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ways {
    /// The server chooses.
    Any,
    /// Through indexes alone, whatever the server knows of the table's size.
    Indexes,
}

/// How long one statement may run on the server: one that is given up ends by itself.
const STATEMENT_LIMIT: &str = "60s";

/// How long a statement waits for a lock, such as that of a migration.
const LOCK_LIMIT: &str = "10s";

/// How long the server waits for a worker that reads no answer, with the rows that it has locked:
/// one that is frozen. Over a Unix-domain socket, and on a system without TCP_USER_TIMEOUT, it
/// waits as long as that lasts.
const UNREAD: (&str, &str) = ("tcp_user_timeout", "10s");

/// A policy that hides rows from this role ends the statement instead: a hidden row would never be
/// published. To compile statements of small, known shape takes longer than to run them.
const PLAIN: [(&str, &str); 5] = [
    ("row_security", "off"),
    ("search_path", "pg_catalog"),
    ("statement_timeout", STATEMENT_LIMIT),
    ("lock_timeout", LOCK_LIMIT),
    ("jit", "off"),
];

/// A queue's statistics are wrong most of the time: it was empty when it was analysed, or full. The
/// keys that wait are looked up in memory, however many the server takes them for.
const INDEXES: [(&str, &str); 6] = [
    ("work_mem", "64MB"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_sort", "off"),
];

/// A mark that is committed must outlive a crash, or more rows are published again than one batch
/// has; a lease must, or two workers have one key. A stricter setting of the server stays.
fn durable(lasting: Lasting) -> String {
    let setting = "pg_catalog.current_setting('synchronous_commit')";
    format!(
        "pg_catalog.set_config('synchronous_commit', \
         case {setting} when 'off' then 'local' else {setting} end, {})",
        lasting.is_local()
    )
}

/// How many statements [`begin`] has: the answers of what follows it come behind theirs.
pub(super) const BEGINS: usize = 2;

/// The statements that begin a transaction.
pub(super) fn begin(access: Access, ways: Ways) -> String {
    begin_with(access, ways, &[], Strangers::None)
}

/// The same, of one on a table that `strangers` may replace.
pub(super) fn begin_on(access: Access, ways: Ways, strangers: Strangers) -> String {
    begin_with(access, ways, &[], strangers)
}

/// The same, of one that locks rows which it then returns.
pub(super) fn begin_claiming(ways: Ways, strangers: Strangers) -> String {
    begin_with(Access::ReadWrite, ways, &[UNREAD], strangers)
}

fn begin_with(access: Access, ways: Ways, more: &[(&str, &str)], strangers: Strangers) -> String {
    let (access, durable) = match access {
        Access::ReadOnly => ("read only", None),
        Access::ReadWrite => ("read write", Some(durable(Lasting::Transaction))),
    };
    let ways = match ways {
        Ways::Any => &[][..],
        Ways::Indexes => &INDEXES,
    };
    let settings =
        settings(PLAIN.iter().chain(&VALUE_FORMS).chain(ways).chain(more), Lasting::Transaction);
    let views = (strangers == Strangers::Some).then(|| refuse_views(Lasting::Transaction));
    let settings: Vec<String> = settings.chain(durable).chain(views).collect();
    format!("begin isolation level read committed, {access}; select {}; ", settings.join(", "))
}

fn settings<'s>(
    of: impl Iterator<Item = &'s (&'s str, &'s str)>,
    lasting: Lasting,
) -> impl Iterator<Item = String> {
    let is_local = lasting.is_local();
    of.map(move |(name, value)| format!("pg_catalog.set_config('{name}', '{value}', {is_local})"))
}

/// Begins a transaction that sees one moment, in which values have the forms of a stream. It may
/// take long.
pub fn begin_snapshot(snapshot: Option<&str>) -> String {
    let import = snapshot.map(|name| format!("set transaction snapshot {}; ", literal(name)));
    // What is noted counts for this slot alone, and both are made anew by whoever finds no end.
    let plain = [
        ("search_path", "pg_catalog"),
        ("jit", "off"),
        ("statement_timeout", "0"),
        ("synchronous_commit", "local"),
    ];
    let settings = settings(plain.iter().chain(&VALUE_FORMS), Lasting::Transaction);
    let settings: Vec<String> = settings.collect();
    format!(
        "begin isolation level repeatable read, read write; {}select {}",
        import.unwrap_or_default(),
        settings.join(", ")
    )
}

/// What a switch's session begins with. A row is known by a text of its identity, which is another
/// one where, say, the time zone is; and how far the switch is must outlive a crash.
pub fn switch_session() -> String {
    let forms = settings(VALUE_FORMS.iter(), Lasting::Session);
    let settings: Vec<String> = forms.chain([durable(Lasting::Session)]).collect();
    format!("select {}", settings.join(", "))
}

/// What ends it.
pub(super) const COMMIT: &str = "; commit";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_end_with_the_transaction() {
        let text = begin(Access::ReadWrite, Ways::Indexes);
        assert!(text.starts_with("begin isolation level read committed, read write; select "));
        assert_eq!(text.matches("set_config(").count(), 5 + 5 + 6 + 1);
        assert_eq!(text.matches(", true)").count(), 5 + 5 + 6 + 1);
        assert_eq!(text.matches(';').count(), BEGINS);
        let read_only = begin(Access::ReadOnly, Ways::Any);
        assert!(read_only.contains("read only") && !read_only.contains("relation_kind"));
        let careful = begin_on(Access::ReadOnly, Ways::Any, Strangers::Some);
        assert!(careful.contains("'view, foreign-table', true) end; "), "{careful}");
        assert_eq!(switch_session().matches(", false)").count(), 5 + 1);
    }

    #[test]
    fn a_snapshot_is_imported_before_anything_is_read() {
        let text = begin_snapshot(Some("00-1"));
        let begin = "begin isolation level repeatable read, read write; \
                     set transaction snapshot '00-1'; select pg_catalog.set_config(";
        assert!(text.starts_with(begin), "{text}");
        assert!(!begin_snapshot(None).contains("snapshot '"));
    }
}
