//! What shows that rows are delivered: slot and witness have passed a horizon of this connection,
//! server and timeline are the witness's, nothing is open, and the publication is as it must be.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use relay::{
    Case, Code, Failure, Lsn, Name,
    delivered::{Acknowledged, Confirmed, Covered, EventsSince, Evidence, Horizon, Place},
    source::{
        SlotHealth,
        publication::{self, Watched},
        slot_checks,
    },
    witness::Witness,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    cli::{
        TaskError, Terminal,
        backlog::{Backlog, Counted, Peek},
        connect::{Access, failure},
        flushed::wait_flushed,
        router_status, witness,
    },
    config::{Config, print_duration},
    monitor::{
        catalog::{self, Sought},
        slot,
    },
    prepare,
    retention::{ReliedOn, horizon, session::Session},
};

/// Between two looks at slot and witness.
const PAUSE: Duration = Duration::from_millis(500);

/// How many looks may find the slot behind before the server is asked to write its WAL out.
const PATIENCE: u32 = 2;

/// How long a slot that is idle waits for the WAL writer.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// How long Kafka's answer about the witness may take.
const KAFKA_LIMIT: Duration = Duration::from_secs(10);

/// What is delivered.
pub(super) struct Proof {
    pub(super) horizon: Horizon,
    /// Slot and witness have passed the horizon.
    pub(super) confirmed: Confirmed,
    /// The transactions before the horizon.
    pub(super) covered: Covered,
    /// From where on rows are events.
    pub(super) since: Arc<BTreeMap<Place, EventsSince>>,
    /// The tables on which the witness relies.
    pub(super) relied_on: ReliedOn,
}

/// Where slot and witness stand.
struct Standing {
    slot: SlotHealth,
    witness: Witness,
}

impl Standing {
    fn text(&self) -> String {
        let slot = self.slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
        format!("the slot is at {slot}, the witness at {}", self.witness.position)
    }
}

/// Takes a horizon, and waits until slot and witness have passed it.
pub(super) async fn prove(
    session: Session<'_>,
    config: &Config,
    access: Access<'_>,
    limit: Duration,
    terminal: &mut Terminal<'_>,
) -> Result<Proof, TaskError> {
    let here = session.identity().await?;
    let horizon = horizon::take(session).await?;
    let until = Instant::now() + limit;
    let mut looks = 0;
    loop {
        let standing = look(session, config, access).await?;
        let evidence = Evidence {
            here: &here,
            slot_name: config.postgres.slot.as_str(),
            slot: &standing.slot,
            acknowledged: Acknowledged::from(&standing.witness),
            // What is found then is as it was at the horizon, or it is refused.
            verified: horizon.lsn,
            nothing_before: None,
        };
        let mut confirmed = Confirmed::by(evidence)?;
        if confirmed.position() < horizon.lsn
            && is_idle(session, config, &standing, horizon).await?
        {
            let nothing_before = Some(horizon.lsn);
            confirmed = Confirmed::by(Evidence { nothing_before, ..evidence })?;
        }
        if let Some(covered) = horizon.covered(&confirmed) {
            let since = check_published(session, config, &standing.witness).await?;
            Box::pin(check_next_start(config, access)).await?;
            let Witness { held_table, notes, .. } = standing.witness;
            let relied_on = ReliedOn { held: held_table, notes };
            return Ok(Proof { horizon, confirmed, covered, since, relied_on });
        }
        if Instant::now() >= until {
            let what = format!(
                "slot and witness did not pass {} within {}: {}",
                horizon.lsn,
                print_duration(limit),
                standing.text()
            );
            return Err(Failure::of(Case::RetentionUnconfirmed, what).into());
        }
        looks += 1;
        if looks == PATIENCE {
            let (lsn, text) = (horizon.lsn, standing.text());
            writeln!(terminal.err, "waiting until slot and witness have passed {lsn}: {text}")?;
        }
        if looks >= PATIENCE {
            horizon::flush(session).await?;
        }
        sleep(PAUSE).await;
    }
}

/// Reads slot and witness, and refuses where something is open.
async fn look(
    session: Session<'_>,
    config: &Config,
    access: Access<'_>,
) -> Result<Standing, TaskError> {
    let name = config.postgres.slot.as_str();
    // The witness first: a router confirms only what it has written there.
    let witness = read_witness(config, access).await?;
    check_router(config).await?;
    let reading = slot::read(&mut { session.client }, session.backend.version, name).await?;
    let slot = slot_checks::suitable(name, &reading)?;
    Ok(Standing { slot: slot.clone(), witness })
}

