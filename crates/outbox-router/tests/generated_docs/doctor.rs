//! The page of `doctor`'s checks.

use std::collections::BTreeMap;

use outbox_router::{
    cli::{Check, GROUPS, Severity},
    codes::{Explanation, explanation, typed},
};

use crate::errors::markdown;

const HEAD: &str = "\
<!-- Made of the checks and codes by crates/outbox-router/tests/generated_docs. -->

# Doctor

`outbox-router doctor` asks PostgreSQL and Kafka, with the configuration and the role that `run` has,
and says what is wrong or soon will be: what was found, why it matters, and the statement or command
that mends it. It needs no row and no running router, and may be run beside one.

```console
$ outbox-router doctor
warning  D010: max_slot_wal_keep_size is -1: a router that is down fills the disk of pg_wal
         why  While the router is down, the server keeps every byte of WAL for its slot, …
         do   alter system set max_slot_wal_keep_size = '10GB'; select pg_reload_conf(); …

49 checks passed, 1 warning
```

* It writes nothing: no topic, no record, no row, no statement that changes anything, no temporary
  slot. The SQL session is read-only. A test compares both servers before and after.
* It ends: each side has half a minute. A server that is down or silent is one finding, and the
  checks of the other side are run all the same; the last lines say which checks were not run, and
  why.
* It prints no secret: messages name the key, never the value.

An *error*: the router does not start, or stops, or events do not arrive. A *warning*: it works, and
will not under a load, an outage or an attack that are to be expected. A *note* is worth knowing.

| flag | meaning |
|---|---|
| `--json` | one object: `version`, the counts, `findings` (severity, code, message, why, remedy), `checks` (group, name, codes, outcome). Members are added, and never renamed or removed |
| `--only CODE,…`, `--skip CODE,…` | look for these codes alone, or for all others |
| `--deny-warnings` | a warning gives exit code 1, too |

Exit code 0: no error (with `--deny-warnings`, and no warning); 1: there are some, or no check could be run; 2: the command line
is wrong; 78: the configuration is wrong, as `outbox-router check` says it.

What `run`, its monitor or `setup` refuse is found by the same functions, and has the same code
(`P…`, `K…`, `R…`: [errors.md](errors.md)). The codes `D…` are doctor's own: nothing refuses what they
are about. `outbox-router explain CODE` explains each.

Not checked, because it cannot be seen without writing: the brokers' clock, and whether a record is
really taken. `wal_sender_timeout` is not checked, because the router sets it for its own sessions.
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in GROUPS {
        page.push_str(&format!("\n## {}\n\n| check | finds |\n|---|---|\n", group.title));
        for Check { name, reports, .. } in group.checks {
            let codes: Vec<String> = reports
                .iter()
                .map(|reports| format!("{} ({})", reports.code, words(reports.severities)))
                .collect();
            page.push_str(&format!("| {name} | {} |\n", codes.join(", ")));
        }
    }
    page.push_str("\n## The codes of doctor alone\n\n");
    page.push_str("| code | severity | what | why it matters | what to type |\n");
    page.push_str("|---|---|---|---|---|\n");
    for (code, severities) in own() {
        let Explanation { title, meaning, remedy, .. } = explanation(code).expect("explained");
        let (meaning, remedy) = (cell(meaning), markdown(&typed(remedy)).replace('|', "\\|"));
        let severities: Vec<Severity> = severities;
        page.push_str(&format!(
            "| {code} | {} | {} | {meaning} | {remedy} |\n",
            words(&severities),
            cell(title)
        ));
    }
    page
}

/// The codes of doctor alone, with their severities, ordered by code.
fn own() -> BTreeMap<&'static str, Vec<Severity>> {
    let mut own: BTreeMap<_, Vec<Severity>> = BTreeMap::new();
    let reports = GROUPS.iter().flat_map(|group| group.checks).flat_map(|check| check.reports);
    for reports in reports.filter(|reports| reports.code.starts_with('D')) {
        own.entry(reports.code).or_default().extend(reports.severities);
    }
    own
}

fn words(severities: &[Severity]) -> String {
    let words: Vec<&str> = severities.iter().map(|severity| severity.as_str()).collect();
    words.join(" or ")
}

/// Markdown takes `|`, `*` and `<` for its own.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "\\<")
}
