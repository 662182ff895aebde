//! Bulk traffic in the background.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Result;
use netqos_netlink::Namespace;

/// Bulk traffic of a pod that goes on until this is dropped.
#[derive(Debug)]
pub struct Bulk {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bulk {
    /// Runs a test in this network namespace again and again. One that fails is followed by the next, since a low limit
    /// may end a connection.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be opened.
    pub fn start(netns: PathBuf, test: impl Fn() + Send + 'static) -> Result<Self> {
        let namespace = Namespace::open(netns)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = thread::spawn(move || {
            // Without it there is no traffic, and no test is content with that.
            let Ok(_inside) = namespace.enter() else {
                return;
            };
            while !ends.load(Ordering::Relaxed) {
                test();
            }
        });
        Ok(Self {
            is_over,
            thread: Some(thread),
        })
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
