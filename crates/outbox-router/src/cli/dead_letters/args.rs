//! The flags of `dead-letters`.

use std::{fmt, str::FromStr, time::Duration};

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use relay::{Code, Lsn, TableName};

use crate::{
    cli::{
        confirmation::Confirmation,
        decision_args::{DecisionArgs, Effect},
        flags::{AdminArgs, Overrides},
        form::Form,
    },
    config::{parse_duration, table_name},
};

/// What is done with dead letters.
#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// List what is held: a line for each key, and the counts. Exit code 1: a dead letter waits for
    /// a decision
    #[command(after_help = "Examples:\n  outbox-router dead-letters list\n  \
        outbox-router dead-letters list --code R003 --since 2h --events --json\n  \
        outbox-router dead-letters list --left-out")]
    List(ListArgs),
    /// Show everything of an event: what it is, why it is held, its columns with their values, and
    /// who decided what
    #[command(after_help = "Examples:\n  \
        outbox-router dead-letters show --id 0198c3f2-7d1a-7c3e-8b4f-000000000001\n  \
        outbox-router dead-letters show --id 0/16B3748:0 --json\n  \
        outbox-router dead-letters show --key order-7")]
    Show(ShowArgs),
    /// Deliver dead letters after all: the router routes each again, by the configuration that it
    /// runs with then
    #[command(after_help = "Examples:\n  \
        outbox-router dead-letters requeue --code R003 --reason \"the regex is extended\" \
        --admin-url postgres://admin@db/shop\n  \
        outbox-router dead-letters requeue --all --dry-run\n  \
        outbox-router dead-letters requeue --left-out --all --admin-url postgres://admin@db/shop\n\n\
        Rows that were left out it reads from the table, and sends them itself.\n\
        It shows what it will do and asks. Exit code 1: none was selected, or one was refused.")]
    Requeue(DecideArgs),
    /// Give dead letters up: they are not delivered, and what is held behind them is
    #[command(after_help = "Examples:\n  \
        outbox-router dead-letters drop --id 0198c3f2-7d1a-7c3e-8b4f-000000000001 \
        --admin-url postgres://admin@db/shop\n  \
        outbox-router dead-letters drop --key order-7 --reason \"sent by hand\" --yes \
        --admin-url postgres://admin@db/shop\n  \
        outbox-router dead-letters drop --all --with-behind --dry-run\n  \
        outbox-router dead-letters drop --left-out --id e-101 --reason \"a test row\" \
        --admin-url postgres://admin@db/shop\n\n\
        It shows what it will do and asks. Exit code 1: none was selected.")]
    Drop(DropArgs),
    /// Make what was held in another database cluster, from which the table was copied, this
    /// cluster's own (P036)
    #[command(after_help = "Example:\n  \
        outbox-router dead-letters adopt --admin-url postgres://admin@db/shop\n\n\
        It shows what it will do and asks.")]
    Adopt(AdoptArgs),
}

impl DeadLetters {
    /// What was set after the command.
    pub const fn overrides(&self) -> &Overrides {
        match self {
            Self::List(args) => &args.overrides,
            Self::Show(args) => &args.overrides,
            Self::Requeue(args) => &args.overrides,
            Self::Drop(args) => &args.decide.overrides,
            Self::Adopt(args) => &args.overrides,
        }
    }

    /// Where to connect.
    pub const fn admin(&self) -> &AdminArgs {
        match self {
            Self::List(args) => &args.admin,
            Self::Show(args) => &args.admin,
            Self::Requeue(args) => &args.admin,
            Self::Drop(args) => &args.decide.admin,
            Self::Adopt(args) => &args.admin,
        }
    }

    /// Whether it is about dead letters.
    pub(super) const fn which(&self) -> Which {
        match self {
            Self::List(args) => args.select.which,
            Self::Requeue(args) => args.select.which,
            Self::Drop(args) => args.decide.select.which,
            Self::Show(_) | Self::Adopt(_) => Which::Held,
        }
    }

    /// The table that it is about alone.
    pub(super) const fn table(&self) -> Option<&TableName> {
        match self {
            Self::List(args) => args.select.named.table.as_ref(),
            Self::Show(args) => args.named.table.as_ref(),
            Self::Requeue(args) => args.select.named.table.as_ref(),
            Self::Drop(args) => args.decide.select.named.table.as_ref(),
            Self::Adopt(_) => None,
        }
    }
}

