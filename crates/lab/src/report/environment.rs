//! On what a run ran: kernel, plugin, and how limits are enforced.

use netqos_core::Direction;
use netqos_datapath::{Features, HookKind, Paths, Record, Records};
use serde::Serialize;

use crate::network::Files;
use crate::plugins::Shaper;

/// On what a run ran.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// The kernel's release.
    pub kernel: String,
    /// The machine's architecture.
    pub machine: String,
    /// How many processors there are.
    pub processors: usize,
    /// The version of netqos.
    pub netqos: String,
    /// The network's name.
    pub network: String,
    /// Its plugins, in their order.
    pub plugins: Vec<String>,
    /// The one that holds pods to their limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<ShaperReport>,
    /// How this kernel lets netqos hold limits; `None` when that can't be found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// A `bandwidth` plugin.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShaperReport {
    /// Its executable.
    pub path: std::path::PathBuf,
    /// What it says about itself.
    pub about: String,
}

impl Environment {
    pub(crate) fn now(
        network: &str,
        plugins: Vec<String>,
        shaper: Option<&Shaper>,
        files: &Files,
    ) -> Self {
        let uname = rustix::system::uname();
        Self {
            kernel: uname.release().to_string_lossy().into_owned(),
            machine: uname.machine().to_string_lossy().into_owned(),
            processors: std::thread::available_parallelism().map_or(1, Into::into),
            netqos: env!("CARGO_PKG_VERSION").to_owned(),
            network: network.to_owned(),
            plugins,
            shaper: shaper.map(ShaperReport::of),
            mode: Features::probe(&Paths::new(files.run(), files.bpffs()))
                .ok()
                .map(|features| features.mode().to_string()),
        }
    }
}

impl ShaperReport {
    pub(crate) fn of(shaper: &Shaper) -> Self {
        Self {
            path: shaper.path.clone(),
            about: shaper.about.clone(),
        }
    }
}

/// How a pod's limits are enforced, by what netqos remembers of it.
pub(crate) fn modes(files: &Files, container: &str) -> Vec<String> {
    let paths = Paths::new(files.run(), files.bpffs());
    let records = Records::new(paths.attachments()).all().unwrap_or_default();
    records
        .iter()
        .filter(|record| record.attachment.container() == container)
        .flat_map(describe)
        .collect()
}

fn describe(record: &Record) -> impl Iterator<Item = String> {
    record.queues.iter().map(|queue| {
        let place = match (queue.direction, &queue.detour_from) {
            (_, Some(_)) => "through an ifb",
            (Direction::Egress, None) => "inside the pod's namespace",
            (Direction::Ingress, None) => "at the node's end of the veth",
        };
        let ranked = match (queue.hook, &queue.unranked_because) {
            (HookKind::Clsact, _) => "flows ranked by eBPF (clsact)".to_owned(),
            (HookKind::Tcx, _) => "flows ranked by eBPF (tcx)".to_owned(),
            (HookKind::None, Some(why)) => format!("flows not ranked: {why}"),
            (HookKind::None, None) => "flows not ranked".to_owned(),
        };
        format!("{}: queued {place}, {ranked}", queue.direction)
    })
}

/// A time as RFC 3339 writes it, in UTC.
pub(crate) fn timestamp(seconds_since_1970: u64) -> String {
    let (days, seconds) = (seconds_since_1970 / 86_400, seconds_since_1970 % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The date of a day since 1970-01-01, by counting years from March on, so that leap days are last
/// (Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_everybody_does() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_795_258_296, "2026-11-21T10:51:36Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(seconds), text);
        }
    }
}
