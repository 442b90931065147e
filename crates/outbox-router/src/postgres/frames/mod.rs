//! One reusable buffer between the socket and the decoder, cut into the server's frames without
//! copying them.
//!
//! Guarantees, whatever lengths the server announces:
//! - a length is checked before memory is reserved for it, and the buffer never grows beyond twice
//!   what was received;
//! - a CopyData frame above `row_bytes` is read in constant memory: its first [`PREFIX_BYTES`] are
//!   kept, so that the row can still be named, and the rest is dropped;
//! - any other frame above 1 MiB is an error: PostgreSQL sends none;
//! - after one large frame the buffer returns to its usual size.
//!
//! Frames are borrowed from the buffer; [`FrameBuffer::head`] costs a few comparisons and may be
//! called again.

#[cfg(test)]
mod tests;

use thiserror::Error;

/// Tag and length in front of every frame; the length counts itself but not the tag.
const HEADER_BYTES: usize = 5;
/// What an Insert message adds to its column values: the headers of XLogData and message, and five
/// bytes for each of at most 1,600 columns. `row_bytes` limits the values alone.
const ENVELOPE_BYTES: usize = 8 * 1024;
/// The limit for errors, notices and answers to commands; PostgreSQL itself truncates what it
/// quotes in them far below this.
const CONTROL_BYTES: usize = 1024 * 1024;
/// So many bytes are moved in a tenth of a millisecond.
const SMALL_MOVE: usize = 1024 * 1024;
/// How many bytes of an oversized frame are kept: header, the relation's OID and the leading
/// columns, where ids and keys usually stand.
pub const PREFIX_BYTES: usize = 64 * 1024;

/// The largest body of a CopyData frame that is handed out whole, where the values of a row may
/// have `row_bytes`.
#[must_use]
pub const fn frame_limit(row_bytes: usize) -> usize {
    row_bytes.saturating_add(ENVELOPE_BYTES)
}

/// How much memory frames may take, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// The buffer's usual size: as much as one pass may read at once.
    pub read_buffer: usize,
    /// The largest row that is handed out whole.
    pub row_bytes: usize,
}

/// An impossible length: what arrives is not the expected protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The announced length is less than that of the length field itself.
    #[error("frame {tag:?} announces a length of {announced}, less than its own header")]
    Short {
        /// The frame's tag.
        tag: char,
        /// The length as announced.
        announced: i32,
    },
    /// A frame larger than any frame of its tag.
    #[error("frame {tag:?} announces {announced} bytes, more than the limit of {limit}")]
    Long {
        /// The frame's tag.
        tag: char,
        /// The body's announced length.
        announced: usize,
        /// The largest body that is accepted for this tag.
        limit: usize,
    },
}

/// The frame at the front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A whole frame; [`FrameBuffer::body`] is its body.
    Whole {
        /// The message's tag.
        tag: u8,
    },
    /// A CopyData frame above `row_bytes` that has been read to its end; [`FrameBuffer::body`] is
    /// its beginning.
    Oversized {
        /// The announced length of its body.
        announced: usize,
    },
}

/// The buffer; see the module's header.
#[derive(Debug)]
pub struct FrameBuffer {
    /// Initialised to its full length; what was received stands in `start..end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Length, with header, of the frame that `head` last showed; zero when there is none.
    shown: usize,
    oversized: Option<Oversized>,
    limits: FrameLimits,
}

#[derive(Debug)]
struct Oversized {
    announced: usize,
    missing: usize,
    prefix: Vec<u8>,
}

