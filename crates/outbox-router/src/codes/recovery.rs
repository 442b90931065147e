//! Rows that a gap has lost.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

pub(super) const EXPLANATIONS: &[Explanation] = &[Explanation {
    code: Code::Recovery.as_str(),
    title: "which rows of an outbox table are missing in Kafka cannot be told",
    meaning: "outbox-router recover compares the ids of the rows with the ids of the records, from \
              the beginning of a gap on, and something that it needs is not there. The gap stays \
              open.",
    remedy: "docs/recover.md says what a comparison needs",
    cases: &[
        case_remedy(
            Case::RecoverSince,
            "it is not known which transactions may have committed in a gap",
            "say since when rows of the gap say that they were made, in any zone of their writers: \
             `outbox-router recover{typed_flags} --since TIME {admin}`",
        ),
        case_remedy(
            Case::RecoverTime,
            "a table has no column with the time at which a row was made",
            "compare all of it and all records: `outbox-router recover{typed_flags} --slow {admin}`",
        ),
        case_remedy(
            Case::RecoverIndex,
            "no index begins with the column of the time",
            "{statements}; or read the whole table: `outbox-router recover{typed_flags} --slow {admin}`",
        ),
        case_remedy(
            Case::RecoverId,
            "ids do not tell which row a record is of",
            "send all rows of the interval, so that consumers get what they have twice, under the \
             same id: `outbox-router recover{typed_flags} --all {admin}`",
        ),
        case_remedy(
            Case::RecoverExpired,
            "records that have to be compared may be deleted already, or cannot be read",
            "if they are hidden, end that transaction; else send all rows of the interval, so \
             that consumers get what they have twice, under the same id: `outbox-router \
             recover{typed_flags} --all {admin}`",
        ),
        case_remedy(
            Case::RecoverIdAmbiguous,
            "ids may be those of other rows",
            "if none of them was ever another row's, another table's or another producer's in \
             these topics: `outbox-router recover{typed_flags} --ids-unique {admin}`; else with --all in the \
             place of --ids-unique, so that consumers get what they have twice",
        ),
        case_remedy(
            Case::RecoverSlot,
            "the slot has rows to send, or may have, and would be dropped",
            "if rows stay in the table until they are delivered: `outbox-router \
             recover{typed_flags} --drop-slot {admin}`; if they are deleted before, only the slot has them: \
             `outbox-router accept` gives up what is missing, and the router goes on with the \
             slot, unless the publication was made again (P026): then no router reads them from it",
        ),
        case_remedy(
            Case::RecoverOrder,
            "a column of recover.order_by does not exist",
            "name columns of the table in recover.order_by",
        ),
        case_remedy(
            Case::RecoverPublication,
            "the publication does not exist",
            "`outbox-router recover{typed_flags} --mend-publication {admin}` creates it before the slot",
        ),
        case_remedy(
            Case::RecoverAltered,
            "publication, tables or slot were altered while rows were sent",
            "once they are as they shall be, the same command compares again and closes the gap: \
             `outbox-router recover{typed_flags} {admin}`",
        ),
        case_remedy(
            Case::RecoverUncompared,
            "a table was an outbox when a gap began, and is not compared",
            "name it in an [[outbox]], or, where none is configured, publish it ({add_tables}), and \
             type `outbox-router recover{typed_flags} {admin}`; or give its rows up: \
             `outbox-router recover{typed_flags}{give_up} {admin}`",
        ),
        case_remedy(
            Case::RecoverDetached,
            "a partition was detached since a gap began, or may have been, and is a table of its own",
            "attach it again (`alter table ... attach partition ...`), type `outbox-router \
             recover{typed_flags} {admin}`, then detach it; or insert its rows that Kafka lacks \
             into the outbox table, and drop it; or, if it was no partition, or its rows are given \
             up: `outbox-router recover{typed_flags}{give_up} {admin}`",
        ),
        case_remedy(
            Case::RecoverFiltered,
            "rows in no topic are left out by `where` as they are now",
            "an event is the row as it was inserted, and an UPDATE since may have made it so: \
             `outbox-router recover{typed_flags} --filtered send {admin}` sends each as it is now; where \
             the column of where is written by the INSERT alone, or they are to be given up: \
             `outbox-router recover{typed_flags} --filtered give-up {admin}`",
        ),
        case_remedy(
            Case::RecoverUnsettled,
            "not every missing row was sent, filtered or left out",
            "the same command goes on: `outbox-router recover{typed_flags} {admin}`",
        ),
    ],
}];
