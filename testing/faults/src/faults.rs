//! Faults on demand.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use crate::call::Call;
use crate::locked;
use crate::status::Refusal;

/// Something that goes wrong with requests, until [`Front::heal`](crate::Front::heal).
///
/// ```
/// use netqos_faults::Fault;
///
/// // Every third list of pods fails.
/// let fault = Fault::status(500).on("list", "pods").every(3);
/// // The next two requests of the agent are too many.
/// let fault = Fault::status(429).retry_after(1).of("agent").times(2);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    effect: Effect,
    verb: Option<String>,
    resource: Option<String>,
    client: Option<String>,
    every: u64,
    times: Option<u64>,
    seen: u64,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// It is answered later.
    Delay(Duration),
    /// It is answered once this is true.
    Hold(watch::Receiver<bool>),
    /// It is refused.
    Refuse(u16, Option<u64>),
    /// It is not answered: the connection is closed.
    Close,
    /// It is answered as of another time: so many seconds from the right one.
    Clock(i64),
}

impl Fault {
    /// Requests are answered with this code, and are not looked at.
    pub fn status(code: u16) -> Self {
        Self::new(Effect::Refuse(code, None))
    }

    /// Requests are answered later, by this much.
    pub fn delay(by: Duration) -> Self {
        Self::new(Effect::Delay(by))
    }

    /// Requests wait before a gate.
    pub fn hold(gate: &Gate) -> Self {
        Self::new(Effect::Hold(gate.0.subscribe()))
    }

    /// Connections are closed in place of an answer.
    pub fn close() -> Self {
        Self::new(Effect::Close)
    }

    /// The server's clock is off by so many seconds, as far as answers say the time (`Date`).
    pub fn clock(seconds: i64) -> Self {
        Self::new(Effect::Clock(seconds))
    }

    fn new(effect: Effect) -> Self {
        Self {
            effect,
            verb: None,
            resource: None,
            client: None,
            every: 1,
            times: None,
            seen: 0,
        }
    }

    /// Says after how many seconds to come again (`Retry-After`).
    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Effect::Refuse(_, after) = &mut self.effect {
            *after = Some(seconds);
        }
        self
    }

    /// Only requests with this verb, as RBAC has it, about this resource, by its plural name; each
    /// may be `*`.
    pub fn on(mut self, verb: &str, resource: &str) -> Self {
        let named = |name: &str| (name != "*").then(|| name.to_owned());
        (self.verb, self.resource) = (named(verb), named(resource));
        self
    }

    /// Only requests of this client.
    pub fn of(mut self, client: &str) -> Self {
        self.client = Some(client.to_owned());
        self
    }

    /// Only every n-th of them.
    pub fn every(mut self, n: u64) -> Self {
        self.every = n.max(1);
        self
    }

    /// Only this many times.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// What it does to a request, if anything.
    fn meet(&mut self, call: &Call) -> Option<Effect> {
        let target = call.target.as_ref();
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let plural = target.map_or("", |target| &target.plural);
        if !same(&self.verb, call.verb())
            || !same(&self.resource, plural)
            || !same(&self.client, &call.client)
        {
            return None;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(self.every) || self.times == Some(0) {
            return None;
        }
        self.times = self.times.map(|times| times - 1);
        Some(self.effect.clone())
    }
}

/// A gate before which requests wait, as on a slow network: they are recorded when they come, and reach the server
/// once the gate is open. It is closed at first, and open once it is dropped.
#[derive(Debug, Default)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// Lets all requests pass that wait, and those that come.
    pub fn open(&self) {
        self.0.send_replace(true);
    }
}

/// All that goes wrong at present.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn inject(&self, fault: Fault) {
        self.all().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.all().clear();
    }

    /// What happens to a request, in the order in which the faults were injected.
    pub(crate) fn meet(&self, call: &Call) -> Vec<Effect> {
        self.all()
            .iter_mut()
            .filter_map(|fault| fault.meet(call))
            .collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Fault>> {
        locked(&self.0)
    }
}

/// The refusal of a fault.
pub(crate) fn refusal(code: u16, after: Option<u64>) -> Refusal {
    let (reason, message) = match code {
        403 => ("Forbidden", "forbidden on demand"),
        410 => ("Expired", "too old resource version"),
        429 => (
            "TooManyRequests",
            "Too many requests, please try again later.",
        ),
        500 => ("InternalError", "an error on the server, on demand"),
        503 => ("ServiceUnavailable", "unavailable on demand"),
        504 => ("Timeout", "timed out on demand"),
        _ => ("Unknown", "a fault on demand"),
    };
    Refusal::new(code, reason, message).retry_after(after)
}
