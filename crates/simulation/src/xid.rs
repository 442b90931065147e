//! The ids that a simulated server gives to transactions.

use relay::delivered::FullXid;

/// Gives the next id. PostgreSQL leaves out the ids that are no transactions'.
pub(crate) fn assign(next: &mut u64) -> u64 {
    while FullXid::from_u64(*next).of_row().as_u32() < 3 {
        *next += 1;
    }
    *next += 1;
    *next - 1
}
