//! What is wrong with a publication, now and compared with an earlier reading: a plain function of
//! two [`Catalog`](super::Catalog)s.
//!
//! Everything is compared by OID: the configuration names an object, and the OID says whether the
//! object of that name is still the same. A publication that was dropped and re-created looks right
//! and is not: the WAL in between is decoded without it.

mod altered;
mod children;
mod comparison;
mod membership;
mod renamed;
mod rows;
pub mod statements;
mod xmin;

pub use altered::alterations;
pub(crate) use altered::altered_tables;
pub use comparison::{Watched, check, compare, withdrawn};

#[cfg(test)]
mod tests;
