//! Tables that programs write into a document, between markers of their own.

use std::{fs, io, path::Path};

/// Replaces what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
///
/// # Errors
/// The file cannot be read or written, or has no such markers.
pub fn rewrite(path: &Path, name: &str, text: &str) -> io::Result<()> {
    let document = fs::read_to_string(path)?;
    let (begin, end) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
    let missing = || io::Error::other(format!("no {begin} … {end}"));
    let (before, rest) = document.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    fs::write(path, format!("{before}{begin}\n{text}{end}{after}"))
}
