//! How far a back-fill got, and what follows from it.

use pgoutput::Lsn;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Completeness, PastRun, Position};
use crate::{
    failure::{Case, Failure, Name},
    source::quote_word,
    witness::ProducedTo,
};

/// Which rows a back-fill sends; as text it has one form for the same rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfilledRows {
    /// In the order in which they are sent, as messages name them.
    pub tables: Vec<String>,
    /// The rows of each for which this condition of SQL holds; `None`: all.
    #[serde(rename = "where")]
    pub condition: Option<String>,
}

impl BackfilledRows {
    /// As `outbox_router.republication` has them.
    pub fn selection(&self) -> String {
        json!(self).to_string()
    }

    /// Those of a selection; without any where another version has written it in another form.
    fn read(selection: &str) -> Self {
        let unknown = Self { tables: Vec::new(), condition: None };
        serde_json::from_str(selection).unwrap_or(unknown)
    }

    /// Names a run in a failure, and their table if there is one alone.
    fn named_in(&self, mut failure: Failure, run: Option<&PastRun>) -> Failure {
        if let Some(run) = run {
            failure = failure.naming(Name::Run, run.id.to_string());
        }
        match self.tables.as_slice() {
            [table] => failure.naming(Name::Table, table),
            _ => failure,
        }
    }

    /// The flag of `setup --backfill` and `replay`, after a blank.
    fn flag(&self) -> Option<String> {
        self.condition.as_deref().map(|text| format!(" --where {}", quote_word(text)))
    }
}

/// What `outbox_router.republication` has of a run whose slot was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The server, whose transaction ids and LSNs the others are. Empty: an earlier version has not
    /// written it.
    #[serde(default)]
    pub system_id: String,
    /// Where the last slot that was made for it begins.
    pub slot_at: String,
    /// The oldest transaction that was open when the first snapshot was taken. Rows that it or a
    /// later one wrote may have come since.
    pub first_xmin: u64,
    /// In which order, by which conditions and as what the rows of all tables are read, in one form
    /// for the same. Empty: an earlier version has not written it.
    #[serde(default)]
    pub read_as: String,
    /// The table whose rows were being sent; those before it are complete. `None`: none was begun.
    pub table: Option<String>,
    /// The place in that table's order.
    #[serde(default)]
    pub order: Option<Position>,
    /// The topics that it has produced to: until there is a witness, only this names them.
    #[serde(default)]
    pub topics: ProducedTo,
}

impl Reached {
    /// How far a run got; `None`: its slot was not made.
    pub fn of(run: &PastRun) -> Option<Self> {
        serde_json::from_value(run.place.clone()?).ok()
    }

    /// As `outbox_router.republication` has it.
    pub fn place(&self) -> Value {
        json!(self)
    }

    /// The same where tables are read as this now. A place means something where they were read
    /// so before; else all rows are sent again.
    #[must_use]
    pub fn reading_as(self, now: String) -> Self {
        let (table, order) =
            if self.read_as == now { (self.table, self.order) } else { (None, None) };
        Self { table, order, read_as: now, ..self }
    }

    /// What is written beside each place in the order of a table.
    pub fn frame(&self, table: &str, topics: &ProducedTo) -> Map<String, Value> {
        let Self { system_id, slot_at, first_xmin, read_as, .. } = self;
        Map::from_iter([
            ("read_as".to_owned(), json!(read_as)),
            ("system_id".to_owned(), json!(system_id)),
            ("slot_at".to_owned(), json!(slot_at)),
            ("first_xmin".to_owned(), json!(first_xmin)),
            ("table".to_owned(), json!(table)),
            ("topics".to_owned(), json!(topics)),
        ])
    }
}

/// Whether the state topic has a witness of the pipeline: a router has run, or set-up was
/// completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// It has.
    Witnessed,
    /// It has not.
    Unwitnessed,
    /// None is kept.
    NotKept,
}

