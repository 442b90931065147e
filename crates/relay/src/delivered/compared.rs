//! When it is proved that nothing of a gap is missing any more.
//!
//! A gap is closed by a comparison of rows with records only if every row that may belong to it was
//! compared. Transaction ids say which rows those are: the witness has a [`Horizon`] of the slot,
//! before whose id every transaction had ended at a position before the gap. So what committed in
//! the gap has that id or a later one, and so has a row that was updated since. The time in a row
//! says nothing of the kind: its writer chooses it, with a clock and a zone of its own. Where no
//! such id is known, a person has to name the time, and takes the answer for what it is.
//!
//! A server that was started from a base backup without a signal file has the history of the former
//! one, and no slot. It gives the ids again that were given since the backup, so rows of the gap
//! may have earlier ones ([`since_restore`]). Times add those rows, and take none away. In a table
//! without a time, every row is compared then.
//!
//! A copy of the server, or of its database, on which rows were written while the router read the
//! former one, has that history and those ids, too. Where the slot is gone, nothing tells it from
//! the former one. So the rows that were left out by their times are not taken for delivered from
//! then on ([`Outside`]): retention keeps them.
//!
//! The three values follow from each other, and nothing else makes them: a [`Scope`] is what the
//! statement is written from that selects the rows, [`Compared`] are the figures of one, and a
//! [`ClosedGap`] is what the witness takes.

use pgoutput::Lsn;

use super::{
    required::Required,
    xid::{FullXid, HALF, Horizon},
};
use crate::{
    failure::Code,
    routing::{table::TableName, timestamp::Timepoint},
    source::{Catalog, CatalogRelation, Gap, History, Partitions, Publication},
    witness::{Recovered, Witness},
};

/// The first transaction that may have committed in a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstOfGap {
    pub(super) xid: FullXid,
    /// Before this position, every earlier transaction had ended.
    pub(super) ended_by: Lsn,
}

/// What the server shows now.
#[derive(Debug, Clone, Copy)]
pub struct ServerNow<'a> {
    /// Which server it is.
    pub history: &'a History,
    /// What the slot shows, if there is one. It may be a new one, or one that was moved.
    pub slot: Option<Horizon>,
    /// An id that no transaction has yet.
    pub next: FullXid,
}

impl FirstOfGap {
    /// The first transaction of these gaps, or, without any, of what is not acknowledged; `None`
    /// where the ids of the witness are not those of the server, or no horizon lies before that.
    pub fn of(witness: &Witness, gaps: &[Gap], now: ServerNow<'_>) -> Option<Self> {
        // After a promotion or a restore, ids are given again.
        if witness.history.as_ref() != Some(now.history) {
            return None;
        }
        // A new slot loses what the former one had not sent, which is not acknowledged.
        let mut begin = witness.position;
        for gap in gaps {
            begin = begin.min(gap.interval.from.as_ref()?.lsn);
        }
        // A slot goes back with its server alone. If it has, a horizon behind it is of a branch
        // that is gone, which a router that stops at another gap does not notice.
        let is_here = |known: &Horizon| now.slot.is_none_or(|slot| known.lsn <= slot.lsn);
        let horizons = [witness.horizon.filter(is_here), now.slot].into_iter().flatten();
        let before = horizons.filter(|horizon| horizon.lsn <= begin);
        let last = before.max_by_key(|horizon| horizon.xmin)?;
        // Further apart, a row of the gap may look older; and a server never goes back.
        let apart = now.next.as_u64().checked_sub(last.xmin.as_u64())?;
        (apart < HALF).then_some(Self { xid: last.xmin, ended_by: last.lsn })
    }

    /// Its id.
    pub const fn xid(self) -> FullXid {
        self.xid
    }

    /// The position before which every earlier transaction had ended.
    pub const fn ended_by(self) -> Lsn {
        self.ended_by
    }
}

/// How a column says the time at which a row was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeColumn {
    /// With its zone.
    Zoned,
    /// In the zone of the session that wrote it.
    Unzoned,
    /// The day, in the zone of the session that wrote it.
    Day,
}

const HOUR: u64 = 3_600;

impl TimeColumn {
    /// By how many seconds a row may look older than it is: zones go to twelve hours west of UTC
    /// and fourteen east of it, and a day says no more than that it began.
    pub const fn looks_older_by(self) -> u64 {
        match self {
            Self::Zoned => 0,
            Self::Unzoned => 14 * HOUR,
            Self::Day => (14 + 24) * HOUR,
        }
    }
}

