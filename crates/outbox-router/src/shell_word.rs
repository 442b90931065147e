//! A text as a word of a command line, for commands that a person is told to type.

/// Whether a POSIX shell reads a text as one word that stands for itself, and a command does not
/// take it for a flag.
pub(crate) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+,".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// The text, in quotes where a shell needs them.
pub(crate) fn shell_word(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_read_another_one() {
        for plain in ["outbox", "_router", "7,b", "public.outbox", "a-b@c"] {
            assert_eq!(shell_word(plain), plain);
        }
        for (text, word) in [
            ("", "''"),
            ("-x", "'-x'"),
            ("a b", "'a b'"),
            ("$(id)", "'$(id)'"),
            ("~", "'~'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
