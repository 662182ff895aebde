//! What a machine has: an initramfs that is made anew for each kernel.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::cell::Cell;
use crate::judge;
use crate::kernel::{Unpacked, run};
use crate::repository;

/// The modules that netqos and its tests may use. The image leaves out modules that a kernel has built in, or lacks.
const MODULES: &[&str] = &[
    "8021q",
    "act_mirred",
    "bonding",
    "bridge",
    "cls_bpf",
    "cls_u32",
    "geneve",
    "ifb",
    "ip_set",
    "ip_set_hash_net",
    "ipip",
    "ipvlan",
    "macvlan",
    "nf_conntrack",
    "nf_nat",
    "nf_tables",
    "nft_chain_nat",
    "nft_compat",
    "nft_counter",
    "nft_fwd_netdev",
    "sch_cake",
    "sch_fq",
    "sch_fq_codel",
    "sch_htb",
    "sch_ingress",
    "sch_tbf",
    "tcp_bbr",
    "team",
    "team_mode_roundrobin",
    "tun",
    "veth",
    "virtio_net",
    "virtio_pci",
    "vxlan",
    "wireguard",
    "xt_CLASSIFY",
    "xt_MASQUERADE",
    "xt_cgroup",
    "xt_comment",
    "xt_set",
];
/// The programs of this machine that it has, with the libraries that they need.
const PROGRAMS: [&str; 12] = [
    "kmod",
    "find",
    "ip",
    "tc",
    "iptables",
    "iptables-restore",
    "ip6tables",
    "ip6tables-restore",
    "ipset",
    "nft",
    "teamnl",
    "wg",
];
/// Where it has CNI plugins, as this machine does.
const PLUGINS: &str = "/usr/lib/cni";
const PLUGIN_NAMES: [&str; 7] = [
    "bridge",
    "host-local",
    "ipvlan",
    "macvlan",
    "ptp",
    "static",
    "vlan",
];
/// The executables of `make build` that it has.
const EXECUTABLES: [&str; 4] = ["netqos", "netqos-agent", "bandwidth", "netqos-multinet"];
/// The initramfs of one kernel.
#[derive(Debug)]
pub struct Image {
    directory: TempDir,
}

impl Image {
    /// Builds it for a cell: of `target/dist`, of this machine's programs, and of `guest`, without some modules.
    ///
    /// # Errors
    /// Returns an error if an executable is missing.
    pub fn build(cell: &Cell, kernel: &Unpacked) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let root = directory.path().join("root");
        for name in [
            "bin", "sbin", "dev", "etc", "proc", "run", "sys", "tmp", "var/lib",
        ] {
            fs::create_dir_all(root.join(name))?;
        }
        let busybox = find_program("busybox")?;
        put(&busybox, &root.join("bin/busybox"))?;
        for name in run(Command::new(&busybox).arg("--list"))?.lines() {
            let _ = symlink("busybox", root.join("bin").join(name));
        }
        for name in PROGRAMS {
            let _ = fs::remove_file(root.join("bin").join(name));
            add_program(&root, &find_program(name)?, "bin")?;
        }
        for name in PLUGIN_NAMES {
            let plugin = Path::new(PLUGINS).join(name);
            add_program(&root, &plugin, PLUGINS.trim_start_matches('/'))?;
        }
        // The kernel asks for a module by this.
        symlink("../bin/kmod", root.join("sbin/modprobe"))?;
        for file in executables()? {
            let name = file.file_name().context("an executable without a name")?;
            put(&file, &root.join("bin").join(name))?;
        }
        // Matches and targets of iptables.
        let extensions = "usr/lib/x86_64-linux-gnu/xtables";
        fs::create_dir_all(root.join("usr/lib/x86_64-linux-gnu"))?;
        let from = Path::new("/").join(extensions);
        run(Command::new("cp")
            .arg("-r")
            .args([&from, &root.join(extensions)]))?;
        let examples = repository().join("examples");
        run(Command::new("cp")
            .arg("-r")
            .args([&examples, &root.join("examples")]))?;
        for file in guest()? {
            let name = file.file_name().context("a file without a name")?;
            put(&file, &root.join("guest").join(name))?;
        }
        let source = root.join("guest/netkit_program.c");
        let program = root.join("bin/netkit_program");
        run(Command::new("musl-gcc")
            .args(["-static", "-o"])
            .args([&program, &source]))?;
        if let Some(tests) = test_executable(cell)? {
            put(&tests, &root.join("bin/tests"))?;
        }
        symlink("guest/init", root.join("init"))?;
        add_modules(&root, kernel, cell.row.machine.without)?;
        let image = Self { directory };
        pack(&root, &image.path())?;
        Ok(image)
    }

    /// The file that a machine unpacks.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("initramfs")
    }
}

