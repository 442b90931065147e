//! What mends one row, and what lets the others go on: a row that is polled can be corrected, and
//! one that is streamed can no longer be changed.

use relay::{Case, Code, ErrorClass, Failure, Name, OnError};

use crate::config::SourceKind;

/// Where the row of a failure comes from, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowSource {
    Streamed,
    Polled,
    /// The failure does not show it.
    Either,
}

impl RowSource {
    /// A row of a stream has the position of its commit. One that is polled has none, and its
    /// failure names the table for the statement that corrects it.
    pub(super) fn of(failure: &Failure) -> Self {
        match (failure.lsn, failure.names.get(Name::QuotedTable)) {
            (Some(_), _) => Self::Streamed,
            (None, Some(_)) => Self::Polled,
            (None, None) => Self::Either,
        }
    }

    pub(super) const fn known(source: SourceKind) -> Self {
        match source {
            SourceKind::Stream => Self::Streamed,
            SourceKind::Polling => Self::Polled,
        }
    }
}

/// The correction of a row that is polled. `{own}` stands for the remedy of the code, where that
/// mends such a row, too.
const CORRECTIONS: [(Code, &str); 9] = [
    (
        Code::KeyIsNull,
        "`update {quoted_table} set {key_column} = VALUE where {id_column} = '{row_id}'`",
    ),
    (Code::IdIsNull, "`update {quoted_table} set {id_column} = VALUE where PRIMARY_KEY = VALUE`"),
    (
        Code::TimestampUnusable,
        "`update {quoted_table} set TIME_COLUMN = VALUE where {id_column} = '{row_id}'`, or set \
         timestamp = \"now\" for this table and restart",
    ),
    (Code::HeadersMalformed, CORRECTED),
    (Code::PartitionUnusable, CORRECTED),
    (Code::NotJson, CORRECTED),
    (Code::TopicIsNull, CORRECTED),
    (Code::TopicIllegal, CORRECTED),
    (Code::RouteMismatch, CORRECTED),
];

const OWN: &str = "; or {own}";

const CORRECTED: &str =
    "`update {quoted_table} set COLUMN = VALUE where {id_column} = '{row_id}'`; or {own}";

fn corrected(code: Code) -> Option<&'static str> {
    CORRECTIONS.iter().find(|(known, _)| *known == code).map(|(_, text)| *text)
}

/// The statement that corrects a row that is polled; `None` where nothing in the row is wrong.
pub(super) fn correction(code: Code) -> Option<&'static str> {
    corrected(code).map(|text| text.strip_suffix(OWN).unwrap_or(text))
}

/// The remedy of a code with the correction of the row.
pub(super) fn with_correction(own: Option<String>, code: Code, from: RowSource) -> Option<String> {
    let Some(text) = corrected(code) else { return own };
    match from {
        RowSource::Streamed => own,
        RowSource::Polled => Some(text.replace("{own}", &own.unwrap_or_default())),
        RowSource::Either => {
            let correction = text.strip_suffix(OWN).unwrap_or(text);
            let own = own.map(|own| format!("; or {own}")).unwrap_or_default();
            Some(format!("where rows are polled: {correction}{own}"))
        }
    }
}

/// What lets the other events go on, after the remedy of a failure that is one event's alone.
pub(super) fn dead_letter_option(failure: &Failure, from: RowSource) -> Option<String> {
    // The state topic's record is no event, and neither is the one that shows a dead letter. The
    // last is an event that cannot be one, although it is to be.
    let may_be_one = !matches!(
        failure.case,
        Some(
            Case::StateRecordTooLarge
                | Case::LetterTooLarge
                | Case::LetterRefused
                | Case::RowTooLargeForKey
        )
    );
    let is_one = failure.names.get(Name::OnError) == Some(OnError::DeadLetter.as_str());
    let class = ErrorClass::of(failure.code).filter(|_| may_be_one && !is_one)?.as_str();
    let option = "or, so that the events of other keys go on: ";
    let set = format!("write {class} = \"dead_letter\" under [on_error] and restart");
    let streamed = format!(
        "{option}`{{setup}} --dead-letters`, then {set} (the topic dead_letters.topic has to \
         exist, or to be \"\")"
    );
    let column = "`alter table {quoted_table} add column abandoned_at timestamptz` and `{setup}`, \
                  unless it has such a column, or a status with a word for abandoned";
    Some(match from {
        RowSource::Streamed => streamed,
        RowSource::Polled => format!("{option}{column}; then {set}"),
        RowSource::Either => {
            format!("{streamed}; where rows are polled, in the place of --dead-letters: {column}")
        }
    })
}

