//! A record's value where it is not the payload as it is: as JSON, within an envelope, or Kafka's
//! null for a payload that counts as empty.

use pgoutput::TupleColumns;

use super::{column_text::text, expand::expand, form::Form, render, simple};
use crate::routing::{
    json::NotJson,
    table::{EmptyPayload, ExpandJson, Format, OnNotJson, TombstoneOn},
};

/// How a value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueRule {
    pub(super) format: Format,
    /// What the payload's text is.
    pub(super) form: Form,
    pub(super) tombstone_on: TombstoneOn,
    /// What becomes of a payload of JSON.
    pub(super) expand: ExpandJson,
    /// What becomes of one that is none.
    pub(super) on_not_json: OnNotJson,
    pub(super) shape: ValueShape,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueShape {
    /// The payload as it is.
    Payload,
    /// The payload as Debezium writes its type.
    Characters,
    /// The payload as JSON.
    Json,
    /// An object of the member `payload` and these, of which the table may lack all.
    Envelope(Vec<Member>),
}

/// A member of the envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(super) name: String,
    pub(super) position: usize,
    pub(super) form: Form,
}

/// What becomes of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is the value as it is.
    AsItIs,
    /// The value is Kafka's null.
    Null,
    /// The value was written.
    Value,
}

impl ValueRule {
    /// Writes the value of a row, given its payload.
    ///
    /// # Errors
    /// What is wrong, with no value of the row.
    pub(super) fn write(
        &self,
        row: TupleColumns<'_>,
        payload: Option<&[u8]>,
        out: &mut String,
    ) -> Result<Written, String> {
        if self.is_tombstone(payload) {
            return Ok(Written::Null);
        }
        let envelope = match &self.shape {
            ValueShape::Payload => return Ok(Written::AsItIs),
            ValueShape::Characters => {
                let Some(payload) = payload else { return Ok(Written::Null) };
                render::characters(self.form, payload, self.format, out)
                    .map_err(|why| format!("its payload cannot be written: {why}"))?;
                return Ok(Written::Value);
            }
            ValueShape::Json => {
                self.payload(payload, out)?;
                return Ok(Written::Value);
            }
            ValueShape::Envelope(members) => members,
        };
        out.push_str("{\"payload\":");
        self.payload(payload, out)?;
        for Member { name, position, form } in envelope {
            out.push(',');
            simple::string(name, out);
            out.push(':');
            match text(row, *position) {
                None => out.push_str("null"),
                Some(value) => render::json(*form, value, self.format, out)
                    .map_err(|why| format!("member {name} of the envelope: {why}"))?,
            }
        }
        out.push('}');
        Ok(Written::Value)
    }

    fn is_tombstone(&self, payload: Option<&[u8]>) -> bool {
        let empty = match payload {
            None => EmptyPayload::Null,
            Some(b"\\x") if self.form == Form::Bytea => EmptyPayload::EmptyBytea,
            // Java's `trim` removes what is not above a space.
            Some(text) if text.iter().all(|byte| *byte <= b' ') => EmptyPayload::Blank,
            Some(_) => return false,
        };
        self.tombstone_on.has(empty)
    }

    fn expand(&self, json: &[u8], out: &mut String) -> Result<(), String> {
        let start = out.len();
        let Err(NotJson) = expand(json, self.expand, out) else { return Ok(()) };
        out.truncate(start);
        match (self.on_not_json, str::from_utf8(json)) {
            (OnNotJson::AsText, Ok(text)) => {
                simple::string(text, out);
                Ok(())
            }
            (OnNotJson::AsText, Err(_)) => Err("its payload is not UTF-8".to_owned()),
            (OnNotJson::Halt, _) => {
                Err("its payload is no JSON, so it cannot be expanded".to_owned())
            }
        }
    }

    fn payload(&self, payload: Option<&[u8]>, out: &mut String) -> Result<(), String> {
        match (payload, self.expand) {
            (None, _) => {
                out.push_str("null");
                Ok(())
            }
            (Some(json), how)
                if how != ExpandJson::No && matches!(self.form, Form::Json | Form::Text) =>
            {
                self.expand(json, out)
            }
            (Some(value), _) => render::json(self.form, value, self.format, out)
                .map_err(|why| format!("its payload cannot be written as JSON: {why}")),
        }
    }
}
