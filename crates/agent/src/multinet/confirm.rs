//! NADs that the watch lacks: before the agent answers that one does not exist, it asks the API server for it.
//!
//! A pod and the NAD that it selects are often created together, and the watch of NADs may be behind that of pods. Tenants
//! name NADs that do not exist as they like, so what the agent asks is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use netqos_api::multinet::{Answer, Message};
use netqos_api::npwg::listed;
use netqos_cluster::{Client, Kind, get};
use netqos_core::ObjectName;
use netqos_core::objects::AttachmentConfig;
use netqos_k8s::{Object, object_from_value};

use super::NetworkCatalog;
use super::catalog::{absent, shortened, unreadable};

/// The longest wait for the API server. The plugin waits 10 s.
const PATIENCE: Duration = Duration::from_secs(4);

/// The time for which the agent does not request a NAD again that does not exist or cannot be read.
const STAYS_REFUSED: Duration = Duration::from_secs(5);

/// The requests at once, and the time in which one more is added.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(1);

/// Reads NADs from the API server.
pub(crate) struct NadReader {
    client: Client,
    budget: std::sync::Mutex<Budget>,
}

/// The bounds of what is asked.
#[derive(Debug)]
struct Budget {
    /// The answers about NADs that did not exist or could not be read, until which time they count.
    refused: BTreeMap<ObjectName, (Instant, Answer)>,
    left: u32,
    refilled: Instant,
}

/// What may be done about a NAD that the watch lacks.
#[derive(Clone, Debug, PartialEq)]
enum Decision {
    Ask,
    Refuse(Answer),
    Wait,
}

impl NetworkCatalog {
    /// Has NADs that the catalog lacks confirmed by this client from now on.
    pub(crate) fn confirm_with(&self, client: Client) {
        let _ = self.reader.set(NadReader {
            client,
            budget: std::sync::Mutex::new(Budget::new(Instant::now())),
        });
    }

    /// Returns the answer to a message of the plugin, with NADs that the watch lacks from the API server.
    pub(super) async fn confirmed_answer(&self, message: &Message) -> Answer {
        // They are not put into the catalog: the watch would not tell that they are gone again.
        let mut confirmed = BTreeMap::new();
        loop {
            let missing = match self.answer_with(message, &confirmed) {
                Ok(answer) => return answer,
                Err(missing) => missing,
            };
            let Some(reader) = self.reader.get() else {
                return absent(&missing);
            };
            match reader.read(&missing).await {
                Ok(Ok(found)) => {
                    confirmed.insert(missing, found);
                }
                Ok(Err(refused)) => return refused,
                Err(why) => {
                    return Answer::TryAgain(format!(
                        "the watch lacks NetworkAttachmentDefinition {missing}, and {why}"
                    ));
                }
            }
        }
    }
}

impl NadReader {
    /// Returns a NAD, or the answer if it does not exist or cannot be read.
    async fn read(&self, name: &ObjectName) -> Result<Result<AttachmentConfig, Answer>, String> {
        match self.with_budget(|budget| budget.decide(name, Instant::now())) {
            Decision::Ask => {}
            Decision::Refuse(answer) => return Ok(Err(answer)),
            Decision::Wait => {
                return Err(format!(
                    "the agent has asked the API server for too many that do not exist; it asks for one in {} s",
                    REFILL.as_secs()
                ));
            }
        }
        let kind = Kind::NetworkAttachmentDefinition;
        let found = get(&self.client, kind, name, PATIENCE).await;
        let found = found.map_err(|error| match error.is_forbidden() {
            true => "the agent may not get network-attachment-definitions: set the chart value multinet.enabled".to_owned(),
            false => error.to_string(),
        })?;
        let answer = match found.as_ref().map(object_from_value) {
            Some(Ok(Object::Network(network))) => return Ok(Ok(network.attachment)),
            Some(Ok(_)) => return Err("the API server answers another object".to_owned()),
            Some(Err(errors)) => unreadable(name, &shortened(&listed(&errors, "; "))),
            None => absent(name),
        };
        self.with_budget(|budget| budget.note_refused(name, answer.clone(), Instant::now()));
        Ok(Err(answer))
    }

    fn with_budget<T>(&self, change: impl FnOnce(&mut Budget) -> T) -> T {
        change(&mut self.budget.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for NadReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NadReader")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Budget {
    const fn new(now: Instant) -> Self {
        Self {
            refused: BTreeMap::new(),
            left: BURST,
            refilled: now,
        }
    }

    /// Decides about a NAD; a request is counted. So there are never more than some ten absent ones.
    fn decide(&mut self, name: &ObjectName, now: Instant) -> Decision {
        self.refused.retain(|_, (until, _)| *until > now);
        if let Some((_, answer)) = self.refused.get(name) {
            return Decision::Refuse(answer.clone());
        }
        while self.left < BURST && now.saturating_duration_since(self.refilled) >= REFILL {
            self.left += 1;
            self.refilled += REFILL;
        }
        if self.left == BURST {
            self.refilled = now;
        }
        match self.left.checked_sub(1) {
            None => Decision::Wait,
            Some(left) => {
                self.left = left;
                Decision::Ask
            }
        }
    }

    fn note_refused(&mut self, name: &ObjectName, answer: Answer, now: Instant) {
        { &mut self.refused }.insert(name.clone(), (now + STAYS_REFUSED, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nad(number: usize) -> ObjectName {
        ObjectName::new("shop", &format!("nad{number}"))
    }

    #[test]
    fn requests_are_bounded_and_come_back_with_time() {
        let began = Instant::now();
        let mut budget = Budget::new(began);
        let asked = (0..1_000).filter(|it| budget.decide(&nad(*it), began) == Decision::Ask);
        assert_eq!(asked.count(), 10);
        assert_eq!(budget.decide(&nad(0), began), Decision::Wait);
        let later = began + Duration::from_millis(3_500);
        let asked = (0..1_000).filter(|it| budget.decide(&nad(*it), later) == Decision::Ask);
        assert_eq!(asked.count(), 3);
        // No more than the burst after a long time.
        let later = began + Duration::from_secs(3_600);
        let asked = (0..1_000).filter(|it| budget.decide(&nad(*it), later) == Decision::Ask);
        assert_eq!(asked.count(), 10);
    }

    #[test]
    fn absent_nad_is_asked_for_again_after_a_while() {
        let began = Instant::now();
        let mut budget = Budget::new(began);
        assert_eq!(budget.decide(&nad(1), began), Decision::Ask);
        budget.note_refused(&nad(1), absent(&nad(1)), began);
        assert_eq!(
            budget.decide(&nad(1), began),
            Decision::Refuse(absent(&nad(1)))
        );
        assert_eq!(budget.decide(&nad(2), began), Decision::Ask);
        let later = began + STAYS_REFUSED;
        assert_eq!(budget.decide(&nad(1), later), Decision::Ask);
        assert_eq!(budget.refused.len(), 0);
    }
}
