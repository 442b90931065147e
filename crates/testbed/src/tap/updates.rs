//! Finds standby status updates in what a client sends, wherever the reads split it.

/// Codes in place of a protocol version, after which the client sends its start-up message again:
/// requests for TLS and for GSSAPI.
const ENCRYPTION_REQUESTS: [u32; 2] = [80_877_103, 80_877_104];

/// How far a client's stream has been parsed.
#[derive(Debug, Default)]
pub(super) struct Updates {
    phase: ParserState,
    rest: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    /// Messages have a length and no tag.
    #[default]
    StartUp,
    /// Every message has a tag.
    Tagged,
}

impl Updates {
    /// Takes the next bytes, and returns the highest flush position of the updates that they
    /// complete.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<u64> {
        self.rest.extend_from_slice(bytes);
        let mut highest = None;
        while let Some((phase, length, flush)) = self.next() {
            self.phase = phase;
            self.rest.drain(..length);
            highest = highest.max(flush);
        }
        highest
    }

    /// The message at the front, if it is complete: the phase after it, its length, and the
    /// position that it confirms.
    fn next(&self) -> Option<(ParserState, usize, Option<u64>)> {
        match self.phase {
            ParserState::StartUp => {
                let length = number(&self.rest, 0)?;
                let code = number(&self.rest, 4)?;
                let whole = self.whole(length, 0)?;
                let is_request = ENCRYPTION_REQUESTS.contains(&code);
                Some((
                    if is_request { ParserState::StartUp } else { ParserState::Tagged },
                    whole.len(),
                    None,
                ))
            }
            ParserState::Tagged => {
                let whole = self.whole(number(&self.rest, 1)?, 1)?;
                Some((ParserState::Tagged, whole.len(), flush(whole)))
            }
        }
    }

    fn whole(&self, length: u32, tag: usize) -> Option<&[u8]> {
        self.rest.get(..usize::try_from(length).ok()? + tag)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// `d`, its length, `r`, then three positions: written, flushed, applied.
fn flush(message: &[u8]) -> Option<u64> {
    let is_update = message.first() == Some(&b'd') && message.get(5) == Some(&b'r');
    let position: [u8; 8] = message.get(14..22)?.try_into().ok()?;
    is_update.then_some(u64::from_be_bytes(position))
}
