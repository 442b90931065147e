//! The content of an event, cut to a size, as it is copied for a listener that may see it.

use relay::{Record, Unsent};

/// The most bytes of a key that are shown.
pub const KEY_SHOWN_MAX: usize = 1024;
/// The most bytes of a value, or of one header's value, that are shown. A full channel of the
/// largest events is four megabytes.
pub const VALUE_SHOWN_MAX: usize = 4096;
/// The most headers that are shown.
pub const HEADERS_MAX: usize = 32;
/// The most bytes of all headers' values together.
const HEADER_BYTES_MAX: usize = 4096;

/// Bytes, and how many there were before they were cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) kept: Vec<u8>,
    pub(super) of_bytes: usize,
}

impl Cut {
    pub(super) fn of(bytes: &[u8], most: usize) -> Self {
        let kept = bytes.get(..most).unwrap_or(bytes).to_vec();
        Self { kept, of_bytes: bytes.len() }
    }
}

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawContent {
    pub(super) key: Option<Cut>,
    pub(super) value: Option<Cut>,
    pub(super) headers: Vec<(String, Option<Cut>)>,
}

impl RawContent {
    pub(super) fn of_record(record: &Record<'_>) -> Self {
        let headers = record.headers.iter().map(|header| (header.name, header.value));
        Self {
            key: Some(Cut::of(record.key, KEY_SHOWN_MAX)),
            value: record.value.map(|value| Cut::of(value, VALUE_SHOWN_MAX)),
            headers: cut_headers(headers),
        }
    }

    pub(super) fn of_unsent(unsent: &Unsent) -> Self {
        let headers = unsent.headers.iter();
        let headers = headers.map(|(name, value)| (&**name, value.as_deref().map(str::as_bytes)));
        let value = unsent.value.as_ref().and_then(Option::as_ref);
        Self {
            key: unsent.key.as_ref().map(|key| Cut::of(key, KEY_SHOWN_MAX)),
            value: value.map(|value| Cut::of(value, VALUE_SHOWN_MAX)),
            headers: cut_headers(headers),
        }
    }
}

fn cut_headers<'a>(
    headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
) -> Vec<(String, Option<Cut>)> {
    let mut room = HEADER_BYTES_MAX;
    let cut = |(name, value): (&str, Option<&[u8]>)| {
        let value = value.map(|value| Cut::of(value, room));
        room -= value.as_ref().map_or(0, |value| value.kept.len());
        (name.to_owned(), value)
    };
    headers.take(HEADERS_MAX).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_share_one_limit() {
        let long = vec![b'x'; 3000];
        let headers = [("a", Some(&*long)), ("b", None), ("c", Some(&*long)), ("d", Some(&*long))];
        let cut = cut_headers(headers.into_iter());
        let kept = |index: usize| cut[index].1.as_ref().map(|cut| (cut.kept.len(), cut.of_bytes));
        assert_eq!((kept(0), kept(1)), (Some((3000, 3000)), None));
        assert_eq!((kept(2), kept(3)), (Some((1096, 3000)), Some((0, 3000))));
        let many = std::iter::repeat_n(("n", None), 100);
        assert_eq!(cut_headers(many).len(), HEADERS_MAX);
    }
}
