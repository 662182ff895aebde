//! Who of several replicas leads: the holder of a Lease (coordination.k8s.io/v1).
//!
//! As client-go does it: the holder renews the Lease; one that has not been renewed for its duration is
//! taken over. That is measured by the clock of who watches it, from when it saw the Lease change:
//! what the clocks of others say, and one that jumps, does not matter. A leader that cannot renew
//! stops before anybody may take over, and so does one that the kernel did not run meanwhile: its
//! [`Leadership`] ends at an instant that it knows from when it renewed the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::time::{Instant, sleep, timeout};

use crate::leadership::{BootTime, Leadership, Renewal, Term};

/// How quickly replicas follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a Lease counts that is not renewed.
    pub lease: Duration,
    /// How long a leader leads that cannot renew, from when it sent its last renewal. Less than `lease`.
    pub renew: Duration,
    /// How often the Lease is renewed, or looked at.
    pub retry: Duration,
}

impl Default for Pace {
    /// A leader that is killed is replaced within twelve seconds.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            renew: Duration::from_secs(7),
            retry: Duration::from_secs(2),
        }
    }
}

/// A candidate.
pub struct Election {
    leases: Api<Lease>,
    name: String,
    identity: String,
    pace: Pace,
    term: Term,
    /// The Lease as it was seen last, and since when it has been so.
    seen: Option<(Lease, Instant)>,
}

impl Election {
    /// A candidate of this identity for the Lease of a name, and whether it leads.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        pace: Pace,
    ) -> (Self, Leadership) {
        let (term, leadership) = Leadership::new();
        let election = Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            pace,
            term,
            seen: None,
        };
        (election, leadership)
    }

    /// Stands for election until told to stop; then gives the Lease back, so that another replica
    /// need not wait for its end.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                () = self.attempt() => {}
            }
            // The end of a term is announced when it comes.
            let left = self.term.left().unwrap_or(self.pace.retry);
            tokio::select! {
                () = &mut stop => break,
                () = sleep(self.pace.retry.min(left)) => {}
            }
        }
        if self.term.is_announced() {
            self.term.end();
            self.give_back().await;
        }
    }

    /// Renews the Lease, or takes it where it is to be had.
    async fn attempt(&mut self) {
        // This may be the first instruction after a pause of any length.
        self.lose_if_over();
        let tried = timeout(self.pace.retry, self.try_hold()).await;
        self.lose_if_over();
        let failed = match tried {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why.to_string()),
            Err(_) => Some("the API server does not answer".to_owned()),
        };
        let leads = self.term.is_announced();
        let Some(why) = failed else {
            return;
        };
        tracing::warn!(leads, "the lease {} cannot be held: {why}", self.name);
    }

    /// Announces the end of a term whose instant has passed.
    fn lose_if_over(&mut self) {
        if self.term.is_announced() && self.term.left().is_none() {
            self.lose("it was not renewed in time");
        }
    }

    async fn try_hold(&mut self) -> Result<(), Error> {
        if self.term.is_announced()
            && let Some((lease, _)) = &self.seen
        {
            // What is known of it is what we wrote: no need to read it.
            let renewed = self.held(Some(lease));
            let sent = BootTime::now();
            return match self.replace(&renewed).await {
                Ok(lease) => {
                    self.hold(lease, sent);
                    Ok(())
                }
                Err(Error::Api(status)) if [404, 409].contains(&status.code) => self.look().await,
                Err(why) => Err(why),
            };
        }
        self.look().await
    }

    /// Reads the Lease, and takes it where nobody holds it.
    async fn look(&mut self) -> Result<(), Error> {
        let found = self.leases.get_opt(&self.name).await?;
        let Some(lease) = found else {
            self.seen = None;
            let parameters = PostParams::default();
            let sent = BootTime::now();
            return match self.leases.create(&parameters, &self.held(None)).await {
                Ok(lease) => {
                    self.hold(lease, sent);
                    Ok(())
                }
                // Somebody was quicker.
                Err(Error::Api(status)) if status.code == 409 => Ok(()),
                Err(why) => Err(why),
            };
        };
        let same = |(seen, _): &&(Lease, Instant)| seen.spec == lease.spec;
        let since = self.seen.as_ref().filter(same).map(|(_, since)| *since);
        let since = since.unwrap_or_else(Instant::now);
        let holder = holder(&lease);
        let is_free = match holder {
            "" => true,
            holder => holder == self.identity || since.elapsed() >= self.duration(&lease),
        };
        if holder != self.identity && self.term.is_announced() {
            self.lose(&format!("{holder:?} holds it"));
        }
        let taken = self.held(Some(&lease));
        self.seen = Some((lease, since));
        if !is_free {
            return Ok(());
        }
        let sent = BootTime::now();
        match self.replace(&taken).await {
            Ok(lease) => {
                self.hold(lease, sent);
                Ok(())
            }
            // Somebody was quicker.
            Err(Error::Api(status)) if status.code == 409 => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// How long a Lease counts, as its holder says.
    fn duration(&self, lease: &Lease) -> Duration {
        let said = lease.spec.as_ref();
        let seconds = said.and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map_or(self.pace.lease, Duration::from_secs)
    }

    /// The Lease as we hold it, in place of what it was.
    fn held(&self, before: Option<&Lease>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before_spec = before.and_then(|lease| lease.spec.as_ref());
        let was_ours = before.is_some_and(|lease| holder(lease) == self.identity);
        let transitions = before_spec.and_then(|spec| spec.lease_transitions);
        let transitions = transitions.unwrap_or_default();
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.pace.lease.as_secs().max(1)).ok(),
            acquire_time: match was_ours {
                true => before_spec.and_then(|spec| spec.acquire_time.clone()),
                false => Some(now.clone()),
            },
            renew_time: Some(now),
            lease_transitions: Some(match before.is_none() || was_ours {
                true => transitions,
                false => transitions.saturating_add(1),
            }),
            ..before_spec.cloned().unwrap_or_default()
        };
        let named = || ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        Lease {
            metadata: before.map_or_else(named, |lease| lease.metadata.clone()),
            spec: Some(spec),
        }
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, Error> {
        let parameters = PostParams::default();
        self.leases.replace(&self.name, &parameters, lease).await
    }

    /// The Lease is ours since a request that was sent at `sent`.
    fn hold(&mut self, lease: Lease, sent: BootTime) {
        self.seen = Some((lease, Instant::now()));
        match self.term.renew(sent, self.pace.renew) {
            Renewal::Began => tracing::info!("leads: it holds the lease {}", self.name),
            Renewal::Continued => {}
            // The next attempt renews it, unless another replica has taken it by then.
            Renewal::TooLate => {
                tracing::warn!(lease = self.name, "the answer to a renewal came too late");
            }
        }
    }

    fn lose(&mut self, why: &str) {
        self.term.end();
        tracing::warn!("leads no longer: {why}");
    }

    async fn give_back(&self) {
        let Some((lease, _)) = &self.seen else {
            return;
        };
        let mut free = self.held(Some(lease));
        if let Some(spec) = &mut free.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        match timeout(self.pace.retry, self.replace(&free)).await {
            Ok(Ok(_)) => tracing::info!("gave the lease {} back", self.name),
            _ => tracing::warn!("the lease {} could not be given back; it ends", self.name),
        }
    }
}

/// Who holds it; nobody: empty.
fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    holder.unwrap_or_default()
}
