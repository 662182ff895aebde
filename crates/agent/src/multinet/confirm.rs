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
use super::catalog::absent;

/// The longest wait for the API server. The plugin waits 10 s.
const PATIENCE: Duration = Duration::from_secs(4);

/// The time for which the agent does not request a missing NAD again.
const STAYS_ABSENT: Duration = Duration::from_secs(5);

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
    /// NADs that did not exist, until which time that counts.
    absent: BTreeMap<ObjectName, Instant>,
    left: u32,
    refilled: Instant,
}

/// What may be done about a NAD that the watch lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Ask,
    IsAbsent,
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
                Ok(Some(found)) => {
                    confirmed.insert(missing, found);
                }
                Ok(None) => return absent(&missing),
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
    /// Returns a NAD, or `None` if it does not exist.
    async fn read(&self, name: &ObjectName) -> Result<Option<AttachmentConfig>, String> {
        match self.with_budget(|budget| budget.decide(name, Instant::now())) {
            Decision::Ask => {}
            Decision::IsAbsent => return Ok(None),
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
        let Some(value) = found else {
            self.with_budget(|budget| budget.note_absent(name, Instant::now()));
            return Ok(None);
        };
        match object_from_value(&value) {
            Ok(Object::Network(network)) => Ok(Some(network.attachment)),
            Ok(_) => Err("the API server answers another object".to_owned()),
            Err(errors) => Err(format!("it cannot be read: {}", listed(&errors, "; "))),
        }
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
            absent: BTreeMap::new(),
            left: BURST,
            refilled: now,
        }
    }

    /// Decides about a NAD; a request is counted. So there are never more than some ten absent ones.
    fn decide(&mut self, name: &ObjectName, now: Instant) -> Decision {
        self.absent.retain(|_, until| *until > now);
        if self.absent.contains_key(name) {
            return Decision::IsAbsent;
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

    fn note_absent(&mut self, name: &ObjectName, now: Instant) {
        self.absent.insert(name.clone(), now + STAYS_ABSENT);
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
        budget.note_absent(&nad(1), began);
        assert_eq!(budget.decide(&nad(1), began), Decision::IsAbsent);
        assert_eq!(budget.decide(&nad(2), began), Decision::Ask);
        let later = began + STAYS_ABSENT;
        assert_eq!(budget.decide(&nad(1), later), Decision::Ask);
        assert_eq!(budget.absent.len(), 0);
    }
}
