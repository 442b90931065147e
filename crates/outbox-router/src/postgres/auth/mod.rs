//! Authentication: trust, SCRAM-SHA-256 (with channel binding under TLS), MD5, and clear text.
//!
//! The password is sent in clear text only where nobody but the server can be at the other end:
//! under TLS with a verified certificate, on loopback, or through a unix socket. Elsewhere an
//! impostor could ask for it, under TLS too. With SCRAM the server must prove that it knows the
//! password, before anything else that it sends is accepted.
//!
//! MD5 is answered to any server, as in libpq: servers without SCRAM are still in use, and the hash
//! is salted. But whoever recorded the hash can try passwords against it:
//! `require_auth=scram-sha-256` rules MD5 out.

use std::ops::RangeInclusive;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::frontend;

use super::link::{Link, LinkError};
use super::reply::{Authentication, Reply};
use super::session::MESSAGES_MAX;
use super::transport::Privacy;
use super::{ConnInfo, ConnectError, Method, Password, ProtocolError, UnsuitableConnection};

#[cfg(test)]
mod tests;

const DOING: &str = "authenticating";

/// How many SCRAM iterations a server may ask for (RFC 5802 §5.1, `i=`). PostgreSQL asks for 4,096
/// unless `scram_iterations` says otherwise. The upper bound is that of `postgres-protocol` and of
/// PostgreSQL's JDBC driver: some tenths of a second, whereas without a bound any peer could keep
/// this process busy for minutes. libpq, too, refuses zero and no other small number.
const ITERATIONS: RangeInclusive<u64> = 1..=100_000;

/// Answers the server's authentication requests until AuthenticationOk. `privacy` is that of the
/// link.
///
/// # Errors
/// The server refuses, asks for a method that is ruled out, unsupported or unsuitable for this
/// connection, does not prove that it knows the password, or violates the protocol; or no password
/// is configured.
pub(super) async fn authenticate(
    link: &mut Link,
    info: &ConnInfo,
    privacy: Privacy,
) -> Result<(), ConnectError> {
    let exchange = Exchange { info };
    match exchange.question(link).await? {
        Authentication::Ok => return exchange.allow(Method::None),
        Authentication::Cleartext => {
            exchange.allow(Method::Password)?;
            let password = exchange.cleartext_password(privacy)?;
            exchange.send_password(link, password.expose()).await?;
        }
        Authentication::Md5 { salt } => {
            exchange.allow(Method::Md5)?;
            let hash = md5_hash(info.user.as_bytes(), exchange.password()?.expose(), salt);
            exchange.send_password(link, hash.as_bytes()).await?;
        }
        Authentication::Sasl { mechanisms } => exchange.scram(link, &mechanisms).await?,
        Authentication::SaslContinue(_) | Authentication::SaslFinal(_) => {
            return Err(exchange.unexpected('R'));
        }
        Authentication::Unsupported(method) => return Err(exchange.unsupported(method)),
    }
    match exchange.question(link).await? {
        Authentication::Ok => Ok(()),
        Authentication::Cleartext
        | Authentication::Md5 { .. }
        | Authentication::Sasl { .. }
        | Authentication::SaslContinue(_)
        | Authentication::SaslFinal(_)
        | Authentication::Unsupported(_) => Err(exchange.unexpected('R')),
    }
}

struct Exchange<'a> {
    info: &'a ConnInfo,
}

