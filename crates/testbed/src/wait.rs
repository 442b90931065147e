//! Waits for conditions, in place of sleeping for a fixed time.
//!
//! Every wait of this crate has a deadline. When the deadline passes, the error says what was
//! awaited and what the last attempt returned.

use std::future::Future;
use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

const POLL: Duration = Duration::from_millis(20);

/// Repeats `attempt` until it yields `Some`, for at most `deadline`.
///
/// # Errors
///
/// Fails when the deadline has passed, naming `what` was awaited. An error of `attempt` ends the
/// wait at once, because a condition that cannot be checked is not one that is still to come true.
pub async fn eventually<T, F, Fut>(
    deadline: Duration,
    what: impl AsRef<str>,
    mut attempt: F,
) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = anyhow::Result<Option<T>>>,
{
    let started = Instant::now();
    loop {
        if let Some(value) = attempt().await? {
            return Ok(value);
        }
        if started.elapsed() >= deadline {
            bail!("timed out after {deadline:?} waiting for {}", what.as_ref());
        }
        sleep(POLL).await;
    }
}

/// Like [`eventually`], for an attempt that is expected to fail until it succeeds, such as
/// connecting to a server that is starting. The message contains the last error.
///
/// # Errors
///
/// Fails when the deadline has passed.
pub async fn until_ok<T, F, Fut>(
    deadline: Duration,
    what: impl AsRef<str>,
    mut attempt: F,
) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = anyhow::Result<T>>,
{
    let started = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) if started.elapsed() >= deadline => {
                return Err(error.context(format!(
                    "timed out after {deadline:?} waiting for {}",
                    what.as_ref()
                )));
            }
            Err(_) => sleep(POLL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_the_condition_is_true() {
        let tries = Cell::new(0);
        let value = eventually(Duration::from_secs(5), "the third try", || {
            tries.set(tries.get() + 1);
            let done = (tries.get() == 3).then_some(tries.get());
            async move { Ok(done) }
        })
        .await
        .unwrap();
        assert_eq!(value, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_times_out_names_its_condition() {
        let error = eventually(Duration::from_secs(1), "a condition", || async { Ok(None::<()>) })
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "timed out after 1s waiting for a condition");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_times_out_reports_the_last_error() {
        let error = until_ok(Duration::from_secs(1), "a server", || async {
            Err::<(), _>(anyhow::anyhow!("connection refused"))
        })
        .await
        .unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "timed out after 1s waiting for a server: connection refused"
        );
    }
}
