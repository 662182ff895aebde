//! Whether traces are exported, and where to: the flag, and the variables that OpenTelemetry knows.
//!
//! Variables are given to all pods of many clusters alike, by people who may not know of netqos: one
//! that cannot be followed is told, and stops nobody.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;

/// Where a collector takes traces, below the address of all that it takes.
const TRACES: &str = "v1/traces";
/// How long one export may take, where nobody says.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How traces are exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Where traces are sent.
    pub(super) endpoint: Uri,
    /// How long one export may take.
    pub(super) timeout: Duration,
    /// The authorities that may vouch for the collector, in place of the system's: a file of PEM.
    pub(super) authorities: Option<PathBuf>,
    /// What is asked for and not done, in words; traces arrive without it.
    pub(super) lacking: Option<String>,
}

/// What cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mistake {
    /// In the flag.
    #[error("--otlp-endpoint {0}")]
    Flag(String),
    /// In a variable.
    #[error("{0}")]
    Variable(String),
}

impl Settings {
    /// What the flag and the variables say. `None`: nothing is exported.
    ///
    /// # Errors
    /// What they say cannot be followed.
    pub(super) fn read(
        flag: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Mistake> {
        // Set to nothing is not set.
        let variable = |name: &str| {
            let value = variable(name).map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty())
        };
        // What is said of traces alone goes before what is said of everything.
        let of_traces = |name: &str| {
            [
                format!("OTEL_EXPORTER_OTLP_TRACES_{name}"),
                format!("OTEL_EXPORTER_OTLP_{name}"),
            ]
            .into_iter()
            .find_map(|full| variable(&full).map(|value| (full, value)))
        };
        let is_off = variable("OTEL_SDK_DISABLED")
            .is_some_and(|it| it.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|it| it == "none");
        let flag = flag.filter(|flag| !flag.is_empty());
        let endpoint = match (flag, of_traces("ENDPOINT")) {
            _ if is_off => return Ok(None),
            (Some(flag), _) => endpoint(flag, true).map_err(Mistake::Flag)?,
            (None, Some((name, value))) => {
                let is_base = name == "OTEL_EXPORTER_OTLP_ENDPOINT";
                let mistake = |why| Mistake::Variable(format!("{name} {why}"));
                endpoint(&value, is_base).map_err(mistake)?
            }
            (None, None) => return Ok(None),
        };
        if let Some(other) = variable("OTEL_TRACES_EXPORTER").filter(|it| it != "otlp") {
            let why = format!("OTEL_TRACES_EXPORTER {other:?}: there are otlp and none");
            return Err(Mistake::Variable(why));
        }
        if let Some((name, other)) = of_traces("PROTOCOL").filter(|(_, it)| it != "http/protobuf") {
            let why = format!(
                "{name} {other:?}: traces are sent by http/protobuf alone; name that port of the \
                 collector, which most have at 4318"
            );
            return Err(Mistake::Variable(why));
        }
        let timeout = match of_traces("TIMEOUT") {
            None => TIMEOUT,
            Some((name, value)) => match value.parse() {
                Ok(milliseconds) => Duration::from_millis(milliseconds),
                Err(_) => {
                    let why = format!("{name} {value:?} is no number of milliseconds");
                    return Err(Mistake::Variable(why));
                }
            },
        };
        sampler(&variable)?;
        Ok(Some(Self {
            endpoint,
            timeout,
            authorities: of_traces("CERTIFICATE").map(|(_, path)| path.into()),
            lacking: of_traces("COMPRESSION")
                .filter(|(_, how)| how != "none")
                .map(|(name, how)| format!("{name} {how:?}: traces are sent uncompressed")),
        }))
    }
}

/// The address of a collector; `is_base`: of all that it takes.
fn endpoint(text: &str, is_base: bool) -> Result<Uri, String> {
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    if host
        .split('/')
        .next()
        .is_some_and(|host| host.contains('@'))
    {
        let why = "has a password in it: that belongs into OTEL_EXPORTER_OTLP_HEADERS";
        return Err(why.to_owned());
    }
    let full = match is_base {
        true => format!("{}/{TRACES}", text.trim_end_matches('/')),
        false => text.to_owned(),
    };
    let other = || format!("{text:?} is no http://HOST:PORT or https://HOST:PORT");
    let uri: Uri = full.parse().map_err(|_| other())?;
    let authority = uri.authority().map(|it| it.as_str()).unwrap_or_default();
    if !matches!(uri.scheme_str(), Some("http" | "https")) || authority.is_empty() {
        return Err(other());
    }
    Ok(uri)
}

