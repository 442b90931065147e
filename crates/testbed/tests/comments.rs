//! Comments end at column 100, as code does: rustfmt breaks no comment.

use std::{fs, path::Path};

/// The last column of a comment.
const WIDTH: usize = 100;

/// Where the workspace's own sources are.
const SOURCES: [&str; 4] = ["crates", "tests", "fuzz", "scripts"];

#[test]
fn no_comment_passes_column_100() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
    let mut long = Vec::new();
    let mut files = 0;
    for name in SOURCES {
        visit(&root.join(name), &mut |file, marker| {
            files += 1;
            let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
            let lines = long_comments(&text, marker);
            let shown = file.strip_prefix(root).unwrap_or(file).display();
            long.extend(lines.into_iter().map(|line| format!("{shown}:{line}")));
        });
    }
    assert!(files > 500, "only {files} files were found");
    assert!(long.is_empty(), "comments past column {WIDTH}:\n{}", long.join("\n"));
}

/// Calls `check` for every Rust file and shell script below `folder`, with what begins a comment
/// there. What a build has written is left out.
fn visit(folder: &Path, check: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")) {
        let path = entry.expect("an entry of a folder").path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            if !path.ends_with("target") {
                visit(&path, check);
            }
        } else if extension == Some("rs") {
            check(&path, "//");
        } else if extension == Some("sh") {
            check(&path, "#");
        }
    }
}

/// The numbers of the lines that are comments and too long.
fn long_comments(text: &str, marker: &str) -> Vec<usize> {
    let is_long =
        |line: &&str| line.trim_start().starts_with(marker) && line.chars().count() > WIDTH;
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| is_long(line)).map(|(index, _)| index + 1).collect()
}

#[test]
fn only_comments_are_measured_and_in_characters() {
    let [at, past] = [97, 98].map(|length| format!("// {}", "é".repeat(length)));
    let code = format!("let text = \"{}\";", "x".repeat(WIDTH));
    let text = format!("{at}\n{code}\n    {past}\n{past}\n");
    assert_eq!(long_comments(&text, "//"), [3, 4]);
}
