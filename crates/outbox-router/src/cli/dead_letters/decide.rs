//! `dead-letters requeue` and `dead-letters drop`: show what is decided about, ask, and decide.
//!
//! What is shown is what is decided about: a dead letter that comes while a person answers stays
//! as it is.

use std::io;

use serde_json::{Value, json};

use super::{
    ambiguous::ambiguous,
    args::{DecideArgs, Place},
    behind::Behind,
    connected::with_table,
    decision::Decision,
    left_out::LeftOut,
    selection::Selection,
    table::Event,
    wording::columns,
    write::{self, Changed},
};
use crate::{
    cli::{Effect, Exit, Form, TaskError, Terminal, connect::Access},
    config::Config,
    wording::count,
};

/// How many dead letters are shown to people one by one.
const SHOWN_MAX: usize = 20;

/// Why a dead letter cannot be requeued.
const CUT: &str = "only the beginning of the row arrived, since it is larger than limits.row_bytes";
/// What to do instead.
const CUT_HINT: &str = "raise limits.row_bytes, restart the router, insert the row again under a \
                        new id, and then drop the dead letter: without it [retention] may remove the \
                        row";

/// What was found.
struct Plan {
    decision: Decision,
    /// Dead letters to decide about.
    events: Vec<Event>,
    /// Dead letters about which this cannot be decided.
    refused: Vec<Event>,
    /// What is held behind them.
    behind: Behind,
    /// Where nothing can be decided about: a selected event, and the dead letter that it waits for.
    waiting: Option<(Place, Place)>,
    /// What was named, or selected, and is no dead letter to decide about.
    left_out: LeftOut,
}

impl Plan {
    fn new(decision: Decision, undecided: Vec<Event>, behind: Behind) -> Self {
        let is_refused = |event: &Event| decision.needs_whole_row() && event.is_cut();
        let (refused, events) = undecided.into_iter().partition(is_refused);
        Self { decision, events, refused, behind, waiting: None, left_out: LeftOut::default() }
    }
}

/// How it ended.
#[derive(Clone, Copy)]
enum Ending {
    /// Nothing was changed, as was asked for.
    Dry,
    /// So many were changed; somebody else has decided about the others meanwhile.
    Changed(Changed),
}

/// Shows, asks, decides, and reports.
pub(super) async fn decide(
    decision: Decision,
    args: &DecideArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let found = with_table(config, access, async |table| {
        let since = match table.since(args.select.since.as_ref()).await? {
            Ok(since) => since,
            Err(message) => return Ok(Err(message)),
        };
        let selection = Selection::of(&args.select, since);
        let undecided = table.undecided(&selection).await?;
        let ids = &args.select.named.ids;
        let of_several = ambiguous(ids, |id| {
            let named = undecided.iter().filter(|event| event.is_named(id));
            named.map(|event| event.table.clone()).collect()
        });
        if let Some(message) = of_several {
            return Ok(Err(message));
        }
        let left_out = LeftOut::read(ids, &selection, &undecided, table).await?;
        let behind = table.behind(&selection, decision).await?;
        let mut plan = Plan { left_out, ..Plan::new(decision, undecided, behind) };
        if plan.events.is_empty() && plan.refused.is_empty() {
            plan.waiting = table.waiting(&selection).await?;
        }
        Ok(Ok(plan))
    })
    .await?;
    let plan = match found {
        Ok(plan) => plan,
        Err(message) => {
            writeln!(terminal.err, "error: {message}")?;
            return Ok(Exit::Usage);
        }
    };
    if args.decision.form == Form::Text {
        show(&plan, terminal)?;
    }
    if plan.events.is_empty() || args.decision.how.effect == Effect::Dry {
        return report(&plan, args, Ending::Dry, terminal);
    }
    let to = format!("{} them", plan.decision.verb());
    let question = (to.as_str(), plan.decision.done());
    if let Some(refused) = args.decision.confirm(config, question, terminal)? {
        return Ok(refused);
    }
    let decider = args.decision.decider(access.environment);
    let chosen = || plan.events.iter().map(|event| event.place);
    let changed = with_table(config, access, async |table| {
        let with_behind = decision.is_with_behind().then_some(&plan.behind);
        write::decide(table, decision, chosen(), with_behind, &decider).await
    })
    .await?;
    report(&plan, args, Ending::Changed(changed), terminal)
}

