//! Tables that were renamed. A table is identified by its OID, so a rename loses none of its rows.
//! Lost are rows that another, unpublished table took under the name meanwhile.

use super::xmin::is_written_again;
use crate::{
    failure::{Code, Failure, Name},
    routing::table::{OutboxTable, TableName},
    source::{
        catalog::CatalogRelation,
        quote::{quote_identifier, quote_table},
    },
};

/// The stream recognises the table by its OID, so nothing is missing.
pub(super) fn renamed_to(outbox: &OutboxTable, now: &CatalogRelation) -> Failure {
    let name = &outbox.name;
    Failure::new(
        Code::TableRenamed,
        format!("table {name} is now called {}; its rows are produced as before", now.name),
    )
    .naming(Name::Table, &now.name)
    .naming(Name::RenameBack, rename_back(name, &now.name))
}

/// The statements that give the table its former name: first the schema, which keeps the name, then
/// the name.
pub(super) fn rename_back(name: &TableName, now: &TableName) -> String {
    let mut statements = Vec::new();
    let here = TableName { schema: name.schema.clone(), name: now.name.clone() };
    if now.schema != name.schema {
        let schema = quote_identifier(&name.schema);
        statements.push(format!("alter table {} set schema {schema}", quote_table(now)));
    }
    if now.name != name.name {
        let to = quote_identifier(&name.name);
        statements.push(format!("alter table {} rename to {to}", quote_table(&here)));
    }
    statements.join("; ")
}

/// Whether a published table has the same name as before, and was renamed in between. Mostly
/// nothing is missing. Whether another table had the name meanwhile, and what was written to it,
/// the catalog does not show.
pub(super) fn is_renamed_back(before: &CatalogRelation, now: &CatalogRelation) -> bool {
    let named = before.named_by.zip(now.named_by);
    before.name == now.name && named.is_some_and(|(before, now)| is_written_again(before, now))
}
