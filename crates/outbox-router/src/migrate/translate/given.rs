//! What a person gives beside the file, by flags.

/// What a person gives beside the file, because it is not in there.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// What the first line of the TOML calls the file.
    pub file: String,
    /// `--bootstrap-servers`
    pub bootstrap_servers: Option<String>,
    /// `--table`
    pub tables: Vec<String>,
    /// `--key-converter`
    pub key_converter: Option<GivenConverter>,
    /// `--value-converter`
    pub value_converter: Option<GivenConverter>,
}

/// A converter that a person names, where the file does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenConverter {
    /// `StringConverter`
    String,
    /// `JsonConverter` with `schemas.enable=false`
    Json,
    /// `BinaryDataConverter` or `ByteArrayConverter`
    Bytes,
}

impl GivenConverter {
    /// As `key_format` and `value_format` have it.
    pub(super) const fn format(self) -> &'static str {
        match self {
            Self::String => "auto",
            Self::Json => "json",
            Self::Bytes => "bytes",
        }
    }
}
