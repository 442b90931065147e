//! A cursor over the bytes of one message, which also builds the errors about them.
//!
//! Every read is bounds-checked and moves the cursor only when it succeeds, so the offset in an
//! error is always where the offending part begins. Building an error is not inlined, so that the
//! decoding of an insert inlines only a compare and a load per field.

use crate::{DecodeError, DecodeErrorKind, Field, Lsn, Oid, PgTimestamp, Xid};

#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Length of the whole input; the offset is this minus the length of `rest`.
    total: usize,
    item: &'static str,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(item: &'static str, input: &'a [u8]) -> Self {
        Self { rest: input, total: input.len(), item }
    }

    /// From here on, errors are about `item`.
    #[inline]
    pub(crate) fn now_decoding(&mut self, item: &'static str) {
        self.item = item;
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Continues at `rest`, which must be a tail of what was left.
    #[inline]
    pub(crate) fn resume_at(&mut self, rest: &'a [u8]) {
        self.rest = rest;
    }

    /// An error about the part that begins at the cursor.
    #[inline]
    pub(crate) fn error(self, field: Field, kind: DecodeErrorKind) -> DecodeError {
        error_at(self.item, self.total.saturating_sub(self.rest.len()), field, kind)
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: impl Into<Field>) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(u8::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: impl Into<Field>) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self, field: impl Into<Field>) -> Result<i32, DecodeError> {
        self.array(field).map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn oid(&mut self, field: impl Into<Field>) -> Result<Oid, DecodeError> {
        self.u32(field).map(Oid::from_u32)
    }

    #[inline]
    pub(crate) fn xid(&mut self, field: impl Into<Field>) -> Result<Xid, DecodeError> {
        self.u32(field).map(Xid::from_u32)
    }

    #[inline]
    pub(crate) fn lsn(&mut self, field: impl Into<Field>) -> Result<Lsn, DecodeError> {
        self.array(field).map(u64::from_be_bytes).map(Lsn::from_u64)
    }

    #[inline]
    pub(crate) fn timestamp(
        &mut self,
        field: impl Into<Field>,
    ) -> Result<PgTimestamp, DecodeError> {
        self.array(field).map(i64::from_be_bytes).map(PgTimestamp::from_micros)
    }

    /// An Int16 number of elements.
    #[inline]
    pub(crate) fn count(&mut self, field: impl Into<Field>) -> Result<u16, DecodeError> {
        let field = field.into();
        let before = *self;
        let count = self.array(field).map(i16::from_be_bytes)?;
        u16::try_from(count).map_err(|_| {
            before.error(field, DecodeErrorKind::NegativeCount { count: i32::from(count) })
        })
    }

    /// A byte of which only some values have a meaning; `expected` lists them for the error.
    #[inline]
    pub(crate) fn choice<T>(
        &mut self,
        field: impl Into<Field>,
        expected: &'static str,
        meaning: impl FnOnce(u8) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let field = field.into();
        let before = *self;
        let value = self.u8(field)?;
        meaning(value)
            .ok_or_else(|| before.error(field, DecodeErrorKind::InvalidValue { value, expected }))
    }

    /// A NUL-terminated string, without its NUL.
    pub(crate) fn string(&mut self, field: impl Into<Field>) -> Result<&'a [u8], DecodeError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        match end.and_then(|end| self.rest.split_at_checked(end)) {
            Some((string, [_nul, rest @ ..])) => {
                self.rest = rest;
                Ok(string)
            }
            Some((_, [])) | None => {
                Err(self.error(field.into(), DecodeErrorKind::UnterminatedString))
            }
        }
    }

    /// An Int32 length and as many bytes.
    pub(crate) fn value(&mut self, field: impl Into<Field>) -> Result<&'a [u8], DecodeError> {
        let Some((value, rest)) = split_value(self.rest) else {
            return Err(self.error(field.into(), value_fault(self.rest)));
        };
        self.rest = rest;
        Ok(value)
    }

    /// Exactly `length` bytes.
    pub(crate) fn bytes(
        &mut self,
        length: usize,
        field: impl Into<Field>,
    ) -> Result<&'a [u8], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            let kind = DecodeErrorKind::Truncated { needed: length, left: self.rest.len() };
            return Err(self.error(field.into(), kind));
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// The input must end here.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let kind = DecodeErrorKind::TrailingBytes { count: self.rest.len() };
        Err(self.error(Field::from("the end"), kind))
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: impl Into<Field>) -> Result<[u8; N], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            let kind = DecodeErrorKind::Truncated { needed: N, left: self.rest.len() };
            return Err(self.error(field.into(), kind));
        };
        self.rest = rest;
        Ok(*bytes)
    }
}

/// Takes the cursor's parts and not a reference to it, so that the compiler can keep the cursor in
/// registers.
#[cold]
#[inline(never)]
fn error_at(item: &'static str, offset: usize, field: Field, kind: DecodeErrorKind) -> DecodeError {
    DecodeError { item, field, offset, kind }
}

/// Splits off what an Int32 length announces: (the value, what follows it).
#[inline]
pub(crate) fn split_value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

/// Why [`split_value`] finds no value.
#[cold]
pub(crate) fn value_fault(bytes: &[u8]) -> DecodeErrorKind {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return DecodeErrorKind::Truncated { needed: 4, left: bytes.len() };
    };
    let length = i32::from_be_bytes(*length);
    match u32::try_from(length) {
        Ok(claimed) => DecodeErrorKind::TooLong { claimed, left: rest.len() },
        Err(_) => DecodeErrorKind::NegativeLength { length },
    }
}
