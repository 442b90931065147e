//! Wraps the prose of a generated page.

/// The longest line of prose, in characters.
const WIDTH: usize = 100;

/// The page with its long lines of prose wrapped. Tables, code, headings and comments stay as they
/// are.
pub(crate) fn wrapped(page: &str) -> String {
    let mut is_code = false;
    let mut wrapped = String::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if is_code || line.chars().count() <= WIDTH || line.starts_with(['|', '#', '<']) {
            wrapped.push_str(line);
        } else {
            wrap(line, &mut wrapped);
        }
        wrapped.push('\n');
    }
    wrapped
}

fn wrap(line: &str, out: &mut String) {
    let indent = if line.starts_with("* ") { "  " } else { "" };
    let mut width = 0;
    for piece in pieces(line) {
        let length = piece.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            out.push('\n');
            out.push_str(indent);
            width = indent.len();
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(&piece);
        width += length;
    }
}

/// What stays on one line: a word, or a code span. A word that Markdown would take for the
/// beginning of a list or a heading stays behind the word before it.
fn pieces(line: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut is_in_code = false;
    for word in line.split(' ') {
        match pieces.last_mut() {
            Some(last) if is_in_code || begins_block(word) => {
                last.push(' ');
                last.push_str(word);
            }
            Some(_) | None => pieces.push(word.to_owned()),
        }
        is_in_code ^= word.matches('`').count() % 2 == 1;
    }
    pieces
}

fn begins_block(word: &str) -> bool {
    let number = word.trim_end_matches(['.', ')']);
    let is_item = number.len() < word.len() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_item || matches!(word, "*" | "-" | "+" | "=") || word.starts_with(['#', '|', '>'])
}

#[test]
fn prose_is_wrapped_and_nothing_else_is_changed() {
    let word = "word ".repeat(30);
    let code = format!("```text\n{word}\n```\n");
    let table = format!("| {word}| {word}|\n");
    for page in [&*code, &*table, "short\n"] {
        assert_eq!(wrapped(page), page);
    }
    let item = format!("* {word}`one {word}` {}\n", "17. ".repeat(3));
    let made = wrapped(&item);
    let joined = made.split_whitespace().collect::<Vec<_>>();
    assert_eq!(joined, item.split_whitespace().collect::<Vec<_>>());
    let lines: Vec<&str> = made.lines().collect();
    assert!(lines.iter().skip(1).all(|line| line.starts_with("  ")), "{made}");
    assert!(lines.iter().any(|line| line.contains(&format!("`one {word}` 17."))), "{made}");
}