/// Which rows of a table are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    rows: Rows,
    released: Released,
    outside: Outside,
}

/// What the rows are that are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// Delivered: they were written on the server whose slot the witness knows.
    Delivered,
    /// Older, if their times are right; nothing shows on which server they were written.
    Unproved,
}

/// Whether the rows of events are compared that were delivered out of the table of held events,
/// whatever their transactions and times say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// They are: topics and witness may have been taken back together, behind what the slot has
    /// confirmed, and such an event may be far older than its record.
    Compared,
    /// As others.
    AsOthers,
}

/// See [`Scope`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// All.
    All,
    /// Those whose transaction is the first one or a later one, and, if a time is known, those that
    /// say that they were made since then, and those without one.
    Transactions {
        /// The first.
        first: FirstOfGap,
        /// As PostgreSQL prints it.
        or_since: Option<String>,
    },
    /// Those that say that they were made since a time that a person has named, and those without
    /// one.
    Named {
        /// As PostgreSQL prints it.
        since: String,
    },
}

/// The time that a person has named, or that [`since_restore`] adds to the ids, as PostgreSQL
/// prints it, with its margin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeSince(pub String);

/// Whether a gap may be of a server that was restored: the slot is gone, or another was made, or
/// the server has another history.
pub(super) fn may_be_of_restore(gap: &Gap) -> bool {
    let codes = [Code::SlotMissing, Code::SlotLost, Code::SlotMoved, Code::HistoryChanged];
    codes.contains(&gap.failure.code)
}

/// Whether a gap may be of a copy that was written to beside the server: without the slot, or with
/// one that stands elsewhere, nothing tells them apart.
fn may_be_of_branch(gap: &Gap) -> bool {
    let codes = [Code::SlotMissing, Code::SlotMoved, Code::HistoryChanged];
    codes.contains(&gap.failure.code)
}

/// The time after which a restored server gave ids again, if these gaps may be of one. `None` also
/// where no such time is known.
pub fn since_restore(witness: &Witness, gaps: &[Gap]) -> Option<String> {
    let mut of_restore = gaps.iter().filter(|gap| may_be_of_restore(gap)).peekable();
    of_restore.peek()?;
    let begins = of_restore.filter_map(|gap| gap.interval.from.as_ref()?.at.clone());
    // A backlog, and an acceptance, leave the witness without a time of its position; but a server
    // that was restored wrote nothing before the former one was last read.
    let checked = witness.checked.as_ref().and_then(|checked| checked.at.clone());
    // All have one form, in which the order of texts is that of times.
    begins.chain(witness.mark().at).chain(checked).min()
}

impl Scope {
    /// The rows of a table that may belong to these gaps; `None` where nothing says which. `first`
    /// is theirs, `made` a person's word or, beside `first`, [`since_restore`], and `has_time`
    /// whether the table has a time to compare with it.
    pub fn of(
        (gaps, first): (&[Gap], Option<FirstOfGap>),
        made: Option<&MadeSince>,
        has_time: HasTime,
    ) -> Option<Self> {
        let since = made.map(|MadeSince(since)| since.clone());
        // Where ids may have been given again, they alone say nothing.
        let says_all = first.filter(|_| !gaps.iter().any(may_be_of_restore));
        let rows = match (first, since, has_time) {
            (_, _, HasTime::No) => match says_all {
                Some(first) => Rows::Transactions { first, or_since: None },
                None => Rows::All,
            },
            (Some(first), or_since @ Some(_), HasTime::Yes) => {
                Rows::Transactions { first, or_since }
            }
            (Some(_), None, HasTime::Yes) => {
                Rows::Transactions { first: says_all?, or_since: None }
            }
            (None, Some(since), HasTime::Yes) => Rows::Named { since },
            (None, None, HasTime::Yes) => return None,
        };
        let is_moved = |gap: &Gap| gap.failure.code == Code::SlotMoved;
        let is_older = gaps.iter().any(is_moved);
        let released = if is_older { Released::Compared } else { Released::AsOthers };
        let is_of_branch = gaps.iter().any(may_be_of_branch);
        let outside = match (&rows, is_of_branch) {
            (Rows::Named { .. }, _) | (Rows::Transactions { or_since: Some(_), .. }, true) => {
                Outside::Unproved
            }
            (Rows::Transactions { .. } | Rows::All, _) => Outside::Delivered,
        };
        Some(Self { rows, released, outside })
    }

