//! Writes what a server would send. Independent of the decoder: it knows the manual's byte layouts
//! and nothing of the crate's types.

use std::vec::Vec;

/// Bytes under construction, in network byte order.
#[derive(Default)]
pub(super) struct Wire(Vec<u8>);

impl Wire {
    pub(super) fn tag(tag: u8) -> Self {
        Self(Vec::from([tag]))
    }

    pub(super) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub(super) fn int16(self, value: i16) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn int32(self, value: i32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn int64(self, value: i64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub(super) fn string(self, text: &str) -> Self {
        self.raw(text.as_bytes()).byte(0)
    }

    /// A column with a value: tag `t` or `b`.
    pub(super) fn column(self, tag: u8, value: &[u8]) -> Self {
        self.byte(tag).value(value)
    }

    pub(super) fn value(self, value: &[u8]) -> Self {
        self.int32(i32::try_from(value.len()).unwrap()).raw(value)
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}

pub(super) fn begin() -> Vec<u8> {
    Wire::tag(b'B').int64(0x16_B374_D848).int64(1_000_000).int32(731).done()
}

pub(super) fn commit() -> Vec<u8> {
    Wire::tag(b'C').byte(0).int64(0x16_B374_D848).int64(0x16_B374_D878).int64(1_000_000).done()
}

pub(super) fn origin() -> Vec<u8> {
    Wire::tag(b'O').int64(0x1_0000_0000).string("berlin").done()
}

pub(super) fn relation() -> Vec<u8> {
    Wire::tag(b'R')
        .int32(16_385)
        .string("public")
        .string("outbox")
        .byte(b'd')
        .int16(2)
        .byte(1)
        .string("id")
        .int32(2_950)
        .int32(-1)
        .byte(0)
        .string("aggregate_type")
        .int32(1_043)
        .int32(68)
        .done()
}

pub(super) fn type_name() -> Vec<u8> {
    Wire::tag(b'Y').int32(16_390).string("public").string("mood").done()
}

pub(super) fn insert() -> Vec<u8> {
    Wire::tag(b'I')
        .int32(16_385)
        .byte(b'N')
        .int16(5)
        .column(b't', b"42")
        .byte(b'n')
        .column(b't', b"")
        .byte(b'u')
        .column(b'b', &[0, 255])
        .done()
}

pub(super) fn update() -> Vec<u8> {
    Wire::tag(b'U').int32(16_385).byte(b'N').int16(1).column(b't', b"new").done()
}

pub(super) fn update_from(old: u8) -> Vec<u8> {
    Wire::tag(b'U')
        .int32(16_385)
        .byte(old)
        .int16(1)
        .column(b't', b"old")
        .byte(b'N')
        .int16(1)
        .column(b't', b"new")
        .done()
}

pub(super) fn delete(old: u8) -> Vec<u8> {
    Wire::tag(b'D').int32(16_385).byte(old).int16(2).column(b't', b"old").byte(b'n').done()
}

pub(super) fn truncate(options: u8) -> Vec<u8> {
    Wire::tag(b'T').int32(2).byte(options).int32(16_385).int32(16_399).done()
}

pub(super) fn logical(flags: u8) -> Vec<u8> {
    Wire::tag(b'M').byte(flags).int64(0x200).string("audit").value(b"who\0did").done()
}

pub(super) fn stream_abort() -> Vec<u8> {
    Wire::tag(b'A').int32(731).int32(733).done()
}

/// One of each, none of which has a shorter valid message as its beginning.
pub(super) fn messages() -> Vec<Vec<u8>> {
    Vec::from([
        begin(),
        commit(),
        origin(),
        relation(),
        type_name(),
        insert(),
        update(),
        update_from(b'K'),
        update_from(b'O'),
        delete(b'K'),
        delete(b'O'),
        truncate(3),
        logical(1),
        stream_abort(),
    ])
}

pub(super) fn wal_data(data: &[u8]) -> Vec<u8> {
    Wire::tag(b'w').int64(0x100).int64(0x200).int64(-5).raw(data).done()
}

pub(super) fn keepalive(reply: u8) -> Vec<u8> {
    Wire::tag(b'k').int64(0x300).int64(7).byte(reply).done()
}
