//! A certificate, and the authority that vouches for it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;

/// For clocks that are behind the one that it was made by.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// A certificate with its key, and the authorities by which it is known. All of it is PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Its authority, and behind it the one before, by which an older certificate is still known.
    pub authorities: String,
}

/// Why a certificate cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be made: a name is none, or there is no randomness.
    #[error("make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// It is not PEM.
    #[error("read the certificate: {0}")]
    Pem(#[from] pem::Error),
    /// The certificate and its key, or its authority, do not fit; or it is not good at that time.
    #[error("the certificate is not good: {0}")]
    NotGood(#[from] rustls::Error),
    /// There is no authority that can vouch for anything.
    #[error("there is no authority in it")]
    NoAuthority,
    /// A name that no certificate can be for.
    #[error("{0:?} is neither a DNS name nor an address")]
    Name(String),
}

impl Certificates {
    /// A new certificate by a new authority, whose key is forgotten. The first of the authorities
    /// that were known before stays known.
    ///
    /// # Errors
    /// A name is none.
    pub fn make(
        names: &[String],
        lifetime: Duration,
        before: Option<&Self>,
    ) -> Result<Self, CertificateError> {
        let now = SystemTime::now();
        let (from, to) = (
            OffsetDateTime::from(now - SKEW),
            OffsetDateTime::from(now + lifetime),
        );
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::new())?;
        // Each has a name of its own, so that who looks for one does not find the other.
        let name = format!("netqos webhook {}", from.unix_timestamp_nanos());
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        (authority.not_before, authority.not_after) = (from, to);
        let authority_text = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate()?;
        let mut serving = CertificateParams::new(names)?;
        if let Some(name) = names.first() {
            serving.distinguished_name.push(
                DnType::CommonName,
                name.chars().take(64).collect::<String>(),
            );
        }
        serving.use_authority_key_identifier_extension = true;
        serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (serving.not_before, serving.not_after) = (from, to);
        let certificate = serving.signed_by(&key, &issuer)?.pem();

        let last = before.and_then(|before| first_of(&before.authorities));
        Ok(Self {
            certificate,
            key: key.serialize_pem(),
            authorities: authority_text + &last.unwrap_or_default(),
        })
    }

    /// Checks that a client that knows the authorities would take it at this time, by each of these
    /// names.
    ///
    /// # Errors
    /// Why it would not.
    pub fn check(&self, names: &[String], at: SystemTime) -> Result<(), CertificateError> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(self.authorities.as_bytes()) {
            roots.add(authority?)?;
        }
        if roots.is_empty() {
            return Err(CertificateError::NoAuthority);
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier
            .build()
            .map_err(|_| CertificateError::NoAuthority)?;
        let certified = self.certified_key()?;
        let (own, others) = match certified.cert.split_first() {
            Some((own, others)) => (own, others),
            None => return Err(rustls::Error::NoCertificatesPresented.into()),
        };
        let at = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        for name in names {
            let server = ServerName::try_from(name.as_str());
            let server = server.map_err(|_| CertificateError::Name(name.clone()))?;
            let at = UnixTime::since_unix_epoch(at);
            verifier.verify_server_cert(own, others, &server, &[], at)?;
        }
        Ok(())
    }

    /// As a TLS server shows it.
    ///
    /// # Errors
    /// It is not PEM, or the key is another's.
    pub(crate) fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        Ok(CertifiedKey::from_der(chain?, key, &provider())?)
    }
}

/// The one source of cryptography of this crate.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The first certificate of a PEM text, as text.
fn first_of(text: &str) -> Option<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let end = text.find(END)? + END.len();
    Some(format!("{}\n", text.get(..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_certificate_is_good_by_its_names_until_its_end() {
        let own = names(&["webhook.netqos.svc", "127.0.0.1"]);
        let made = Certificates::make(&own, HOUR, None).unwrap();
        let now = SystemTime::now();
        made.check(&own, now).unwrap();
        made.check(&own, now + HOUR - Duration::from_secs(5))
            .unwrap();
        for (others, at) in [
            (own.clone(), now + HOUR + Duration::from_secs(5)),
            (own.clone(), now - 2 * SKEW),
            (names(&["webhook.other.svc"]), now),
            (names(&["127.0.0.2"]), now),
        ] {
            let why = made.check(&others, at).unwrap_err();
            assert!(matches!(why, CertificateError::NotGood(_)), "{why}");
        }
    }

    #[test]
    fn the_authority_before_is_known_and_the_one_before_that_is_not() {
        let own = names(&["webhook.netqos.svc"]);
        let first = Certificates::make(&own, HOUR, None).unwrap();
        let second = Certificates::make(&own, HOUR, Some(&first)).unwrap();
        let third = Certificates::make(&own, HOUR, Some(&second)).unwrap();
        let by = |shown: &Certificates, known: &Certificates| {
            let authorities = known.authorities.clone();
            let it = Certificates {
                authorities,
                ..shown.clone()
            };
            it.check(&own, SystemTime::now()).is_ok()
        };
        let shown = [&first, &second, &third];
        assert_eq!(shown.map(|shown| by(shown, &second)), [true, true, false]);
        assert_eq!(shown.map(|shown| by(shown, &third)), [false, true, true]);
        assert!(!third.authorities.contains("PRIVATE KEY"));
    }

    #[test]
    fn what_does_not_fit_together_is_not_good() {
        let own = names(&["webhook.netqos.svc"]);
        let one = Certificates::make(&own, HOUR, None).unwrap();
        let other = Certificates::make(&own, HOUR, None).unwrap();
        let wrong = [
            Certificates {
                key: other.key.clone(),
                ..one.clone()
            },
            Certificates {
                authorities: other.authorities.clone(),
                ..one.clone()
            },
            Certificates {
                authorities: String::new(),
                ..one.clone()
            },
            Certificates {
                certificate: "-".to_owned(),
                ..one.clone()
            },
            Certificates {
                key: String::new(),
                ..one
            },
        ];
        for wrong in wrong {
            assert!(wrong.check(&own, SystemTime::now()).is_err(), "{wrong:?}");
        }
    }
}
