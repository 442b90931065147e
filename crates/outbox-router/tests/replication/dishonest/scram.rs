//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), as honest as a test wants it.

use std::io;

use sha2::{Digest, Sha256};

use super::server::{Conversation, PASSWORD};

pub(crate) const PLAIN: &str = "SCRAM-SHA-256";
pub(crate) const PLUS: &str = "SCRAM-SHA-256-PLUS";
const SALT: &[u8] = b"a salt of 16 byt";

/// What the server does otherwise than an honest one.
#[derive(Clone, Debug)]
pub(crate) enum Deviation {
    None,
    /// A nonce of its own.
    ForeignNonce,
    /// Ours without an addition.
    SameNonce,
    /// The count as it is written.
    Iterations(&'static str),
    /// The proof is that of another password.
    WrongProof,
    /// This in place of the proof.
    Final(&'static str),
    /// AuthenticationOk instead of the proof.
    NoProof,
    /// AuthenticationOk instead of a challenge.
    NoChallenge,
}

/// What the client sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) mechanism: String,
    /// `gs2-header` and `client-first-message-bare`.
    pub(crate) first: String,
    pub(crate) last: String,
}

/// A message of the server with this tag.
pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

/// An authentication request of this kind.
pub(crate) fn request(kind: u32, body: &[u8]) -> Vec<u8> {
    message(b'R', &[&kind.to_be_bytes()[..], body].concat())
}

pub(crate) fn offer(mechanisms: &[&str]) -> Vec<u8> {
    let list: String = mechanisms.iter().map(|name| format!("{name}\0")).collect();
    request(10, format!("{list}\0").as_bytes())
}

/// Runs the whole exchange up to the server's last word, AuthenticationOk not included.
pub(crate) async fn exchange(
    server: &mut Conversation,
    mechanisms: &[&str],
    deviation: &Deviation,
) -> io::Result<Exchange> {
    server.send(&offer(mechanisms)).await?;
    let (mechanism, first) = initial(&server.answer().await?);
    let mut exchanged = Exchange { mechanism, first, last: String::new() };
    let bare = exchanged.first.splitn(3, ',').last().unwrap().to_owned();
    let nonce = bare.split_once(",r=").unwrap().1;
    let nonce = match deviation {
        Deviation::ForeignNonce => "0123456789abcdefghijklmnopqrst".to_owned(),
        Deviation::SameNonce => nonce.to_owned(),
        Deviation::NoChallenge => return Ok(exchanged),
        _ => format!("{nonce}and-the-servers"),
    };
    let count = if let Deviation::Iterations(count) = deviation { count } else { "4096" };
    let challenge = format!("r={nonce},s={},i={count}", base64(SALT));
    server.send(&request(11, challenge.as_bytes())).await?;
    exchanged.last = String::from_utf8(server.answer().await?).unwrap();
    let without_proof = exchanged.last.rsplit_once(",p=").unwrap().0;
    let password = if let Deviation::WrongProof = deviation { "another" } else { PASSWORD };
    let salted = iterated(password.as_bytes(), SALT, count.parse().unwrap());
    let transcript = format!("{bare},{challenge},{without_proof}");
    let signature = hmac(&hmac(&salted, b"Server Key"), transcript.as_bytes());
    match deviation {
        Deviation::NoProof => {}
        Deviation::Final(text) => server.send(&request(12, text.as_bytes())).await?,
        _ => server.send(&request(12, format!("v={}", base64(&signature)).as_bytes())).await?,
    }
    Ok(exchanged)
}

/// Mechanism and `client-first-message` of a SASLInitialResponse.
pub(crate) fn initial(body: &[u8]) -> (String, String) {
    let end = body.iter().position(|byte| *byte == 0).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&body[..end]), text(&body[end + 5..]))
}

fn iterated(password: &[u8], salt: &[u8], count: u32) -> [u8; 32] {
    let mut last = hmac(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut sum = last;
    for _ in 1..count {
        last = hmac(password, &last);
        sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

/// HMAC (RFC 2104) of a key that is no longer than a block.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_usize, |bits, byte| (bits << 8) | usize::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let padding = digit > chunk.len();
            let value = char::from(DIGITS[(bits >> (18 - 6 * digit)) & 63]);
            text.push(if padding { '=' } else { value });
        }
    }
    text
}
