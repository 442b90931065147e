//! What a key can take: each kind reads a value, prints it as it would be read again, and says what
//! it accepts. Kinds that hold further keys are in [`nested`].

mod columns;
mod kind;
mod leaves;
mod nested;
mod placements;
mod properties;

pub(super) use kind::{Kind, Named};
pub(super) use leaves::{
    choice, connection, count, count_because, count_or_broker_default, duration, optional_duration,
    optional_text, optional_texts, size, switch, text,
};
pub(super) use nested::{group, inline, section, sections};
pub(super) use placements::{envelope, extra_headers, filter, tombstones};
pub(super) use properties::properties;
