//! What the kernel says of this process.

use procfs::process::Process;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files so far, if the system lets it.
pub(crate) fn allow_files(wanted: usize) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(wanted).unwrap() + 1_000;
    if limit.current.is_some_and(|now| now < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).expect("a hard limit of 11000 files");
    }
}

/// Open file descriptors.
pub(crate) fn files() -> usize {
    Process::myself().unwrap().fd_count().unwrap()
}

/// `VmRSS` in bytes.
pub(crate) fn memory() -> u64 {
    Process::myself().unwrap().status().unwrap().vmrss.unwrap() << 10
}
