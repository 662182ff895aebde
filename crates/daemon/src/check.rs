//! Whether a daemon is well.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Something that has to be well before a daemon is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is.
    pub ok: bool,
    /// What is not, where it is not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Check {
    /// Whether an engine works: it has shown that it does not long ago.
    pub fn engine(silence: Duration, hangs: Duration) -> Self {
        Self {
            name: "engine".to_owned(),
            ok: silence < hangs,
            message: format!("it has shown nothing for {} s", silence.as_secs()),
        }
    }
}

/// What `/livez` or `/readyz` answers, in the form of the Kubernetes API server's: whether all is
/// well, and `ok`, or a line for each check.
#[cfg(feature = "process")]
pub(crate) fn report(what: &str, checks: &[Check], verbose: bool) -> (bool, String) {
    let ok = checks.iter().all(|check| check.ok);
    if ok && !verbose {
        return (true, "ok\n".to_owned());
    }
    let mut body = String::new();
    for check in checks {
        body.push_str(&match check.ok {
            true => format!("[+]{} ok\n", check.name),
            false => format!("[-]{} failed: {}\n", check.name, check.message),
        });
    }
    let verdict = if ok { "passed" } else { "failed" };
    body.push_str(&format!("{what} check {verdict}\n"));
    (ok, body)
}
