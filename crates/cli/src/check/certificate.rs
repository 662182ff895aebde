//! From when until when certificates are good (RFC 5280, 4.1.2.5).

use k8s_openapi::jiff::Timestamp;
use x509_parser::pem::Pem;
use x509_parser::time::ASN1Time;

/// What PEM calls a certificate (RFC 7468, 5.1).
const LABEL: &str = "CERTIFICATE";

/// When a certificate is good, both ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Of each certificate in a text of PEM.
///
/// # Errors
/// One of them is none.
pub fn validities(pem: &[u8]) -> Result<Vec<Validity>, String> {
    let mut all = Vec::new();
    for part in Pem::iter_from_buffer(pem) {
        let part = part.map_err(|why| format!("is not a certificate in PEM: {why}"))?;
        if part.label == LABEL {
            let validity = validity(&part);
            all.push(validity.map_err(|why| format!("is not a certificate in PEM: {why}"))?);
        }
    }
    Ok(all)
}

fn validity(part: &Pem) -> Result<Validity, String> {
    let certificate = part.parse_x509().map_err(|why| why.to_string())?;
    let times = certificate.validity();
    let at =
        |time: ASN1Time| Timestamp::from_second(time.timestamp()).map_err(|why| why.to_string());
    Ok(Validity {
        from: at(times.not_before)?,
        to: at(times.not_after)?,
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(from: i32, to: i32) -> String {
        let mut certificate = CertificateParams::new(Vec::new()).unwrap();
        certificate.not_before = date_time_ymd(from, 2, 3);
        certificate.not_after = date_time_ymd(to, 11, 22);
        let key = KeyPair::generate().unwrap();
        certificate.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn both_forms_of_times_are_read_in_every_certificate() {
        let text = made(1999, 2049) + &made(2026, 2050);
        let right = [("1999-02-03", "2049-11-22"), ("2026-02-03", "2050-11-22")];
        let right = right.map(|(from, to)| {
            let at = |day: &str| format!("{day}T00:00:00Z").parse().unwrap();
            Validity {
                from: at(from),
                to: at(to),
            }
        });
        assert_eq!(validities(text.as_bytes()).unwrap(), right);
        assert_eq!(validities(b"nothing").unwrap(), []);
    }

    #[test]
    fn whatever_is_cut_off_or_is_something_else_is_refused() {
        let text = made(2026, 2027);
        for end in [text.len() / 3, text.len() / 2] {
            assert!(validities(&text.as_bytes()[..end]).is_err(), "{end}");
        }
        let other = format!("-----BEGIN {LABEL}-----\nMAMCAQE=\n-----END {LABEL}-----\n");
        assert!(validities(other.as_bytes()).is_err());
    }
}
