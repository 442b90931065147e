//! `accept`: a person says that what is missing is known, and the router goes on.
//!
//! The record of it is a baseline as complete as the first one, so slot, publication and tables
//! must be right *now*: what happens after that look is noticed at the next start. It is looked at
//! twice, before the question and after the answer, because a person may take an hour.

mod rows;
mod show;

use std::{fs, os::unix::fs::MetadataExt as _, time::Duration};

use relay::{
    Failure,
    witness::{Open, Witness},
};
use tokio::time::{Instant, sleep};

use super::{
    AcceptArgs, Audience, Confirmation, Exit, Terminal, Trouble,
    complaint::complain,
    connect::Access,
    record::{self, Records, Stored},
};
use crate::{
    config::{Config, Environment},
    prepare,
    shell::{Seen, Source},
};

/// How long a router that streams may take to see the gap: it looks every five seconds.
const PATIENCE: Duration = Duration::from_secs(8);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Everything that an acceptance is made from.
struct Facts {
    stored: Stored,
    /// As it lies in Kafka.
    recorded: Witness,
    /// The same with what nobody has written down.
    record: Witness,
    seen: Seen,
}

/// Shows what is open, asks, and closes it.
pub(super) async fn accept(
    args: &AcceptArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, Trouble> {
    let Some(records) = Records::of(config, access)? else {
        return Err(show::keeps_none().into());
    };
    let source = prepare::source(config, access.endpoint("accept")?);
    let facts = look_at_rest(config, &records, &source).await?;
    let open = facts.record.open();
    if open.is_empty() {
        show::nothing(&facts.record, terminal.out)?;
        return Ok(Exit::Done);
    }
    let Some(chosen) = choose(args, &open) else {
        show::unknown(&args.gaps, &open, terminal.err)?;
        return Ok(Exit::Usage);
    };
    show::pipeline(config, records.database(), terminal.out)?;
    for open in &chosen {
        show::open(open, terminal.out)?;
        if let Open::Gap(gap) = open {
            let counted = Box::pin(rows::count(config, access, &facts.seen.catalog, gap)).await;
            show::rows(&counted, terminal.out)?;
        }
    }
    show::alterations(&record::alterations(config, &facts.recorded, &facts.seen), terminal.out)?;
    let next = decide(args, config, access, facts, &chosen)?;
    show::consequence(&next, &chosen, terminal.out)?;
    let next = match (args.confirmation, terminal.audience) {
        (Confirmation::Yes, _) => next,
        (Confirmation::Ask, Audience::Machine) => {
            complain(terminal.err, &show::nobody_to_ask(&chosen))?;
            return Ok(Exit::Usage);
        }
        (Confirmation::Ask, Audience::Person) => {
            if !confirmed(config.postgres.slot.as_str(), terminal)? {
                writeln!(terminal.err, "nothing was accepted")?;
                return Ok(Exit::Failure);
            }
            let again = look_at_rest(config, &records, &source).await?;
            if names(&again.record.open()) != names(&open) {
                return Err(show::changed().into());
            }
            decide(args, config, access, again, &chosen)?
        }
    };
    records.write("accept", &next).await?;
    show::done(&next, &chosen, terminal.out)?;
    Ok(Exit::Done)
}

/// Looks when nobody streams, if that is soon: a router that streams sees an open gap within
/// seconds, and stops. One that does not is refused later.
async fn look_at_rest(
    config: &Config,
    records: &Records,
    source: &Source,
) -> Result<Facts, Trouble> {
    let until = Instant::now() + PATIENCE;
    loop {
        let facts = look(config, records, source).await?;
        let must_wait = !facts.record.gaps.is_empty() && record::is_held(&facts.seen);
        if !must_wait || Instant::now() >= until {
            return Ok(facts);
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn look(config: &Config, records: &Records, source: &Source) -> Result<Facts, Trouble> {
    let (seen, mut stored) = record::see(records, source).await?;
    let Some(recorded) = stored.record.take() else {
        return Err(show::no_record(records.topic()).into());
    };
    let record = record::found(config, &recorded, &stored.cluster, &seen);
    Ok(Facts { stored, recorded, record, seen })
}

fn names(open: &[Open]) -> Vec<String> {
    open.iter().map(Open::name).collect()
}

/// What is to be closed: all, or what was named. `None` when something else was named.
fn choose(args: &AcceptArgs, open: &[Open]) -> Option<Vec<Open>> {
    let is =
        |name: &super::GapName, open: &Open| open.code() == name.code && open.lsn() == name.lsn;
    let is_open = |name| open.iter().any(|open| is(name, open));
    if !args.gaps.iter().all(is_open) {
        return None;
    }
    let is_chosen =
        |open: &&Open| args.gaps.is_empty() || args.gaps.iter().any(|name| is(name, open));
    Some(open.iter().filter(is_chosen).cloned().collect())
}

/// The record of the acceptance.
fn decide(
    args: &AcceptArgs,
    config: &Config,
    access: Access<'_>,
    facts: Facts,
    chosen: &[Open],
) -> Result<Witness, Failure> {
    let by = args.by.clone().unwrap_or_else(|| person(access.environment));
    let has_gap = chosen.iter().any(|open| matches!(open, Open::Gap(_)));
    if !has_gap {
        return Ok(facts.recorded.accept_beginning(&by, &facts.seen.look.at));
    }
    let baseline = record::baseline(config, facts.seen, &facts.record.open())?;
    let recorded = facts.recorded.open();
    let known: Vec<Open> = chosen.iter().filter(|open| recorded.contains(open)).cloned().collect();
    facts.record.may_accept(&known, &baseline)?;
    let anew = Witness::begin(&baseline, &facts.stored.cluster, &config.outboxes());
    Ok(facts.record.accept(chosen, anew, &by))
}

fn confirmed(slot: &str, terminal: &mut Terminal<'_>) -> Result<bool, Trouble> {
    write!(terminal.out, "type {slot}, the slot's name, to accept it: ")?;
    terminal.out.flush()?;
    let mut answer = String::new();
    terminal.input.read_line(&mut answer)?;
    Ok(answer.trim() == slot)
}

/// The user and the host, as far as the system tells them.
fn person(environment: &Environment) -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| environment.get(name));
    let user = named.map_or_else(user, str::to_owned);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = environment.get("HOSTNAME").unwrap_or_else(|| host.trim());
    format!("{user}@{host}")
}

/// The owner of this process.
fn user() -> String {
    let Ok(process) = fs::metadata("/proc/self") else { return "unknown".to_owned() };
    let uid = process.uid().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = users.lines().map(|line| line.split(':'));
    let name = users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("uid {uid}"))
}
