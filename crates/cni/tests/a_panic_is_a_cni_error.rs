//! A plugin that panics still answers with the error object, whatever the build does on panic.
//!
//! The test starts itself as the plugin: the harness of `cargo test` would print between, which is why it is a
//! program of its own.
#![expect(clippy::expect_used, reason = "a test")]

use std::process::{Command, ExitCode, Stdio};

use netqos_cni::{CniError, CniResult, Plugin, Request};
use serde_json::json;

struct Panics;

impl Plugin for Panics {
    fn about(&self) -> String {
        "CNI plugin panics".to_owned()
    }
    fn add(&self, _: &Request) -> Result<CniResult, CniError> {
        panic!("the moon is {}", "full")
    }
    fn del(&self, _: &Request) -> Result<(), CniError> {
        // Another thread, while the first may hold what it likes.
        let _ = std::thread::spawn(|| panic!("elsewhere")).join();
        Ok(())
    }
    fn check(&self, _: &Request) -> Result<(), CniError> {
        Ok(())
    }
}

fn main() -> ExitCode {
    if std::env::var_os("CNI_COMMAND").is_some() {
        return netqos_cni::plugin::run(&Panics);
    }
    for (command, code, message) in [
        ("ADD", 1, "panic in the plugin: the moon is full ("),
        ("DEL", 1, "panic in the plugin: elsewhere ("),
        ("CHECK", 0, ""),
    ] {
        let (exit, stdout) = call(command);
        assert_eq!(exit, Some(code), "{command}");
        if code == 0 {
            assert_eq!(stdout, "");
        } else {
            let error: CniError = serde_json::from_str(&stdout).expect("one error object");
            assert_eq!(error.code.0, 999);
            assert!(error.msg.starts_with(message), "{}", error.msg);
            assert!(!error.msg.contains('\n'), "{}", error.msg);
        }
        println!("{command} ... ok");
    }
    ExitCode::SUCCESS
}

fn call(command: &str) -> (Option<i32>, String) {
    use std::io::Write;

    let mut child = Command::new(std::env::current_exe().expect("this executable"))
        .env_clear()
        .envs([
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "c"),
            ("CNI_NETNS", "/nowhere"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/nowhere"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let config = json!({"cniVersion": "1.0.0", "name": "net"}).to_string();
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(config.as_bytes()).expect("write");
    drop(stdin);
    let output = child.wait_with_output().expect("wait");
    (
        output.status.code(),
        String::from_utf8(output.stdout).expect("text"),
    )
}
