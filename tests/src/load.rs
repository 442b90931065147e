//! Watching writers at work.

use testbed::load::Running;
use testbed::wait::eventually;

use crate::SOON;

/// Waits until the writers have committed so many events more.
///
/// # Errors
///
/// Fails when they do not soon.
pub async fn committed(running: &Running, more: u64) -> anyhow::Result<()> {
    let wanted = running.committed() + more;
    eventually(SOON, format!("{more} more committed events"), async || {
        Ok((running.committed() >= wanted).then_some(()))
    })
    .await
}
