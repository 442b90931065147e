//! A hash of a row's columns, as a stream shows them and as SQL reads them: of one byte for each
//! NULL, and of the hash of each other text, as it is sent to a client.

use sha2::{Digest as _, Sha256};

/// The hash in hexadecimal digits, of the columns' texts.
pub(crate) fn content<'t>(texts: impl Iterator<Item = Option<&'t [u8]>>) -> String {
    let mut content = Sha256::new();
    for text in texts {
        match text {
            None => content.update([0]),
            Some(text) => content.update(Sha256::digest(text)),
        }
    }
    content.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same in SQL, of expressions that give the texts.
pub(crate) fn content_sql<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let of_each = texts.map(|text| format!("coalesce(sha256(textsend({text})), '\\x00')"));
    let content = of_each.collect::<Vec<_>>().join(" || ");
    format!("encode(sha256({content}), 'hex')")
}
