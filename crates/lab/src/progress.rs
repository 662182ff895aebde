//! What is seen while a lab runs, on standard error.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the progress goes.
#[derive(Debug)]
pub struct Progress {
    form: Form,
    /// A line stands there that is to be written over.
    is_open: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One line per measurement, updated in place.
    Terminal,
    /// One line per measurement, when it is done.
    Lines,
    Silent,
}

impl Progress {
    /// On standard error: updated in place on a terminal, plain lines elsewhere.
    pub fn on_stderr() -> Self {
        let form = if rustix::termios::isatty(io::stderr()) {
            Form::Terminal
        } else {
            Form::Lines
        };
        Self::of(form)
    }

    /// Nowhere.
    pub fn silent() -> Self {
        Self::of(Form::Silent)
    }

    const fn of(form: Form) -> Self {
        Self {
            form,
            is_open: AtomicBool::new(false),
        }
    }

    /// Says what goes on; the next call writes over it.
    pub(crate) fn update(&self, text: &str) {
        if self.form == Form::Terminal {
            self.is_open.store(true, Ordering::Relaxed);
            write(&format!("\r\x1b[K  {text}"));
        }
    }

    /// Says what came of it, for good.
    pub(crate) fn done(&self, text: &str) {
        match self.form {
            Form::Terminal => {
                self.is_open.store(false, Ordering::Relaxed);
                write(&format!("\r\x1b[K  {text}\n"));
            }
            Form::Lines => write(&format!("  {text}\n")),
            Form::Silent => {}
        }
    }

    /// Says something beside.
    pub(crate) fn note(&self, text: &str) {
        if self.form == Form::Silent {
            return;
        }
        let clear = if self.is_open.swap(false, Ordering::Relaxed) {
            "\r\x1b[K"
        } else {
            ""
        };
        write(&format!("{clear}{text}\n"));
    }
}

/// A progress that can't be seen is no reason to stop.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
