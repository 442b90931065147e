//! `mutants`: shows that the simulation notices planted bugs.
//!
//! Each bug is a patch in `crates/simulation/mutants`. The patch is applied to a copy of the
//! sources, the copy is built, and the copy's own `mutants --hunt` runs seeds until an invariant is
//! broken. The invariant has to be one of those that the patch names. The same seed must break
//! nothing without the patch, which is checked by this program. A bug in SQL, which no simulation
//! runs, names a test of the router instead: it has to fail with the patch, and to pass without it.
//! A bug that survives, or does not compile, fails the run.
//!
//! The bugs are patches and not branches of the product, so that the code which proves the confirm
//! rule holds no wrong proofs beside it.
#![allow(clippy::print_stdout, reason = "what a program prints is its result")]

use std::{
    fmt::Write as _,
    io,
    path::Path,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use simulation::{coverage, document};

use crate::{
    hunt::{DetectedBy, Detection, Hunted},
    patch::{CaughtBy, Patch, RouterTest},
    scratch::Scratch,
};

mod hunt;
mod patch;
mod scratch;

/// Where the patches are.
const PATCHES: &str = "crates/simulation/mutants";

/// The page that lists them, and the part of it that is written.
const DOCUMENT: &str = "docs/planted-bugs.md";
const PART: &str = "mutants";

/// Shows that every planted bug is caught. Runs in the root of the repository.
#[derive(Debug, Parser)]
#[command(name = "mutants", version)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
struct Arguments {
    /// Seeds after which a bug that violated no invariant counts as survived.
    #[arg(long, default_value_t = 100_000)]
    budget: u64,
    /// Only this bug, by the name of its patch.
    #[arg(long)]
    only: Option<String>,
    /// Only N of the bugs that the simulation catches; which ones depends on the day.
    #[arg(long, value_name = "N", conflicts_with = "only")]
    sample: Option<usize>,
    /// Build nothing: check that every patch has its header and applies to the present sources, and
    /// that the document has it.
    #[arg(long)]
    check: bool,
    /// Plant nothing: write the table of the bugs into the document that `--check` compares.
    #[arg(long, conflicts_with_all = ["only", "sample", "check"])]
    table: bool,
    /// Run seeds with the core that this program was built with until one violates an invariant.
    #[arg(long, hide = true)]
    hunt: bool,
    /// With --hunt: seeds of the polling source.
    #[arg(long, hide = true, requires = "hunt")]
    polling: bool,
    /// With --hunt: seeds of the life of rows.
    #[arg(long, hide = true, requires = "hunt", conflicts_with = "polling")]
    rows: bool,
    /// With --hunt: seeds of repairs.
    #[arg(long, hide = true, requires = "hunt", conflicts_with_all = ["polling", "rows"])]
    repairs: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    coverage::watch_failpoints();
    if arguments.hunt {
        let hunted = match (arguments.polling, arguments.rows, arguments.repairs) {
            (true, ..) => Hunted::Polling,
            (_, true, _) => Hunted::Rows,
            (.., true) => Hunted::Repairs,
            (false, false, false) => Hunted::Stream,
        };
        hunt::until_caught(arguments.budget, hunted);
        return ExitCode::SUCCESS;
    }
    let outcome = match (arguments.check, arguments.table) {
        (true, _) => check(&arguments),
        (false, true) => write_table(),
        (false, false) => plant_all(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        println!("{error}");
        ExitCode::FAILURE
    })
}

/// The patches that the arguments select.
fn wanted(arguments: &Arguments) -> Result<Vec<Patch>, String> {
    let mut patches = patch::all(Path::new(PATCHES))?;
    if let Some(name) = &arguments.only {
        patches.retain(|patch| patch.name == *name);
    }
    if patches.is_empty() {
        return Err(format!("there is no such patch in {PATCHES}"));
    }
    let Some(sample) = arguments.sample else { return Ok(patches) };
    // A test of the router costs a build of it, twice.
    patches.retain(|patch| matches!(patch.caught_by, CaughtBy::Invariants(_)));
    if sample >= patches.len() {
        return Ok(patches);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let day = usize::try_from(since.as_secs() / (24 * 60 * 60)).unwrap_or(0);
    println!("day {day}: {sample} of {} planted bugs", patches.len());
    let first = day * sample % patches.len();
    patches.rotate_left(first);
    patches.truncate(sample);
    Ok(patches)
}

fn check(arguments: &Arguments) -> Result<ExitCode, String> {
    let patches = wanted(arguments)?;
    let broken: Vec<String> =
        patches.iter().filter_map(|patch| patch.applies_to(Path::new(".")).err()).collect();
    for words in &broken {
        println!("{words}");
    }
    println!("{} of {} patches apply", patches.len() - broken.len(), patches.len());
    let written = document::part(Path::new(DOCUMENT), PART).map_err(of_document)?;
    let is_written = arguments.only.is_some() || written == table(&patches);
    if !is_written {
        println!("{DOCUMENT} is of other patches: scripts/mutants.sh --table");
    }
    let is_right = broken.is_empty() && is_written;
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn of_document(error: io::Error) -> String {
    format!("{DOCUMENT}: {error}")
}

fn write_table() -> Result<ExitCode, String> {
    let patches = patch::all(Path::new(PATCHES))?;
    document::rewrite(Path::new(DOCUMENT), PART, &table(&patches)).map_err(of_document)?;
    Ok(ExitCode::SUCCESS)
}

/// The bugs as Markdown, and what has to notice each.
fn table(patches: &[Patch]) -> String {
    let mut table = String::from("| Bug | What is wrong | Caught by |\n|---|---|---|\n");
    for Patch { name, about, caught_by, .. } in patches {
        let caught_by = match caught_by {
            CaughtBy::Invariants(names) => names.join(", "),
            CaughtBy::Test(RouterTest { target, name }) => format!("`{target}`: `{name}`"),
        };
        let _infallible = writeln!(table, "| `{name}` | {about} | {caught_by} |");
    }
    table
}

fn plant_all(arguments: &Arguments) -> Result<ExitCode, String> {
    let patches = wanted(arguments)?;
    let scratch = Scratch::new()?;
    let mut caught = 0;
    for patch in &patches {
        match plant(&scratch, patch, arguments.budget)? {
            Ok(Caught::Seed(Detection { detected_by, invariant, what, millis })) => {
                caught += 1;
                println!("{:<24} {invariant}: {what} ({detected_by}, {millis} ms)", patch.name);
            }
            Ok(Caught::Test(RouterTest { target, name })) => {
                caught += 1;
                println!("{:<24} test {name} of {target}", patch.name);
            }
            Err(why) => println!("{:<24} NOT CAUGHT: {why}", patch.name),
        }
    }
    println!("caught {caught} of {}", patches.len());
    Ok(if caught == patches.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What caught a bug.
enum Caught<'p> {
    Seed(Detection),
    Test(&'p RouterTest),
}

/// Plants one bug, and runs against it what has to catch it. The inner error is the reason why the
/// bug counts as not caught.
fn plant<'p>(
    scratch: &Scratch,
    patch: &'p Patch,
    budget: u64,
) -> Result<Result<Caught<'p>, String>, String> {
    scratch.restore()?;
    if let Err(why) = patch.apply_to(scratch.sources()) {
        return Ok(Err(why));
    }
    Ok(match &patch.caught_by {
        CaughtBy::Invariants(names) => by_seeds(scratch, names, budget)?.map(Caught::Seed),
        CaughtBy::Test(test) => by_test(scratch, test)?.map(|()| Caught::Test(test)),
    })
}

/// Runs a test with the bug, and without it.
fn by_test(scratch: &Scratch, test: &RouterTest) -> Result<Result<(), String>, String> {
    if let Err(words) = scratch.build_test(test)? {
        return Ok(Err(format!("it does not compile\n{words}")));
    }
    if scratch.passes(test)? {
        return Ok(Err(format!("{} passes", test.name)));
    }
    scratch.restore()?;
    if !scratch.passes(test)? {
        return Ok(Err(format!("{} fails without the bug, too", test.name)));
    }
    Ok(Ok(()))
}

/// Runs seeds against the bug.
fn by_seeds(
    scratch: &Scratch,
    names: &[String],
    budget: u64,
) -> Result<Result<Detection, String>, String> {
    if let Err(words) = scratch.build()? {
        return Ok(Err(format!("it does not compile\n{words}")));
    }
    let Some(catch) = scratch.hunt(budget, patch::hunted(names))? else {
        return Ok(Err(format!("no invariant was violated in {budget} seeds")));
    };
    let Detection { detected_by, invariant, what, .. } = &catch;
    if !patch::names_invariant(names, invariant) {
        return Ok(Err(format!(
            "{detected_by} violates an invariant that the patch does not name: {invariant}: {what}"
        )));
    }
    // A seed that also fails without the bug shows nothing about the bug.
    let without = match *detected_by {
        DetectedBy::Probe => Ok(()),
        DetectedBy::Seed(seed) => hunt::seed(seed),
        DetectedBy::PollingSeed(seed) => hunt::polling_seed(seed),
        DetectedBy::RowsSeed(seed) => hunt::rows_seed(seed),
        DetectedBy::RepairsSeed(seed) => hunt::repairs_seed(seed),
    };
    if without.is_err() {
        return Ok(Err(format!("{detected_by} violates an invariant without the bug, too")));
    }
    Ok(Ok(catch))
}
