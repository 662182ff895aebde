//! What is in the image that `deploy/Containerfile` makes with ipset and iptables, put together of the
//! Debian packages that are installed here: there may be no image to begin from.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::what_its_manifests_give_it_is_enough::{ALWAYS, bound};

const CONTAINERFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/Containerfile");
/// What is in every Debian image, of what is used here: the test's own `setpriv`, and the libraries of an
/// executable that is not static.
const BASE: [&str; 2] = ["util-linux", "libgcc-s1"];
/// Certificates that a client wants to find, also where it speaks HTTP, as with the test's server. (A pod
/// is given its cluster's.)
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The list of its files, while a test uses it.
const FILES: &str = "/run/image-files";

/// Its files. `None`, said aloud, where they are not known. (A test's own node knows of no packages.)
pub(crate) fn with_tc() -> Option<String> {
    let text = fs::read_to_string(CONTAINERFILE).unwrap();
    let installed = text
        .lines()
        .find(|line| line.contains("apt-get install"))
        .unwrap();
    let words = installed
        .split_whitespace()
        .rev()
        .skip_while(|word| *word == "\\");
    let named: Vec<&str> = words.take_while(|word| !word.starts_with("--")).collect();
    assert!(named.len() > 1, "{installed}");
    let mut files = BTreeSet::from([ROOTS.to_owned()]);
    for package in closure(named.into_iter().chain(BASE))? {
        let listed = dpkg(&["dpkg", "-L", &package])?;
        files.extend(
            listed
                .lines()
                .filter(|path| *path != "/.")
                .map(str::to_owned),
        );
    }
    // A package's installation makes these.
    for entry in fs::read_dir("/etc/alternatives").unwrap() {
        let path = entry.unwrap().path().display().to_string();
        if let Some(name) = path.strip_prefix("/etc/alternatives/ip")
            && name.contains("tables")
        {
            files.insert(format!("/usr/sbin/ip{name}"));
            files.insert(path);
        }
    }
    let is_needed =
        |path: &&String| !path.starts_with("/usr/share/") && fs::symlink_metadata(path).is_ok();
    Some(
        { files.iter() }
            .filter(is_needed)
            .map(|path| format!("{path}\n"))
            .collect(),
    )
}

/// The script that makes an image of these files of `/run/root`.
pub(crate) fn made_of(files: &str) -> String {
    fs::write(FILES, files).unwrap();
    let mut script = format!(
        "for link in bin sbin lib lib64; do\n\
         mkdir -p /run/root/usr/$link; ln -s usr/$link /run/root/$link\n\
         done\n\
         tar -C / --no-recursion -cf - -T {FILES} 2> /dev/null |\n\
         tar -C /run/root --keep-directory-symlink -xf -\n"
    );
    script.extend(ALWAYS.map(bound));
    script
}

/// These packages, and all that they depend on.
fn closure<'n>(named: impl Iterator<Item = &'n str>) -> Option<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut left: Vec<String> = named.map(str::to_owned).collect();
    while let Some(package) = left.pop() {
        if !found.insert(package.clone()) {
            continue;
        }
        let format = "-f=${Depends}, ${Pre-Depends}\n";
        let depends = dpkg(&["dpkg-query", "-W", format, &package])?;
        // Of several that would do the first is taken, where it is here.
        let names = depends
            .split([',', '\n'])
            .filter_map(|it| it.split_whitespace().next());
        let names = names.map(|name| name.split(':').next().unwrap_or(name));
        left.extend(names.map(str::to_owned));
    }
    Some(found)
}

/// What a program says of packages. `None`: it is not there, or knows of none of that name.
fn dpkg(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    match output {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!(
                "skipped: the image cannot be put together of packages: {}",
                why.trim()
            );
            None
        }
        Err(why) => {
            eprintln!("skipped: packages are not known here: {}: {why}", words[0]);
            None
        }
    }
}