/// The inputs of a cell's result: a digest of the executables, the tests, the judges, the cell's example and its settings,
/// with the version of the kernel's package.
///
/// # Errors
/// Returns an error if an executable or the example is missing.
pub fn key(cell: &Cell, kernel: &Unpacked) -> anyhow::Result<String> {
    static FILES: OnceLock<String> = OnceLock::new();
    let files = match FILES.get() {
        Some(files) => files,
        None => {
            let files = run(Command::new("sha256sum")
                .args(executables()?)
                .args(guest()?))?;
            // The digests alone, since paths are those of this clone.
            let digests = files.lines().filter_map(|line| line.get(..64));
            FILES.get_or_init(|| digests.collect())
        }
    };
    let examples = repository().join("examples");
    Ok(format!(
        "{} {}",
        kernel.version()?,
        digest(cell, files, &examples)?
    ))
}

/// A digest of the inputs of a cell's result, given that of the executables and the tests.
fn digest(cell: &Cell, files: &str, examples: &Path) -> anyhow::Result<String> {
    let row = cell.row;
    let settings = format!(
        "{files} {:?} {} {:?} {:?}",
        row.machine,
        row.test,
        row.judge,
        cell.expected()
    );
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        // The length keeps parts apart.
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    add(settings.as_bytes());
    for source in judge::SOURCES {
        add(source.as_bytes());
    }
    if let Some(tests) = test_executable(cell)? {
        add(&fs::read(tests)?);
    }
    let arguments = row.machine.arguments.split_whitespace();
    for name in arguments.filter_map(|it| it.strip_prefix("scenario=")) {
        let directory = examples.join(name);
        for file in files_below(&directory)? {
            let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
            let path = file.strip_prefix(&directory)?;
            add(path.as_os_str().as_encoded_bytes());
            add(&text);
        }
    }
    Ok(shorten(digest))
}

/// The first eight bytes of a digest, in hexadecimal.
pub fn shorten(digest: Sha256) -> String {
    let bytes = digest.finalize();
    let first = bytes.iter().take(8);
    first.map(|byte| format!("{byte:02x}")).collect()
}

/// The files of a directory and of those below it, sorted.
///
/// # Errors
/// Returns an error if a directory cannot be read.
pub fn files_below(directory: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))?;
    let mut files = BTreeSet::new();
    for entry in entries {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => _ = files.insert(path),
        }
    }
    Ok(files)
}

/// The static executable of the test target that a cell runs, built as far as it has to be; `None` of other cells.
fn test_executable(cell: &Cell) -> anyhow::Result<Option<PathBuf>> {
    let Some(target) = cell.row.argument("target") else {
        return Ok(None);
    };
    let package = cell.row.argument("package").context("no package")?;
    let output = run(Command::new("cargo")
        .current_dir(repository())
        .args(["test", "--locked", "--no-run", "--quiet", "-p", package])
        .args(["--target", "x86_64-unknown-linux-musl", "--test", target])
        .args(["--message-format", "json"]))?;
    let mut messages = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = messages.find_map(|message| {
        // An executable may have the same name.
        let is_meant = message["target"]["name"] == target && message["profile"]["test"] == true;
        Some(message["executable"].as_str().filter(|_| is_meant)?.into())
    });
    let executable = executable.with_context(|| format!("cargo built no test {target}"))?;
    Ok(Some(executable))
}

/// The files of the executables.
fn executables() -> anyhow::Result<Vec<PathBuf>> {
    let files = EXECUTABLES.map(|name| repository().join("target/dist").join(name));
    for file in &files {
        ensure!(
            file.exists(),
            "{} is missing; `make build` makes it",
            file.display()
        );
    }
    Ok(files.into())
}

/// The files of the tests.
fn guest() -> anyhow::Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest");
    let mut files = Vec::new();
    for file in fs::read_dir(directory)? {
        files.push(file?.path());
    }
    files.sort();
    Ok(files)
}

/// As a newc archive (Documentation/driver-api/early-userspace/buffer-format.rst).
fn pack(root: &Path, to: &Path) -> anyhow::Result<()> {
    let mut find = Command::new("find");
    let mut find = find
        .arg(".")
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()?;
    let names = find.stdout.take().context("no pipe")?;
    let status = Command::new(find_program("busybox")?)
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(root)
        .stdin(names)
        .stdout(File::create(to)?)
        .stderr(Stdio::null())
        .status()?;
    ensure!(find.wait()?.success() && status.success(), "cpio: {status}");
    Ok(())
}

