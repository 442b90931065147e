//! The copy of the sources in which bugs are planted. It has a target directory of its own that is
//! kept between runs, so that each bug costs an incremental build.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::{
    hunt::{Detection, Hunted},
    patch::RouterTest,
};

/// The parts of the workspace that cargo and the router's tests read.
const COPIED: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "crates", "scripts", "tests"];
/// The build profile, from the workspace's Cargo.toml.
const PROFILE: &str = "mutants";

pub(crate) struct Scratch {
    sources: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// Creates the directory of the copy below cargo's target directory.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub(crate) fn new() -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let root = Path::new(&target).join("mutants");
        let sources = root.join("sources");
        fs::create_dir_all(&sources).map_err(|error| failed(&sources, &error))?;
        let root = root.canonicalize().map_err(|error| failed(&root, &error))?;
        Ok(Self { sources: root.join("sources"), target: root.join("target") })
    }

    pub(crate) fn sources(&self) -> &Path {
        &self.sources
    }

    /// Makes the copy equal to the workspace again: removes what was planted.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(crate) fn restore(&self) -> Result<(), String> {
        for name in COPIED {
            let copy = self.sources.join(name);
            mirror(Path::new(name), &copy).map_err(|error| failed(&copy, &error))?;
        }
        Ok(())
    }

    /// Builds this program from the copy. The inner error is the compiler's output.
    ///
    /// # Errors
    /// Cargo cannot be run.
    pub(crate) fn build(&self) -> Result<Result<(), String>, String> {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--locked", "--package", "simulation", "--bin", "mutants"]);
        cargo.args(["--profile", PROFILE]).current_dir(&self.sources);
        built(cargo.env("CARGO_TARGET_DIR", &self.target))
    }

    /// Builds the target of a test of the router from the copy. The inner error is the compiler's
    /// output.
    ///
    /// # Errors
    /// Cargo cannot be run.
    pub(crate) fn build_test(&self, test: &RouterTest) -> Result<Result<(), String>, String> {
        built(self.test(test).arg("--no-run"))
    }

    /// Whether that test passes.
    ///
    /// # Errors
    /// Cargo cannot be run, or the target has no such test.
    pub(crate) fn passes(&self, test: &RouterTest) -> Result<bool, String> {
        let output = output(self.test(test).args(["--", "--exact", &test.name]))?;
        let words = String::from_utf8_lossy(&output.stdout);
        if !words.contains("running 1 test") {
            return Err(format!("{} has no test {}", test.target, test.name));
        }
        Ok(output.status.success())
    }

    fn test(&self, test: &RouterTest) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--quiet", "--locked", "--package", "outbox-router"]);
        cargo.args(["--test", &test.target]).current_dir(&self.sources);
        cargo.env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// Runs the built program until an invariant is broken; `None` if the bug survived its seeds.
    ///
    /// # Errors
    /// The program cannot be run, or was ended by a signal.
    pub(crate) fn hunt(&self, budget: u64, hunted: Hunted) -> Result<Option<Detection>, String> {
        let mut program = Command::new(self.target.join(PROFILE).join("mutants"));
        match hunted {
            Hunted::Stream => {}
            Hunted::Polling => drop(program.arg("--polling")),
            Hunted::Rows => drop(program.arg("--rows")),
            Hunted::Repairs => drop(program.arg("--repairs")),
        }
        let output = output(program.arg("--hunt").args(["--budget", &budget.to_string()]))?;
        if !output.status.success() {
            return Err(format!("the hunt ended with {}", output.status));
        }
        Ok(Detection::parse(String::from_utf8_lossy(&output.stdout).trim_end()))
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Runs cargo. The inner error is the compiler's output.
fn built(cargo: &mut Command) -> Result<Result<(), String>, String> {
    let output = output(cargo)?;
    let words = || String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(if output.status.success() { Ok(()) } else { Err(words()) })
}

fn output(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))
}

/// Makes `copy` equal to `original`. A file that is equal is not written. A file that is written
/// gets the present modification time, because cargo builds what is newer than its last build.
fn mirror(original: &Path, copy: &Path) -> io::Result<()> {
    if !original.is_dir() {
        let bytes = fs::read(original)?;
        return if fs::read(copy).is_ok_and(|old| old == bytes) {
            Ok(())
        } else {
            fs::write(copy, bytes)
        };
    }
    fs::create_dir_all(copy)?;
    let names = names(original)?;
    for name in &names {
        mirror(&original.join(name), &copy.join(name))?;
    }
    for name in self::names(copy)?.difference(&names) {
        let stray = copy.join(name);
        if stray.is_dir() { fs::remove_dir_all(stray)? } else { fs::remove_file(stray)? }
    }
    Ok(())
}

fn names(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
}
