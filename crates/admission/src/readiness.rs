//! Whether the webhook can be asked: what its own `/readyz` says, and that of the process that it
//! runs in.
//!
//! An API server that cannot ask it goes on without an answer and without a word (its failure policy
//! is to ignore that), so nobody would notice there.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::Known;
use crate::tls::Shown;

/// Whether a webhook can be asked, from outside of its server; clones are of the same webhook.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    pub(crate) shown: Arc<Shown>,
    known: Arc<RwLock<Known>>,
    kept: Arc<RwLock<Kept>>,
}

/// What the keeper has come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// The certificate that is shown would be taken now by who knows its authorities.
    pub(crate) is_good: bool,
    /// API servers have been told of its authorities, as far as is known: when it was looked at last
    /// they were there, or there was no configuration to tell of them.
    pub(crate) is_told: bool,
    /// What went wrong last; empty when nothing did.
    pub(crate) trouble: String,
}

impl Readiness {
    /// What keeps API servers from asking it, in words; nothing where they can.
    ///
    /// A look that fails does not make unready what was in order by the one before, as long as the
    /// certificate is good: while the API server is away it asks nobody.
    pub fn lacks(&self) -> Option<String> {
        let kept = read(&self.kept);
        let because = |what: &str| match kept.trouble.as_str() {
            "" => what.to_owned(),
            why => format!("{what}: {why}"),
        };
        if !self.shown.is_any() {
            return Some(because("there is no certificate yet"));
        }
        if !kept.is_good {
            return Some(because("its certificate is not good any more"));
        }
        if !kept.is_told {
            return Some(because("API servers do not know its authority"));
        }
        if !self.known().is_whole() {
            return Some("what the cluster has is not known yet".to_owned());
        }
        None
    }

    /// What answers are made from.
    pub(crate) fn known(&self) -> RwLockReadGuard<'_, Known> {
        read(&self.known)
    }

    /// Takes note of what the cluster has.
    pub(crate) fn learn(&self, learn: impl FnOnce(&mut Known)) {
        learn(&mut self.known.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes note of what the keeper has come to.
    pub(crate) fn keep(&self, kept: Kept) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}
