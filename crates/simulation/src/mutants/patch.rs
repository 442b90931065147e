//! A planted bug as a patch: a header of `key: value` lines, then a unified diff against the
//! repository's root.
//!
//! `about` says in one sentence what is wrong. `caught-by` names the invariants that the bug may
//! break: a bug that breaks another one was caught by accident. A bug in SQL, which no simulation
//! runs, has `caught-by: test TARGET NAME` instead, a test of the router on a real server. `note`,
//! if it is there, explains one of the two or the edit.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::hunt::Hunted;

pub(crate) struct Patch {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) caught_by: CaughtBy,
    path: PathBuf,
}

/// What has to notice the bug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CaughtBy {
    /// One of these invariants of the simulation.
    Invariants(Vec<String>),
    /// A test of the router.
    Test(RouterTest),
}

/// A test that runs the router's SQL on a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RouterTest {
    /// The target of `crates/outbox-router/tests`.
    pub(crate) target: String,
    pub(crate) name: String,
}

impl CaughtBy {
    fn parse(words: &str) -> Option<Self> {
        let words: Vec<&str> = words.split_whitespace().collect();
        match words[..] {
            [] | ["test"] | ["test", _] => None,
            ["test", target, name] => {
                Some(Self::Test(RouterTest { target: target.to_owned(), name: name.to_owned() }))
            }
            _ => Some(Self::Invariants(words.into_iter().map(str::to_owned).collect())),
        }
    }
}

/// Every patch of a directory, by name.
///
/// # Errors
/// The directory or a patch cannot be read, or a header is not what it must be.
pub(crate) fn all(directory: &Path) -> Result<Vec<Patch>, String> {
    let unreadable = |error| format!("{}: {error}", directory.display());
    let mut patches = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        patches.push(Patch::read(&path)?);
    }
    patches.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(patches)
}

impl Patch {
    fn read(path: &Path) -> Result<Self, String> {
        let wrong = |what: &str| format!("{}: {what}", path.display());
        let stem = path.file_stem().filter(|_| path.extension().is_some_and(|e| e == "patch"));
        let name = stem
            .and_then(|stem| stem.to_str())
            .ok_or_else(|| wrong("the file name is not NAME.patch"))?;
        let text = fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
        let (mut about, mut caught_by) = (None, None);
        let header = text.lines().take_while(|line| !line.starts_with("diff --git"));
        for line in header.filter(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some(("about", words)) => about = Some(words.to_owned()),
                Some(("caught-by", names)) => caught_by = CaughtBy::parse(names),
                Some(("note", _)) => {}
                Some(_) | None => return Err(wrong(&format!("unknown header line \"{line}\""))),
            }
        }
        let about = about.ok_or_else(|| wrong("the line \"about: …\" is missing"))?;
        let caught_by = caught_by
            .ok_or_else(|| wrong("the line \"caught-by: …\" is missing, or incomplete"))?;
        let path = path.canonicalize().map_err(|error| wrong(&error.to_string()))?;
        Ok(Self { name: name.to_owned(), about, caught_by, path })
    }

    /// Checks that the patch applies to the sources below `root`.
    ///
    /// # Errors
    /// The patch does not apply; the message is git's.
    pub(crate) fn applies_to(&self, root: &Path) -> Result<(), String> {
        self.git_apply(root, &["--check"])
    }

    /// Applies the patch to the sources below `root`.
    ///
    /// # Errors
    /// The patch does not apply; the message is git's.
    pub(crate) fn apply_to(&self, root: &Path) -> Result<(), String> {
        self.git_apply(root, &[])
    }

    fn git_apply(&self, root: &Path, options: &[&str]) -> Result<(), String> {
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let mut git = Command::new("git");
        git.arg("apply").args(options).arg(&self.path).current_dir(&root);
        if let Some(parent) = root.parent() {
            // Inside another repository, git would resolve the patch's paths against that
            // repository's root and skip them without a message.
            git.env("GIT_CEILING_DIRECTORIES", parent);
        }
        let output = git.output().map_err(|error| format!("git: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(format!("{} does not apply: {}", self.name, words.trim()))
    }
}

/// Where a bug is hunted that breaks these invariants: R2 and what begins with W are of the polling
/// source, R1 is of the life of rows, and R3 to R6 are of repairs.
pub(crate) fn hunted(invariants: &[String]) -> Hunted {
    let all = |fits: fn(&String) -> bool| invariants.iter().all(fits);
    if all(|name| name.starts_with('W') || name == "R2") {
        Hunted::Polling
    } else if all(|name| name == "R1") {
        Hunted::Rows
    } else if all(|name| ["R3", "R4", "R5", "R6"].contains(&name.as_str())) {
        Hunted::Repairs
    } else {
        Hunted::Stream
    }
}

/// Whether these names have this invariant, which is given as its `Display` prints it: `S2 never
/// confirmed early`.
pub(crate) fn names_invariant(names: &[String], invariant: &str) -> bool {
    let number = invariant.split(' ').next();
    names.iter().any(|name| Some(name.as_str()) == number)
}

#[cfg(test)]
mod tests {
    use simulation::invariant::Invariant;

    use super::*;

    #[test]
    fn every_patch_has_a_sentence_about_the_bug_and_names_existing_invariants() {
        let invariants = Invariant::ALL.into_iter().map(|one| one.to_string());
        let exists = |name: &String| {
            invariants.clone().any(|known| known.split(' ').next() == Some(name.as_str()))
        };
        let patches = all(Path::new("mutants")).unwrap();
        assert!(!patches.is_empty());
        for Patch { name, about, caught_by, .. } in &patches {
            assert!(about.ends_with('.'), "{name}: the line \"about\" must be a sentence");
            match caught_by {
                CaughtBy::Invariants(names) => {
                    assert!(names.iter().all(exists), "{name}: {names:?}");
                }
                CaughtBy::Test(test) => assert!(has_test(test), "{name}: {test:?}"),
            }
        }
    }

    /// Whether a file of that target has a test of that name: `a::b::c` is in `a/b.rs` or
    /// `a/b/mod.rs`.
    fn has_test(RouterTest { target, name }: &RouterTest) -> bool {
        let (module, function) = name.rsplit_once("::").unwrap_or(("main", name));
        let module = module.replace("::", "/");
        let tests = Path::new("../outbox-router/tests").join(target);
        let files = [format!("{module}.rs"), format!("{module}/mod.rs")];
        let mut texts = files.iter().filter_map(|file| fs::read_to_string(tests.join(file)).ok());
        texts.any(|text| text.contains(&format!("fn {function}()")))
    }

    #[test]
    fn a_patch_is_caught_only_by_the_invariants_or_the_test_that_it_names() {
        let caught_by = CaughtBy::parse("S2 S10").unwrap();
        let CaughtBy::Invariants(names) = &caught_by else { panic!("{caught_by:?}") };
        assert!(names_invariant(names, "S2 never confirmed early"));
        assert!(names_invariant(names, "S10 liveness"));
        assert!(!names_invariant(names, "S1 completeness"));
        let test = RouterTest { target: "a".to_owned(), name: "b::c".to_owned() };
        assert_eq!(CaughtBy::parse("test a b::c"), Some(CaughtBy::Test(test)));
        for incomplete in ["", "test", "test a"] {
            assert_eq!(CaughtBy::parse(incomplete), None);
        }
    }
}