impl FrameBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        let limits = FrameLimits { read_buffer: limits.read_buffer.max(4 * 1024), ..limits };
        let bytes = vec![0; limits.read_buffer];
        Self { bytes, start: 0, end: 0, shown: 0, oversized: None, limits }
    }

    /// The front frame, if all of it has arrived. Repeated calls show the same frame until
    /// [`Self::consume`].
    ///
    /// # Errors
    /// The announced length is impossible, or above the limit of a frame that is not CopyData; the
    /// stream is then of no further use.
    #[inline]
    pub fn head(&mut self) -> Result<Option<Head>, FrameError> {
        if self.oversized.is_some() {
            return Ok(self.absorb_oversized());
        }
        let received = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Some(header) = FrameHeader::parse(received)? else { return Ok(None) };
        if header.body > self.limit(header.tag) {
            return self.refuse_or_absorb(header);
        }
        if received.len() < HEADER_BYTES + header.body {
            return Ok(None);
        }
        self.shown = HEADER_BYTES + header.body;
        Ok(Some(Head::Whole { tag: header.tag }))
    }

    /// The body of the frame that [`Self::head`] showed, or the beginning of the body when the
    /// frame is oversized.
    #[inline]
    #[must_use]
    pub fn body(&self) -> &[u8] {
        match &self.oversized {
            Some(oversized) => &oversized.prefix,
            None => self.shown_bytes().get(HEADER_BYTES..).unwrap_or_default(),
        }
    }

    /// The same, to be rewritten in place; its length stays.
    pub(super) fn body_mut(&mut self) -> &mut [u8] {
        match &mut self.oversized {
            Some(oversized) => &mut oversized.prefix,
            None => {
                let (from, to) = (self.start + HEADER_BYTES, self.start + self.shown);
                self.bytes.get_mut(from..to).unwrap_or_default()
            }
        }
    }

    /// The frame that [`Self::head`] showed, with its header; empty when the frame is oversized.
    pub(super) fn shown_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.shown).unwrap_or_default()
    }

    /// All bytes that were received and not consumed.
    pub(super) fn received(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Steps past the frame that [`Self::head`] showed; without such a frame, does nothing.
    #[inline]
    pub fn consume(&mut self) {
        if self.oversized.as_ref().is_some_and(|oversized| oversized.missing == 0) {
            self.oversized = None;
        }
        self.start += self.shown;
        self.shown = 0;
    }

    /// Room for the next read. Empty when a whole frame waits to be consumed and the buffer is
    /// full.
    pub fn unfilled(&mut self) -> &mut [u8] {
        self.compact();
        if self.end == self.bytes.len() {
            self.grow_for_front_frame();
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Marks the first `count` bytes of [`Self::unfilled`] as received.
    pub fn filled(&mut self, count: usize) {
        self.end = self.bytes.len().min(self.end + count);
    }

    /// Whether received bytes reach the end of the buffer.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.end == self.bytes.len()
    }

    /// The buffer's present size in memory, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let kept = self.oversized.as_ref().map_or(0, |oversized| oversized.prefix.capacity());
        self.bytes.capacity() + kept
    }

    fn limit(&self, tag: u8) -> usize {
        match tag {
            b'd' => frame_limit(self.limits.row_bytes),
            _ => CONTROL_BYTES,
        }
    }

    #[cold]
    fn refuse_or_absorb(&mut self, header: FrameHeader) -> Result<Option<Head>, FrameError> {
        if header.tag != b'd' {
            return Err(FrameError::Long {
                tag: char::from(header.tag),
                announced: header.body,
                limit: CONTROL_BYTES,
            });
        }
        self.start += HEADER_BYTES;
        self.oversized = Some(Oversized {
            announced: header.body,
            missing: header.body,
            prefix: Vec::with_capacity(PREFIX_BYTES.min(header.body)),
        });
        Ok(self.absorb_oversized())
    }

    /// Moves what has arrived of an oversized frame out of the buffer, and keeps the beginning of
    /// the frame.
    fn absorb_oversized(&mut self) -> Option<Head> {
        let oversized = self.oversized.as_mut()?;
        let available = oversized.missing.min(self.end - self.start);
        let arrived = self.bytes.get(self.start..self.start + available).unwrap_or_default();
        let kept = arrived.len().min(PREFIX_BYTES - oversized.prefix.len());
        oversized.prefix.extend_from_slice(arrived.get(..kept).unwrap_or_default());
        oversized.missing -= available;
        self.start += available;
        (oversized.missing == 0).then_some(Head::Oversized { announced: oversized.announced })
    }

    /// Moves unconsumed bytes to the front where that is cheap or needed, and releases the memory
    /// that a large frame took.
    fn compact(&mut self) {
        let left = self.end - self.start;
        let grown = self.bytes.len() > self.limits.read_buffer;
        let full = self.end == self.bytes.len();
        // Moving no more than was consumed since the last move keeps the cost per received byte
        // constant. To make room in a full buffer, a little more is moved, or a frame that would
        // never be whole.
        let makes_room = full && (left <= SMALL_MOVE || !self.has_whole_frame());
        if self.start > 0 && (left <= self.start || makes_room) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, left);
        }
        if grown && self.start == 0 && left <= self.limits.read_buffer / 2 {
            self.bytes.truncate(self.limits.read_buffer);
            self.bytes.shrink_to_fit();
        }
    }

    fn has_whole_frame(&self) -> bool {
        let received = self.received();
        matches!(FrameHeader::parse(received), Ok(Some(header))
            if HEADER_BYTES + header.body <= received.len())
    }

    /// Doubles the buffer while the front frame is incomplete and within its limit; a frame above
    /// its limit is left to `head`.
    fn grow_for_front_frame(&mut self) {
        let received = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Ok(Some(header)) = FrameHeader::parse(received) else { return };
        let whole = HEADER_BYTES + header.body;
        if header.body <= self.limit(header.tag) && whole > received.len() {
            let length = whole.min(self.bytes.len().saturating_mul(2));
            self.bytes.reserve_exact(length.saturating_sub(self.bytes.len()));
            self.bytes.resize(length, 0);
        }
    }
}

#[derive(Clone, Copy)]
struct FrameHeader {
    tag: u8,
    body: usize,
}

impl FrameHeader {
    #[inline]
    fn parse(received: &[u8]) -> Result<Option<Self>, FrameError> {
        let [tag, a, b, c, d, ..] = *received else { return Ok(None) };
        let announced = i32::from_be_bytes([a, b, c, d]);
        // The length counts its own four bytes, so a negative one and one below four are both
        // impossible.
        let body = usize::try_from(announced).ok().and_then(|length| length.checked_sub(4));
        match body {
            Some(body) => Ok(Some(Self { tag, body })),
            None => Err(FrameError::Short { tag: char::from(tag), announced }),
        }
    }
}