/// What there is before a back-fill begins.
#[derive(Debug)]
pub struct Before<'b> {
    /// The name of the slot.
    pub slot: &'b str,
    /// The server's system identifier. `None`: it was not asked.
    pub system_id: Option<&'b str>,
    /// Where it stands, if it exists: `no position` is none.
    pub position: Option<Option<Lsn>>,
    /// Whether there is a witness.
    pub beginning: Beginning,
    /// The last run of a back-fill for this slot.
    pub last: Option<&'b PastRun>,
    /// Which rows are asked for.
    pub selection: &'b str,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Todo {
    /// A new run; an unfinished one was of other rows, and sent nothing, or of another server.
    Begin,
    /// An earlier run goes on.
    Resume(Option<Reached>),
    /// All rows were sent.
    Nothing,
}

impl Before<'_> {
    /// What is to be done.
    ///
    /// # Errors
    /// The slot does not divide the rows any more.
    pub fn todo(&self) -> Result<Todo, Failure> {
        let reached = self.last.and_then(Reached::of);
        let is_other = self.last.is_some_and(|run| run.selection != self.selection);
        // A dump has the runs, and no slot; nothing there tells which rows have come since.
        let is_elsewhere = reached.as_ref().zip(self.system_id).is_some_and(|(reached, here)| {
            !reached.system_id.is_empty() && reached.system_id != here
        });
        let completeness = self.last.map(|run| run.completeness);
        let is_complete = completeness == Some(Completeness::Complete);
        let stands_at_it = self.position.is_some_and(|position| {
            let made_at = reached.as_ref().and_then(|reached| reached.slot_at.parse().ok());
            position.is_some() && position == made_at && !is_elsewhere
        });
        if self.beginning == Beginning::Witnessed {
            let why = "the pipeline has a witness, so its beginning is long ago";
            return match (self.position, self.last) {
                (Some(_), _) if is_complete && !is_other => Ok(Todo::Nothing),
                (_, Some(run)) if run.completeness == Completeness::Partial => {
                    Err(self.overtaken(run, why))
                }
                _ => Err(self.too_late(why)),
            };
        }
        let Some(run) = self.last else {
            return match self.position {
                None => Ok(Todo::Begin),
                Some(_) => {
                    Err(self.too_late("it was not made for a back-fill, or that was completed"))
                }
            };
        };
        match (self.position, run.completeness) {
            (None, Completeness::Complete | Completeness::GivenUp) => Ok(Todo::Begin),
            (Some(_), Completeness::Complete) if stands_at_it && is_other => {
                Err(self.other_rows(run))
            }
            // Nothing shows what was altered since its last row, and a router would not stop at it.
            (Some(_), Completeness::Complete)
                if stands_at_it && self.beginning == Beginning::Unwitnessed =>
            {
                Ok(Todo::Resume(reached))
            }
            (Some(_), Completeness::Complete) if stands_at_it => Ok(Todo::Nothing),
            // Nothing of the slot's stream was sent, so it can be made again.
            (Some(_), Completeness::GivenUp) if stands_at_it => Ok(Todo::Begin),
            (Some(_), Completeness::Complete | Completeness::GivenUp) => {
                Err(self.too_late("it was moved since a back-fill was completed or given up"))
            }
            (Some(_), Completeness::Partial) if reached.is_some() && !stands_at_it => {
                Err(self.overtaken(run, "it was moved since"))
            }
            (_, Completeness::Partial)
                if is_other && reached.as_ref().is_some_and(|reached| reached.table.is_some()) =>
            {
                Err(self.other_rows(run))
            }
            // Nothing was sent of other rows; on another server, nothing shows what came since.
            (_, Completeness::Partial) if is_other || is_elsewhere => Ok(Todo::Begin),
            (_, Completeness::Partial) => Ok(Todo::Resume(reached)),
        }
    }

    fn too_late(&self, why: &str) -> Failure {
        let Self { slot, .. } = self;
        let message =
            format!("nothing shows which rows of the tables are older than the slot {slot}: {why}");
        Failure::of(Case::BackfillTooLate, message).naming(Name::Slot, *slot)
    }

    fn overtaken(&self, run: &PastRun, why: &str) -> Failure {
        let Self { slot, .. } = self;
        let message = format!(
            "{}, and it cannot go on, since nothing shows any more which rows are older than the \
             slot {slot}: {why}",
            not_complete(run)
        );
        let rows = BackfilledRows::read(&run.selection);
        let failure = Failure::of(Case::BackfillOvertaken, message)
            .naming(Name::TypedFlags, rows.flag().unwrap_or_else(|| " --all".to_owned()));
        rows.named_in(failure, Some(run))
    }

    /// The slot would be dropped, and alone has events, or may have: `what` says it.
    pub fn slot_needed(&self, what: String) -> Failure {
        let rows = BackfilledRows::read(self.selection);
        let failure = Failure::of(Case::BackfillSlot, what)
            .naming(Name::TypedFlags, rows.flag().unwrap_or_default());
        rows.named_in(failure, self.last)
    }

    fn other_rows(&self, run: &PastRun) -> Failure {
        let PastRun { id, begun_at, by, selection, completeness, .. } = run;
        let how = match completeness {
            Completeness::Complete => {
                "is complete, and says nothing of the rows that are asked for"
            }
            Completeness::Partial | Completeness::GivenUp => "is not complete",
        };
        let message = format!(
            "a back-fill of other rows {how}: run {id}, begun at {begun_at} by {by}, of {selection}"
        );
        Failure::of(Case::BackfillOfOtherRows, message).naming(Name::Run, id.to_string())
    }
}

