//! Keys that sign the tokens of service accounts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};

/// What precedes a point of P-256 in a SubjectPublicKeyInfo (RFC 5480).
const PUBLIC: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A new private key (PKCS 8) and its public half, as PEM. kube-apiserver verifies with the public half
/// alone: client-go's `ParsePublicKeysPEM` reads no private key of this form.
///
/// # Errors
/// Returns an error if the system has no random numbers.
pub(crate) fn pair() -> anyhow::Result<(String, String)> {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
        .map_err(|_| anyhow::anyhow!("cannot generate a key"))?;
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .map_err(|error| anyhow::anyhow!("cannot read the generated key: {error}"))?;
    let public = [PUBLIC, pair.public_key().as_ref()].concat();
    Ok((pem("PRIVATE", document.as_ref()), pem("PUBLIC", &public)))
}

fn pem(kind: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    format!("-----BEGIN {kind} KEY-----\n{text}\n-----END {kind} KEY-----\n")
}

#[cfg(test)]
mod tests {
    use super::pair;

    #[test]
    fn public_key_belongs_to_private_key() {
        let (private, public) = pair().unwrap();
        let pair = rcgen::KeyPair::from_pem(&private).unwrap();
        let without_lines = |text: &str| text.replace(['\n', '\r'], "");
        let expected = without_lines(&pair.public_key_pem());
        assert_eq!(without_lines(&public), expected);
    }
}
