//! Channel binding `tls-server-end-point` (RFC 5929 §4.1): the hash of the server's certificate, by
//! the hash function of the certificate's signature, or by SHA-256 where that function is MD5 or
//! SHA-1.
//!
//! Only the certificate's outermost structure has to be read, which does not justify a dependency
//! on an X.509 parser. Where the signature algorithm does not name one hash function (Ed25519,
//! RSA-PSS), there is no such binding, and SCRAM runs without one.

use sha2::{Digest, Sha256, Sha384, Sha512};

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// 1.2.840.113549.1.1: PKCS #1; the last arc names the hash function.
const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4.3: ECDSA with SHA-2.
const ECDSA: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];

/// The binding for a certificate in DER; `None` where there is none.
#[must_use]
pub fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = signature_algorithm(certificate)?;
    let (family, last) = (algorithm.get(..algorithm.len().checked_sub(1)?)?, algorithm.last()?);
    // md5 4, sha1 5, sha256 11, sha384 12, sha512 13; ECDSA: sha256 2, sha384 3, sha512 4.
    match (family == RSA, family == ECDSA, last) {
        (true, _, 4 | 5 | 11) | (_, true, 2) => Some(Sha256::digest(certificate).to_vec()),
        (true, _, 12) | (_, true, 3) => Some(Sha384::digest(certificate).to_vec()),
        (true, _, 13) | (_, true, 4) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The OID of the signature algorithm: `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE,
/// signatureAlgorithm SEQUENCE { OID, … }, … }`
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, after_contents) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(after_contents, SEQUENCE)?;
    element(algorithm, OBJECT_IDENTIFIER).map(|(oid, _)| oid)
}

/// The content of the DER element at the start of `bytes`, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first.checked_sub(0x80) {
        None => (usize::from(*first), rest),
        // Four bytes of length are more than any certificate has.
        Some(count @ 1..=4) => {
            let (digits, rest) = rest.split_at_checked(usize::from(count))?;
            (digits.iter().fold(0, |length, digit| length * 256 + usize::from(*digit)), rest)
        }
        Some(_) => return None,
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}
