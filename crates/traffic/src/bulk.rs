//! Bulk traffic in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::TcpTest;

/// Bulk TCP that goes on until it is dropped: one test after the other. One that fails is followed by the next, since
/// a low limit may end a connection.
#[derive(Debug)]
pub struct Bulk {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bulk {
    /// Starts it in a thread of its own, which calls `enter` first and drops the result last: it may enter a network
    /// namespace.
    pub fn start<G>(test: TcpTest, enter: impl FnOnce() -> G + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = thread::spawn(move || {
            let _inside = enter();
            while !ends.load(Ordering::Relaxed) {
                let _ = test.run(|_| ());
            }
        });
        Self {
            is_over,
            thread: Some(thread),
        }
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
