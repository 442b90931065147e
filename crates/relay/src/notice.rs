//! Warnings of the server within the stream, and which of them say that rows are skipped.

use crate::failure::{Case, Failure};

/// The function that warns of a missing publication: PostgreSQL 18, pgoutput.c.
const LOADS_PUBLICATIONS: &str = "LoadPublications";
/// The function that warns of a standby which is away: PostgreSQL 17 and later, slot.c.
const WAITS_FOR_STANDBYS: &str = "StandbySlotsHaveCaughtup";
/// The setting which the texts of the latter name in every language.
const STANDBYS: &str = "synchronized_standby_slots";
/// `object_not_in_prerequisite_state`, the SQLSTATE of both.
const NOT_IN_PREREQUISITE_STATE: &str = "55000";

/// A NOTICE or WARNING of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNotice {
    /// `SQLSTATE`.
    pub code: String,
    /// The text, in the language of the server's `lc_messages`.
    pub message: String,
    /// The source-code function that raised it: the field `R`.
    pub routine: Option<String>,
}

impl ServerNotice {
    /// Whether the server waits for a standby, and skips nothing.
    pub fn is_of_standby(&self) -> bool {
        is_of_standby(self.routine.as_deref(), &self.message)
    }

    /// The failure, if the server skips rows: PostgreSQL 18 leaves out those of a time at which the
    /// publication did not exist, and nothing but this warning reports it.
    ///
    /// A warning of an unknown function, or of none, counts as one if it has the same SQLSTATE and
    /// names the publication: an unnecessary halt costs less than rows that are skipped in silence.
    pub fn rows_skipped(&self, publication: &str) -> Option<Failure> {
        let may_be = self.code == NOT_IN_PREREQUISITE_STATE
            && !self.is_of_standby()
            && self.message.contains(publication);
        (self.routine.as_deref() == Some(LOADS_PUBLICATIONS) || may_be).then(|| {
            Failure::of(Case::RowsSkipped, format!("the server skips rows: {}", self.message))
        })
    }
}

/// Whether a warning or error of this function, with this text, is about the standbys for which a
/// walsender waits. A stopping server raises the same texts as errors.
pub fn is_of_standby(routine: Option<&str>, text: &str) -> bool {
    routine == Some(WAITS_FOR_STANDBYS) || text.contains(STANDBYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(code: &str, text: &str, routine: Option<&str>) -> ServerNotice {
        ServerNotice {
            code: code.to_owned(),
            message: text.replace("SETTING", STANDBYS),
            routine: routine.map(str::to_owned),
        }
    }

    #[test]
    fn a_skipped_publication_is_known_by_its_function_in_every_language() {
        for text in ["skipped loading publication \"p\"", "Laden wurde übersprungen"] {
            assert!(notice("55000", text, Some(LOADS_PUBLICATIONS)).rows_skipped("p").is_some());
        }
    }

    #[test]
    fn a_standby_that_is_away_skips_no_rows_whatever_its_slot_is_called() {
        for (code, text) in [
            ("55000", "slot \"p\" specified in parameter \"SETTING\" does not have active_pid"),
            ("55000", "slot \"p\" specified in parameter \"SETTING\" has been invalidated"),
            ("22023", "slot \"p\" specified in parameter \"SETTING\" does not exist"),
        ] {
            for routine in [Some(WAITS_FOR_STANDBYS), Some("Renamed"), None] {
                let notice = notice(code, text, routine);
                assert!(notice.is_of_standby() && notice.rows_skipped("p").is_none(), "{notice:?}");
            }
        }
        let in_spanish = notice("55000", "la ranura «p» está inactiva", Some(WAITS_FOR_STANDBYS));
        assert!(in_spanish.is_of_standby() && in_spanish.rows_skipped("p").is_none());
    }

    #[test]
    fn a_warning_of_an_unknown_function_skips_rows_if_it_names_the_publication() {
        for routine in [None, Some("Renamed")] {
            assert!(notice("55000", "\"p\" is left out", routine).rows_skipped("p").is_some());
            assert!(notice("55000", "a slot is full", routine).rows_skipped("p").is_none());
            assert!(notice("01000", "\"p\" is left out", routine).rows_skipped("p").is_none());
        }
    }
}
