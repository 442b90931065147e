//! What a table's configuration asks for beyond one column for each role. It is applied to a row
//! before the row is routed, and only where a table asks for it, so that for all others a row costs
//! one comparison.
//!
//! ```text
//! filter → templates → time, partition → headers → key, value
//! ```

mod array;
mod column_text;
mod debezium;
mod expand;
mod filter;
mod form;
mod headers;
mod interval;
mod java;
mod plan;
mod render;
mod resolve;
mod resolved_template;
mod row;
mod simple;
mod type_names;
mod value;
mod words;

pub use filter::{ComparedText, FilterKind};
pub(crate) use form::Form;
pub(crate) use headers::TakenName;
pub(crate) use plan::{RowIs, RowPlan, TextSource, Unmappable};
pub(crate) use resolve::{PlanInput, is_written, reads_tracing, resolve};
pub(crate) use resolved_template::ResolvedTemplate;
pub(crate) use row::MappedRow;
pub(crate) use type_names::{Column, TypeNames};
pub(crate) use words::FIRST_OF_USERS;
pub use words::ValueType;

#[cfg(test)]
mod tests;
