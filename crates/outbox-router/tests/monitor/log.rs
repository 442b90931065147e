//! What the monitor logs.

use std::sync::{Arc, LazyLock, Mutex};

use tracing::{Dispatch, subscriber::DefaultGuard};

/// With a single subscriber in the process, `tracing` asks the subscriber of the thread that comes
/// to a log line first whether anybody wants that line, and other tests have none.
static OTHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| std::array::from_fn(|_| Dispatch::new(tracing_subscriber::registry())));

/// Log lines of this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Collects until the guard is dropped. A test's runtime has one thread, so the monitor logs
    /// here too.
    pub(crate) fn listen(&self) -> DefaultGuard {
        LazyLock::force(&OTHERS);
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Levels and messages that contain `part`.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }

    /// Forgets what was collected.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}
