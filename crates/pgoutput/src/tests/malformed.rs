//! Inputs that no server should send: each is refused, and the error finds the byte.

use super::wire::{self, Wire};
use crate::{DecodeErrorKind, Message};
use std::string::{String, ToString};

fn error(bytes: &[u8]) -> String {
    Message::parse(bytes).unwrap_err().to_string()
}

#[test]
fn every_cut_of_every_message_is_refused_within_its_bounds() {
    for message in wire::messages() {
        for length in 0..message.len() {
            let error = Message::parse(&message[..length]).unwrap_err();
            assert!(error.offset <= length, "{error}");
            let expected = matches!(
                error.kind,
                DecodeErrorKind::Truncated { .. }
                    | DecodeErrorKind::TooLong { .. }
                    | DecodeErrorKind::UnterminatedString
            );
            assert!(expected, "{length} bytes of {message:?}: {error}");
        }
    }
}

#[test]
fn a_surplus_byte_is_refused() {
    for mut message in wire::messages() {
        let length = message.len();
        // 17 bytes: the optional part of a stream abort is 16.
        message.resize(length + 17, 0);
        let error = Message::parse(&message).unwrap_err();
        assert!(matches!(error.kind, DecodeErrorKind::TrailingBytes { .. }), "{error}");
        assert!(error.offset >= length, "{error}");
    }
}

#[test]
fn errors_name_the_message_the_field_and_the_offset() {
    assert_eq!(error(b""), "message: tag at offset 0 needs 1 bytes but 0 are left");
    assert_eq!(error(b"Z"), "message: tag at offset 0 has the unknown tag 'Z'");
    assert_eq!(error(b"B\0\0"), "begin: final lsn at offset 1 needs 8 bytes but 2 are left");
    assert_eq!(error(b"Y\0\0\0\x01pub"), {
        "type: namespace at offset 5 is a string without its terminating zero byte"
    });
    let mut trailing = wire::begin();
    trailing.extend(b"more");
    assert_eq!(error(&trailing), "begin: the end at offset 21 is followed by 4 more bytes");
}

#[test]
fn an_oversized_column_is_refused_by_number() {
    let bytes = Wire::tag(b'I')
        .int32(16_385)
        .byte(b'N')
        .int16(4)
        .byte(b'n')
        .column(b't', b"123")
        .byte(b't')
        .int32(70_000)
        .raw(b"twelve bytes")
        .done();
    assert_eq!(
        error(&bytes),
        "insert: tuple column 3 at offset 17 claims 70000 bytes but 12 are left"
    );
}

#[test]
fn the_largest_length_is_refused_without_reserving_it() {
    let bytes = Wire::tag(b'I').int32(1).byte(b'N').int16(1).byte(b'b').int32(i32::MAX).done();
    assert_eq!(
        error(&bytes),
        "insert: tuple column 1 at offset 8 claims 2147483647 bytes but 0 are left"
    );
    let bytes = Wire::tag(b'T').int32(i32::MAX).byte(0).done();
    assert_eq!(
        error(&bytes),
        "truncate: relation oids at offset 6 needs 8589934588 bytes but 0 are left"
    );
}

#[test]
fn negative_lengths_and_counts_are_refused() {
    let insert = || Wire::tag(b'I').int32(1).byte(b'N');
    assert_eq!(
        error(&insert().int16(-1).done()),
        "insert: number of columns at offset 6 is a negative number (-1)"
    );
    assert_eq!(
        error(&insert().int16(1).byte(b't').int32(-1).done()),
        "insert: tuple column 1 at offset 8 claims a negative length (-1)"
    );
    assert_eq!(
        error(&Wire::tag(b'T').int32(-2).byte(0).done()),
        "truncate: number of relations at offset 1 is a negative number (-2)"
    );
    assert_eq!(
        error(&Wire::tag(b'M').byte(0).int64(0).string("p").int32(-9).done()),
        "logical message: content at offset 12 claims a negative length (-9)"
    );
    assert_eq!(
        error(&Wire::tag(b'R').int32(1).string("").string("t").byte(b'd').int16(-1).done()),
        "relation: number of columns at offset 9 is a negative number (-1)"
    );
}

#[test]
fn tags_without_a_meaning_are_refused() {
    let row = |tag: u8, old: u8| Wire::tag(tag).int32(1).byte(old).int16(0).done();
    assert_eq!(error(&row(b'I', b'K')), "insert: new tuple at offset 5 has the unknown tag 'K'");
    assert_eq!(error(&row(b'U', b'x')), "update: new tuple at offset 5 has the unknown tag 'x'");
    assert_eq!(error(&row(b'D', b'N')), "delete: old tuple at offset 5 has the unknown tag 'N'");
    let column = Wire::tag(b'I').int32(1).byte(b'N').int16(2).byte(b'n').byte(b'x').done();
    assert_eq!(error(&column), "insert: tuple column 2 at offset 9 has the unknown tag 'x'");
}

#[test]
fn flags_without_a_meaning_are_refused() {
    let mut commit = wire::commit();
    commit[1] = 1;
    assert_eq!(error(&commit), "commit: flags at offset 1 is 1, expected 0");
    assert_eq!(
        error(&wire::logical(2)),
        "logical message: flags at offset 1 is 2, expected 0 or 1"
    );
    assert_eq!(error(&wire::truncate(4)), "truncate: options at offset 5 is 4, expected 0 to 3");
    let relation = |identity: u8, flags: u8| {
        Wire::tag(b'R')
            .int32(1)
            .string("")
            .string("t")
            .byte(identity)
            .int16(1)
            .byte(flags)
            .string("c")
            .int32(25)
            .int32(-1)
            .done()
    };
    assert_eq!(
        error(&relation(b'x', 0)),
        "relation: replica identity at offset 8 is 120, expected 100 (default), 110 (nothing), \
         102 (full) or 105 (index)"
    );
    assert_eq!(
        error(&relation(b'd', 2)),
        "relation: flags of column 1 at offset 11 is 2, expected 0 or 1"
    );
}

#[test]
fn a_stream_abort_with_half_its_detail_is_refused() {
    let bytes = Wire::tag(b'A').int32(1).int32(1).int64(0).done();
    assert_eq!(
        error(&bytes),
        "stream abort: abort lsn and time at offset 9 needs 16 bytes but 8 are left"
    );
}
