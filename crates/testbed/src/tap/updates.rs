//! Finds standby status updates in what a client sends, however the bytes are cut.

/// Codes in the place of a protocol version, after which the client starts anew: requests for TLS and for GSSAPI.
const ENCRYPTION_REQUESTS: [u32; 2] = [80_877_103, 80_877_104];

/// How far a client's stream has been understood.
#[derive(Debug, Default)]
pub(super) struct Updates {
    phase: Phase,
    rest: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Messages have a length and no tag.
    #[default]
    StartUp,
    /// Every message has a tag.
    Tagged,
}

impl Updates {
    /// Takes the next bytes, and gives the highest flush position of the updates that are complete with them.
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

    /// The message at the front, if it is whole: what follows it, how long it is, what it confirms.
    fn next(&self) -> Option<(Phase, usize, Option<u64>)> {
        match self.phase {
            Phase::StartUp => {
                let length = number(&self.rest, 0)?;
                let code = number(&self.rest, 4)?;
                let whole = self.whole(length, 0)?;
                let is_request = ENCRYPTION_REQUESTS.contains(&code);
                Some((if is_request { Phase::StartUp } else { Phase::Tagged }, whole.len(), None))
            }
            Phase::Tagged => {
                let whole = self.whole(number(&self.rest, 1)?, 1)?;
                Some((Phase::Tagged, whole.len(), flush(whole)))
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::tap) fn start_up() -> Vec<u8> {
        [
            &8_u32.to_be_bytes()[..],
            &80_877_103_u32.to_be_bytes(),
            &9_u32.to_be_bytes(),
            &[0, 3, 0, 0, 0],
        ]
        .concat()
    }

    pub(in crate::tap) fn update(flush: u64) -> Vec<u8> {
        let mut message = b"d\0\0\0\x26r".to_vec();
        for position in [99, flush, 98] {
            message.extend(u64::to_be_bytes(position));
        }
        message.extend([0; 9]);
        message
    }

    #[test]
    fn updates_are_found_however_the_bytes_are_cut() {
        let other = b"d\0\0\0\x05x".to_vec();
        let stream = [start_up(), b"Q\0\0\0\x06x\0".to_vec(), update(5), other, update(3)].concat();
        for size in 1..stream.len() {
            let mut updates = Updates::default();
            let found: Vec<u64> =
                stream.chunks(size).filter_map(|chunk| updates.read(chunk)).collect();
            assert_eq!(found.iter().max(), Some(&5), "chunks of {size}");
            assert!(updates.rest.is_empty());
        }
    }

    #[test]
    fn what_is_not_whole_says_nothing() {
        let mut updates = Updates::default();
        assert_eq!(updates.read(&start_up()), None);
        let (most, last) = (update(5), 0);
        assert_eq!(updates.read(&most[..most.len() - 1]), None);
        assert_eq!(updates.read(&[last]), Some(5));
    }
}
