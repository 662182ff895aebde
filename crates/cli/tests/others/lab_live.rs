//! A lab is live while it runs: on standard error, in lines or, on a terminal, in place.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::lab::start;
use crate::{netqos, run, stderr, stdout};

const SCENARIO: &str = "
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  measurements:
  - {name: first, kind: tcp, from: node, to: one, omit: 0s, duration: 1s, expect: {atLeast: 1M}}
  - {name: second, kind: tcp, from: one, to: node, omit: 0s, duration: 1s, expect: {atLeast: 1M}}
";
/// The second measurement lasts a second: what is said of the first is said that much before the
/// end. With slack.
const EARLIER: Duration = Duration::from_millis(300);

#[test]
fn what_came_of_a_measurement_is_said_before_the_next_is_made() {
    let Some((_node, folder)) = start(SCENARIO) else {
        return;
    };
    let mut child = netqos()
        .args(["lab", "run"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        said.push((Instant::now(), line.unwrap()));
    }
    let end = Instant::now();
    assert!(child.wait().unwrap().success(), "{said:?}");
    let find = |start: &str| {
        let line = said.iter().find(|(_, line)| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no {start:?} in {said:?}"))
    };
    let (up, _) = find("lab ");
    let (first, text) = find("  first: ");
    assert!(text.contains("bit/s") && text.ends_with('✓'), "{text}");
    let (second, _) = find("  second: ");
    assert!(*first - *up >= EARLIER, "{said:?}");
    assert!(
        *second - *first >= EARLIER && end - *first >= EARLIER,
        "{said:?}"
    );
}

#[test]
fn quiet_says_nothing_but_the_report() {
    let Some((_node, folder)) = start(SCENARIO) else {
        return;
    };
    let path = folder.path().to_str().unwrap();
    let output = run(&["lab", "run", path, "-q"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert!(stdout(&output).contains("second"), "{}", stdout(&output));
}

/// On a terminal the rate of each interval is seen, each written over the one before.
#[test]
fn on_a_terminal_a_measurement_is_seen_while_it_is_made() {
    let Some((_node, folder)) = start(SCENARIO) else {
        return;
    };
    let (terminal, other_end) = terminal();
    let mut command = netqos();
    command.args(["lab", "run"]).arg(folder.path());
    let mut child = command
        .stdout(Stdio::null())
        .stderr(other_end)
        .spawn()
        .unwrap();
    // It holds the last copy of the other end but the child's.
    drop(command);
    let mut text = Vec::new();
    // A terminal that nobody writes to any more fails, instead of ending.
    let _ = File::from(terminal).read_to_end(&mut text);
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8_lossy(&text).into_owned();
    for name in ["first", "second"] {
        let start = format!("\r\x1b[K  {name}: ");
        let lines: Vec<_> = text.match_indices(&start).map(|(at, _)| at).collect();
        // Now and then, and in the end.
        assert!(lines.len() >= 3, "{name}: {text:?}");
        let (live, done) = text[..].split_at(*lines.last().unwrap());
        assert!(live.contains("bit/s"), "{text:?}");
        let done = done.lines().next().unwrap();
        assert!(text.contains(done) && done.contains('✓'), "{done:?}");
    }
}

/// Both ends of a terminal.
fn terminal() -> (OwnedFd, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    (terminal, open(name, flags, Mode::empty()).unwrap())
}
