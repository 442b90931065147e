//! What the sources hold: tests by name, and the variants of an enum.
//!
//! Read as formatted text, line by line, which is all that names need. What is commented out or
//! ignored is not there: it shows nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The files of a workspace.
#[derive(Debug)]
pub(crate) struct Sources {
    root: PathBuf,
}

impl Sources {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The text of a file; `Err` if there is none.
    pub(crate) fn read(&self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(file)).map_err(|_| format!("there is no {file}"))
    }
}

/// The names of the tests in a source text: functions with the attribute `test` or `tokio::test`,
/// and without `ignore`.
pub(crate) fn tests(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut attributes = String::new();
    for line in code_lines(text) {
        let is_attribute = line.starts_with("#[") || is_open(&attributes);
        if is_attribute {
            attributes.push_str(line);
            continue;
        }
        let is_test = attributes.contains("#[test]") || attributes.contains("#[tokio::test");
        if let Some(name) = function(line)
            && is_test
            && !attributes.contains("#[ignore")
        {
            found.insert(name);
        }
        attributes.clear();
    }
    found
}

/// The variants of `enum NAME` in a source text, or the entries of the macro that makes it, `names!
/// { … }`; none where there is neither.
pub(crate) fn variants<'a>(text: &'a str, name: &str) -> BTreeSet<&'a str> {
    let heads = [format!("enum {name} {{"), format!("{}s! {{", name.to_lowercase())];
    let mut found = BTreeSet::new();
    // Brackets that are open, of any kind; the first is the enum's own.
    let mut depth = 0_usize;
    for line in code_lines(text) {
        if depth == 0 {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let is_pattern = line.contains('$');
            if is_pattern || !heads.iter().any(|head| line.starts_with(head)) {
                continue;
            }
        } else if depth == 1
            && let Some(variant) = leading_name(line)
            && variant.starts_with(char::is_uppercase)
        {
            found.insert(variant);
        }
        for sign in line.chars() {
            match sign {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    found
}

/// Lines with something on them that is no comment, trimmed.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_in_block = false;
    text.lines().map(str::trim).filter(move |line| {
        if line.starts_with("/*") {
            is_in_block = true;
        }
        let is_code = !is_in_block && !line.is_empty() && !line.starts_with("//");
        if line.contains("*/") {
            is_in_block = false;
        }
        is_code
    })
}

/// Whether the last attribute continues in the next line.
fn is_open(attributes: &str) -> bool {
    !attributes.is_empty() && !attributes.ends_with(']')
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let mut words = line;
    for modifier in ["pub ", "async "] {
        words = words.strip_prefix(modifier).unwrap_or(words);
    }
    leading_name(words.strip_prefix("fn ")?)
}

fn leading_name(line: &str) -> Option<&str> {
    let end = line.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(line.len());
    line.get(..end).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
fn no_test() {}

#[test]
fn plain() {}

/// Documented.
#[tokio::test(start_paused = true)]
#[expect(
    clippy::unwrap_used,
    reason = \"[brackets\"
)]
async fn with_attributes() {}

// #[test]
fn commented_attribute() {}

#[test]
// fn commented_out() {}
fn the_one_behind_it() {}

/*
#[test]
fn in_a_block() {}
*/

#[test]
#[ignore = \"slow\"]
fn ignored() {}

#[cfg(test)]
mod tests {
    #[test]
    fn nested() {
        fn helper() {}
    }
}

/// A fault.
#[derive(Debug)]
pub enum Fault {
    /// Plain.
    KillRouter,
    #[doc(alias = \"x\")]
    Tuple(u32),
    Struct {
        Capital: u32,
    },
    // CommentedOut,
}

pub enum Other {
    Foreign,
}

macro_rules! bugs {
    ($($name:ident = $word:literal;)*) => {
        pub enum Bug { $($name,)* }
        impl Bug {
            const A: u32 = 1;
        }
    };
}

bugs! {
    /// One.
    Early = \"early\";
    Late = \"late\";
}
";

    #[test]
    fn tests_are_the_functions_with_a_test_attribute() {
        let found: Vec<&str> = tests(SOURCE).into_iter().collect();
        assert_eq!(found, ["nested", "plain", "the_one_behind_it", "with_attributes"]);
    }

    #[test]
    fn variants_are_those_of_the_named_enum() {
        let of = |name| variants(SOURCE, name).into_iter().collect::<Vec<_>>();
        assert_eq!(of("Fault"), ["KillRouter", "Struct", "Tuple"]);
        assert_eq!(of("Other"), ["Foreign"]);
        assert_eq!(of("Bug"), ["Early", "Late"]);
        assert!(of("Missing").is_empty());
    }
}