/// Which events, by what they are. Several values of one flag mean any of them; several flags must
/// all apply.
#[derive(Debug, Clone, Default, Args)]
pub struct NamedArgs {
    /// Of this key; may be given several times
    #[arg(long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
    /// Of this key, in hexadecimal: list shows a key that is no text as \x…
    #[arg(long = "key-hex", value_name = "HEX")]
    pub hex_keys: Vec<HexKey>,
    /// With this id, or at this place, as list --events shows it; may be given several times
    #[arg(long = "id", value_name = "EVENT_ID|LSN:INDEX")]
    pub ids: Vec<EventRef>,
    /// Of this table alone [default: every table]
    #[arg(long, value_name = "SCHEMA.TABLE", value_parser = table_name)]
    pub table: Option<TableName>,
}

impl NamedArgs {
    /// The events with this id.
    pub(super) fn of_id(id: &str) -> Self {
        let id = EventRef { text: id.to_owned(), place: None };
        Self { ids: vec![id], ..Self::default() }
    }
}

/// Which events.
#[derive(Debug, Clone, Default, Args)]
pub struct SelectArgs {
    /// By what they are.
    #[command(flatten)]
    pub named: NamedArgs,
    /// Committed at this time or later: a time as PostgreSQL reads it (in UTC, if it names no
    /// zone), or a duration before now, such as 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<Since>,
    /// Dead letters with this code; may be given several times
    #[arg(long = "code", value_name = "CODE", value_parser = code)]
    pub codes: Vec<Code>,
    /// Instead of dead letters, rows that recover --skip-bad or setup --backfill --skip-bad left
    /// out, which are in no topic; --since is then when they were left out
    #[arg(id = "which", long = "left-out", num_args = 0, default_value = "held")]
    #[arg(default_missing_value = "left-out", conflicts_with_all = ["keys", "hex_keys"])]
    pub which: Which,
}

/// `dead-letters list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which events.
    #[command(flatten)]
    pub select: SelectArgs,
    /// List every event instead of every key, in the order in which they were committed
    #[arg(long = "events", num_args = 0, default_value = "key")]
    #[arg(default_missing_value = "event", conflicts_with = "which")]
    pub lines: Lines,
    /// List rows that wait for another attempt, and not those that are abandoned; with
    /// postgres.source = "polling"
    #[arg(id = "rows", long = "waiting", num_args = 0, default_value = "abandoned")]
    #[arg(default_missing_value = "waiting")]
    pub rows: Rows,
    /// List so many rows; with postgres.source = "polling"
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Print one JSON object, for programs; with --events, one object a line
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `dead-letters show`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("shown").required(true).multiple(true)
    .args(["keys", "hex_keys", "ids"]))]
pub struct ShowArgs {
    /// Which events.
    #[command(flatten)]
    pub named: NamedArgs,
    /// Print one JSON object a line, for programs
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `dead-letters requeue`, and what `dead-letters drop` has in common with it
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("decided").required(true).multiple(true)
    .args(["keys", "hex_keys", "ids", "since", "codes", "scope"]))]
pub struct DecideArgs {
    /// Which dead letters.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Every dead letter about which nobody has decided
    #[arg(id = "scope", long = "all", num_args = 0, default_value = "selected")]
    #[arg(default_missing_value = "all")]
    #[arg(conflicts_with_all = ["keys", "hex_keys", "ids", "since", "codes"])]
    pub scope: Scope,
    /// How it is decided.
    #[command(flatten)]
    pub decision: DecisionArgs,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `dead-letters drop`
#[derive(Debug, Args)]
pub struct DropArgs {
    /// What is decided.
    #[command(flatten)]
    pub decide: DecideArgs,
    /// With each dead letter, drop everything that is held behind it now, other dead letters of its
    /// key included
    #[arg(long = "with-behind", num_args = 0, default_value = "letters")]
    #[arg(default_missing_value = "behind", conflicts_with = "which")]
    pub extent: Extent,
}

/// `dead-letters adopt`
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Show what would be done, and change nothing
    #[arg(long = "dry-run", num_args = 0, default_value = "real")]
    #[arg(default_missing_value = "dry")]
    pub effect: Effect,
    /// Do not ask
    #[arg(long = "yes", num_args = 0, default_value = "ask")]
    #[arg(default_missing_value = "yes")]
    pub confirmation: Confirmation,
    /// Print one JSON object, for programs; it needs --yes or --dry-run
    #[arg(long = "json", num_args = 0, default_value = "text")]
    #[arg(default_missing_value = "json")]
    pub form: Form,
    /// Where to connect.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What was set after the command.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// Whether what is held behind a dead letter is decided about with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Extent {
    /// Only the dead letters that are selected.
    Letters,
    /// What is held behind them, too.
    Behind,
}

