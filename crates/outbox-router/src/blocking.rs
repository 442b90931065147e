//! Runs work that blocks on a thread of its own.

use std::future::Future;

use tokio::task::spawn_blocking;

/// Begins `work` at once, on a blocking thread of the runtime. The future waits for it; dropping
/// the future does not stop the work. A panic of the work continues in the caller.
pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = T> {
    let begun = spawn_blocking(work);
    async move {
        match begun.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that shuts down cancels work that has not begun, and it also drops
                // the task that waits here.
                Err(_cancelled) => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_begins_before_it_is_awaited() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = blocking(move || sender.send(()));
        receiver.recv().unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    #[should_panic(expected = "in the work")]
    async fn a_panic_of_the_work_reaches_the_caller() {
        blocking(|| panic!("in the work")).await;
    }
}