/// What a router would find at its next start, and no witness has yet: that dead letters are gone,
/// that Kafka is another cluster. A router that streams has looked.
async fn check_next_start(config: &Config, access: Access<'_>) -> Result<(), TaskError> {
    let Some(records) = witness::Records::of(config, access)? else { return Ok(()) };
    // The router's role may replicate, and that of the command need not.
    let endpoint = Access { url: access.own, ..access }.endpoint("cleanup")?;
    let source = prepare::source(config, endpoint);
    let (reading, stored) = witness::read_together(&records, &source).await?;
    let Some(known) = stored.witness else { return Ok(()) };
    let found = witness::with_gaps_found(config, &known, &stored.cluster, &reading);
    check_nothing_open(&found)?;
    Ok(reading.held.check_there(known.held_table)?)
}

fn check_nothing_open(witness: &Witness) -> Result<(), Failure> {
    witness.open_findings().first().map_or(Ok(()), |open| {
        let what = format!("{} is open: {}", open.name(), witness::failure_of(open).message);
        Err(Failure::of(Case::RetentionOpen, what))
    })
}

async fn read_witness(config: &Config, access: Access<'_>) -> Result<Witness, Failure> {
    let Some(records) = witness::Records::of(config, access)? else {
        let what =
            "there is no witness, since kafka.state_topic is \"\": nothing shows what was sent";
        return Err(Failure::of(Case::RetentionOpen, what));
    };
    let unknown = |why: String| {
        let what = format!("the witness cannot be read, so what is open is not known: {why}");
        Failure::of(Case::RetentionOpen, what)
    };
    let read = timeout(KAFKA_LIMIT, records.read()).await;
    let read = read
        .map_err(|_| unknown(format!("no answer within {}", print_duration(KAFKA_LIMIT))))?
        .map_err(|failure| unknown(format!("{failure:#}")))?;
    let Some(found) = read.witness else {
        return Err(unknown(format!("there is none in {}", records.topic())));
    };
    if let Some(topic) = read.unseen.first() {
        let what = format!(
            "whether topic {topic} is the one that was produced to is not known: no broker \
             describes it"
        );
        return Err(Failure::of(Case::RetentionOpen, what).naming(Name::Topic, topic));
    }
    check_nothing_open(&found)?;
    Ok(found)
}

/// A router that runs may have found a gap that is not in the witness yet.
async fn check_router(config: &Config) -> Result<(), Failure> {
    let Some(router) = router_status::read(config).await else { return Ok(()) };
    let gaps = router.get("witness").and_then(|witness| witness.get("gaps")?.as_array());
    let name = gaps.and_then(|gaps| gaps.first()?.get("name")?.as_str());
    match name {
        None => Ok(()),
        Some(name) => {
            Err(Failure::of(Case::RetentionOpen, format!("{name} is open, says the router")))
        }
    }
}

/// Whether no process streams from the slot, and it has nothing to send of what was committed
/// before the horizon. Without a router the slot stays where it is.
async fn is_idle(
    session: Session<'_>,
    config: &Config,
    standing: &Standing,
    horizon: Horizon,
) -> Result<bool, Failure> {
    if standing.slot.is_active() {
        return Ok(false);
    }
    let position = horizon.lsn.to_string();
    let flushed = wait_flushed(session.client, &position, FLUSHED_WITHIN).await;
    if !flushed.map_err(failure)? {
        return Ok(false);
    }
    let postgres = &config.postgres;
    let (slot, publication) = (postgres.slot.as_str(), postgres.publication.as_str());
    let counted = &Counted::of(config, Some(&standing.witness));
    let peek = Peek { slot, publication, before: Some(horizon.lsn), counted };
    let what = match Backlog::peek(session.client, peek).await {
        Backlog::Nothing => return Ok(true),
        Backlog::Rows => format!(
            "the slot {slot} has committed rows that are not delivered, and no router streams"
        ),
        // The statement was refused: that has a remedy of its own.
        Backlog::Unknown(why) if why.code != Code::SlotMissing => return Err(why),
        Backlog::Unknown(why) => format!("the slot {slot}: {}", why.message),
    };
    Err(Failure::of(Case::RetentionUnconfirmed, what))
}

/// What the publication leaves out is confirmed, and not delivered. Returns from where on rows are
/// events.
async fn check_published(
    session: Session<'_>,
    config: &Config,
    witness: &Witness,
) -> Result<Arc<BTreeMap<Place, EventsSince>>, Failure> {
    let outboxes = config.outboxes();
    let publication = config.postgres.publication.as_str();
    let before = Some(&witness.catalog);
    let sought = Sought { publication, outboxes: &outboxes, remembered: before };
    let now = catalog::read(&mut { session.client }, session.backend.version, sought).await?;
    let watched = Watched { publication, outboxes: &outboxes };
    publication::check(watched, before, &now)?;
    if let Some(xid) = now.altering {
        let what = format!(
            "a transaction that has not ended alters the publication {publication} or its tables \
             ({xid} is its id, or that of a savepoint), so from where on rows are left out is not \
             known: pg_stat_activity and pg_prepared_xacts have the transactions that run"
        );
        return Err(Failure::of(Case::RetentionUnconfirmed, what));
    }
    Ok(witness.since_by(&now))
}
