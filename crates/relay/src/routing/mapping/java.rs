//! Numbers as Java writes them.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::form::Width;

/// Appends a floating-point number as `Double.toString` does from Java 19 on: the fewest digits
/// that give the number, two at least.
///
/// # Errors
/// The text is no number.
pub(super) fn float(width: Width, text: &str, out: &mut String) -> Result<(), NoNumber> {
    let (shortest, two_digits, is_finite) = match width {
        Width::Single => {
            let number: f32 = text.parse().map_err(|_| NoNumber)?;
            (format!("{number:e}"), format!("{number:.1e}"), number.is_finite())
        }
        Width::Double => {
            let number: f64 = text.parse().map_err(|_| NoNumber)?;
            (format!("{number:e}"), format!("{number:.1e}"), number.is_finite())
        }
    };
    if !is_finite {
        let sign = if shortest.starts_with('-') { "-" } else { "" };
        let name = if shortest.contains("NaN") { "NaN" } else { "Infinity" };
        out.push_str(sign);
        out.push_str(name);
        return Ok(());
    }
    // Of one digit alone, the second may say more of a number that is not normal.
    let written = if shortest.contains('.') { &shortest } else { &two_digits };
    scientific(written, out).ok_or(NoNumber)
}

/// From `-1.5e20` to what Java writes.
fn scientific(written: &str, out: &mut String) -> Option<()> {
    let (mantissa, exponent) = written.split_once('e')?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (first, rest) = mantissa.split_once('.')?;
    let exponent: i32 = exponent.parse().ok()?;
    out.push_str(sign);
    // Where the mantissa is 0.0, so is the exponent.
    match exponent {
        -3..=-1 => {
            out.push_str("0.");
            (1..exponent.unsigned_abs()).for_each(|_| out.push('0'));
            out.push_str(first);
            out.push_str(rest.trim_end_matches('0'));
        }
        0..=6 => {
            let whole = usize::try_from(exponent).ok()?;
            let digits = format!("{rest:0<whole$}");
            let (before, after) = digits.split_at_checked(whole)?;
            out.push_str(first);
            out.push_str(before);
            out.push('.');
            out.push_str(if after.is_empty() { "0" } else { after });
        }
        _ => {
            out.push_str(mantissa);
            out.push('E');
            out.push_str(&exponent.to_string());
        }
    }
    Some(())
}

/// A decimal number: the digits without its point, and how many of them are behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decimal<'t> {
    text: &'t str,
    is_negative: bool,
    digits: String,
    pub(super) scale: usize,
}

impl<'t> Decimal<'t> {
    /// Reads what PostgreSQL writes of a numeric.
    ///
    /// # Errors
    /// It is not finite, or no number.
    pub(super) fn read(text: &'t str) -> Result<Self, NoNumber> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(NoNumber);
        }
        let significant = digits.trim_start_matches('0');
        Ok(Self {
            text,
            is_negative: unsigned.len() < text.len(),
            digits: if significant.is_empty() { "0" } else { significant }.to_owned(),
            scale: fraction.len(),
        })
    }

    /// Without the zeros at the end of its fraction: `BigDecimal.stripTrailingZeros`, down to a
    /// scale of 0.
    pub(super) fn stripped(mut self) -> Self {
        while self.scale > 0 && self.digits.ends_with('0') && self.digits.len() > 1 {
            self.digits.pop();
            self.scale -= 1;
        }
        if self.digits == "0" {
            self.scale = 0;
        }
        self
    }

    /// Appends it as `BigDecimal.toString` does: with an exponent where more than five zeros follow
    /// the point.
    pub(super) fn write(&self, out: &mut String) {
        let leading = self.scale + 1 - self.digits.len().min(self.scale + 1);
        if self.scale == 0 || leading <= 6 {
            out.push_str(self.text);
            return;
        }
        let (first, rest) = self.digits.split_at_checked(1).unwrap_or((&self.digits, ""));
        out.push_str(if self.is_negative { "-" } else { "" });
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        out.push_str("E-");
        out.push_str(&leading.to_string());
    }

    /// Appends its digits as a whole number in Base64: `BigInteger.toByteArray`.
    pub(super) fn write_bytes(&self, out: &mut String) {
        let mut bytes = magnitude(&self.digits);
        // Room for the sign.
        bytes.insert(0, 0);
        if self.is_negative {
            let mut carry = true;
            for byte in bytes.iter_mut().rev() {
                (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
            }
        }
        let is_needed = |[first, second]: [u8; 2]| {
            !((first == 0 && second < 0x80) || (first == 0xff && second >= 0x80))
        };
        let needed = bytes.windows(2).position(|pair| pair.try_into().is_ok_and(is_needed));
        let start = needed.unwrap_or(bytes.len() - 1);
        BASE64.encode_string(bytes.get(start..).unwrap_or_default(), out);
    }
}

