//! The programs, loaded. A kernel that has refused them is not asked again at every ADD, which takes
//! it tens of milliseconds each time.

use std::fs;
use std::path::PathBuf;

use netqos_bpf::{Error, Pins, Result};
use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::Paths;

/// What the kernel said. It holds for these programs on this kernel, until the next boot.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refusal {
    of: Question,
    why: String,
}

/// All that the answer depends on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    programs: String,
    kernel: String,
    boot: String,
    bpffs: PathBuf,
}

impl Question {
    fn now(paths: &Paths) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            programs: Pins::BUILD.to_owned(),
            kernel: uname().release().to_string_lossy().into_owned(),
            boot: boot.trim().to_owned(),
            bpffs: paths.bpffs().to_owned(),
        }
    }
}

/// The programs, loaded now if they are not. Where the kernel has refused them before, that is the
/// answer.
pub(crate) fn ensure(paths: &Paths) -> Result<Pins> {
    if let Some(pins) = Pins::loaded(paths.bpffs())? {
        return Ok(pins);
    }
    match remembered(paths) {
        Some(why) => Err(Error::Load(format!(
            "{why} (remembered; `netqos check` tries again)"
        ))),
        None => try_again(paths),
    }
}

/// The same, whatever the kernel said before. What it says now is remembered.
pub(crate) fn try_again(paths: &Paths) -> Result<Pins> {
    let pins = Pins::ensure(paths.bpffs());
    // Nothing depends on whether it can be remembered.
    match &pins {
        Err(Error::Load(why)) => drop(remember(paths, why)),
        Err(_) => {}
        Ok(_) => drop(fs::remove_file(paths.refusal())),
    }
    pins
}

fn remembered(paths: &Paths) -> Option<String> {
    let bytes = fs::read(paths.refusal()).ok()?;
    // Half of one, which somebody writes at this moment, is none.
    let refusal: Refusal = serde_json::from_slice(&bytes).ok()?;
    (refusal.of == Question::now(paths)).then_some(refusal.why)
}

fn remember(paths: &Paths, why: &str) -> std::io::Result<()> {
    let refusal = Refusal {
        of: Question::now(paths),
        why: why.to_owned(),
    };
    fs::create_dir_all(paths.run())?;
    fs::write(paths.refusal(), serde_json::to_vec(&refusal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_the_same_question_only() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path(), "/sys/fs/bpf");
        assert_eq!(remembered(&paths), None);
        remember(&paths, "no").unwrap();
        assert_eq!(remembered(&paths), Some("no".to_owned()));
        let elsewhere = Paths::new(folder.path(), "/other");
        assert_eq!(remembered(&elsewhere), None);
        let text = fs::read_to_string(paths.refusal()).unwrap();
        for (now, other) in [
            (Pins::BUILD, "another build"),
            (&Question::now(&paths).kernel, "another kernel"),
            (&Question::now(&paths).boot, "another boot"),
        ] {
            fs::write(paths.refusal(), text.replace(now, other)).unwrap();
            assert_eq!(remembered(&paths), None, "{other}");
        }
        fs::write(paths.refusal(), &text[..text.len() / 2]).unwrap();
        assert_eq!(remembered(&paths), None);
    }
}