fn show(plan: &Plan, terminal: &mut Terminal<'_>) -> io::Result<()> {
    let Plan { decision, events, refused, behind, left_out, .. } = plan;
    let verb = decision.verb();
    if !events.is_empty() {
        let number = i64::try_from(events.len()).unwrap_or(i64::MAX);
        let letters = count(number, "dead letter");
        writeln!(terminal.out, "{verb} {letters}{}", behind_text(*decision, behind))?;
        listed(events, terminal.out)?;
        writeln!(terminal.out, "\n{}", decision.consequence())?;
    }
    if !refused.is_empty() {
        let number = i64::try_from(refused.len()).unwrap_or(i64::MAX);
        let letters = count(number, "dead letter");
        writeln!(terminal.err, "error: cannot {verb} {letters}: {CUT}")?;
        listed(refused, terminal.err)?;
        writeln!(terminal.err, "  hint: {CUT_HINT}")?;
    }
    if !events.is_empty() && !left_out.is_empty() {
        writeln!(terminal.err, "error: left out, since it is no undecided dead letter:")?;
        left_out.text(terminal.err)?;
    }
    Ok(())
}

/// What is held behind the dead letters, and whether it is decided about with them.
fn behind_text(decision: Decision, behind: &Behind) -> String {
    let events = count(behind.events(), "event");
    if decision.is_with_behind() {
        let letters = count(behind.letters(), "more dead letter");
        return format!(", and what is held behind: {letters} and {events}");
    }
    let letters = match behind.letters() {
        0 => String::new(),
        letters => format!(", and {} of the same keys", count(letters, "more dead letter")),
    };
    format!("; behind: {events}{letters}")
}