/// Decimal digits that are converted together, and their weight.
const TOGETHER: usize = 9;
const WEIGHT: u64 = 1_000_000_000;

/// The bytes of a number, the highest first. PostgreSQL has numbers of 147,455 digits, which take
/// a tenth of a second.
fn magnitude(digits: &str) -> Vec<u8> {
    // The lowest first.
    let mut limbs: Vec<u32> = Vec::new();
    let head = digits.len() % TOGETHER;
    let (head, tail) = digits.as_bytes().split_at_checked(head).unwrap_or_default();
    for chunk in std::iter::once(head).chain(tail.chunks(TOGETHER)) {
        let mut carry = chunk.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        for limb in &mut limbs {
            let product = u64::from(*limb) * WEIGHT + carry;
            (*limb, carry) = split(product);
        }
        if carry > 0 {
            limbs.push(split(carry).0);
        }
    }
    limbs.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect()
}

/// The lower 32 bits, and the others.
fn split(number: u64) -> (u32, u64) {
    (u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default(), number >> 32)
}

/// A text that is no finite number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoNumber;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn floating(width: Width, text: &str) -> String {
        let mut out = String::new();
        float(width, text, &mut out).unwrap();
        out
    }

    #[test]
    fn floating_point_numbers_are_javas() {
        for (text, expected) in [
            ("0", "0.0"),
            ("-0", "-0.0"),
            ("1.5", "1.5"),
            ("0.001", "0.001"),
            ("0.0125", "0.0125"),
            ("0.00099", "9.9E-4"),
            ("9999999", "9999999.0"),
            ("10000000", "1.0E7"),
            ("-123456.789", "-123456.789"),
            ("1e+20", "1.0E20"),
            ("5e-324", "4.9E-324"),
            ("1.7976931348623157e+308", "1.7976931348623157E308"),
            ("NaN", "NaN"),
            ("Infinity", "Infinity"),
            ("-Infinity", "-Infinity"),
        ] {
            assert_eq!(floating(Width::Double, text), expected);
        }
        assert_eq!(floating(Width::Single, "1e-45"), "1.4E-45");
        assert_eq!(floating(Width::Single, "0.1"), "0.1");
        assert_eq!(float(Width::Double, "x", &mut String::new()), Err(NoNumber));
    }

    fn decimal(text: &str) -> (String, String) {
        let (mut characters, mut bytes) = (String::new(), String::new());
        let decimal = Decimal::read(text).unwrap();
        decimal.write(&mut characters);
        decimal.write_bytes(&mut bytes);
        (characters, bytes)
    }

    /// As Debezium 3.7 writes them.
    #[test]
    fn decimal_numbers_are_javas() {
        for (text, characters, bytes) in [
            ("1.500", "1.500", "Bdw="),
            ("0.000", "0.000", "AA=="),
            ("-1.500", "-1.500", "+iQ="),
            ("-0.128", "-0.128", "gA=="),
            ("127", "127", "fw=="),
            ("128", "128", "AIA="),
            ("-15", "-15", "8Q=="),
            ("0.0000001000", "1.000E-7", "A+g="),
            ("0.0000000", "0E-7", "AA=="),
            (
                "1000000000000000000000000000000",
                "1000000000000000000000000000000",
                "DJ8snNBGdO3qQAAAAA==",
            ),
        ] {
            assert_eq!(decimal(text), (characters.to_owned(), bytes.to_owned()), "{text}");
        }
        for wrong in ["NaN", "Infinity", "", "-", "1e3"] {
            assert_eq!(Decimal::read(wrong), Err(NoNumber), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn the_bytes_of_a_number_are_its_twos_complement(number: i128) {
            let whole = number.to_be_bytes();
            let sign = if number < 0 { 0xff } else { 0 };
            let is_needed = |at: &usize| {
                let next = whole.get(at + 1).copied().unwrap_or_default();
                whole.get(*at) != Some(&sign) || (next >= 0x80) != (sign == 0xff) || *at == 15
            };
            let start = (0..16).find(is_needed).unwrap();
            let expected = BASE64.encode(&whole[start..]);
            prop_assert_eq!(decimal(&number.to_string()).1, expected);
        }

        #[test]
        fn a_floating_point_number_is_read_back(bits: u64) {
            let number = f64::from_bits(bits);
            let written = floating(Width::Double, &number.to_string());
            let read: f64 = written.parse().unwrap();
            prop_assert!(read.to_bits() == bits || number.is_nan());
        }
    }
}
