//! Connections that hang, break or answer late, and servers that are not there yet.

mod frozen;
mod late_answers;
mod other_program;
mod silence;
mod unreachable;

use std::time::Duration;

use e2e::Fixture;
use testbed::load::Load;

const DEADLINE: Duration = Duration::from_secs(90);

fn load() -> Load {
    Load { writers: 4, think: Duration::from_millis(5), ..Load::default() }
}

/// Writes a few events more, and waits until the writers are done.
async fn write(fixture: &mut Fixture, events: u64) -> anyhow::Result<()> {
    let journal = fixture.load(Load { events: Some(events), ..load() }).finished().await?;
    fixture.note(journal);
    Ok(())
}
