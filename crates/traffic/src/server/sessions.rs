//! The tests that are going on, by their number.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Flow;
use crate::goodput::Arrivals;
use crate::reception::Reception;

/// A TCP test's streams find each other by this.
#[derive(Debug)]
pub(super) struct TcpSession {
    pub(super) flow: Flow,
    /// What arrived, when the server receives; and the end of it, both ways.
    pub(super) arrivals: Arrivals,
    pub(super) congestion_control: Option<String>,
}

/// All tests of a server.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    tcp: Mutex<HashMap<u64, Arc<TcpSession>>>,
    udp: Mutex<HashMap<u64, Arc<Reception>>>,
    /// Seeds the numbers, so that a stranger can't guess them.
    random: RandomState,
}

impl Sessions {
    /// Enters a TCP test.
    pub(super) fn add_tcp(&self, session: TcpSession) -> (u64, Arc<TcpSession>) {
        add(&self.tcp, &self.random, Arc::new(session))
    }

    /// Enters a UDP test.
    pub(super) fn add_udp(&self, reception: Reception) -> (u64, Arc<Reception>) {
        add(&self.udp, &self.random, Arc::new(reception))
    }

    pub(super) fn tcp(&self, session: u64) -> Option<Arc<TcpSession>> {
        lock(&self.tcp).get(&session).cloned()
    }

    pub(super) fn udp(&self, session: u64) -> Option<Arc<Reception>> {
        lock(&self.udp).get(&session).cloned()
    }

    /// Ends a TCP test, and with it its streams.
    pub(super) fn remove_tcp(&self, session: u64) {
        if let Some(session) = lock(&self.tcp).remove(&session) {
            session.arrivals.end();
        }
    }

    /// Ends a UDP test.
    pub(super) fn remove_udp(&self, session: u64) {
        lock(&self.udp).remove(&session);
    }
}

fn add<T>(map: &Mutex<HashMap<u64, Arc<T>>>, random: &RandomState, value: Arc<T>) -> (u64, Arc<T>) {
    let mut map = lock(map);
    let mut session = random.hash_one((crate::clock::Instant::now().nanos(), map.len()));
    while map.contains_key(&session) {
        session = session.wrapping_add(1);
    }
    map.insert(session, Arc::clone(&value));
    (session, value)
}

/// A thread that panicked with the lock held leaves a map that is whole.
fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}