    /// What the rows are that are not compared.
    pub const fn outside(&self) -> Outside {
        self.outside
    }

    /// The time from which on rows are compared, as PostgreSQL prints it.
    fn since(&self) -> Option<&str> {
        match &self.rows {
            Rows::Named { since } => Some(since),
            Rows::Transactions { or_since, .. } => or_since.as_deref(),
            Rows::All => None,
        }
    }

    /// Which.
    pub const fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Whether those of released events are compared, too.
    pub const fn released(&self) -> Released {
        self.released
    }
}

/// Whether a table has a column with the time at which a row was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HasTime {
    /// It has.
    Yes,
    /// It has none.
    No,
}

/// What a comparison of a table's rows has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Rows of the scope.
    pub rows: u64,
    /// Of those, rows without a record in their own topic; all, where nothing is compared.
    pub missing: u64,
    /// Of those, rows that are held, or were dropped or skipped.
    pub decided: u64,
    /// Rows of the table that are not in the scope.
    pub outside: u64,
}

/// The rows of a scope were compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    table: TableName,
    scope: Scope,
    figures: Figures,
}

impl Compared {
    /// The figures of a table, by a statement that was written from this scope.
    pub const fn by(scope: Scope, table: TableName, figures: Figures) -> Self {
        Self { table, scope, figures }
    }

    /// Which rows were compared.
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The table.
    pub const fn table(&self) -> &TableName {
        &self.table
    }

    /// What was counted.
    pub const fn figures(&self) -> Figures {
        self.figures
    }

    /// Whether rows stay in the table that nothing shows to be delivered.
    pub const fn leaves_unproved(&self) -> bool {
        self.figures.outside > 0 && matches!(self.scope.outside, Outside::Unproved)
    }

    /// The time up to which rows are not proved to be delivered, where there are such rows. One
    /// that cannot be read is now: it proves nothing.
    fn unproved_until(&self) -> Option<Unproved> {
        self.leaves_unproved().then(|| Unproved {
            table: self.table.clone(),
            until: self.scope.since().and_then(|since| Timepoint::read(since).ok()),
        })
    }

    /// How many rows are to be sent.
    pub const fn to_send(&self) -> u64 {
        self.figures.missing.saturating_sub(self.figures.decided)
    }
}

/// What became of the rows that were to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Records that are acknowledged.
    pub sent: u64,
    /// Rows that `where` leaves out.
    pub filtered: u64,
    /// Rows that cannot become a record, and are noted so that retention keeps them.
    pub left_out: u64,
}

/// The decision about rows in no topic that `where` leaves out. As they were inserted they may have
/// been events: an UPDATE since may have made them so, and a row does not say whether it was
/// updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilteredRows {
    /// The gaps stay open.
    Kept,
    /// A person has said that they were no events, or that they are not to be sent.
    GivenUp,
}

/// Nothing of these gaps is missing that the tables have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedGap {
    recovered: Recovered,
    unproved: Vec<Unproved>,
}

/// A table with rows that nothing shows to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unproved {
    pub(crate) table: TableName,
    /// The time from which on its rows were compared; `None` where that is not known.
    pub(crate) until: Option<Timepoint>,
}

impl ClosedGap {
    /// Every required table was compared, and each row that was missing is settled; `None` where
    /// one is not.
    pub fn of(
        required: &Required,
        compared: &[(&Compared, Settled)],
        filtered_rows: FilteredRows,
    ) -> Option<Self> {
        let tables = required.tables();
        let of = |table: &TableName| compared.iter().find(|(of, _)| of.table == *table);
        let is_settled = |table: &TableName| {
            of(table).is_some_and(|(compared, settled)| {
                let Settled { sent, filtered, left_out } = *settled;
                (filtered == 0 || filtered_rows == FilteredRows::GivenUp)
                    && sent + filtered + left_out == compared.to_send()
            })
        };
        if tables.is_empty() || !tables.iter().all(is_settled) {
            return None;
        }
        let recovered = Recovered {
            rows: compared.iter().map(|(compared, _)| compared.to_send()).sum(),
            records: compared.iter().map(|(_, settled)| settled.sent).sum(),
        };
        let unproved = compared.iter().filter_map(|(one, _)| one.unproved_until()).collect();
        Some(Self { recovered, unproved })
    }

