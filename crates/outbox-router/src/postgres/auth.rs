//! Proving who we are: trust, SCRAM-SHA-256 (with channel binding under TLS), MD5, and clear text where nobody listens.
//!
//! A server that asks for the password as it is gets it only over TLS, loopback or a unix socket: on the open network whoever
//! answers could ask. With SCRAM the server must prove that it knows the password too, before anything else it says counts.

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::frontend;

use super::link::{Link, LinkError};
use super::reply::{Authentication, Reply};
use super::transport::Privacy;
use super::{ConnInfo, ConnectError, Password, ProtocolError};

const DOING: &str = "authenticating";

/// Answers the server's questions until it is satisfied. `privacy` is that of the link.
pub(super) async fn authenticate(
    link: &mut Link,
    info: &ConnInfo,
    privacy: Privacy,
) -> Result<(), ConnectError> {
    let exchange = Exchange { info };
    match exchange.question(link).await? {
        Authentication::Ok => return Ok(()),
        Authentication::Cleartext => {
            let password = exchange.password()?;
            if privacy == Privacy::Exposed {
                return Err(ConnectError::PlaintextPassword { target: info.target() });
            }
            exchange.send_password(link, password.expose()).await?;
        }
        Authentication::Md5 { salt } => {
            let hash = md5_hash(info.user.as_bytes(), exchange.password()?.expose(), salt);
            exchange.send_password(link, hash.as_bytes()).await?;
        }
        Authentication::Sasl { mechanisms } => exchange.scram(link, &mechanisms).await?,
        Authentication::SaslContinue(_) | Authentication::SaslFinal(_) => {
            return Err(exchange.unexpected());
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
        | Authentication::Unsupported(_) => Err(exchange.unexpected()),
    }
}

struct Exchange<'a> {
    info: &'a ConnInfo,
}

impl Exchange<'_> {
    async fn question(&self, link: &mut Link) -> Result<Authentication, ConnectError> {
        loop {
            match link.reply(DOING).await.map_err(|error| failed(self.info, error))? {
                Reply::Authentication(question) => return Ok(question),
                Reply::Error(message) => {
                    return Err(ConnectError::Server { target: self.info.target(), message });
                }
                Reply::Notice(_) => {}
                Reply::Parameter { .. }
                | Reply::BackendKey { .. }
                | Reply::Ready
                | Reply::Columns
                | Reply::Row(_)
                | Reply::Complete
                | Reply::CopyBoth
                | Reply::Nothing => return Err(self.unexpected()),
            }
        }
    }

    async fn scram(&self, link: &mut Link, mechanisms: &[String]) -> Result<(), ConnectError> {
        let offers = |name: &str| mechanisms.iter().any(|offered| offered == name);
        let (mechanism, binding) = match link.transport().channel_binding() {
            Some(binding) if offers(SCRAM_SHA_256_PLUS) => {
                (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(binding))
            }
            // Says "I could, you did not offer": a server that did offer knows that somebody stands in between.
            Some(_) if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
            None if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unsupported()),
            Some(_) | None => return Err(self.unsupported("SASL without SCRAM-SHA-256")),
        };
        let unproven = |source| ConnectError::ServerProof { target: self.info.target(), source };
        let mut scram = ScramSha256::new(self.password()?.expose(), binding);
        frontend::sasl_initial_response(mechanism, scram.message(), &mut link.out)
            .map_err(|source| self.unsendable(source))?;
        self.flush(link).await?;
        let question = self.question(link).await?;
        let Authentication::SaslContinue(data) = &question else {
            return Err(self.refuse_in_scram(&question));
        };
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

    /// A server that skips its own proof has none.
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
            | Authentication::Unsupported(_) => self.unexpected(),
        }
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

    /// The builders refuse only a zero byte in what they are given.
    fn unsendable(&self, source: std::io::Error) -> ConnectError {
        ConnectError::Closed { target: self.info.target(), source: Some(source) }
    }

    fn unsupported(&self, method: &str) -> ConnectError {
        ConnectError::AuthenticationMethod { target: self.info.target(), method: method.to_owned() }
    }

    fn unexpected(&self) -> ConnectError {
        ConnectError::Protocol {
            target: self.info.target(),
            source: ProtocolError::Unexpected { tag: 'R', doing: DOING },
        }
    }
}

/// A link that broke, or spoke something else, before the session was ready.
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

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::md5_hash;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::super::ConnectErrorKind;
    use super::super::frames::FrameLimits;
    use super::super::transport::Transport;
    use super::*;

    const CLEARTEXT: &[u8] = b"R\0\0\0\x08\0\0\0\x03";
    const OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";

    /// The outcome against a server that sends `script`, and what that server got.
    async fn run(script: &[u8], privacy: Privacy) -> (Result<(), ConnectError>, Vec<u8>) {
        let (ours, mut server) = UnixStream::pair().unwrap();
        let mut link =
            Link::new(Transport::Unix(ours), FrameLimits { read_buffer: 4096, row_bytes: 4096 });
        let text = "host=db.example user=router password=canary";
        let info = ConnInfo::resolve(Some(text), &|_| None).unwrap();
        server.write_all(script).await.unwrap();
        let exchange = authenticate(&mut link, &info, privacy);
        let outcome = tokio::time::timeout(std::time::Duration::from_secs(20), exchange)
            .await
            .expect("the script is complete");
        drop(link);
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        (outcome, got)
    }

    #[tokio::test]
    async fn the_password_goes_out_in_clear_text_only_where_nobody_listens() {
        let script = [CLEARTEXT, OK].concat();
        for privacy in [Privacy::Encrypted, Privacy::Local] {
            let (outcome, got) = run(&script, privacy).await;
            outcome.unwrap();
            assert_eq!(got, b"p\0\0\0\x0bcanary\0");
        }
        let (outcome, got) = run(&script, Privacy::Exposed).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, ConnectError::PlaintextPassword { .. }), "{error}");
        assert_eq!((error.kind(), got.len()), (ConnectErrorKind::Authentication, 0));
    }

    #[tokio::test]
    async fn md5_sends_the_salted_hash() {
        let (outcome, got) =
            run(&[b"R\0\0\0\x0c\0\0\0\x05salt", OK].concat(), Privacy::Exposed).await;
        outcome.unwrap();
        let hash = md5_hash(b"router", b"canary", *b"salt");
        assert_eq!(&got[5..got.len() - 1], hash.as_bytes());
    }

    #[tokio::test]
    async fn a_server_that_leaves_its_scram_proof_out_is_not_believed() {
        let script = [b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0", OK].concat();
        let (outcome, got) = run(&script, Privacy::Encrypted).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, ConnectError::ServerProof { .. }), "{error}");
        assert!(!got.windows(6).any(|window| window == b"canary"));
    }

    #[tokio::test]
    async fn methods_we_do_not_have_are_named() {
        for (request, name) in [
            (&b"R\0\0\0\x08\0\0\0\x07"[..], "GSSAPI"),
            (b"R\0\0\0\x13\0\0\0\x0aOTHER-256\0\0", "SASL without SCRAM-SHA-256"),
        ] {
            let (outcome, _) = run(request, Privacy::Encrypted).await;
            assert!(outcome.unwrap_err().to_string().contains(name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_refusal_is_the_servers_own_message() {
        let (outcome, _) = run(b"E\0\0\0\x14C28P01\0Mwrong!\0\0", Privacy::Encrypted).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::Authentication, "{error}");
    }
}
