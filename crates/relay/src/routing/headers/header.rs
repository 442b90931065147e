//! One header of a record.

/// A name and a value; a `None` value is Kafka's null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header<'a> {
    /// As configured, or the member's name in the row's own headers.
    pub name: &'a str,
    /// Raw bytes.
    pub value: Option<&'a [u8]>,
}