fn find_program(program: &str) -> anyhow::Result<PathBuf> {
    let mut directories = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"].iter();
    let found =
        directories.find_map(|it| Some(Path::new(it).join(program)).filter(|it| it.exists()));
    found.with_context(|| format!("no {program}; scripts/install-dependencies installs it"))
}

fn put(from: &Path, to: &Path) -> anyhow::Result<()> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::copy(from, to).map(drop))
        .with_context(|| format!("copy {} to {}", from.display(), to.display()))
}

/// Adds a program to this directory, and the libraries that the dynamic linker loads for it.
fn add_program(root: &Path, program: &Path, directory: &str) -> anyhow::Result<()> {
    let name = program.file_name().context("a program without a name")?;
    put(program, &root.join(directory).join(name))?;
    for line in run(Command::new("ldd").arg(program))?.lines() {
        let file = line.split_whitespace().find(|it| it.starts_with('/'));
        if let Some(file) = file {
            put(Path::new(file), &root.join(file.trim_start_matches('/')))?;
        }
    }
    Ok(())
}

/// Adds the modules, and those that they need, but none of `without`.
fn add_modules(root: &Path, kernel: &Unpacked, without: &[&str]) -> anyhow::Result<()> {
    let from = kernel.modules();
    let to = root.join("lib/modules").join(&kernel.release);
    let needs = fs::read_to_string(from.join("modules.dep"))?;
    // "kernel/net/sched/sch_htb.ko: kernel/…", the module first, the ones that it needs after it.
    let needs: HashMap<&str, Vec<&str>> = needs
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (file, needs.split_whitespace().collect()))
        .collect();
    let name = |file: &str| -> String {
        let last = file.rsplit('/').next().unwrap_or(file);
        last.split(".ko").next().unwrap_or(last).replace('-', "_")
    };
    let mut files = BTreeSet::new();
    for (file, needed) in &needs {
        if MODULES.contains(&name(file).as_str()) {
            files.insert(*file);
            files.extend(needed);
        }
    }
    let mut hidden = BTreeSet::new();
    for file in files {
        match without.contains(&name(file).as_str()) {
            true => _ = hidden.insert(name(file)),
            false => put(&from.join(file), &to.join(file))?,
        }
    }
    let builtin: Vec<_> = without.iter().filter(|it| !hidden.contains(**it)).collect();
    ensure!(
        builtin.is_empty(),
        "not modules of {}: {builtin:?}",
        kernel.release
    );
    for index in [
        "modules.order",
        "modules.builtin",
        "modules.builtin.modinfo",
    ] {
        if from.join(index).exists() {
            put(&from.join(index), &to.join(index))?;
        }
    }
    run(Command::new("depmod")
        .arg("-b")
        .arg(root)
        .arg(&kernel.release))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Outcome, Row};
    use crate::judge::Judge;
    use crate::kernel::Kernel;
    use crate::matrix;

    #[test]
    fn key_changes_with_the_example_of_its_scenario_only() {
        let examples = tempfile::tempdir().unwrap();
        let scenario = examples.path().join("networkqos-story1-marks");
        let other = examples.path().join("iperf-slow");
        for directory in [&scenario.join("objects"), &other] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("lab.yaml"), "rate: 1").unwrap();
        }
        let keys = || {
            ["6.1/rules", "6.1/plugin"].map(|name| {
                let cell = matrix::parse(name).unwrap();
                digest(&cell, "files", examples.path()).unwrap()
            })
        };
        let [rules, plugin] = keys();
        fs::write(other.join("lab.yaml"), "rate: 2").unwrap();
        assert_eq!(keys(), [rules.clone(), plugin.clone()]);
        fs::write(scenario.join("objects/lab.yaml"), "rate: 2").unwrap();
        let [changed, same] = keys();
        assert_ne!(changed, rules);
        assert_eq!(same, plugin);
        fs::rename(
            scenario.join("objects/lab.yaml"),
            scenario.join("objects/pods.yaml"),
        )
        .unwrap();
        assert_ne!(keys()[0], changed);
    }

    #[test]
    fn key_differs_by_judge_and_by_expected_outcome() {
        const PLUGIN: Row = Row::new("row", "title", "test", Judge::Plugin);
        const UPLINK: Row = Row::new("row", "title", "test", Judge::Uplink);
        const MISSING: Row = PLUGIN.expect(Outcome::Missing);
        let keys = [&PLUGIN, &UPLINK, &MISSING].map(|row| {
            let kernel = Kernel::V6_1;
            digest(&Cell { kernel, row }, "files", Path::new("none")).unwrap()
        });
        assert_eq!(BTreeSet::from(keys).len(), 3);
    }
}
