//! `bytea` as PostgreSQL writes it: `\x` and two digits per byte.
//!
//! A binary payload is most of its row, and every digit of it has to be decoded. So the digits are
//! decoded without a branch and without a table: every step is the same arithmetic on each digit,
//! which the compiler vectorises to sixteen at a time.

/// Decodes `\x…` into `bytes`; `None` if the text is anything else.
pub(crate) fn decode(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let digits = text.strip_prefix(b"\\x")?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    // All digits are checked without an early exit: in practice none is wrong.
    if !digits.iter().fold(true, |valid, digit| valid & is_digit(*digit)) {
        return None;
    }
    bytes.clear();
    bytes.extend(pairs.iter().map(|pair| byte(*pair)));
    Some(())
}

#[inline]
fn is_digit(character: u8) -> bool {
    (character.wrapping_sub(b'0') < 10) | ((character | 0x20).wrapping_sub(b'a') < 6)
}

/// The byte that two digits stand for. The value of a digit is its low four bits, and nine more if
/// it is a letter, which has bit 6 set.
#[inline]
fn byte(pair: [u8; 2]) -> u8 {
    let pair = u16::from_le_bytes(pair);
    let values = (pair & 0x0f0f) + 9 * (pair >> 6 & 0x0101);
    let [byte, _] = (values << 4 | values >> 8).to_le_bytes();
    byte
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = b"of the row before".to_vec();
        decode(text, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn every_byte_is_read_back_in_either_case_at_every_place() {
        for length in 0..70 {
            let bytes: Vec<u8> = (0..=255).cycle().skip(length * 3).take(length).collect();
            let lower: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let upper = lower.to_uppercase();
            assert_eq!(decoded(format!("\\x{lower}").as_bytes()), Some(bytes.clone()));
            assert_eq!(decoded(format!("\\x{upper}").as_bytes()), Some(bytes));
        }
    }

    #[test]
    fn every_character_that_is_no_digit_is_refused_wherever_it_stands() {
        for character in (0..=255_u8).filter(|character| !character.is_ascii_hexdigit()) {
            for place in 2..74 {
                let mut text = [b'0'; 74];
                text[1] = b'x';
                text[0] = b'\\';
                assert!(decoded(&text).is_some());
                text[place] = character;
                assert_eq!(decoded(&text), None, "{character} at {place}");
            }
        }
    }

    #[test]
    fn another_form_is_refused() {
        for text in ["", "\\", "x00", "\\X00", "\\x0", "abc", "\\000"] {
            assert_eq!(decoded(text.as_bytes()), None, "{text}");
        }
        assert_eq!(decoded(b"\\x"), Some(vec![]));
    }
}
