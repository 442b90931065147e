//! Names of objects that the router makes for a table, and after it.

use sha2::{Digest as _, Sha256};

/// PostgreSQL cuts longer names off (`NAMEDATALEN`).
const BYTES_MAX: usize = 63;

/// The name `beginning` + `end`. Where it is too long, as much of the beginning as there is room
/// for, and then a digest of it, by which names that begin alike differ.
pub(crate) fn object_name(beginning: &str, end: &str) -> String {
    if beginning.len() + end.len() <= BYTES_MAX {
        return format!("{beginning}{end}");
    }
    let digest = Sha256::digest(beginning.as_bytes());
    let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let room = BYTES_MAX.saturating_sub(end.len() + 1 + digest.len());
    let (beginning, _) = beginning.split_at(beginning.floor_char_boundary(room));
    format!("{beginning}_{digest}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fits_stays_whole() {
        assert_eq!(object_name("outbox", "_p1"), "outbox_p1");
        let longest = "x".repeat(BYTES_MAX);
        assert_eq!(object_name(&longest, ""), longest);
    }

    #[test]
    fn longer_names_are_cut_between_characters_and_differ() {
        let names = ["a", "b"].map(|last| object_name(&format!("{}{last}", "é".repeat(31)), "_p1"));
        assert_ne!(names[0], names[1]);
        for name in names {
            assert!((BYTES_MAX - 1..=BYTES_MAX).contains(&name.len()), "{name}");
            assert!(name.starts_with("éé") && name.ends_with("_p1"), "{name}");
        }
    }
}
