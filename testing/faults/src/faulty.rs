//! What goes wrong with a request on demand.

use http::{HeaderValue, Response};
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::body::{Body, Broken};
use crate::call::Call;
use crate::faults::{Effect, Faults, refusal};
use crate::status::Refusal;

/// What is wrong with a request, once it has waited as long as it should.
#[derive(Default)]
pub(crate) struct Faulty {
    /// It is refused.
    pub(crate) refusal: Option<Refusal>,
    /// By how many seconds the clock is wrong that it is answered by.
    clock: i64,
}

/// Finds out what goes wrong with a request.
///
/// # Errors
/// The connection is to be closed.
pub(crate) async fn meet(faults: &Faults, call: &Call) -> Result<Faulty, Broken> {
    let mut faulty = Faulty::default();
    for effect in faults.meet(call) {
        match effect {
            Effect::Delay(by) => tokio::time::sleep(by).await,
            // One that was dropped is open.
            Effect::Hold(mut gate) => {
                let opened = gate.wait_for(|open| *open).await;
                opened.map(drop).unwrap_or_default();
            }
            Effect::Close => return Err(Broken),
            Effect::Refuse(code, after) => {
                faulty.refusal.get_or_insert_with(|| refusal(code, after));
            }
            Effect::Clock(seconds) => faulty.clock = seconds,
        }
    }
    Ok(faulty)
}

impl Faulty {
    /// Dates an answer. A date that is right is set by whoever sends it.
    pub(crate) fn date(&self, response: &mut Response<Body>) {
        if self.clock != 0
            && let Ok(date) = HeaderValue::try_from(date(self.clock))
        {
            response.headers_mut().insert("date", date);
        }
    }
}

/// Some seconds from now, as the header `Date` has it (RFC 9110, 5.6.7).
fn date(seconds: i64) -> String {
    let now = Timestamp::now();
    let then = now.checked_add(SignedDuration::from_secs(seconds));
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&then.unwrap_or(now));
    text.unwrap_or_default()
}
