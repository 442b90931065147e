//! Whether the running router stands at the row.

use relay::{Class, Code, Lsn, State};
use serde_json::{Value, json};

/// What the running router says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It stands at a row of the transaction, and says why.
    There(String),
    /// It does something else, and says what.
    Elsewhere(String),
    /// No router of this slot answers.
    Unknown,
}

impl Standing {
    /// From `/status.json`.
    pub(super) fn of(router: Option<&Value>, commit_lsn: Lsn) -> Self {
        let Some(router) = router else { return Self::Unknown };
        let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let state = text(router, "state").unwrap_or_else(|| "in no known state".to_owned());
        let Some(reason) = router.get("reason").filter(|reason| reason.is_object()) else {
            return Self::Elsewhere(state);
        };
        let code = text(reason, "code").unwrap_or_default();
        let lsn = text(reason, "lsn").and_then(|lsn| lsn.parse::<Lsn>().ok());
        let message = text(reason, "message").unwrap_or_default();
        // A gap has a position, too, and no row.
        let is_of_row = Code::parse(&code).is_some_and(|code| code.class() == Class::Mendable);
        if state == State::Failed.as_str() && is_of_row && lsn == Some(commit_lsn) {
            return Self::There(format!("{code}: {message}"));
        }
        let at = lsn.map(|lsn| format!(" at {lsn}")).unwrap_or_default();
        Self::Elsewhere(format!("{state}{at}: {code}: {message}"))
    }

    /// For people. What the router says names the row, unless its id is no plain text.
    pub(super) fn text(&self, commit_lsn: Lsn, id: Option<&str>) -> String {
        let anyway = "the skip counts if the router comes to stand there";
        match self {
            Self::There(why) => match id.filter(|id| !why.contains(id)) {
                None => format!("the router stands there: {why}"),
                Some(_) => format!(
                    "the router stands at a row of this transaction, but does not name this id: \
                     {why}"
                ),
            },
            Self::Elsewhere(doing) => {
                format!(
                    "note: the router does not stand at {commit_lsn}, it is {doing}\n      {anyway}"
                )
            }
            Self::Unknown => {
                format!("note: no router of this slot answers at admin.listen\n      {anyway}")
            }
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let says = match self {
            Self::There(says) | Self::Elsewhere(says) => Some(says),
            Self::Unknown => None,
        };
        json!({ "stands_there": matches!(self, Self::There(_)), "says": says })
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
        let there = Standing::of(Some(&failed("R009", "0/16B3748")), LSN);
        let why = "R009: the row with id e-101 of public.outbox: wrong";
        assert_eq!(there, Standing::There(why.to_owned()));
        for (code, lsn) in [("R009", "0/16B3749"), ("P010", "0/16B3748")] {
            let elsewhere = Standing::of(Some(&failed(code, lsn)), LSN);
            let Standing::Elsewhere(doing) = elsewhere else { panic!("{elsewhere:?}") };
            assert!(doing.starts_with(&format!("failed at {lsn}: {code}: ")), "{doing}");
        }
        let streaming = json!({"state": "streaming", "reason": null});
        let streaming = Standing::of(Some(&streaming), LSN);
        assert_eq!(streaming, Standing::Elsewhere("streaming".to_owned()));
        assert_eq!(Standing::of(None, LSN), Standing::Unknown);
    }

    #[test]
    fn a_person_reads_where_the_router_stands() {
        let there = Standing::of(Some(&failed("R009", "0/16B3748")), LSN);
        assert!(there.text(LSN, Some("e-101")).starts_with("the router stands there: R009: "));
        assert!(there.text(LSN, None).starts_with("the router stands there: R009: "));
        assert!(there.text(LSN, Some("e-102")).contains("does not name this id: R009: "));
        let elsewhere = Standing::Elsewhere("streaming".to_owned());
        let text = elsewhere.text(LSN, None);
        assert!(
            text.starts_with("note: the router does not stand at 0/16B3748, it is streaming\n")
        );
        assert!(Standing::Unknown.text(LSN, None).starts_with("note: no router of this slot "));
    }

    #[test]
    fn a_program_reads_whether_the_router_stands_there() {
        let there = Standing::There("R009: wrong".to_owned()).json();
        assert_eq!(there, json!({"stands_there": true, "says": "R009: wrong"}));
        assert_eq!(Standing::Unknown.json(), json!({"stands_there": false, "says": null}));
    }
}
