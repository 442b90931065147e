//! Frames cut at any place, false lengths, and memory that must not grow.

use proptest::prelude::*;

use super::*;

const KIB: usize = 1024;

fn buffer(read_buffer: usize, row_bytes: usize) -> FrameBuffer {
    FrameBuffer::new(FrameLimits { read_buffer, row_bytes })
}

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

fn announce(tag: u8, length: i32) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend(length.to_be_bytes());
    bytes
}

/// Copies as much of `bytes` into the buffer as there is room for.
fn receive(frames: &mut FrameBuffer, bytes: &[u8]) -> usize {
    let room = frames.unfilled();
    let count = room.len().min(bytes.len());
    room[..count].copy_from_slice(&bytes[..count]);
    frames.filled(count);
    count
}

#[test]
fn a_buffer_is_full_until_a_frame_is_consumed_and_the_rest_moved() {
    let mut frames = buffer(4 * KIB, 4 * KIB);
    let body = vec![0; 2 * KIB];
    let sent = [frame(b'd', &body), frame(b'd', &body)].concat();
    let count = receive(&mut frames, &sent);
    assert_eq!(count, 4 * KIB, "less than was sent");
    assert!(frames.is_full());
    assert!(frames.head().unwrap().is_some());
    frames.consume();
    receive(&mut frames, &sent[count..]);
    assert!(!frames.is_full());
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Frame(u8, Vec<u8>),
    Oversized(usize, Vec<u8>),
}

fn take_all(frames: &mut FrameBuffer, seen: &mut Vec<Seen>) -> Result<(), FrameError> {
    while let Some(head) = frames.head()? {
        assert_eq!(frames.head()?, Some(head), "asking again shows the same frame");
        let body = frames.body().to_vec();
        seen.push(match head {
            Head::Whole { tag } => Seen::Frame(tag, body),
            Head::Oversized { announced } => Seen::Oversized(announced, body),
        });
        frames.consume();
    }
    Ok(())
}

/// Feeds `bytes` in pieces, and takes every frame as soon as it is complete.
fn feed(
    frames: &mut FrameBuffer,
    bytes: &[u8],
    mut piece: impl FnMut() -> usize,
) -> Result<Vec<Seen>, FrameError> {
    let mut seen = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = receive(frames, &rest[..piece().clamp(1, rest.len())]);
        assert!(count > 0, "there is always room once whole frames were consumed");
        rest = &rest[count..];
        take_all(frames, &mut seen)?;
    }
    Ok(seen)
}

#[test]
fn frames_split_at_every_byte_come_out_whole() {
    let bytes = [frame(b'd', b"first"), frame(b'N', b""), frame(b'd', &[7; 300])].concat();
    for cut in 0..bytes.len() {
        let mut frames = buffer(4 * KIB, KIB);
        let mut pieces =
            [cut.max(1), bytes.len()].into_iter().chain(std::iter::repeat(bytes.len()));
        let seen = feed(&mut frames, &bytes, || pieces.next().unwrap()).unwrap();
        assert_eq!(
            seen,
            [
                Seen::Frame(b'd', b"first".to_vec()),
                Seen::Frame(b'N', Vec::new()),
                Seen::Frame(b'd', vec![7; 300])
            ],
            "cut at {cut}"
        );
    }
}

#[test]
fn a_frame_stays_at_the_front_until_it_is_consumed() {
    let mut frames = buffer(4 * KIB, KIB);
    receive(&mut frames, &[frame(b'd', b"a"), frame(b'd', b"b")].concat());
    for _ in 0..3 {
        assert_eq!(frames.head(), Ok(Some(Head::Whole { tag: b'd' })));
        assert_eq!(frames.body(), b"a");
        assert!(!frames.unfilled().is_empty());
    }
    frames.consume();
    frames.consume();
    frames.head().unwrap();
    assert_eq!(frames.body(), b"b", "consuming nothing skips nothing");
}

#[test]
fn a_full_buffer_of_whole_frames_takes_no_more() {
    let mut frames = buffer(4 * KIB, 64 * KIB);
    let one = frame(b'd', &[1; 1019]);
    while receive(&mut frames, &one) == one.len() {}
    assert!(frames.unfilled().is_empty());
    assert_eq!(frames.capacity(), 4 * KIB);
    let mut seen = Vec::new();
    take_all(&mut frames, &mut seen).unwrap();
    assert_eq!(seen.len(), 4);
    assert!(!frames.unfilled().is_empty());
}

#[test]
fn impossible_lengths_are_errors() {
    for length in [0, 3, -1, i32::MIN] {
        let mut frames = buffer(4 * KIB, KIB);
        receive(&mut frames, &announce(b'd', length));
        assert_eq!(frames.head(), Err(FrameError::Short { tag: 'd', announced: length }));
    }
}

