//! Programs of the node, run to their end.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// Runs a program; its output.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String> {
    run_with(program, arguments, "")
}

/// Runs a program that reads this; its output.
pub(super) fn run_with(program: &str, arguments: &[&str], input: &str) -> Result<String> {
    let failed = |what: String| Error::Command {
        command: [&[program], arguments].concat().join(" "),
        what,
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoProgram {
                program: program.to_owned(),
                package: package(program),
            },
            _ => failed(error.to_string()),
        })?;
    // None of them prints before it has read all.
    let given = child
        .stdin
        .take()
        .map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).collect();
        return Err(failed(match said.is_empty() {
            true => output.status.to_string(),
            false => said.join("; "),
        }));
    }
    given.map_err(|error| failed(error.to_string()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn package(program: &str) -> &'static str {
    match program {
        "ipset" => "ipset",
        _ => "iptables",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_told() {
        assert_eq!(run_with("cat", &[], "a\n").unwrap(), "a\n");
        for (program, arguments, text) in [
            (
                "ipset-of-nobody",
                &[][..],
                "there is no ipset-of-nobody here, which the backend needs: install the package iptables on \
                 this node, or, where the agent runs in a container, take the image that has it \
                 (docs/install.md)",
            ),
            ("false", &["-w"], "false -w: exit status: 1"),
            (
                "sh",
                &["-c", "echo no >&2; exit 3"],
                "sh -c echo no >&2; exit 3: no",
            ),
        ] {
            assert_eq!(run(program, arguments).unwrap_err().to_string(), text);
        }
    }
}
