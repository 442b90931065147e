//! One message of the server outside of streaming, parsed.
//!
//! Bodies are parsed by `postgres-protocol`. That is safe for a frame that has arrived completely:
//! only the framing of `postgres-protocol` reserves whatever length is announced, and it is not
//! used. `postgres-protocol` does not know CopyBothResponse, which is parsed here.

use std::fmt;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, Message};

use super::{ProtocolError, ServerMessage};

/// A message that may come before streaming.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Authentication(Authentication),
    Parameter {
        name: String,
        value: String,
    },
    BackendKey(BackendKey),
    Ready,
    Columns,
    Row(Vec<Option<String>>),
    Complete,
    CopyBoth,
    Error(Box<ServerMessage>),
    Notice(Box<ServerMessage>),
    /// A NotificationResponse or EmptyQueryResponse, which are ignored.
    Nothing,
}

/// The process id of the server's backend, and the secret key that a cancel request needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct BackendKey {
    pub(super) pid: i32,
    pub(super) secret: i32,
}

impl fmt::Debug for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendKey").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// The server's authentication request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Authentication {
    Ok,
    Cleartext,
    Md5 { salt: [u8; 4] },
    Sasl { mechanisms: Vec<String> },
    SaslContinue(Vec<u8>),
    SaslFinal(Vec<u8>),
    Unsupported(&'static str),
}

impl Reply {
    /// The message's tag, for an error that names it.
    pub(super) fn tag(&self) -> char {
        match self {
            Self::Authentication(_) => 'R',
            Self::Parameter { .. } => 'S',
            Self::BackendKey(_) => 'K',
            Self::Ready => 'Z',
            Self::Columns => 'T',
            Self::Row(_) => 'D',
            Self::Complete => 'C',
            Self::CopyBoth => 'W',
            Self::Error(_) => 'E',
            Self::Notice(_) => 'N',
            Self::Nothing => 'A',
        }
    }

    /// Reads a whole frame with its header.
    pub(super) fn parse(frame: &[u8], doing: &'static str) -> Result<Self, ProtocolError> {
        let tag = frame.first().copied().unwrap_or_default();
        let body = frame.get(5..).unwrap_or_default();
        match tag {
            b'W' => return Ok(Self::CopyBoth),
            // The fields of errors and notices are read leniently: an error with damaged fields is
            // still reported as the error that it is.
            b'E' => return Ok(Self::Error(Box::new(ServerMessage::parse(body)))),
            b'N' => return Ok(Self::Notice(Box::new(ServerMessage::parse(body)))),
            _ => {}
        }
        let tag = char::from(tag);
        let malformed = ProtocolError::Malformed { tag, doing };
        let message = Message::parse(&mut BytesMut::from(frame)).ok().flatten();
        Self::from_message(message.ok_or(malformed)?, tag, doing)
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum; what is not expected here is refused, new variants included"
    )]
    fn from_message(
        message: Message,
        tag: char,
        doing: &'static str,
    ) -> Result<Self, ProtocolError> {
        let malformed = |_| ProtocolError::Malformed { tag, doing };
        if let Some(authentication) = Authentication::from_message(&message) {
            return authentication.map(Self::Authentication).map_err(malformed);
        }
        match message {
            Message::ParameterStatus(body) => Ok(Self::Parameter {
                name: body.name().map_err(malformed)?.to_owned(),
                value: body.value().map_err(malformed)?.to_owned(),
            }),
            Message::BackendKeyData(body) => {
                let (pid, secret) = (body.process_id(), body.secret_key());
                Ok(Self::BackendKey(BackendKey { pid, secret }))
            }
            Message::ReadyForQuery(_) => Ok(Self::Ready),
            Message::RowDescription(_) => Ok(Self::Columns),
            Message::DataRow(body) => text_values(&body).map(Self::Row).map_err(malformed),
            Message::CommandComplete(_) => Ok(Self::Complete),
            Message::NotificationResponse(_) | Message::EmptyQueryResponse => Ok(Self::Nothing),
            _ => Err(ProtocolError::Unexpected { tag, doing }),
        }
    }
}

impl Authentication {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum; only the authentication requests among its variants matter here"
    )]
    fn from_message(message: &Message) -> Option<std::io::Result<Self>> {
        Some(Ok(match message {
            Message::AuthenticationOk => Self::Ok,
            Message::AuthenticationCleartextPassword => Self::Cleartext,
            Message::AuthenticationMd5Password(body) => Self::Md5 { salt: body.salt() },
            Message::AuthenticationSasl(body) => {
                let mechanisms = body.mechanisms().map(|name| Ok(name.to_owned())).collect();
                return Some(mechanisms.map(|mechanisms| Self::Sasl { mechanisms }));
            }
            Message::AuthenticationSaslContinue(body) => Self::SaslContinue(body.data().to_vec()),
            Message::AuthenticationSaslFinal(body) => Self::SaslFinal(body.data().to_vec()),
            Message::AuthenticationKerberosV5 => Self::Unsupported("Kerberos 5"),
            Message::AuthenticationScmCredential => Self::Unsupported("SCM credentials"),
            Message::AuthenticationGss | Message::AuthenticationGssContinue(_) => {
                Self::Unsupported("GSSAPI")
            }
            Message::AuthenticationSspi => Self::Unsupported("SSPI"),
            _ => return None,
        }))
    }
}

fn text_values(row: &DataRowBody) -> std::io::Result<Vec<Option<String>>> {
    let buffer = row.buffer();
    row.ranges()
        .map(|range| {
            let bytes = range.map(|range| buffer.get(range).unwrap_or_default());
            Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(tag: u8, body: &[u8]) -> Result<Reply, ProtocolError> {
        let mut frame = vec![tag];
        frame.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
        frame.extend(body);
        Reply::parse(&frame, "testing")
    }

    #[test]
    fn sasl_mechanisms_are_listed() {
        let reply = parse(b'R', b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0").unwrap();
        let mechanisms = vec!["SCRAM-SHA-256-PLUS".to_owned(), "SCRAM-SHA-256".to_owned()];
        assert_eq!(reply, Reply::Authentication(Authentication::Sasl { mechanisms }));
    }

    #[test]
    fn rows_keep_null_and_empty_apart() {
        let reply = parse(b'D', b"\0\x03\0\0\0\x01x\xff\xff\xff\xff\0\0\0\0").unwrap();
        assert_eq!(reply, Reply::Row(vec![Some("x".into()), None, Some(String::new())]));
    }

    #[test]
    fn a_body_that_does_not_fit_its_tag_is_malformed() {
        for (tag, body) in
            [(b'R', &b"\0\0\0"[..]), (b'K', b"\0"), (b'D', b"\0\x05\0"), (b'S', b"a")]
        {
            assert!(matches!(parse(tag, body), Err(ProtocolError::Malformed { .. })), "{tag}");
        }
        assert!(matches!(parse(b't', b"\0\0"), Err(ProtocolError::Unexpected { tag: 't', .. })));
    }

    proptest! {
        #[test]
        fn any_body_is_a_reply_or_an_error(tag: u8, body in prop::collection::vec(any::<u8>(), 0..200)) {
            // Half of the run on tags that have a body parser.
            let tags = b"RSKZTDCWENAIv";
            let tag = if tag < 128 { tags[usize::from(tag) % tags.len()] } else { tag };
            match parse(tag, &body) {
                Ok(_) => {}
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
