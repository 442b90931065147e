//! The name of a gap, as `status` prints it and `accept --gap` reads it.

use std::{fmt, str::FromStr};

use relay::{Code, Lsn};

/// The name of an open gap or beginning, written `CODE@LSN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapName {
    /// The code of its failure.
    pub code: Code,
    /// The position at which it begins.
    pub lsn: Lsn,
}

impl FromStr for GapName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (code, lsn) = text.split_once('@').ok_or("write CODE@LSN, such as P010@0/16B3748")?;
        let code = Code::parse(&code.to_ascii_uppercase())
            .ok_or("no such code; status shows what is open")?;
        let lsn = lsn.parse().map_err(|_| "an LSN is written like 0/16B3748")?;
        Ok(Self { code, lsn })
    }
}

impl fmt::Display for GapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.code, self.lsn)
    }
}
