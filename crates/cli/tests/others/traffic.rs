//! `netqos traffic`, both ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::{assert_code, netqos, run, stderr, stdout};

/// A server that ends with the test.
struct Served(Child, String);

impl Served {
    fn new() -> Self {
        let mut child = netqos()
            .args(["traffic", "serve", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.split([' ', ',']).nth(2).unwrap().to_owned();
        Self(child, address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn every_test_prints_text_and_json() {
    let server = Served::new();
    let to = server.1.as_str();
    for (arguments, text, pointer) in [
        (
            &["tcp", to, "-t", "300ms", "--omit", "100ms", "-R"][..],
            "tcp download: ",
            "/goodput/bitsPerSecond",
        ),
        (
            &["udp", to, "-b", "5M", "-t", "300ms", "--omit", "0s"],
            "0.0 %",
            "/sent",
        ),
        (
            &["latency", to, "-t", "100ms"],
            "latency: p50 ",
            "/roundTrip/p99Nanos",
        ),
        (
            &["dscp", to, "EF", "-t", "200ms"],
            "DSCP EF (46) on ",
            "/0/datagrams",
        ),
    ] {
        let arguments = [&["traffic"], arguments].concat();
        let output = run(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains(text), "{}", stdout(&output));

        let output = run(&[&arguments[..], &["-o", "json"]].concat());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = json.pointer(pointer).and_then(serde_json::Value::as_u64);
        assert!(found.is_some_and(|number| number > 0), "{pointer}: {json}");
    }
}

#[test]
fn nobody_there_is_said_with_what_to_do() {
    for test in [
        &["tcp", "127.0.0.1:1"][..],
        &["latency", "127.0.0.1:1", "-t", "50ms", "--timeout", "50ms"],
    ] {
        let output = run(&[&["traffic"], test].concat());
        assert_code(&output, 1);
        let said = stderr(&output);
        assert!(
            said.contains("127.0.0.1:1") && said.contains("netqos traffic serve"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
