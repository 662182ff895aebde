//! Processes, known by their number and the time of their start, so that a number that is used
//! again is not mistaken.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};

/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long the kernel may take to end one that is killed.
const DEATH: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// A process of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Its number, which is also that of the process group that it leads.
    pub pid: i32,
    /// When it was started, in the kernel's ticks since the boot.
    pub start_time: u64,
}

impl Process {
    /// This process.
    pub(crate) fn this() -> Self {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// The process that has this number now.
    pub(crate) fn of(pid: i32) -> Self {
        Self {
            pid,
            start_time: stat(pid).map_or(0, |(_, start_time)| start_time),
        }
    }

    /// True while it runs; a zombie does not.
    pub fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|(state, start_time)| {
            start_time == self.start_time && !matches!(state, 'Z' | 'X')
        })
    }

    /// Ends it and the group that it leads: asks first, kills then. False when it lives on.
    pub(crate) fn end(self) -> bool {
        let Some(group) = Pid::from_raw(self.pid) else {
            return true;
        };
        if !self.leads(group) {
            return true;
        }
        let _ = kill_process_group(group, Signal::TERM);
        if !self.ends_within(GRACE) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.ends_within(DEATH)
    }

    /// True when the group of this number is the one that this process led. A group outlives its
    /// leader, and its number is not used again while it does.
    fn leads(self, group: Pid) -> bool {
        match stat(self.pid) {
            Some((_, start_time)) => start_time == self.start_time,
            None => rustix::process::test_kill_process_group(group).is_ok(),
        }
    }

    fn ends_within(self, time: Duration) -> bool {
        let start = Instant::now();
        while self.is_alive() {
            if start.elapsed() > time {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
    }
}

/// Kills what still runs in a network namespace: what left the group that it was started in, and
/// what somebody started there by hand.
pub(crate) fn kill_all_in(netns: &Path) {
    let Some(namespace) = identity(netns) else {
        return;
    };
    let this = Process::this().pid;
    let Ok(entries) = fs::read_dir("/proc") else {
        return;
    };
    for entry in entries.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let inside = identity(&entry.path().join("ns/net")) == Some(namespace);
        if let Some(pid) = pid.filter(|pid| inside && *pid != this) {
            let process = Process::of(pid);
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
                process.ends_within(DEATH);
            }
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// State and time of start, fields 3 and 22 of `/proc/<pid>/stat` (proc(5)).
fn stat(pid: i32) -> Option<(char, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<(char, u64)> {
    // The name, field 2, may hold anything, parentheses and spaces too.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some((state, start_time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_name_with_parentheses_is_no_trap() {
        let rest = "S 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 4711 100";
        assert_eq!(
            parse_stat(&format!("7 (a) R (b) {rest}")),
            Some(('S', 4711))
        );
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn a_process_and_its_children_are_ended_and_another_of_its_number_is_not() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; sleep 1000 & wait"])
            .process_group(0)
            .spawn()
            .unwrap();
        let process = Process::of(i32::try_from(child.id()).unwrap());
        assert!(process.is_alive() && Process::this().is_alive());
        let other = Process {
            start_time: process.start_time + 1,
            ..process
        };
        assert!(!other.is_alive() && other.end());
        assert!(process.is_alive(), "it was another that was ended");
        assert!(process.end());
        child.wait().unwrap();
        assert!(process.end(), "once more");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[0-9() a-z]{0,80}") {
            let _ = parse_stat(&text);
        }
    }
}
