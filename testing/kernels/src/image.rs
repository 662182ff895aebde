//! What a machine has: an initramfs that is made anew for each kernel.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::kernel::{Unpacked, run};

/// The modules that netqos and its tests may use. What a kernel has built in, or does not have, is left out.
const MODULES: [&str; 24] = [
    "sch_tbf",
    "sch_htb",
    "sch_ingress",
    "cls_bpf",
    "cls_u32",
    "act_mirred",
    "ifb",
    "veth",
    "bridge",
    "macvlan",
    "ipvlan",
    "8021q",
    "vxlan",
    "nf_tables",
    "nft_fwd_netdev",
    "nf_conntrack",
    "nf_nat",
    "xt_CLASSIFY",
    "ip_set",
    "nft_compat",
    "nft_chain_nat",
    "nft_counter",
    "xt_MASQUERADE",
    "xt_comment",
];
/// The programs of this machine that it has, with the libraries that they need.
const PROGRAMS: [&str; 4] = ["kmod", "ip", "tc", "iptables"];
/// Where it has CNI plugins, as this machine does.
const PLUGINS: &str = "/usr/lib/cni";

/// The initramfs of one kernel.
#[derive(Debug)]
pub struct Image {
    directory: TempDir,
}

impl Image {
    /// Builds it of `target/dist`, of this machine's programs, and of `guest`.
    ///
    /// # Errors
    /// Returns an error if an executable is missing.
    pub fn build(kernel: &Unpacked) -> anyhow::Result<Self> {
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
        for name in ["bridge", "host-local", "ptp", "static"] {
            let plugin = Path::new(PLUGINS).join(name);
            add_program(&root, &plugin, PLUGINS.trim_start_matches('/'))?;
        }
        // The kernel asks for a module by this.
        symlink("../bin/kmod", root.join("sbin/modprobe"))?;
        let netqos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in ["netqos", "netqos-agent", "bandwidth"] {
            let file = netqos.join("target/dist").join(name);
            ensure!(
                file.exists(),
                "{} is missing; `make build` makes it",
                file.display()
            );
            put(&file, &root.join("bin").join(name))?;
        }
        // Matches and targets of iptables.
        let extensions = "usr/lib/x86_64-linux-gnu/xtables";
        fs::create_dir_all(root.join("usr/lib/x86_64-linux-gnu"))?;
        let from = Path::new("/").join(extensions);
        run(Command::new("cp")
            .arg("-r")
            .args([&from, &root.join(extensions)]))?;
        let examples = netqos.join("examples");
        run(Command::new("cp")
            .arg("-r")
            .args([&examples, &root.join("examples")]))?;
        let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest");
        put(&guest.join("init"), &root.join("init"))?;
        add_modules(&root, kernel)?;
        let image = Self { directory };
        pack(&root, &image.path())?;
        Ok(image)
    }

    /// The file that a machine unpacks.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("initramfs")
    }
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

/// Adds the modules, and those that they need.
fn add_modules(root: &Path, kernel: &Unpacked) -> anyhow::Result<()> {
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
    for file in files {
        put(&from.join(file), &to.join(file))?;
    }
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