#[test]
fn a_huge_announced_length_reserves_no_more_than_a_prefix() {
    for tag in [b'R', b'E', b'T', b'S', 0, 255] {
        let mut frames = buffer(4 * KIB, 16 * KIB);
        receive(&mut frames, &announce(tag, i32::MAX));
        assert!(matches!(frames.head(), Err(FrameError::Long { .. })), "{tag}");
        assert_eq!(frames.capacity(), 4 * KIB);
    }
    let mut frames = buffer(4 * KIB, 16 * KIB);
    receive(&mut frames, &announce(b'd', i32::MAX));
    assert_eq!(frames.head(), Ok(None));
    assert!(frames.unfilled().len() <= 4 * KIB);
    assert_eq!(frames.capacity(), 4 * KIB + PREFIX_BYTES);
}

#[test]
fn memory_grows_only_with_what_was_received_and_shrinks_back() {
    let row = 1024 * KIB;
    let mut frames = buffer(4 * KIB, row);
    let large = frame(b'd', &vec![9; row]);
    let mut received = 0;
    while received < large.len() {
        received += receive(&mut frames, &large[received..large.len().min(received + KIB)]);
        assert!(frames.capacity() <= (2 * received).max(4 * KIB), "after {received} bytes");
        assert_eq!(frames.head().unwrap().is_some(), received == large.len());
    }
    assert_eq!(frames.body().len(), row);
    frames.consume();
    let seen = feed(&mut frames, &frame(b'd', b"next"), || 3).unwrap();
    assert_eq!(seen, [Seen::Frame(b'd', b"next".to_vec())]);
    assert_eq!(frames.capacity(), 4 * KIB);
}

#[test]
fn an_oversized_row_streams_through_in_constant_memory() {
    let length = 50 * 1024 * KIB;
    let mut frames = buffer(256 * KIB, 16 * KIB);
    let mut seen = Vec::new();
    receive(&mut frames, &frame(b'd', b"before"));
    receive(&mut frames, &announce(b'd', i32::try_from(length + 4).unwrap()));
    let block: Vec<u8> = (0..=255).collect();
    let mut sent = 0;
    while sent < length {
        // A block may be cut by the end of the buffer; keep the pattern in step.
        let phase = sent % block.len();
        let upto = block.len().min(phase + length - sent);
        sent += receive(&mut frames, &block[phase..upto]);
        take_all(&mut frames, &mut seen).unwrap();
        assert!(frames.capacity() <= 256 * KIB + PREFIX_BYTES, "{}", frames.capacity());
    }
    receive(&mut frames, &frame(b'd', b"after"));
    take_all(&mut frames, &mut seen).unwrap();
    let prefix: Vec<u8> = block.iter().copied().cycle().take(PREFIX_BYTES).collect();
    assert_eq!(
        seen,
        [
            Seen::Frame(b'd', b"before".to_vec()),
            Seen::Oversized(length, prefix),
            Seen::Frame(b'd', b"after".to_vec())
        ]
    );
    assert_eq!(frames.capacity(), 256 * KIB);
}

#[test]
fn a_row_of_exactly_the_limit_is_whole_and_one_byte_more_is_oversized() {
    let limit = 16 * KIB + ENVELOPE_BYTES;
    let mut frames = buffer(4 * KIB, 16 * KIB);
    let bytes = [frame(b'd', &vec![1; limit]), frame(b'd', &vec![2; limit + 1])].concat();
    let seen = feed(&mut frames, &bytes, || 1000).unwrap();
    assert_eq!(
        seen,
        [Seen::Frame(b'd', vec![1; limit]), Seen::Oversized(limit + 1, vec![2; limit + 1])]
    );
}

proptest! {
    /// Frames of any size, cut at any place, come out as they went in.
    #[test]
    fn any_frames_in_any_pieces_come_out_in_order(
        sizes in prop::collection::vec((prop::sample::select(vec![b'd', b'N', b'C']), 0usize..40_000), 1..20),
        pieces in prop::collection::vec(1usize..9_000, 1..20),
    ) {
        let row_bytes = 16 * KIB;
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (at, (tag, size)) in sizes.into_iter().enumerate() {
            let body = vec![u8::try_from(at).unwrap(); size];
            bytes.extend(frame(tag, &body));
            let oversized = tag == b'd' && size > row_bytes + ENVELOPE_BYTES;
            expected.push(if oversized { Seen::Oversized(size, body) } else { Seen::Frame(tag, body) });
        }
        let mut frames = buffer(4 * KIB, row_bytes);
        let mut pieces = pieces.into_iter().cycle();
        let seen = feed(&mut frames, &bytes, || pieces.next().unwrap()).unwrap();
        prop_assert_eq!(seen, expected);
    }

    /// Random bytes give a value or an error, within the buffer's limits.
    #[test]
    fn any_bytes_are_frames_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..20_000),
        piece in 1usize..5_000,
    ) {
        let mut frames = buffer(4 * KIB, 8 * KIB);
        let outcome = feed(&mut frames, &bytes, || piece);
        if let Err(FrameError::Long { announced, limit, .. }) = outcome {
            prop_assert!(announced > limit);
        }
        prop_assert!(frames.capacity() <= (2 * bytes.len()).max(4 * KIB) + PREFIX_BYTES);
    }
}
