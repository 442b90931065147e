//! The headers with which Debezium names itself, where somebody asks the router for them: `migrate`
//! writes the lines as a comment.

use differential::case::Case;
use differential::golden::{Golden, Outcome, Record};
use differential::ours;

const CONTEXT: &str = "__debezium.context.";

/// The configuration with the comment's lines in `extra_headers`, as a person puts them there.
fn uncommented(toml: &str) -> String {
    let line = |line: &str| {
        let header = line.strip_prefix('#').filter(|header| header.contains(CONTEXT));
        header.map(str::to_owned)
    };
    let headers: Vec<String> = toml.lines().filter_map(line).collect();
    assert_eq!(headers.len(), 3, "{toml}");
    assert!(!toml.contains("\nextra_headers"), "the case has none of its own: {toml}");
    let table = "\n[[outbox]]\n";
    assert_eq!(toml.matches(table).count(), 1, "{toml}");
    toml.replace(table, &format!("{table}extra_headers = [\n{}\n]\n", headers.join("\n")))
}

fn names(record: &Record) -> Vec<&str> {
    record.headers.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn the_lines_of_the_comment_give_debeziums_values_after_the_id_and_all_but_the_run() {
    let case = Case::all().unwrap().into_iter().find(|case| case.name == "headers-extended");
    let case = case.expect("the case");
    let golden = Golden::read(&case.name).unwrap();
    let toml = uncommented(&ours::migrated(&case).unwrap().toml.expect("a configuration"));
    let outcomes = ours::routed_by(&toml, &case, &golden).unwrap().outcomes();
    let ([Outcome::Record(ours)], [row]) = (outcomes.as_slice(), golden.rows.as_slice()) else {
        panic!("one row, and a record of it: {outcomes:?}")
    };
    let [theirs] = row.debezium.as_slice() else { panic!("{:?}", row.debezium) };

    let context =
        ["connectorLogicalName", "taskId", "connectorName"].map(|name| [CONTEXT, name].concat());
    let context: Vec<&str> = context.iter().map(String::as_str).collect();
    let run_id = [CONTEXT, "runId"].concat();
    // What differs: the place of the headers, and the id of Debezium's run, which no other has.
    assert_eq!(names(ours), [&["id"], &*context].concat());
    assert_eq!(names(theirs), [&*context, &[run_id.as_str(), "id"]].concat());

    let mut same = theirs.clone();
    same.headers.retain(|(name, _)| *name != run_id);
    same.headers.rotate_right(1);
    assert_eq!(ours, &same);
}
