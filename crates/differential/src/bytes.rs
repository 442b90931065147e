//! Bytes in a golden: text where they are UTF-8, so that a person can read them, else hexadecimal.

use serde::{Deserialize, Serialize};

/// Bytes of a key, a value or a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Hex { hex: Hex },
}

impl From<Written> for Bytes {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => Self(text.into_bytes()),
            Written::Hex { hex } => Self(hex.0),
        }
    }
}

impl From<Bytes> for Written {
    fn from(bytes: Bytes) -> Self {
        match String::from_utf8(bytes.0) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Hex { hex: Hex(error.into_bytes()) },
        }
    }
}

/// Bytes as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hex(pub Vec<u8>);

impl From<Hex> for String {
    fn from(hex: Hex) -> Self {
        hex.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let pairs = text.as_bytes().chunks(2).map(|pair| {
            let is_hex = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            let pair = str::from_utf8(pair).ok().filter(|_| is_hex);
            pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        bytes.map(Self).ok_or_else(|| format!("no hexadecimal text: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_hexadecimal_and_come_back() {
        for (bytes, written) in
            [(&b"\xc3\xbc\"\0"[..], r#""\u00fc\"\u0000""#), (b"\x00\xff", r#"{"hex":"00ff"}"#)]
        {
            let bytes = Bytes(bytes.to_vec());
            let json = serde_json::to_string(&bytes).unwrap();
            assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap(), bytes);
            assert_eq!(serde_json::from_str::<Bytes>(written).unwrap(), bytes);
        }
        for broken in ["0", "0g", "+1"] {
            Hex::try_from(broken.to_owned()).unwrap_err();
        }
    }
}
