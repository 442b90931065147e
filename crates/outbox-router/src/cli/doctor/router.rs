//! The router that runs, where one answers at `admin.listen`: what it meets now, no reading of the
//! two servers shows, such as a row that it cannot route.

use relay::{Code, Failure, Names, State};
use serde_json::Value;

use super::{
    check::{Check, error},
    facts::{PostgresFacts, RouterFacts},
    finding::{Finding, Severity},
};
use crate::codes::Advice;

pub(super) const CHECKS: &[Check] = &[Check {
    name: "the router that runs delivers",
    reports: &[error(Advice::RouterStuck.as_str())],
    judge: |facts| {
        let kept = facts.postgres().ok().and_then(PostgresFacts::kept_from_slot);
        let router = facts.router.as_ref().filter(|router| !is_of_switch(router, kept));
        Ok(router.map(stuck).unwrap_or_default())
    },
}];

/// Whether another check says it: that a switch is to be typed. What the role of a router that may
/// not see this lacks is given by the switch, too.
fn is_of_switch(router: &RouterFacts, kept: Option<&Failure>) -> bool {
    kept.is_some_and(|kept| {
        let is = |code: Code| router.code.as_deref() == Some(code.as_str());
        let is_same = is(kept.code) && router.message.as_deref() == Some(kept.message.as_str());
        is(Code::RoleLacksReplication) || is_same
    })
}

impl RouterFacts {
    /// From `/status.json`.
    pub(super) fn of(status: &Value) -> Option<Self> {
        let text = |of: &Value, key: &str| Some(of.get(key)?.as_str()?.to_owned());
        let reason = |key: &str| text(status.get("reason")?, key);
        Some(Self {
            state: text(status, "state")?,
            code: reason("code"),
            message: reason("message"),
            hint: reason("hint"),
        })
    }
}

fn stuck(router: &RouterFacts) -> Vec<Finding> {
    let stuck = [State::Blocked, State::Failed];
    if !stuck.iter().any(|state| state.as_str() == router.state) {
        return Vec::new();
    }
    let code = router.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
    let message = router.message.as_deref().unwrap_or("it does not say why");
    let what = format!("the router is {}: {code}{message}", router.state);
    let names = Names::default();
    let finding = Finding::advice(Severity::Error, Advice::RouterStuck, what, &names);
    let remedy = router.hint.clone().or_else(|| finding.remedy.clone());
    vec![Finding { remedy, ..finding }]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(status: &Value) -> Vec<Finding> {
        RouterFacts::of(status).as_ref().map(stuck).unwrap_or_default()
    }

    #[test]
    fn a_router_that_is_stuck_is_an_error_with_its_own_reason_and_hint() {
        let reason = json!({ "code": "R003", "message": "no legal topic", "hint": "map it" });
        for state in ["failed", "blocked"] {
            let [finding] = &found(&json!({ "state": state, "reason": reason }))[..] else {
                panic!("one finding")
            };
            assert_eq!((finding.severity, finding.code), (Severity::Error, "D045"));
            let expected = format!("the router is {state}: R003: no legal topic");
            assert_eq!(finding.message, expected);
            assert_eq!(finding.remedy.as_deref(), Some("map it"));
        }
        let [finding] = &found(&json!({ "state": "failed", "reason": null }))[..] else {
            panic!("one finding")
        };
        assert_eq!(finding.remedy.as_deref(), Some("outbox-router status"));
    }

    #[test]
    fn what_a_switch_mends_is_said_by_the_check_that_names_the_switch() {
        let router = |code: &str, message: &str| {
            let reason = json!({ "code": code, "message": message, "hint": null });
            RouterFacts::of(&json!({ "state": "blocked", "reason": reason })).unwrap()
        };
        let kept = Failure::new(Code::Switched, "it was polled last");
        let said = router("P043", &kept.message);
        for (router, expected) in [
            (&said, true),
            (&router("P003", "it may not replicate"), true),
            (&router("P043", "a worker holds it"), false),
            (&router("K001", "no broker"), false),
        ] {
            assert_eq!(is_of_switch(router, Some(&kept)), expected, "{router:?}");
            assert!(!is_of_switch(router, None), "{router:?}");
        }
    }

    #[test]
    fn a_router_that_delivers_stands_by_or_is_no_router_is_no_finding() {
        for state in ["streaming", "standby", "starting", "draining"] {
            assert!(found(&json!({ "state": state, "reason": null })).is_empty(), "{state}");
        }
        assert!(found(&json!({ "error": "no such path" })).is_empty());
    }
}
