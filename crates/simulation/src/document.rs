//! Tables that programs write into a document, between markers of their own.

use std::{fs, io, path::Path};

/// Replaces what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
///
/// # Errors
/// The file cannot be read or written, or has no such markers.
pub fn rewrite(path: &Path, name: &str, text: &str) -> io::Result<()> {
    let document = fs::read_to_string(path)?;
    let [before, _, after] = divided(&document, name)?;
    fs::write(path, [before, text, after].concat())
}

/// What stands there.
///
/// # Errors
/// As those of [`rewrite`].
pub fn part(path: &Path, name: &str) -> io::Result<String> {
    let document = fs::read_to_string(path)?;
    let [_, text, _] = divided(&document, name)?;
    Ok(text.to_owned())
}

/// What stands before the end of the first marker, between both, and from the second one on.
fn divided<'d>(document: &'d str, name: &str) -> io::Result<[&'d str; 3]> {
    let (begin, end) = (format!("<!-- {name}:begin -->\n"), format!("<!-- {name}:end -->"));
    let places = document.find(&begin).map(|at| at + begin.len()).zip(document.find(&end));
    let parts = places.and_then(|(from, to)| {
        Some([document.get(..from)?, document.get(from..to)?, document.get(to..)?])
    });
    parts.ok_or_else(|| io::Error::other(format!("no {begin}… {end}")))
}
