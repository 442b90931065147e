//! Whether the running router stands at the row.

use std::fmt;

use relay::{Class, Code, Lsn, State};
use serde_json::{Value, json};

use crate::cli::shown_bytes;

/// How many bytes of what the router says are shown.
const SAYS_SHOWN_MAX: usize = 500;

/// What the running router says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It stands at a row of the transaction that may be this one, and says why.
    There(String),
    /// It does something else, and says what.
    Elsewhere(String),
    /// No router of this slot answers.
    Unknown,
    /// A decision would do nothing.
    Useless(Useless),
}

/// Why a decision would do nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Useless {
    /// The router stands at another row of the transaction.
    AnotherRow {
        /// How the router names that row.
        row: String,
        says: String,
    },
    /// It stands at a row of another transaction, and says why.
    AnotherTransaction(String),
    /// The broker refuses the record, and no row can be skipped for that.
    Refused(String),
}

impl Useless {
    /// What is wrong with deciding on `row` of the transaction that commits at `lsn`.
    pub(super) fn why(&self, row: &str, lsn: Lsn) -> String {
        let shown = |says: &str| shown_bytes::text(says.as_bytes(), SAYS_SHOWN_MAX);
        match self {
            Self::AnotherRow { row: other, says } => {
                format!("the router stands at {other}, and not at {row}: {}", shown(says))
            }
            Self::AnotherTransaction(says) => {
                format!("the router does not stand at {lsn}, but at {}", shown(says))
            }
            Self::Refused(says) => format!(
                "a record that the broker refuses cannot be skipped, since the router has to \
                 produce it to know which one that is: {}",
                shown(says)
            ),
        }
    }

    /// What to type instead.
    pub(super) const fn hint(&self) -> &'static str {
        match self {
            Self::AnotherRow { .. } => {
                "the value of that row's id column after --id; none, no --id"
            }
            Self::AnotherTransaction(_) => {
                "the position that the router names after --lsn, and that row's id after --id"
            }
            Self::Refused(_) => {
                "set on_error.rejected = \"dead_letter\", restart the router, and drop the dead \
                 letter"
            }
        }
    }

    fn says(&self) -> &String {
        match self {
            Self::AnotherRow { says, .. }
            | Self::AnotherTransaction(says)
            | Self::Refused(says) => says,
        }
    }
}

impl Standing {
    /// From `/status.json`.
    pub(super) fn of(router: Option<&Value>, commit_lsn: Lsn, id: Option<&str>) -> Self {
        let Some(router) = router else { return Self::Unknown };
        let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let state = text(router, "state").unwrap_or_else(|| "in no known state".to_owned());
        let Some(reason) = router.get("reason").filter(|reason| reason.is_object()) else {
            return Self::Elsewhere(state);
        };
        let code = text(reason, "code").unwrap_or_default();
        let lsn = text(reason, "lsn").and_then(|lsn| lsn.parse::<Lsn>().ok());
        let message = text(reason, "message").unwrap_or_default();
        let says = format!("{code}: {message}");
        let code = Code::parse(&code);
        if code == Some(Code::RecordRefused) && lsn.is_none_or(|lsn| lsn == commit_lsn) {
            return Self::Useless(Useless::Refused(says));
        }
        // A gap has a position, too, and no row.
        let is_of_row = code.is_some_and(|code| code.class() == Class::Mendable);
        if state == State::Failed.as_str() && is_of_row {
            match (lsn, RowName::of(&message)) {
                (Some(lsn), Some(row)) if lsn == commit_lsn && !row.may_be(id) => {
                    let row = row.to_string();
                    return Self::Useless(Useless::AnotherRow { row, says });
                }
                (Some(lsn), _) if lsn == commit_lsn => return Self::There(says),
                (Some(lsn), Some(row)) => {
                    let says = format!("{row} at {lsn}: {says}");
                    return Self::Useless(Useless::AnotherTransaction(says));
                }
                (Some(_) | None, _) => {}
            }
        }
        let at = lsn.map(|lsn| format!(" at {lsn}")).unwrap_or_default();
        Self::Elsewhere(format!("{state}{at}: {says}"))
    }

    /// For people, about `row` of the transaction that commits at `lsn`.
    pub(super) fn text(&self, row: &str, lsn: Lsn) -> String {
        let anyway = "the skip counts if the router comes to stand there";
        match self {
            Self::There(why) => format!("the router stands there: {why}"),
            Self::Elsewhere(doing) => {
                format!("note: the router does not stand at {lsn}, it is {doing}\n      {anyway}")
            }
            Self::Unknown => {
                format!("note: no router of this slot answers at admin.listen\n      {anyway}")
            }
            Self::Useless(useless) => useless.why(row, lsn),
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let says = match self {
            Self::There(says) | Self::Elsewhere(says) => Some(says),
            Self::Useless(useless) => Some(useless.says()),
            Self::Unknown => None,
        };
        json!({ "stands_there": matches!(self, Self::There(_)), "says": says })
    }
}

/// How a message of the router names a row: it begins with it. A message about a whole table, or
/// about a row of which only the beginning arrived, names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowName<'m> {
    Id(&'m str),
    /// The id is not shown, since it is long or has other characters than ids have.
    Hidden {
        bytes: usize,
    },
    WithoutId,
}

impl<'m> RowName<'m> {
    fn of(message: &'m str) -> Option<Self> {
        if let Some(rest) = message.strip_prefix("the row with id ") {
            return Some(Self::Id(rest.split_once(" of ")?.0));
        }
        if let Some(rest) = message.strip_prefix("a row whose id of ") {
            let (bytes, _) = rest.split_once(" bytes is not shown")?;
            return Some(Self::Hidden { bytes: bytes.parse().ok()? });
        }
        message.starts_with("a row without an id of ").then_some(Self::WithoutId)
    }