/// What gives up the one row at which the router stands. A record that only the broker refuses is
/// no such row: the session ends with it.
pub(super) fn skip_option(failure: &Failure) -> Option<String> {
    let is_row = match ErrorClass::of(failure.code)? {
        ErrorClass::BadRow | ErrorClass::Unroutable => true,
        ErrorClass::TooLarge => failure.code == Code::RowTooLarge,
        ErrorClass::Rejected => false,
    };
    let lsn = failure.lsn.filter(|_| is_row)?;
    let id = if failure.code == Code::IdIsNull { "" } else { " --id {row_id}" };
    // The option before it says how the tables are made, which both need.
    Some(format!(
        "or, after the same setup, give up this one row: `outbox-router skip --lsn {lsn}{id} \
         --table {{table}} {{admin}}`"
    ))
}

#[cfg(test)]
mod tests {
    use relay::Lsn;

    use super::*;
    use crate::codes::{hint, hint_of_row};

    const SETUP: &str =
        "outbox-router setup --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE";

    fn refused(code: Code) -> Failure {
        Failure::new(code, "refused").naming(Name::QuotedTable, "\"public\".\"outbox\"")
    }

    #[test]
    fn a_row_that_is_polled_is_corrected_by_an_update_of_its_table() {
        let failure = refused(Code::KeyIsNull).naming(Name::RowId, "7");
        let hint_at_its_table = hint(&failure);
        let hint = hint_of_row(&failure, SourceKind::Polling).unwrap();
        assert_eq!(hint_at_its_table.as_ref(), Some(&hint));
        assert_eq!(
            hint,
            format!(
                "update \"public\".\"outbox\" set KEY_COLUMN = VALUE where ID_COLUMN = '7'; or, so \
                 that the events of other keys go on: alter table \"public\".\"outbox\" add column \
                 abandoned_at timestamptz and {SETUP}, unless it has such a column, or a status \
                 with a word for abandoned; then write bad_row = \"dead_letter\" under [on_error] \
                 and restart"
            )
        );
    }

    #[test]
    fn of_a_row_that_is_abandoned_by_itself_nothing_is_said_that_is_configured() {
        let failure = refused(Code::KeyIsNull)
            .naming(Name::RowId, "7")
            .naming(Name::KeyColumn, "\"key\"")
            .naming(Name::IdColumn, "\"n\"")
            .naming(Name::OnError, OnError::DeadLetter.as_str());
        let update = "update \"public\".\"outbox\" set \"key\" = VALUE where \"n\" = '7'";
        assert_eq!(hint(&failure).as_deref(), Some(update));
    }

    #[test]
    fn every_row_that_lacks_something_can_be_corrected_where_it_is_polled() {
        for code in Code::ALL.iter().copied() {
            let lacks = match ErrorClass::of(code) {
                Some(ErrorClass::BadRow | ErrorClass::Unroutable) => true,
                Some(ErrorClass::TooLarge | ErrorClass::Rejected) | None => false,
            };
            assert_eq!(correction(code).is_some(), lacks, "{code}");
            let Some(polled) = hint_of_row(&refused(code), SourceKind::Polling) else { continue };
            if ErrorClass::of(code).is_some() {
                assert!(!polled.contains("--dead-letters"), "{code}: {polled}");
                assert!(polled.contains("add column abandoned_at"), "{code}: {polled}");
            }
            if lacks {
                assert!(
                    polled.starts_with("update \"public\".\"outbox\" set "),
                    "{code}: {polled}"
                );
                assert!(!polled.contains("timestamp = \"commit\""), "{code}: {polled}");
            }
        }
    }

    /// It is in WAL.
    #[test]
    fn a_row_that_is_streamed_is_not_corrected() {
        for code in CORRECTIONS.map(|(code, _)| code) {
            let streamed = hint_of_row(&refused(code), SourceKind::Stream).unwrap();
            let at_its_place = hint(&refused(code).at(Lsn::from_u64(5))).unwrap();
            for hint in [streamed, at_its_place] {
                assert!(!hint.contains("update ") && !hint.contains("abandoned"), "{code}: {hint}");
                assert!(hint.contains(&format!("{SETUP} --dead-letters, then ")), "{code}: {hint}");
            }
        }
    }

    #[test]
    fn where_the_source_is_not_known_both_are_told() {
        let hint = hint(&Failure::new(Code::KeyIsNull, "refused")).unwrap();
        for text in ["where rows are polled: update ", "; or map columns.aggregate_id ", SETUP] {
            assert!(hint.contains(text), "{text}: {hint}");
        }
    }
}
