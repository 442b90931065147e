use super::wire::{self, Wire};
use crate::{CutColumn, DecodeErrorKind, Message, Oid, TupleData, parse_insert_prefix};
use std::string::ToString;
use std::vec::Vec;

#[test]
fn the_columns_before_the_cut_are_there() {
    let bytes = Wire::tag(b'I')
        .int32(16_385)
        .byte(b'N')
        .int16(4)
        .column(b't', b"id-1")
        .byte(b'n')
        .byte(b't')
        .int32(20_000_000)
        .raw(b"the payload begins")
        .done();
    let prefix = parse_insert_prefix(&bytes).unwrap();
    assert_eq!(prefix.relation, Oid::from_u32(16_385));
    assert_eq!(prefix.announced, 4);
    assert_eq!(prefix.columns().collect::<Vec<_>>(), [TupleData::Text(b"id-1"), TupleData::Null]);
    assert_eq!(prefix.cut, Some(CutColumn { claimed_bytes: Some(20_000_000), received_bytes: 18 }));
}

#[test]
fn every_cut_yields_a_beginning_of_the_row() {
    let bytes = wire::insert();
    let Ok(Message::Insert(insert)) = Message::parse(&bytes) else { panic!("not an insert") };
    let row: Vec<_> = insert.tuple.iter().collect();
    for length in 0..bytes.len() {
        match parse_insert_prefix(&bytes[..length]) {
            Ok(prefix) => {
                let columns: Vec<_> = prefix.columns().collect();
                assert!(row.starts_with(&columns), "{length} bytes: {columns:?}");
                assert!(columns.len() < prefix.announced, "{length} bytes");
                assert!(prefix.cut.is_some(), "{length} bytes");
            }
            Err(error) => {
                assert!(length < 8, "{length} bytes: {error}");
                assert!(matches!(error.kind, DecodeErrorKind::Truncated { .. }), "{error}");
            }
        }
    }
}

#[test]
fn a_whole_insert_has_no_cut() {
    let bytes = wire::insert();
    let Ok(Message::Insert(insert)) = Message::parse(&bytes) else { panic!("not an insert") };
    let prefix = parse_insert_prefix(&bytes).unwrap();
    assert_eq!(prefix.cut, None);
    assert!(prefix.columns().eq(insert.tuple.iter()));
}

#[test]
fn what_cannot_become_an_insert_is_refused() {
    let error = |bytes: &[u8]| parse_insert_prefix(bytes).unwrap_err().to_string();
    assert_eq!(error(&wire::update()), "message: tag at offset 0 has the unknown tag 'U'");
    let row = || Wire::tag(b'I').int32(1).byte(b'N').int16(2).byte(b'n');
    assert_eq!(
        error(&row().byte(b'x').done()),
        "insert: tuple column 2 at offset 9 has the unknown tag 'x'"
    );
    assert_eq!(
        error(&row().byte(b't').int32(-4).done()),
        "insert: tuple column 2 at offset 9 claims a negative length (-4)"
    );
    assert_eq!(
        error(&row().byte(b'n').byte(b'n').done()),
        "insert: the end at offset 10 is followed by 1 more bytes"
    );
}
