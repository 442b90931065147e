//! Channel bindings of real certificates; the verifier itself is tested against a real server.

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    SignatureAlgorithm,
};
use sha2::{Digest, Sha256, Sha384};

use super::*;

fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
    let key = KeyPair::generate_for(algorithm).unwrap();
    CertificateParams::new(vec!["db.example".into()])
        .unwrap()
        .self_signed(&key)
        .unwrap()
        .der()
        .to_vec()
}

#[test]
fn the_binding_uses_the_hash_of_the_certificates_signature() {
    let der = certificate(&PKCS_ECDSA_P256_SHA256);
    assert_eq!(server_end_point(&der), Some(Sha256::digest(&der).to_vec()));
    let der = certificate(&PKCS_ECDSA_P384_SHA384);
    assert_eq!(server_end_point(&der), Some(Sha384::digest(&der).to_vec()));
}

#[test]
fn a_signature_without_a_hash_has_no_binding() {
    assert_eq!(server_end_point(&certificate(&PKCS_ED25519)), None);
}

#[test]
fn a_truncated_certificate_has_no_binding_and_causes_no_panic() {
    let der = certificate(&PKCS_ECDSA_P256_SHA256);
    for length in 0..der.len() / 2 {
        assert_eq!(server_end_point(&der[..length]), None, "{length}");
    }
    assert_eq!(server_end_point(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
}

#[test]
fn missing_and_empty_certificate_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "nothing here").unwrap();
    let missing = directory.path().join("missing.pem");
    for (path, expected) in [(&empty, "contains no certificate"), (&missing, "cannot read")] {
        let text = format!("host=db.example user=u sslrootcert={}", path.display());
        let info = ConnInfo::resolve(Some(&text), &|_| None).unwrap();
        let error = client(&info).err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains(".pem"), "{error}");
    }
}

#[test]
fn a_peer_counts_as_verified_only_by_a_name_or_by_a_configured_authority() {
    for (text, expected) in [
        ("sslmode=prefer", Peer::Unverified),
        ("sslmode=prefer sslrootcert=/root.pem", Peer::Unverified),
        ("sslmode=require", Peer::Unverified),
        ("sslmode=require sslrootcert=/root.pem", Peer::Verified),
        ("sslmode=verify-ca sslrootcert=/root.pem", Peer::Verified),
        // With the system's authorities, any certificate of theirs would be accepted.
        ("sslmode=verify-ca", Peer::Unverified),
        ("sslmode=verify-full", Peer::Verified),
        ("sslrootcert=system", Peer::Verified),
        ("sslmode=verify-full sslrootcert=/root.pem", Peer::Verified),
    ] {
        let text = format!("host=db.example user=u {text}");
        let info = ConnInfo::resolve(Some(&text), &|_| None).unwrap();
        assert_eq!(peer(&info, check(&info)), expected, "{text}");
    }
}