/// The rows that are listed, or decided about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Which {
    /// Dead letters, and what is held behind them.
    #[default]
    Held,
    /// Rows that were left out of what a command sent.
    LeftOut,
}

/// Which rows of polled tables `list` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    /// Those that are abandoned.
    Abandoned,
    /// Those that wait for another attempt.
    Waiting,
}

/// What `list` has a line for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lines {
    /// Each key.
    Key,
    /// Each event.
    Event,
}

/// Whether everything is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// What other flags select.
    Selected,
    /// Everything.
    All,
}

/// A key that is typed in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HexKey(pub Vec<u8>);

impl FromStr for HexKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write an even number of hexadecimal digits, such as ff01";
        let digits = text.strip_prefix("\\x").unwrap_or(text).as_bytes();
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
        let byte = |pair: &[u8]| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        digits.chunks(2).map(byte).collect::<Option<_>>().map(Self).ok_or(WRONG)
    }
}

/// What names an event: the value of its id column, or its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRef {
    /// As it was typed.
    pub text: String,
    /// Its place in WAL, if the text is one.
    pub place: Option<Place>,
}

impl FromStr for EventRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err("write the event's id, or its place as list shows it");
        }
        Ok(Self { text: text.to_owned(), place: Place::parse(text) })
    }
}

/// The place of an event in WAL: where its transaction's commit starts, and its number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Where the commit record starts.
    pub commit_lsn: Lsn,
    /// The event's number among the inserts of the transaction, from 0 on.
    pub index: i64,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (lsn, index) = text.rsplit_once(':')?;
        let index: u32 = index.parse().ok()?;
        Some(Self { commit_lsn: lsn.parse().ok()?, index: index.into() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.commit_lsn, self.index)
    }
}

/// From when on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since {
    /// This long ago.
    Ago(Duration),
    /// A time, which PostgreSQL reads.
    Time(String),
}

impl FromStr for Since {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match parse_duration(text) {
            Ok(ago) => Ok(Self::Ago(ago)),
            Err(_) if text.trim().is_empty() => Err("write a time, or a duration such as 2h"),
            Err(_) => Ok(Self::Time(text.to_owned())),
        }
    }
}

fn code(text: &str) -> Result<Code, &'static str> {
    Code::parse(&text.to_ascii_uppercase()).ok_or("no such code; list shows what is held")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_by_its_id_or_by_its_place() {
        let place = Place { commit_lsn: Lsn::from_u64(0x16B_3748), index: 3 };
        assert_eq!(place.to_string(), "0/16B3748:3");
        assert_eq!("0/16B3748:3".parse::<EventRef>().unwrap().place, Some(place));
        for id in ["7", "0198c3f2-7d1a-7c3e-8b4f-000000000001", "a:1", "0/16B3748", "0/1:-1"] {
            let named: EventRef = id.parse().unwrap();
            assert_eq!((named.text.as_str(), named.place), (id, None));
        }
        assert!("".parse::<EventRef>().is_err());
    }

    #[test]
    fn a_key_in_hexadecimal_is_read_as_list_prints_it() {
        assert_eq!("\\xff01".parse(), Ok(HexKey(vec![0xff, 1])));
        assert_eq!("FF01".parse(), Ok(HexKey(vec![0xff, 1])));
        for wrong in ["f", "fg", "ff0"] {
            assert!(wrong.parse::<HexKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_a_duration_or_is_left_to_postgresql() {
        assert_eq!("2h".parse(), Ok(Since::Ago(Duration::from_secs(7_200))));
        assert_eq!("yesterday".parse(), Ok(Since::Time("yesterday".to_owned())));
        assert!(" ".parse::<Since>().is_err());
    }
}
