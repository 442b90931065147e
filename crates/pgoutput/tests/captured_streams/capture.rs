//! Reads the captured streams and compares what became of them with their snapshots.

use std::path::PathBuf;
use std::{env, fs};

/// Set to anything, it makes the snapshots what the decoder says now, for a person to review.
const ACCEPT: &str = "PGOUTPUT_ACCEPT_SNAPSHOTS";

/// A stream as it came over the socket.
pub(crate) struct Capture {
    name: &'static str,
    bytes: Vec<u8>,
}

/// All captures.
pub(crate) fn captures() -> Vec<Capture> {
    ["postgresql-15", "postgresql-15-binary", "postgresql-18", "postgresql-18-binary"]
        .into_iter()
        .map(|name| {
            let bytes = fs::read(path(name, "copydata")).expect("a capture");
            Capture { name, bytes }
        })
        .collect()
}

fn path(name: &str, extension: &str) -> PathBuf {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(name).with_extension(extension)
}

impl Capture {
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    pub(crate) fn is_binary(&self) -> bool {
        self.name.ends_with("-binary")
    }

    /// The payloads of the `CopyData` messages, in order.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (length, after) = rest.split_first_chunk().expect("a length");
            let length = usize::try_from(u32::from_be_bytes(*length)).expect("a small length");
            let (payload, after) = after.split_at_checked(length).expect("a whole payload");
            rest = after;
            Some(payload)
        })
    }

    pub(crate) fn compare_with_snapshot(&self, actual: &str) {
        let path = path(self.name, "txt");
        if env::var_os(ACCEPT).is_some() {
            fs::write(&path, actual).expect("the snapshot can be written");
        }
        let expected = fs::read_to_string(&path).expect("a snapshot");
        for (number, (actual, expected)) in actual.lines().zip(expected.lines()).enumerate() {
            assert_eq!(actual, expected, "{}.txt, line {}", self.name, number + 1);
        }
        assert_eq!(actual.lines().count(), expected.lines().count(), "{}.txt", self.name);
    }
}
