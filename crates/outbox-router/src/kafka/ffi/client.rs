//! What a producer and a reader have in common: the native client's main queue, and no callbacks.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::{self, NonNull},
};

use rdkafka::{ClientContext, client::Client};
use rdkafka_sys as sys;

/// rdkafka's callbacks are not used: all events are taken from the main queue.
pub(super) struct NoCallbacks;

impl ClientContext for NoCallbacks {}

/// The queue that receives all events of a client.
pub(super) struct MainQueue(pub(super) NonNull<sys::rd_kafka_queue_t>);

/// What librdkafka writes to the eventfd: a count of one.
pub(super) const SIGNAL: [u8; 8] = 1_u64.to_ne_bytes();

impl MainQueue {
    pub(super) fn of(client: &Client<impl ClientContext>) -> Self {
        // SAFETY: the client is alive. The reference is counted and returned in `drop`.
        let queue = unsafe { sys::rd_kafka_queue_get_main(client.native_ptr()) };
        #[expect(clippy::expect_used, reason = "every client has a main queue")]
        Self(NonNull::new(queue).expect("a client has a main queue"))
    }

    /// From now on librdkafka writes to `wakeup` when the queue gets its first event since it was
    /// last polled.
    pub(super) fn signal_to(&self, wakeup: &File) {
        // SAFETY: the payload is copied; the descriptor stays open until `drop` has taken it back.
        unsafe {
            sys::rd_kafka_queue_io_event_enable(
                self.0.as_ptr(),
                wakeup.as_raw_fd(),
                SIGNAL.as_ptr().cast(),
                SIGNAL.len(),
            );
        }
    }
}

// SAFETY: librdkafka's queues are locked inside and have no thread affinity.
unsafe impl Send for MainQueue {}
// SAFETY: as above.
unsafe impl Sync for MainQueue {}

impl Drop for MainQueue {
    fn drop(&mut self) {
        // SAFETY: a descriptor of -1 ends the signals; the reference is returned once.
        unsafe {
            sys::rd_kafka_queue_io_event_enable(self.0.as_ptr(), -1, ptr::null(), 0);
            sys::rd_kafka_queue_destroy(self.0.as_ptr());
        }
    }
}

pub(super) fn event_fd() -> io::Result<File> {
    // SAFETY: no pointers are involved.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open and nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}
