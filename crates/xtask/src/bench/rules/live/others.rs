//! The same rules by others' means.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::Result;
use netqos_testkit::Node;
use serde::{Deserialize, Serialize};

use crate::bench::rules::stage::{block, mark};

/// By which means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Other {
    /// A chain of nft, in which each is a rule.
    Nft,
    /// One rule of nft that looks them all up in a set of address and port, and a chain for each mark.
    NftSet,
    /// A chain of iptables (legacy), in which each is a rule.
    Iptables,
}

/// Those whose programs are there, and the names of the programs that are not.
pub fn present() -> (Vec<Other>, Vec<String>) {
    let mut absent = Vec::new();
    let mut found = Vec::new();
    for (program, kinds) in [
        ("nft", &[Other::Nft, Other::NftSet][..]),
        ("iptables-legacy-restore", &[Other::Iptables]),
    ] {
        let asked = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match asked {
            Ok(_) => found.extend(kinds),
            Err(_) => absent.push(program.to_owned()),
        }
    }
    (found, absent)
}

impl Other {
    /// What a heading says.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft, rule by rule",
            Self::NftSet => "nft, one set",
            Self::Iptables => "iptables, rule by rule",
        }
    }

    /// Puts so many rules in the way of what the node receives. The one that matches is the last.
    pub fn install(self, node: &Node, rules: usize) -> Result<()> {
        let file = "/run/others-rules";
        let text = match self {
            Self::Nft => nft(rules)?,
            Self::NftSet => nft_set(rules)?,
            Self::Iptables => iptables(rules)?,
        };
        fs::write(file, text)?;
        match self {
            Self::Iptables => node.run("iptables-legacy-restore", &[file])?,
            _ => node.run("nft", &["-f", file])?,
        };
        Ok(())
    }
}

fn nft(rules: usize) -> Result<String> {
    let mut text = String::from(
        "table ip bench {\n chain rules {\n  type filter hook prerouting priority mangle;\n",
    );
    for number in (0..rules).rev() {
        let ((network, length), port) = block(number);
        let mark = mark(number);
        writeln!(
            text,
            "  ip daddr {network}/{length} udp dport {port} ip dscp set {mark} accept"
        )?;
    }
    text.push_str(" }\n}\n");
    Ok(text)
}

fn nft_set(rules: usize) -> Result<String> {
    let mut text = String::from("table ip bench {\n");
    let mut marks: Vec<usize> = (0..rules).map(mark).collect();
    marks.sort_unstable();
    marks.dedup();
    for mark in marks {
        writeln!(
            text,
            " chain mark{mark} {{\n  ip dscp set {mark} accept\n }}"
        )?;
    }
    text.push_str(
        " map rules {\n  type ipv4_addr . inet_service : verdict\n  flags interval\n  elements = {\n",
    );
    for number in 0..rules {
        let ((network, length), port) = block(number);
        let mark = mark(number);
        writeln!(text, "   {network}/{length} . {port} : goto mark{mark},")?;
    }
    text.push_str(
        "  }\n }\n chain rules {\n  type filter hook prerouting priority mangle;\n  \
         ip daddr . udp dport vmap @rules\n }\n}\n",
    );
    Ok(text)
}

fn iptables(rules: usize) -> Result<String> {
    let mut text = String::from("*mangle\n");
    for number in (0..rules).rev() {
        let ((network, length), port) = block(number);
        let mark = mark(number);
        writeln!(
            text,
            "-A PREROUTING -d {network}/{length} -p udp --dport {port} -j DSCP --set-dscp {mark}"
        )?;
    }
    text.push_str("COMMIT\n");
    Ok(text)
}
