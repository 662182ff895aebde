//! Whether API servers can reach the webhook: both configurations, and whom they trust.

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::certificate::{self, Validity};
use super::line::Line;

const WHAT: &str = "admission webhook";
const CONTROLLER: &str =
    "the controller writes it: does it run, and may it patch the configuration?";

/// A line for each kind of configuration: its plural name, and those of netqos, which may not be seen.
pub fn look(kinds: [(&str, Option<&[Value]>); 2], now: Timestamp) -> Vec<Line> {
    let mut lines = Vec::new();
    for (kind, there) in kinds {
        let Some(there) = there else { continue };
        let Some(configuration) = there.first() else {
            let remedy = "nobody is warned of a mistake before it is stored, or has defaults set; it \
                          comes with the controller (docs/admission.md)";
            let message = format!("of {kind} it has none");
            lines.push(Line::warning(WHAT, message, remedy));
            continue;
        };
        if let Err(why) = trusted(configuration, now) {
            let message =
                format!("{kind}: {why}, so API servers trust nobody there and ask in vain");
            lines.push(Line::failed(WHAT, message, CONTROLLER));
        }
    }
    let seen = kinds.iter().all(|(_, there)| there.is_some());
    if lines.is_empty() && seen {
        let text = "both configurations have the certificate of who signs for it";
        lines.push(Line::ok(WHAT, text));
    }
    lines
}

/// Whether each webhook has an authority that is good at this time.
fn trusted(configuration: &Value, now: Timestamp) -> Result<(), String> {
    let webhooks = configuration["webhooks"].as_array();
    for webhook in webhooks.into_iter().flatten() {
        let name = webhook["name"].as_str().unwrap_or_default();
        let bundle = webhook["clientConfig"].get("caBundle").cloned();
        let bundle = bundle.and_then(|it| serde_json::from_value::<ByteString>(it).ok());
        let bundle = bundle.map(|it| it.0).unwrap_or_default();
        if bundle.is_empty() {
            return Err(format!("{name} has no caBundle"));
        }
        good_until(&bundle, now).map_err(|why| format!("the caBundle of {name} {why}"))?;
    }
    Ok(())
}

/// One of them is enough: the authority before stays known when there is a new one.
fn good_until(bundle: &[u8], now: Timestamp) -> Result<(), String> {
    let all = certificate::validities(bundle)?;
    let good = |it: &Validity| it.from <= now && now <= it.to;
    if all.iter().any(good) {
        return Ok(());
    }
    match all.iter().map(|it| it.to).max() {
        Some(to) => Err(format!("is not good at this time; it ends at {to}")),
        None => Err("has no certificate".to_owned()),
    }
}