    /// Tables with rows that nothing shows to be delivered.
    pub(crate) fn unproved(&self) -> &[Unproved] {
        &self.unproved
    }

    /// The figures for the witness.
    pub(crate) const fn recovered(&self) -> Recovered {
        self.recovered
    }
}

/// Whether another gap, which is found behind a comparison, is of what was compared: everything
/// that was committed since the first of `gaps`, and since what the witness has as acknowledged,
/// for the slot is made anew. Publication and tables have not changed since, so what is found of
/// that time, such as that the slot or the publication is another one, hides no row.
pub fn was_compared(found: &Gap, (gaps, witness): (&[Gap], &Witness)) -> bool {
    let begins = |gap: &Gap| gap.interval.from.as_ref().map_or(Lsn::ZERO, |from| from.lsn);
    let first = gaps.iter().map(begins).min().unwrap_or(witness.position);
    begins(found) >= first.min(witness.position)
}

/// What was altered while rows were compared, so that some may be in neither snapshot nor stream;
/// `None` where nothing was. A partition that was made meanwhile is published with its root.
pub fn altered(before: &Catalog, now: &Catalog) -> Option<String> {
    let of_publication = |catalog: &Catalog| {
        let Publication { oid, written_by, owner, inserts, partitions, .. } =
            catalog.publication.as_ref()?;
        Some((*oid, *written_by, *owner, *inserts, *partitions))
    };
    if of_publication(before) != of_publication(now) {
        return Some("the publication was altered".to_owned());
    }
    for table in &before.relations {
        let name = &table.name;
        let published = |catalog: &Catalog| {
            catalog.publication.as_ref().and_then(|of| of.table(table.oid)).cloned()
        };
        if published(before) != published(now) {
            return Some(format!("{name} was altered in the publication"));
        }
        let Some(present) = now.with_oid(table.oid) else {
            return Some(format!("{name} was dropped"));
        };
        if (CatalogRelation { partitions: table.partitions.clone(), ..present.clone() }) != *table {
            return Some(format!("{name} was altered"));
        }
        if let Some(gone) = table.partitions.iter().find(|of| !present.partitions.contains(of)) {
            return Some(format!(
                "partition {} of {name} was altered or detached",
                gone.oid.as_u32()
            ));
        }
        let is_by_leaf =
            now.publication.as_ref().is_some_and(|of| of.partitions == Partitions::ByLeaf);
        if is_by_leaf && present.partitions.len() != table.partitions.len() {
            return Some(format!(
                "{name} has another partition, which is published by its own name"
            ));
        }
    }
    let is_new = |table: &&CatalogRelation| before.with_oid(table.oid).is_none();
    now.relations.iter().find(is_new).map(|table| format!("{} is new", table.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failure::Failure,
        source::{Interval, Mark, Oid, Partition, samples},
    };

    /// The slot is made anew and stands past the witness, which may lie before the gap.
    #[test]
    fn what_is_found_since_what_is_acknowledged_was_compared() {
        let found = |code: Code, from: Option<u64>| {
            let mark = |position| Mark { lsn: Lsn::from_u64(position), at: None };
            let interval = Interval { from: from.map(mark), to: mark(900) };
            Gap::new(Failure::new(code, "it happened"), interval)
        };
        let witness = Witness::at(Lsn::from_u64(300));
        let moved = |from| found(Code::SlotMoved, from);
        let lacks = [found(Code::PublicationLacksTable, Some(500))];
        assert!(was_compared(&moved(Some(300)), (&lacks, &witness)));
        assert!(!was_compared(&moved(Some(299)), (&lacks, &witness)));
        assert!(!was_compared(&moved(None), (&lacks, &witness)));
        let restored = [found(Code::HistoryChanged, None)];
        assert!(was_compared(&moved(None), (&restored, &witness)), "nothing says when it began");
    }

    #[test]
    fn a_partition_that_is_made_meanwhile_alters_nothing_and_anything_else_does() {
        let healthy = samples::healthy();
        assert_eq!(altered(&healthy, &healthy), None);
        let mut partitioned = healthy.clone();
        let of = |oid: u32| Partition {
            oid: Oid::from_u32(oid),
            name: None,
            attached_by: 7,
            storage: partitioned.relations[0].storage,
        };
        let (first, second) = (of(901), of(902));
        partitioned.relations[0].partitions = vec![first.clone()];
        let mut grown = partitioned.clone();
        grown.relations[0].partitions = vec![second, first];
        assert_eq!(altered(&partitioned, &grown), None);
        let detached = altered(&grown, &partitioned);
        assert_eq!(
            detached.as_deref(),
            Some("partition 902 of public.outbox was altered or detached")
        );
        let mut leafs = grown.clone();
        leafs.publication.as_mut().unwrap().partitions = Partitions::ByLeaf;
        let mut before = partitioned.clone();
        before.publication.as_mut().unwrap().partitions = Partitions::ByLeaf;
        assert!(altered(&before, &leafs).unwrap().contains("published by its own name"));
        let mut written = healthy.clone();
        written.publication.as_mut().unwrap().written_by += 1;
        assert_eq!(altered(&healthy, &written).as_deref(), Some("the publication was altered"));
        let mut gone = healthy.clone();
        gone.relations.clear();
        assert_eq!(altered(&healthy, &gone).as_deref(), Some("public.outbox was dropped"));
        assert_eq!(altered(&gone, &healthy).as_deref(), Some("public.outbox is new"));
        let mut put_back = healthy.clone();
        put_back.publication.as_mut().unwrap().tables[0].entry = Some(Oid::from_u32(99_999));
        let back = altered(&healthy, &put_back);
        assert_eq!(back.as_deref(), Some("public.outbox was altered in the publication"));
    }

    const HISTORY: u32 = 1;

    fn history(timeline: u32) -> History {
        History { system_id: "7".to_owned(), timeline }
    }

    fn horizon(xmin: u64, lsn: u64) -> Horizon {
        Horizon { xmin: FullXid::from_u64(xmin), lsn: Lsn::from_u64(lsn) }
    }

    fn witness(position: u64, horizon: Option<Horizon>) -> Witness {
        Witness { horizon, history: Some(history(HISTORY)), ..Witness::at(Lsn::from_u64(position)) }
    }

    fn gap(from: Option<u64>) -> Gap {
        let mark = |lsn| Mark { lsn: Lsn::from_u64(lsn), at: None };
        let interval = Interval { from: from.map(mark), to: mark(1_000) };
        Gap { failure: Failure::new(Code::SlotMissing, "it is gone"), interval }
    }

    fn first_on(
        witness: &Witness,
        gaps: &[Gap],
        (timeline, slot, next): (u32, Option<Horizon>, u64),
    ) -> Option<(u64, u64)> {
        let (history, next) = (history(timeline), FullXid::from_u64(next));
        let first = FirstOfGap::of(witness, gaps, ServerNow { history: &history, slot, next })?;
        Some((first.xid().as_u64(), first.ended_by().as_u64()))
    }

    fn first(witness: &Witness, gaps: &[Gap], slot: Option<Horizon>) -> Option<(u64, u64)> {
        first_on(witness, gaps, (HISTORY, slot, 900))
    }

    #[test]
    fn a_gap_begins_with_the_last_horizon_before_it() {
        let known = witness(100, Some(horizon(750, 90)));
        assert_eq!(first(&known, &[gap(Some(100))], None), Some((750, 90)));
        // Of a slot that was lost where it stood, more is known than of the witness.
        let lost = Some(horizon(760, 100));
        assert_eq!(first(&known, &[gap(Some(100))], lost), Some((760, 100)));
        let moved = Some(horizon(800, 200));
        assert_eq!(first(&known, &[gap(Some(100))], moved), Some((750, 90)));
        assert_eq!(first(&witness(100, None), &[gap(Some(100))], lost), Some((760, 100)));
    }

    #[test]
    fn no_id_begins_a_gap_that_begins_before_every_horizon_or_at_no_known_position() {
        let known = witness(100, Some(horizon(750, 90)));
        assert_eq!(first(&known, &[gap(Some(100)), gap(Some(80))], None), None);
        assert_eq!(first(&known, &[gap(None)], None), None);
        assert_eq!(first(&witness(100, None), &[gap(Some(100))], None), None);
        // What the slot had not sent goes with it.
        let behind = witness(85, Some(horizon(750, 90)));
        assert_eq!(first(&behind, &[gap(Some(100))], None), None);
    }

    /// A server that was restored with its slot gives ids again from there on.
    #[test]
    fn no_horizon_counts_behind_which_the_slot_has_gone_back() {
        let known = witness(100, Some(horizon(750, 90)));
        let back = Some(horizon(700, 60));
        assert_eq!(first(&known, &[gap(Some(100))], back), Some((700, 60)));
        assert_eq!(first(&known, &[gap(Some(50))], back), None);
        let same = Some(horizon(750, 90));
        assert_eq!(first(&known, &[gap(Some(100))], same), Some((750, 90)));
    }

    #[test]
    fn ids_of_another_history_or_of_another_age_prove_nothing() {
        let known = witness(100, Some(horizon(750, 90)));
        let gaps = [gap(Some(100))];
        assert_eq!(first_on(&known, &gaps, (HISTORY + 1, None, 900)), None);
        let far = 750 + (1 << 31);
        assert_eq!(first_on(&known, &gaps, (HISTORY, None, far)), None);
        assert_eq!(first_on(&known, &gaps, (HISTORY, None, far - 1)), Some((750, 90)));
        // The server stands before the horizon: it is not the one that the witness is of.
        assert_eq!(first_on(&known, &gaps, (HISTORY, None, 749)), None);
    }

    /// It has the history of the former one, and the ids of its branch are earlier.
    #[test]
    fn rows_of_a_restored_server_that_has_no_slot_are_found_by_their_times_too() {
        let mark = |at: Option<&str>| Mark { lsn: Lsn::from_u64(100), at: at.map(str::to_owned) };
        let checked = Some(mark(Some("2026-01-31T09:00:00Z")));
        let known = Witness { checked, ..witness(100, Some(horizon(750, 90))) };
        let of = |code, at| {
            let interval = Interval { from: Some(mark(at)), to: mark(None) };
            vec![Gap { failure: Failure::new(code, "it is gone"), interval }]
        };
        let (at, earlier) = ("2026-01-31T09:00:00Z", "2026-01-31T08:00:00Z");
        for code in [Code::SlotMissing, Code::SlotLost, Code::SlotMoved, Code::HistoryChanged] {
            assert_eq!(since_restore(&known, &of(code, None)).as_deref(), Some(at), "{code}");
            assert_eq!(since_restore(&known, &of(code, Some(earlier))).as_deref(), Some(earlier));
        }
        // The slot was there all the time, and no backup has it.
        assert_eq!(since_restore(&known, &of(Code::PublicationLacksTable, Some(at))), None);
        assert_eq!(since_restore(&witness(100, None), &of(Code::SlotMissing, None)), None);
        // Right after an acceptance, WAL goes on behind the position, and no event has a time.
        let later = Mark { lsn: Lsn::from_u64(110), at: Some(at.to_owned()) };
        let accepted = Witness { checked: Some(later), ..witness(100, Some(horizon(750, 100))) };
        assert_eq!(accepted.mark().at, None);
        let since = since_restore(&accepted, &of(Code::SlotMissing, None));
        assert_eq!(since.as_deref(), Some(at));
        // They are added to those of the transactions.
        let gaps = of(Code::SlotMissing, None);
        let history = history(HISTORY);
        let now = ServerNow { history: &history, slot: None, next: FullXid::from_u64(900) };
        let first = FirstOfGap::of(&known, &gaps, now).unwrap();
        let made = since_restore(&known, &gaps).map(MadeSince);
        let of = |made: Option<&MadeSince>, has_time| {
            Scope::of((&gaps, Some(first)), made, has_time).map(|scope| scope.rows)
        };
        let or_since = Some(at.to_owned());
        let by_both = Some(Rows::Transactions { first, or_since });
        assert_eq!(of(made.as_ref(), HasTime::Yes), by_both);
        // Without times, ids may hide a row.
        assert_eq!(of(made.as_ref(), HasTime::No), Some(Rows::All));
        assert_eq!(of(None, HasTime::Yes), None);
    }

    #[test]
    fn without_an_id_a_person_names_the_time_or_the_whole_table_is_compared() {
        let first = FirstOfGap { xid: FullXid::from_u64(750), ended_by: Lsn::from_u64(90) };
        let named = MadeSince("2026-01-31 09:00:00+00".to_owned());
        let interval = Interval { from: None, to: Mark { lsn: Lsn::from_u64(1_000), at: None } };
        let failure = Failure::new(Code::PublicationLacksTable, "it is out");
        let gaps = [Gap { failure, interval }];
        let of = |first, named, has_time| {
            Scope::of((&gaps, first), named, has_time).map(|scope| scope.rows)
        };
        let since = || named.0.clone();
        assert_eq!(of(None, None, HasTime::Yes), None);
        assert_eq!(of(None, None, HasTime::No), Some(Rows::All));
        let by_name = Some(Rows::Named { since: since() });
        assert_eq!(of(None, Some(&named), HasTime::Yes), by_name);
        let by_id = |or_since| Some(Rows::Transactions { first, or_since });
        assert_eq!(of(Some(first), None, HasTime::Yes), by_id(None));
        assert_eq!(of(Some(first), None, HasTime::No), by_id(None));
        assert_eq!(of(Some(first), Some(&named), HasTime::Yes), by_id(Some(since())));
        assert_eq!(of(Some(first), Some(&named), HasTime::No), by_id(None));
    }

    #[test]
    fn a_time_without_a_zone_looks_older_by_any_zone_and_a_date_by_a_day_more() {
        let hours = |column: TimeColumn| column.looks_older_by() / HOUR;
        assert_eq!(hours(TimeColumn::Zoned), 0);
        assert_eq!((hours(TimeColumn::Unzoned), hours(TimeColumn::Day)), (14, 38));
    }

    /// A copy that was written to beside the server has its history and its ids.
    #[test]
    fn rows_that_times_alone_leave_out_are_delivered_only_where_the_slot_says_which_server_it_is() {
        let first = FirstOfGap { xid: FullXid::from_u64(700), ended_by: Lsn::from_u64(50) };
        let since = MadeSince("2026-12-03 12:35:23.123456+00".to_owned());
        let unproved = |code: Code, first: Option<FirstOfGap>| {
            let mark = Mark { lsn: Lsn::from_u64(90), at: None };
            let interval = Interval { from: Some(mark.clone()), to: mark };
            let gap = Gap::new(Failure::new(code, "it happened"), interval);
            let scope = Scope::of((&[gap], first), Some(&since), HasTime::Yes).unwrap();
            let table = TableName { schema: "public".into(), name: "a".into() };
            let figures = |outside| Figures { outside, ..Figures::default() };
            let of = |outside| Compared::by(scope.clone(), table.clone(), figures(outside));
            assert_eq!(of(0).unproved_until(), None, "no row is older");
            of(3).unproved_until().map(|found| found.until.unwrap().millis() + 1)
        };
        let until = Some(1_796_301_323_124);
        for code in [Code::SlotMissing, Code::SlotMoved, Code::HistoryChanged] {
            assert_eq!(unproved(code, Some(first)), until, "{code}");
        }
        assert_eq!(unproved(Code::SlotLost, Some(first)), None, "it is the slot of this server");
        assert_eq!(unproved(Code::SlotLost, None), until, "a person has named the time");
    }

    #[test]
    fn a_gap_is_closed_when_each_missing_row_of_each_table_is_settled() {
        let table = |name: &str| TableName { schema: "public".into(), name: name.into() };
        let (a, b) = (table("a"), table("b"));
        let figures = Figures { rows: 9, missing: 5, decided: 1, outside: 0 };
        let all = || Scope::of((&[], None), None, HasTime::No).unwrap();
        let compared = |table: &TableName| Compared::by(all(), table.clone(), figures);
        let (of_a, of_b) = (compared(&a), compared(&b));
        let requires = |tables: &[TableName]| {
            let server = (&history(HISTORY), &Catalog::default());
            Required::of(&Witness::at(Lsn::from_u64(100)), server, tables, &[])
        };
        let tables = requires(&[a, b]);
        let all = Settled { sent: 2, filtered: 1, left_out: 1 };
        let recovered = |required: &Required, settled: &[(&Compared, Settled)], filtered_rows| {
            let closed = ClosedGap::of(required, settled, filtered_rows);
            closed.map(|closed| closed.recovered())
        };
        let of_both = [(&of_a, all), (&of_b, all)];
        let figures = Some(Recovered { rows: 8, records: 4 });
        assert_eq!(recovered(&tables, &of_both, FilteredRows::GivenUp), figures);
        assert_eq!(recovered(&tables, &of_both, FilteredRows::Kept), None, "two may be events");
        let is_closed =
            |settled: &[_]| recovered(&tables, settled, FilteredRows::GivenUp).is_some();
        assert!(!is_closed(&[(&of_a, all)]), "a table was not compared");
        let less = Settled { sent: 1, ..all };
        assert!(!is_closed(&[(&of_a, all), (&of_b, less)]));
        assert_eq!(
            recovered(&requires(&[]), &[], FilteredRows::GivenUp),
            None,
            "no table, no proof"
        );
    }
}