/// The last back-fill is not complete, and something else is to go on without it: whether the same
/// command still goes on.
pub fn unfinished(
    run: &PastRun,
    slot: &str,
    position: Option<Option<Lsn>>,
    beginning: Beginning,
) -> Failure {
    let last = Some(run);
    let before =
        Before { slot, system_id: None, position, beginning, last, selection: &run.selection };
    match before.todo() {
        Ok(_) => Failure::of(Case::BackfillUnfinished, not_complete(run))
            .naming(Name::Run, run.id.to_string())
            .naming(
                Name::TypedFlags,
                BackfilledRows::read(&run.selection).flag().unwrap_or_default(),
            ),
        Err(failure) => failure,
    }
}

fn not_complete(run: &PastRun) -> String {
    let PastRun { id, begun_at, by, settled, .. } = run;
    format!(
        "a back-fill is not complete: run {id}, begun at {begun_at} by {by}, ended after {settled} \
         rows"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::TopicUuid;

    const ROWS: &str = "{\"tables\":[\"public.outbox\"]}";

    fn run(completeness: Completeness, place: Option<Value>) -> PastRun {
        PastRun {
            id: 7,
            by: "ann".to_owned(),
            begun_at: "2026-01-01".to_owned(),
            selection: ROWS.to_owned(),
            settled: 10,
            place,
            completeness,
        }
    }

    fn place(slot_at: &str) -> Value {
        json!({"slot_at": slot_at, "first_xmin": 700, "table": "public.outbox", "order": ["a"]})
    }

    fn todo(
        position: Option<&str>,
        beginning: Beginning,
        last: Option<&PastRun>,
    ) -> Result<Todo, Option<Case>> {
        let position = position.map(|position| position.parse().ok());
        let (slot, system_id) = ("shop", Some("1"));
        let before = Before { slot, system_id, position, beginning, last, selection: ROWS };
        before.todo().map_err(|failure| failure.case)
    }

    const WITNESSED: Beginning = Beginning::Witnessed;
    const UNWITNESSED: Beginning = Beginning::Unwitnessed;
    const LATE: Result<Todo, Option<Case>> = Err(Some(Case::BackfillTooLate));
    const OVERTAKEN: Result<Todo, Option<Case>> = Err(Some(Case::BackfillOvertaken));

    #[test]
    fn without_slot_and_witness_it_begins() {
        assert_eq!(todo(None, UNWITNESSED, None), Ok(Todo::Begin));
        let earlier = run(Completeness::Complete, Some(place("0/10")));
        assert_eq!(todo(None, UNWITNESSED, Some(&earlier)), Ok(Todo::Begin));
    }

    #[test]
    fn an_interrupted_one_goes_on_while_nobody_has_moved_the_slot() {
        let reached = Reached {
            system_id: String::new(),
            read_as: String::new(),
            slot_at: "0/10".to_owned(),
            first_xmin: 700,
            table: Some("public.outbox".to_owned()),
            order: Some(vec![Some("a".to_owned())]),
            // As an earlier version has written it.
            topics: ProducedTo::new(),
        };
        let open = run(Completeness::Partial, Some(place("0/10")));
        let resumed = Ok(Todo::Resume(Some(reached)));
        assert_eq!(todo(Some("0/10"), UNWITNESSED, Some(&open)), resumed);
        // The process was killed between dropping the slot and making it again.
        assert_eq!(todo(None, UNWITNESSED, Some(&open)), resumed);
        assert_eq!(todo(Some("0/20"), UNWITNESSED, Some(&open)), OVERTAKEN);
        assert_eq!(todo(Some("0/10"), WITNESSED, Some(&open)), OVERTAKEN);
        assert_eq!(todo(None, WITNESSED, Some(&open)), OVERTAKEN);
        // Nothing was sent.
        let begun = run(Completeness::Partial, None);
        assert_eq!(todo(Some("0/10"), UNWITNESSED, Some(&begun)), Ok(Todo::Resume(None)));
        assert_eq!(todo(None, UNWITNESSED, Some(&begun)), Ok(Todo::Resume(None)));
    }

    #[test]
    fn one_of_another_server_begins_again() {
        let mut open = run(Completeness::Partial, Some(place("0/10")));
        open.place.as_mut().unwrap()["system_id"] = json!("1");
        assert!(matches!(todo(None, UNWITNESSED, Some(&open)), Ok(Todo::Resume(Some(_)))));
        open.place.as_mut().unwrap()["system_id"] = json!("2");
        assert_eq!(todo(None, UNWITNESSED, Some(&open)), Ok(Todo::Begin));
        // Its slot only seems to stand where the run's has stood.
        assert_eq!(todo(Some("0/10"), UNWITNESSED, Some(&open)), OVERTAKEN);
    }

    #[test]
    fn a_complete_one_is_not_repeated() {
        let complete = run(Completeness::Complete, Some(place("0/10")));
        assert_eq!(todo(Some("0/10"), Beginning::NotKept, Some(&complete)), Ok(Todo::Nothing));
        assert_eq!(todo(Some("0/99"), WITNESSED, Some(&complete)), Ok(Todo::Nothing));
        assert_eq!(todo(Some("0/99"), UNWITNESSED, Some(&complete)), LATE);
    }

    /// The process was killed before it wrote the witness.
    #[test]
    fn a_complete_one_without_its_witness_goes_on_with_another_snapshot() {
        let complete = run(Completeness::Complete, Some(place("0/10")));
        let todo = todo(Some("0/10"), UNWITNESSED, Some(&complete));
        assert!(matches!(todo, Ok(Todo::Resume(Some(_)))), "{todo:?}");
    }

    #[test]
    fn a_complete_one_of_other_rows_says_nothing_of_these() {
        let mut other = run(Completeness::Complete, Some(place("0/10")));
        other.selection = "{}".to_owned();
        let refused = Err(Some(Case::BackfillOfOtherRows));
        assert_eq!(todo(Some("0/10"), UNWITNESSED, Some(&other)), refused);
        assert_eq!(todo(Some("0/99"), UNWITNESSED, Some(&other)), LATE);
        assert_eq!(todo(Some("0/10"), WITNESSED, Some(&other)), LATE);
        assert_eq!(todo(None, UNWITNESSED, Some(&other)), Ok(Todo::Begin));
    }

    #[test]
    fn one_that_was_given_up_is_not_complete() {
        let mut given_up = run(Completeness::GivenUp, Some(place("0/10")));
        for selection in [ROWS, "{}"] {
            given_up.selection = selection.to_owned();
            assert_eq!(todo(Some("0/10"), UNWITNESSED, Some(&given_up)), Ok(Todo::Begin));
            assert_eq!(todo(None, UNWITNESSED, Some(&given_up)), Ok(Todo::Begin));
            assert_eq!(todo(Some("0/99"), UNWITNESSED, Some(&given_up)), LATE);
            assert_eq!(todo(Some("0/10"), WITNESSED, Some(&given_up)), LATE);
        }
    }

    #[test]
    fn a_slot_that_was_not_made_for_it_divides_nothing() {
        assert_eq!(todo(Some("0/10"), UNWITNESSED, None), LATE);
        assert_eq!(todo(Some("0/10"), WITNESSED, None), LATE);
        assert_eq!(todo(None, WITNESSED, None), LATE);
    }

    #[test]
    fn the_rows_of_an_interrupted_one_stay_the_same() {
        let mut other = run(Completeness::Partial, Some(place("0/10")));
        other.selection = "{}".to_owned();
        let refused = Err(Some(Case::BackfillOfOtherRows));
        assert_eq!(todo(Some("0/10"), UNWITNESSED, Some(&other)), refused);
        assert_eq!(todo(None, UNWITNESSED, Some(&other)), refused);
        other.place = Some(json!({"slot_at": "0/10", "first_xmin": 700, "table": null}));
        assert_eq!(todo(Some("0/10"), UNWITNESSED, Some(&other)), Ok(Todo::Begin));
    }

    #[test]
    fn an_unfinished_one_names_the_command_that_still_sends_its_rows() {
        let mut open = run(Completeness::Partial, Some(place("0/10")));
        let named = |run: &PastRun, position: &str, beginning| {
            let failure = unfinished(run, "shop", Some(position.parse().ok()), beginning);
            let name = |name| failure.names.get(name).map(str::to_owned);
            (failure.case, name(Name::TypedFlags).unwrap(), name(Name::Table))
        };
        let resumable = Some(Case::BackfillUnfinished);
        let overtaken = Some(Case::BackfillOvertaken);
        assert_eq!(named(&open, "0/10", UNWITNESSED), (resumable, String::new(), None));
        let all = (overtaken, " --all".to_owned(), Some("public.outbox".to_owned()));
        assert_eq!(named(&open, "0/20", UNWITNESSED), all);
        assert_eq!(named(&open, "0/10", WITNESSED), all);
        let condition = Some("kind = 'a'".to_owned());
        let tables = ["public.outbox", "public.other"].map(str::to_owned).to_vec();
        open.selection = BackfilledRows { tables, condition }.selection();
        let flag = r#" --where 'kind = '\''a'\'''"#.to_owned();
        assert_eq!(named(&open, "0/10", UNWITNESSED), (resumable, flag.clone(), None));
        assert_eq!(named(&open, "0/20", UNWITNESSED), (overtaken, flag, None));
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let topics = ProducedTo::from([("a".to_owned(), TopicUuid::new("A"))]);
        let slot_at = "0/10".to_owned();
        let (system_id, first_xmin) = ("1".to_owned(), u64::MAX);
        let read_as = "some".to_owned();
        let reached =
            Reached { system_id, slot_at, first_xmin, read_as, table: None, order: None, topics };
        let begun = run(Completeness::Partial, Some(reached.place()));
        assert_eq!(Reached::of(&begun), Some(reached.clone()));
        let frame = reached.frame("a.b", &reached.topics);
        let framed = run(Completeness::Partial, Some(Value::Object(frame)));
        let table = Some("a.b".to_owned());
        let framed = Reached::of(&framed).unwrap();
        assert_eq!(framed, Reached { table, ..reached });
        // A place is one of the order in which rows were read.
        let place = Reached { order: Some(vec![Some("a".to_owned())]), ..framed };
        assert_eq!(place.clone().reading_as("some".to_owned()), place);
        let other = place.reading_as("other".to_owned());
        assert_eq!((other.table, other.order, other.first_xmin), (None, None, u64::MAX));
    }
}
