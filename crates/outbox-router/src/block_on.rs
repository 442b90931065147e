//! Runs a future to its end, and nothing longer.

use std::{future::Future, io};

/// Runs `future` on a runtime of its own and returns its result. Work on blocking threads is not
/// waited for: a name that is being resolved, or a request to Kafka, may take minutes and cannot be
/// cancelled, and the process must exit in time.
///
/// # Errors
/// The system refuses what the runtime needs.
pub fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;
    use crate::blocking::blocking;

    #[test]
    fn work_that_still_blocks_is_not_waited_for() {
        let (release, released) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let result = block_on(async {
                drop(blocking(move || released.recv()));
                7
            });
            sender.send(result.unwrap())
        });
        let result = receiver.recv_timeout(Duration::from_secs(10));
        drop(release);
        assert_eq!(result, Ok(7), "the result waits for the blocked thread");
    }
}