/// What the SDK would take for another one without a word.
fn sampler(variable: &impl Fn(&str) -> Option<String>) -> Result<(), Mistake> {
    let Some(sampler) = variable("OTEL_TRACES_SAMPLER") else {
        return Ok(());
    };
    let why = match sampler.as_str() {
        "always_on" | "always_off" | "parentbased_always_on" | "parentbased_always_off" => {
            return Ok(());
        }
        "traceidratio" | "parentbased_traceidratio" => {
            let ratio = variable("OTEL_TRACES_SAMPLER_ARG");
            let ratio: Option<f64> = ratio.and_then(|ratio| ratio.parse().ok());
            if ratio.is_some_and(|ratio| (0.0..=1.0).contains(&ratio)) {
                return Ok(());
            }
            format!("OTEL_TRACES_SAMPLER {sampler:?} needs OTEL_TRACES_SAMPLER_ARG from 0 to 1")
        }
        _ => format!(
            "OTEL_TRACES_SAMPLER {sampler:?}: there are always_on, always_off, traceidratio, and \
             each of them after parentbased_"
        ),
    };
    Err(Mistake::Variable(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables<'v> = &'v [(&'v str, &'v str)];

    fn read(flag: Option<&str>, variables: Variables<'_>) -> Result<Option<Settings>, Mistake> {
        Settings::read(flag, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    const TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/in?x=1");

    #[test]
    fn where_traces_go_is_as_opentelemetry_says() {
        let cases: &[(Option<&str>, Variables<'_>, Option<&str>)] = &[
            (None, &[], None),
            (None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
            (None, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], None),
            (Some(""), &[], None),
            (None, &[BASE], Some("http://c:4318/v1/traces")),
            (None, &[TRACES], Some("https://t/in?x=1")),
            (None, &[BASE, TRACES], Some("https://t/in?x=1")),
            (
                Some("http://f/a/"),
                &[BASE, TRACES],
                Some("http://f/a/v1/traces"),
            ),
            (
                Some("http://[::1]:4318"),
                &[],
                Some("http://[::1]:4318/v1/traces"),
            ),
            (Some("http://f"), &[("OTEL_SDK_DISABLED", "TRUE")], None),
            (
                Some("http://f"),
                &[("OTEL_SDK_DISABLED", "1")],
                Some("http://f/v1/traces"),
            ),
            (None, &[BASE, ("OTEL_TRACES_EXPORTER", "none")], None),
            (
                None,
                &[BASE, ("OTEL_TRACES_EXPORTER", "otlp")],
                Some("http://c:4318/v1/traces"),
            ),
        ];
        for (flag, variables, wanted) in cases {
            let read = read(*flag, variables).unwrap();
            let endpoint = read.map(|settings| settings.endpoint.to_string());
            assert_eq!(endpoint.as_deref(), *wanted, "{flag:?} {variables:?}");
        }
    }

    #[test]
    fn what_is_said_of_traces_goes_before_what_is_said_of_everything() {
        let all = [
            BASE,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1500"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        let settings = read(None, &all).unwrap().unwrap();
        assert_eq!(settings.timeout, Duration::from_millis(1500));
        assert_eq!(settings.authorities, Some("/ca".into()));
        let settings = read(None, &[BASE]).unwrap().unwrap();
        assert_eq!((settings.timeout, settings.authorities), (TIMEOUT, None));
    }

    #[test]
    fn what_is_not_done_is_said() {
        let all = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
        let lacking = |variables: Variables<'_>| read(None, variables).unwrap().unwrap().lacking;
        let words = "OTEL_EXPORTER_OTLP_COMPRESSION \"gzip\": traces are sent uncompressed";
        assert_eq!(lacking(&[BASE, all]).as_deref(), Some(words));
        let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none");
        assert_eq!(lacking(&[BASE, all, of_traces]), None);
        assert_eq!(lacking(&[BASE]), None);
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        let cases: &[(Variables<'_>, &str)] = &[
            (
                &[BASE, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
                "OTEL_EXPORTER_OTLP_PROTOCOL \"grpc\"",
            ),
            (
                &[BASE, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
                "http/protobuf",
            ),
            (
                &[BASE, ("OTEL_EXPORTER_OTLP_TIMEOUT", "5s")],
                "\"5s\" is no number",
            ),
            (&[BASE, ("OTEL_TRACES_EXPORTER", "console")], "\"console\""),
            (&[BASE, ("OTEL_TRACES_SAMPLER", "xray")], "\"xray\""),
            (
                &[BASE, ("OTEL_TRACES_SAMPLER", "traceidratio")],
                "OTEL_TRACES_SAMPLER_ARG",
            ),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")],
                "OTEL_EXPORTER_OTLP_ENDPOINT \"c:4318\"",
            ),
            (
                &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "unix:///x")],
                "https://HOST",
            ),
        ];
        for (variables, wanted) in cases {
            let mistake = read(None, variables).unwrap_err();
            assert!(matches!(mistake, Mistake::Variable(_)), "{mistake:?}");
            assert!(mistake.to_string().contains(wanted), "{mistake}");
        }
        for flag in ["collector:4318", "http://", "/x", "http://a b"] {
            let mistake = read(Some(flag), &[]).unwrap_err();
            assert!(matches!(mistake, Mistake::Flag(_)), "{flag}: {mistake:?}");
        }
        // What is secret is not said again.
        for flag in [
            "http://me:secret@c:4318",
            "http://me:secret@a b",
            "me:secret@c",
        ] {
            let mistake = read(Some(flag), &[]).unwrap_err();
            assert!(!mistake.to_string().contains("secret"), "{mistake}");
        }
    }
}