    /// Whether it may be the row with this id.
    fn may_be(self, id: Option<&str>) -> bool {
        match (self, id) {
            (Self::Id(shown), Some(id)) => shown == id,
            (Self::Hidden { bytes }, Some(id)) => bytes == id.len(),
            (Self::WithoutId, None) => true,
            (Self::Id(_) | Self::Hidden { .. }, None) | (Self::WithoutId, Some(_)) => false,
        }
    }
}

impl fmt::Display for RowName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "the row with id {id}"),
            Self::Hidden { bytes } => write!(f, "a row whose id has {bytes} bytes"),
            Self::WithoutId => f.write_str("a row without an id"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LSN: Lsn = Lsn::from_u64(0x16B_3748);

    fn failed(code: &str, lsn: &str) -> Value {
        let message = "the row with id e-101 of public.outbox: wrong";
        json!({"state": "failed", "reason": {"code": code, "message": message, "lsn": lsn}})
    }

    #[test]
    fn the_router_stands_at_the_row_of_its_failure_and_at_no_gap() {
        let there = Standing::of(Some(&failed("R009", "0/16B3748")), LSN, Some("e-101"));
        let why = "R009: the row with id e-101 of public.outbox: wrong";
        assert_eq!(there, Standing::There(why.to_owned()));
        let elsewhere = Standing::of(Some(&failed("P010", "0/16B3748")), LSN, None);
        let Standing::Elsewhere(doing) = elsewhere else { panic!("{elsewhere:?}") };
        assert!(doing.starts_with("failed at 0/16B3748: P010: "), "{doing}");
        let streaming = json!({"state": "streaming", "reason": null});
        let streaming = Standing::of(Some(&streaming), LSN, None);
        assert_eq!(streaming, Standing::Elsewhere("streaming".to_owned()));
        assert_eq!(Standing::of(None, LSN, None), Standing::Unknown);
    }

    #[test]
    fn a_person_reads_where_the_router_stands() {
        let at = |id| Standing::of(Some(&failed("R009", "0/16B3748")), LSN, id);
        let row = "the row with id e-10";
        let there = at(Some("e-101")).text(row, LSN);
        assert!(there.starts_with("the router stands there: R009: "), "{there}");
        for id in [Some("e-10"), Some("e-1011"), Some("101"), None] {
            let Standing::Useless(useless) = at(id) else { panic!("{id:?}") };
            let why = useless.why(row, LSN);
            let expected = "the router stands at the row with id e-101, and not at the row with id \
                            e-10: R009: ";
            assert!(why.starts_with(expected), "{why}");
            assert_eq!(at(id).text(row, LSN), why, "there is one wording");
        }
        let elsewhere = Standing::Elsewhere("streaming".to_owned());
        let text = elsewhere.text(row, LSN);
        assert!(
            text.starts_with("note: the router does not stand at 0/16B3748, it is streaming\n")
        );
        assert!(Standing::Unknown.text(row, LSN).starts_with("note: no router of this slot "));
    }

    #[test]
    fn a_mistyped_position_is_another_transaction_where_the_router_names_its_row() {
        let other = Standing::of(Some(&failed("R009", "0/16B3749")), LSN, Some("e-101"));
        let Standing::Useless(Useless::AnotherTransaction(says)) = other else {
            panic!("{other:?}")
        };
        let expected = "the row with id e-101 at 0/16B3749: R009: the row with id e-101 of ";
        assert!(says.starts_with(expected), "{says}");
        // It waits for a person, and stands at no row.
        let status = json!({"state": "failed", "reason":
            {"code": "P004", "message": "no password", "lsn": "0/16B3749"}});
        assert!(matches!(Standing::of(Some(&status), LSN, None), Standing::Elsewhere(_)));
    }

    #[test]
    fn a_record_that_the_broker_refuses_cannot_be_skipped() {
        for state in ["failed", "streaming", "starting"] {
            for lsn in [json!("0/16B3748"), Value::Null] {
                let reason = json!({"code": "K013", "message": "refused", "lsn": lsn});
                let status = json!({"state": state, "reason": reason});
                let standing = Standing::of(Some(&status), LSN, Some("e-101"));
                let refused = Useless::Refused("K013: refused".to_owned());
                assert_eq!(standing, Standing::Useless(refused));
            }
        }
    }

    #[test]
    fn a_program_reads_whether_the_router_stands_there() {
        let there = Standing::There("R009: wrong".to_owned()).json();
        assert_eq!(there, json!({"stands_there": true, "says": "R009: wrong"}));
        assert_eq!(Standing::Unknown.json(), json!({"stands_there": false, "says": null}));
    }

    #[test]
    fn a_row_is_another_only_where_the_message_says_so() {
        let of = RowName::of;
        assert_eq!(of("the row with id 10 of public.outbox: no"), Some(RowName::Id("10")));
        assert!(!RowName::Id("10").may_be(Some("1")) && RowName::Id("10").may_be(Some("10")));
        let hidden =
            of("a row whose id of 3 bytes is not shown, since it is not plain text of a: b");
        assert_eq!(hidden, Some(RowName::Hidden { bytes: 3 }));
        let hidden = hidden.unwrap();
        assert!(hidden.may_be(Some("a b")) && !hidden.may_be(Some("a")) && !hidden.may_be(None));
        let without = of("a row without an id of public.outbox: no").unwrap();
        assert!(without.may_be(None) && !without.may_be(Some("a")));
        assert_eq!(of("a row of public.outbox has 9 bytes"), None);
    }
}