fn listed(events: &[Event], out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    let line = |event: &Event| {
        let place = event.place.to_string();
        [event.key(), event.code().to_owned(), event.id(), place, event.table.clone()]
    };
    let lines: Vec<_> = events.iter().take(SHOWN_MAX).map(line).collect();
    for line in columns(&lines) {
        writeln!(out, "  {line}")?;
    }
    match events.len().saturating_sub(SHOWN_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

fn report(
    plan: &Plan,
    args: &DecideArgs,
    ending: Ending,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    match args.decision.form {
        Form::Text => report_text(plan, ending, terminal)?,
        Form::Json => {
            writeln!(terminal.out, "{:#}", document(plan, args.decision.how.effect, ending))?;
        }
    }
    let is_done = match ending {
        Ending::Dry => !plan.events.is_empty(),
        Ending::Changed(changed) => changed.chosen > 0,
    };
    let is_all = plan.refused.is_empty() && plan.left_out.is_empty();
    Ok(if is_done && is_all { Exit::Done } else { Exit::Failure })
}

fn report_text(plan: &Plan, ending: Ending, terminal: &mut Terminal<'_>) -> io::Result<()> {
    let done = plan.decision.done();
    let meanwhile = meanwhile(plan, ending);
    match ending {
        Ending::Dry if plan.events.is_empty() && plan.refused.is_empty() => {
            write!(terminal.err, "error: no undecided dead letter is selected")?;
            let Some((event, letter)) = plan.waiting else {
                writeln!(terminal.err)?;
                plan.left_out.text(terminal.err)?;
                return writeln!(terminal.err, "  hint: outbox-router dead-letters list");
            };
            writeln!(
                terminal.err,
                ": the event at {event} is held behind the dead letter at {letter}\n  hint: \
                 outbox-router dead-letters show --id {letter}"
            )
        }
        Ending::Dry => writeln!(terminal.out, "nothing was {done}"),
        Ending::Changed(Changed { chosen: 0, .. }) => writeln!(
            terminal.err,
            "nothing was {done}: somebody else has decided about all of them meanwhile\n  hint: \
             outbox-router dead-letters show, which names who"
        ),
        Ending::Changed(Changed { chosen, behind }) => {
            let number = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
            write!(terminal.out, "{done} {}", count(number(chosen), "dead letter"))?;
            if plan.decision.is_with_behind() {
                write!(terminal.out, ", and {} held behind", count(number(behind), "event"))?;
            }
            if meanwhile > 0 {
                write!(terminal.out, "; somebody else has decided about {meanwhile} meanwhile")?;
            }
            writeln!(
                terminal.out,
                "\na router that runs takes note of it within seconds; else: outbox-router run"
            )
        }
    }
}

fn meanwhile(plan: &Plan, ending: Ending) -> usize {
    match ending {
        Ending::Dry => 0,
        Ending::Changed(changed) => plan.events.len().saturating_sub(changed.chosen),
    }
}

fn document(plan: &Plan, effect: Effect, ending: Ending) -> Value {
    let changed = match ending {
        Ending::Dry => Changed::default(),
        Ending::Changed(changed) => changed,
    };
    let events: Vec<Value> = plan.events.iter().map(|event| event.json().into()).collect();
    let refused = |event: &Event| {
        let mut members = event.json();
        members.insert("why".to_owned(), json!(format!("{CUT}; {CUT_HINT}")));
        Value::from(members)
    };
    json!({
        "action": plan.decision.verb(),
        "dry_run": effect == Effect::Dry,
        "selected": plan.events.len() + plan.refused.len(),
        "changed": changed.chosen,
        "decided_meanwhile": meanwhile(plan, ending),
        "behind": plan.behind.events(),
        "letters_behind": plan.behind.letters(),
        "with_behind": plan.decision.is_with_behind(),
        "changed_behind": changed.behind,
        "events": events,
        "refused": plan.refused.iter().map(refused).collect::<Vec<_>>(),
        "left_out": plan.left_out.json(),
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{args::Extent, behind::BehindKey, wording::tests::event},
        *,
    };

    #[test]
    fn a_row_that_did_not_arrive_whole_can_only_be_dropped() {
        let found = || vec![event(Some("1"), Some("R003")), event(Some("2"), Some("R005"))];
        let ids = |events: &[Event]| {
            events.iter().filter_map(|event| event.event_id.clone()).collect::<Vec<_>>()
        };
        let requeue = Plan::new(Decision::Requeue, found(), Behind::default());
        assert_eq!(
            (ids(&requeue.events), ids(&requeue.refused)),
            (vec!["1".into()], vec!["2".into()])
        );
        let drop = Plan::new(Decision::Drop(Extent::Letters), found(), Behind::default());
        assert_eq!((drop.events.len(), drop.refused.len()), (2, 0));
    }

    #[test]
    fn a_program_reads_what_was_changed_and_what_was_refused() {
        let found = vec![
            event(Some("1"), Some("R003")),
            event(Some("2"), Some("R003")),
            event(Some("3"), Some("R005")),
        ];
        let place = event(None, None).place;
        let key = BehindKey { key_hash: vec![7], first: place, last: place, events: 4, letters: 2 };
        let plan = Plan::new(Decision::Requeue, found, Behind(vec![key]));
        let json = document(&plan, Effect::Real, Ending::Changed(Changed { chosen: 1, behind: 0 }));
        let numbers = ["selected", "changed", "decided_meanwhile", "behind", "letters_behind"];
        assert_eq!(numbers.map(|name| json[name].as_i64().unwrap()), [3, 1, 1, 4, 2]);
        assert_eq!(json["with_behind"], false);
        assert_eq!((&json["action"], &json["dry_run"]), (&"requeue".into(), &false.into()));
        assert!(json["refused"][0]["why"].as_str().unwrap().contains("limits.row_bytes"));
    }

    #[test]
    fn a_long_list_is_cut() {
        let mut out = Vec::new();
        listed(&vec![event(Some("1"), Some("R003")); 22], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 21);
        assert!(text.ends_with("  and 2 more\n"), "{text}");
    }
}
