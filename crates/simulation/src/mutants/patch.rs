//! A planted bug as a patch: a header of `key: value` lines, then a unified diff against the
//! repository's root.
//!
//! `about` says in one sentence what is wrong. `caught-by` names the invariants that the bug may
//! break: a bug that breaks another one was caught by accident. `note`, if it is there, explains
//! one of the two or the edit.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::hunt::Hunted;

pub(crate) struct Patch {
    pub(crate) name: String,
    pub(crate) about: String,
    caught_by: Vec<String>,
    path: PathBuf,
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
        let (mut about, mut caught_by) = (None, Vec::new());
        let header = text.lines().take_while(|line| !line.starts_with("diff --git"));
        for line in header.filter(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some(("about", words)) => about = Some(words.to_owned()),
                Some(("caught-by", names)) => {
                    caught_by = names.split_whitespace().map(str::to_owned).collect();
                }
                Some(("note", _)) => {}
                Some(_) | None => return Err(wrong(&format!("unknown header line \"{line}\""))),
            }
        }
        let about = about.ok_or_else(|| wrong("the line \"about: …\" is missing"))?;
        if caught_by.is_empty() {
            return Err(wrong("the line \"caught-by: …\" is missing"));
        }
        let path = path.canonicalize().map_err(|error| wrong(&error.to_string()))?;
        Ok(Self { name: name.to_owned(), about, caught_by, path })
    }

    /// Whether `caught-by` names this invariant, which is given as its `Display` prints it: `S2
    /// never confirmed early`.
    pub(crate) fn is_caught_by(&self, invariant: &str) -> bool {
        let number = invariant.split(' ').next();
        self.caught_by.iter().any(|name| Some(name.as_str()) == number)
    }

    /// Where the bug is hunted: R2 and what begins with W are of the polling source, R1 is of the
    /// life of rows, and R3 to R6 are of repairs.
    pub(crate) fn hunted(&self) -> Hunted {
        let all = |fits: fn(&String) -> bool| self.caught_by.iter().all(fits);
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
            assert!(caught_by.iter().all(exists), "{name}: {caught_by:?}");
        }
    }

    #[test]
    fn a_patch_is_caught_only_by_the_invariants_that_it_names() {
        let patch = Patch {
            name: "x".to_owned(),
            about: "x".to_owned(),
            caught_by: vec!["S2".to_owned(), "S10".to_owned()],
            path: PathBuf::new(),
        };
        assert!(patch.is_caught_by("S2 never confirmed early"));
        assert!(patch.is_caught_by("S10 liveness"));
        assert!(!patch.is_caught_by("S1 completeness"));
    }
}
