//! What is wrong with a publication, now and compared with what it was: a plain function over two
//! [`Catalog`](super::Catalog)s.
//!
//! Everything is compared by OID. A name says who is asked for; an OID says whether it is still the
//! same one. A publication that was dropped and made again looks right and is not: the WAL in
//! between was written, and is decoded, without it.

mod altered;
mod children;
mod comparison;
mod membership;
pub mod remedy;
mod renamed;
mod rows;
mod xmin;

pub use altered::alterations;
pub use comparison::{Watched, compare, is_note};

#[cfg(test)]
mod tests;