impl Exchange<'_> {
    async fn question(&self, link: &mut Link) -> Result<Authentication, ConnectError> {
        for _ in 0..MESSAGES_MAX {
            match link.reply(DOING).await.map_err(|error| failed(self.info, error))? {
                Reply::Authentication(question) => return Ok(question),
                Reply::Error(message) => {
                    return Err(ConnectError::Server { target: self.info.target(), message });
                }
                Reply::Notice(_) => {}
                reply @ (Reply::Parameter { .. }
                | Reply::BackendKey(_)
                | Reply::Ready
                | Reply::Columns
                | Reply::Row(_)
                | Reply::Complete
                | Reply::CopyBoth
                | Reply::Nothing) => return Err(self.unexpected(reply.tag())),
            }
        }
        let source = ProtocolError::TooManyMessages { limit: MESSAGES_MAX };
        Err(ConnectError::Protocol { target: self.info.target(), source })
    }

    /// Checks the method that the server asks for against `require_auth`.
    fn allow(&self, method: Method) -> Result<(), ConnectError> {
        let require_auth = &self.info.require_auth;
        if require_auth.allows(method) {
            return Ok(());
        }
        let (target, require_auth) = (self.info.target(), require_auth.clone());
        Err(ConnectError::MethodRuledOut { target, method, require_auth })
    }

    async fn scram(&self, link: &mut Link, mechanisms: &[String]) -> Result<(), ConnectError> {
        let offers = |name: &str| mechanisms.iter().any(|offered| offered == name);
        let (mechanism, binding) = match link.transport().channel_binding() {
            Some(binding) if offers(SCRAM_SHA_256_PLUS) => {
                (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(binding))
            }
            // This flag (`y`, RFC 5802 §7) says: the client supports channel binding, and the
            // server did not offer it. A server that did offer it then knows that somebody stands
            // in between.
            Some(_) if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
            // A server offers channel binding only under TLS. So the server has TLS and this
            // connection does not: somebody in between removed it.
            None if offers(SCRAM_SHA_256_PLUS) && !link.transport().is_encrypted() => {
                return Err(ConnectError::TlsStripped { target: self.info.target() });
            }
            None if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unsupported()),
            Some(_) | None => return Err(self.unsupported("SASL without SCRAM-SHA-256")),
        };
        self.allow(Method::ScramSha256)?;
        let unproven = |source| ConnectError::ServerProof { target: self.info.target(), source };
        let mut scram = ScramSha256::new(self.password()?.expose(), binding);
        frontend::sasl_initial_response(mechanism, scram.message(), &mut link.out)
            .map_err(|source| self.unsendable(source))?;
        self.flush(link).await?;
        let question = self.question(link).await?;
        let Authentication::SaslContinue(data) = &question else {
            return Err(self.refuse_in_scram(&question));
        };
        self.check_iterations(data)?;
        if attribute(data, b"r=") == attribute(scram.message(), b"r=") {
            return Err(unproven(std::io::Error::other("the server added nothing to our nonce")));
        }
        scram.update(data).map_err(unproven)?;
        frontend::sasl_response(scram.message(), &mut link.out)
            .map_err(|source| self.unsendable(source))?;
        self.flush(link).await?;
        let question = self.question(link).await?;
        let Authentication::SaslFinal(data) = &question else {
            return Err(self.refuse_in_scram(&question));
        };
        scram.finish(data).map_err(unproven)
    }

    /// Checks the number of iterations before the first is computed. A number that cannot be read
    /// is left to the parser, which refuses it.
    fn check_iterations(&self, server_first: &[u8]) -> Result<(), ConnectError> {
        let asked = attribute(server_first, b"i=")
            .and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        match asked {
            Some(asked) if !ITERATIONS.contains(&asked) => Err(ConnectError::ScramIterations {
                target: self.info.target(),
                asked,
                accepted: ITERATIONS,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// The error for a message out of place in the exchange. AuthenticationOk in place of the
    /// server's proof means that the server has none.
    fn refuse_in_scram(&self, question: &Authentication) -> ConnectError {
        match question {
            Authentication::Ok => ConnectError::ServerProof {
                target: self.info.target(),
                source: std::io::Error::other("the server left its proof out"),
            },
            Authentication::Cleartext
            | Authentication::Md5 { .. }
            | Authentication::Sasl { .. }
            | Authentication::SaslContinue(_)
            | Authentication::SaslFinal(_)
            | Authentication::Unsupported(_) => self.unexpected('R'),
        }
    }

    /// The password for a server that asks for it in clear text, if nobody else can be at the other
    /// end.
    fn cleartext_password(&self, privacy: Privacy) -> Result<&Password, ConnectError> {
        let connection = match privacy {
            Privacy::Verified | Privacy::Local => return self.password(),
            Privacy::Unverified => UnsuitableConnection::Unverified,
            Privacy::Exposed => UnsuitableConnection::Unencrypted,
        };
        Err(ConnectError::PlaintextPassword { target: self.info.target(), connection })
    }

    fn password(&self) -> Result<&Password, ConnectError> {
        self.info.password.as_ref().ok_or_else(|| ConnectError::PasswordMissing {
            target: self.info.target(),
            user: self.info.user.clone(),
        })
    }

    async fn send_password(&self, link: &mut Link, password: &[u8]) -> Result<(), ConnectError> {
        frontend::password_message(password, &mut link.out)
            .map_err(|source| self.unsendable(source))?;
        self.flush(link).await
    }

    async fn flush(&self, link: &mut Link) -> Result<(), ConnectError> {
        link.flush().await.map_err(|error| failed(self.info, error))
    }

    /// The error of the message builders, which refuse only a zero byte in what they are given.
    fn unsendable(&self, source: std::io::Error) -> ConnectError {
        ConnectError::Closed { target: self.info.target(), source: Some(source) }
    }

    fn unsupported(&self, method: &str) -> ConnectError {
        ConnectError::AuthenticationMethod { target: self.info.target(), method: method.to_owned() }
    }

    fn unexpected(&self, tag: char) -> ConnectError {
        ConnectError::Protocol {
            target: self.info.target(),
            source: ProtocolError::Unexpected { tag, doing: DOING },
        }
    }
}

/// The value of an attribute in a SCRAM message (RFC 5802 §5.1).
fn attribute<'a>(message: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    message.split(|byte| *byte == b',').find_map(|attribute| attribute.strip_prefix(name))
}

/// The error for a link that failed before the session was ready.
pub(super) fn failed(info: &ConnInfo, error: LinkError) -> ConnectError {
    match error {
        LinkError::Io(source) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
            ConnectError::Closed { target: info.target(), source: None }
        }
        LinkError::Io(source) => {
            ConnectError::Closed { target: info.target(), source: Some(source) }
        }
        LinkError::Protocol(source) => ConnectError::Protocol { target: info.target(), source },
    }
}
