//! What several readers of JSON share.

use std::borrow::Cow;

/// A JSON string, borrowed where it has no escapes (`Cow` alone would always copy).
#[derive(serde::Deserialize)]
pub(crate) struct JsonText<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A text that JSON's grammar refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;
