//! A node of the test's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::geteuid;
use rustix::thread::{UnshareFlags, unshare_unsafe};

const BPFFS: &str = "/sys/fs/bpf";

/// The calling thread in a network and a mount namespace of its own, with a `/run`, a `/var/lib`
/// and a BPF file system that nobody else sees.
#[derive(Debug)]
pub struct Node {
    // A thread's namespaces are its own: a node that moved to another thread would be another.
    not_send: std::marker::PhantomData<*const ()>,
}

impl Node {
    /// Moves the calling thread, for good, to a new node. `None`, with a line that says why, where
    /// that cannot be done; with `NETQOS_REQUIRE_ROOT` set, that is an error.
    pub fn new() -> Result<Option<Self>> {
        if !geteuid().is_root() {
            if std::env::var_os("NETQOS_REQUIRE_ROOT").is_some() {
                bail!("this test needs root, and NETQOS_REQUIRE_ROOT is set");
            }
            eprintln!("skipped: this test makes network namespaces, which needs root");
            return Ok(None);
        }
        // SAFETY: network and mount namespaces only; file descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
            .context("make namespaces for the test")?;
        mount_change(
            "/",
            MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
        )
        .context("make mounts private")?;
        for folder in ["/run", "/var/lib"] {
            give_back(folder)?;
            mount("tmpfs", folder, "tmpfs", MountFlags::empty(), c"mode=755")
                .with_context(|| format!("mount a tmpfs at {folder}"))?;
        }
        // A copy of an earlier node's BPF file system would keep its programs until this thread ends. A kernel that then
        // frees a thousand of them at once can lock up.
        while unmount(BPFFS, UnmountFlags::DETACH).is_ok() {}
        mount("bpf", BPFFS, "bpf", MountFlags::empty(), None).context("mount a BPF file system")?;
        fs::create_dir_all("/run/netns")?;
        let node = Self {
            not_send: std::marker::PhantomData,
        };
        node.run("ip", &["link", "set", "lo", "up"])?;
        // Addresses of its own accord would bring traffic that the tests did not send.
        for place in ["default", "all"] {
            fs::write(format!("/proc/sys/net/ipv6/conf/{place}/accept_dad"), "0")?;
        }
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        Ok(Some(node))
    }

    /// Runs a program on the node; its output, when it succeeded.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new(program)
            .args(arguments)
            .output()
            .with_context(|| format!("run {program}"))?;
        if !output.status.success() {
            bail!(
                "{program} {}: {}{}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What `tc` shows of a link, in a stable form: qdiscs, then filters of both hooks. For
    /// comparing before and after.
    pub fn traffic_control(&self, link: &str) -> Result<String> {
        let mut text = self.run("tc", &["qdisc", "show", "dev", link])?;
        for hook in ["ingress", "egress"] {
            text.push_str(&self.run("tc", &["filter", "show", "dev", link, hook])?);
        }
        Ok(text)
    }

    /// Returns everything that CNI plugins and netqos leave on the node: links, addresses that are taken, records, results. For comparing
    /// before and after; files that plugins leave for good are not in it.
    pub fn inventory(&self) -> Result<Vec<String>> {
        let links = self.run("ip", &["-o", "link", "show"])?;
        let name = |line: &str| line.split(": ").nth(1).map(|it| format!("link {it}"));
        let mut found: Vec<String> = links.lines().filter_map(name).collect();
        let files = ["/var/lib", "/run/netqos"].map(|directory| self.files(directory));
        let is_left = |path: &String| {
            // host-local keeps the last address and its lock, and bandwidth its locks.
            let is_lock = path.ends_with("lock") && !path.contains("/multinet/");
            !path.contains("last_reserved_ip") && !is_lock && !path.ends_with(".sock")
        };
        found.extend(files.into_iter().flatten().filter(is_left));
        found.sort();
        Ok(found)
    }

    /// The files below a folder, with their sizes; for comparing before and after.
    pub fn files(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let mut found = Vec::new();
        let Ok(entries) = fs::read_dir(folder) else {
            return found;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                found.extend(self.files(&path));
            } else {
                found.push(path.display().to_string());
            }
        }
        found.sort();
        found
    }
}

/// Lets go of what others have mounted below a folder: a copy of their mount would keep their
/// network namespaces, and look like something that a test has left.
fn give_back(folder: &str) -> Result<()> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").context("read the mounts")?;
    let below = format!("{folder}/");
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for place in places.filter(|place| place.starts_with(&below)) {
        // What stood on another mount is gone with it.
        let _ = unmount(place, UnmountFlags::DETACH);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_keeps_no_bpf_file_system_of_the_one_before() {
        for _ in 0..3 {
            let Some(_node) = Node::new().unwrap() else {
                return;
            };
            let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
            let of_bpf = mounts.lines().filter(|line| line.contains(" /sys/fs/bpf "));
            assert_eq!(of_bpf.count(), 1, "{mounts}");
        }
    }
}
