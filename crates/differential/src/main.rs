//! Records what the real Debezium makes of the cases, or checks that it is what was recorded. Both
//! then run the real router on the same rows (`OUTBOX_ROUTER_BIN`, or the one beside this program).
//!
//! ```text
//! differential random [SEED]    the same of random rows that no golden has, from this seed, else
//!                               from one made from the clock
//! differential check  [CASE…]   fails where Debezium or the router does not do what is recorded
//! differential record [CASE…]   writes the goldens, and prints what differs
//! differential show   [CASE…]   prints what differs, from the goldens
//! differential update [CASE…]   writes into the goldens what the router makes of the rows now
//! ```
#![allow(clippy::print_stdout, reason = "a tool whose output is the answer")]

use std::time::SystemTime;

use anyhow::{Context, bail, ensure};
use differential::case::Case;
use differential::compare::{changes, differences};
use differential::golden::Golden;
use differential::{fresh, live, ours, record};

/// The version of the server, on which no record depends.
const POSTGRES: u16 = 18;

const USAGE: &str = "usage: differential check|record|show|update [CASE…], or random [SEED]";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, names) = arguments.split_first().context(USAGE)?;
    if command == "random" {
        return random(names).await;
    }
    let mut cases = Case::all()?;
    cases.retain(|case| names.is_empty() || names.contains(&case.name));
    ensure!(!cases.is_empty(), "no case is called {}", names.join(" or "));
    match command.as_str() {
        "check" => check(&cases).await,
        "record" => {
            let recorded = record::record(POSTGRES, &cases).await?;
            for (case, golden) in cases.iter().zip(&recorded.goldens) {
                golden.write(&case.name)?;
                show(case, golden)?;
            }
            let tally = live::check(recorded, &cases).await?;
            println!("{} cases recorded; {tally}", cases.len());
            finish(tally.complaints())
        }
        "update" => {
            for case in &cases {
                let golden = record::with_ours(case, Golden::read(&case.name)?)?;
                golden.write(&case.name)?;
                show(case, &golden)?;
            }
            Ok(())
        }
        "show" => cases.iter().try_for_each(|case| show(case, &Golden::read(&case.name)?)),
        _ => bail!(USAGE),
    }
}

/// Fails where Debezium, or the router on rows inserted now, differs from the recording.
async fn check(cases: &[Case]) -> anyhow::Result<()> {
    let mut changed = Vec::new();
    let recorded = record::record(POSTGRES, cases).await?;
    for (case, now) in cases.iter().zip(&recorded.goldens) {
        if !case.varies {
            changed.extend(changes(case, &Golden::read(&case.name)?, now));
        }
    }
    let differ = changed.len();
    let tally = live::check(recorded, cases).await?;
    println!("{} cases through Debezium, {differ} rows not as recorded; {tally}", cases.len());
    changed.extend_from_slice(tally.complaints());
    finish(&changed)
}

/// Fails where random rows differ, and names the seed that gives them.
async fn random(arguments: &[String]) -> anyhow::Result<()> {
    let seed = match arguments {
        [] => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs(),
        [seed] => seed.parse().with_context(|| format!("{seed} is no seed: {USAGE}"))?,
        _ => bail!(USAGE),
    };
    println!("random rows from seed {seed}");
    let fresh = fresh::check(POSTGRES, seed).await?;
    println!("seed {seed}: {fresh}");
    let complaints: Vec<&str> = fresh.complaints().collect();
    ensure!(
        complaints.is_empty(),
        "seed {seed} (scripts/test.sh --debezium random {seed}):\n{}",
        complaints.join("\n")
    );
    Ok(())
}

/// Fails with what differs from the recording.
fn finish(changed: &[String]) -> anyhow::Result<()> {
    ensure!(changed.is_empty(), "not what the goldens say:\n{}", changed.join("\n"));
    Ok(())
}

fn show(case: &Case, golden: &Golden) -> anyhow::Result<()> {
    println!("== {}", case.name);
    if let Some(why) = &golden.task_failed {
        println!("   Debezium's task failed: {why}");
    }
    let outcomes = ours::outcomes(case, golden)?;
    for ((row, recorded), outcome) in case.rows.iter().zip(&golden.rows).zip(&outcomes) {
        for difference in differences(&recorded.debezium, outcome) {
            println!("   {:?}\n      {difference}", row.values);
        }
    }
    Ok(())
}
