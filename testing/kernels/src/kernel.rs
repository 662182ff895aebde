//! Debian's kernels, out of their packages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs};

use anyhow::{Context, bail, ensure};

/// The package that depends on a suite's kernel, without drivers of real machines.
const META: &str = "linux-image-cloud-amd64";

/// A kernel that a suite of Debian has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    V5_10,
    V6_1,
    V6_12,
    /// The newest that is packaged for a stable Debian.
    Newest,
}

/// An unpacked kernel.
#[derive(Debug)]
pub struct Unpacked {
    directory: PathBuf,
    /// As `uname -r` prints it.
    pub release: String,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::Newest => "newest",
        })
    }
}

impl Kernel {
    /// The kernel of a name, as it is printed.
    pub fn parse(name: &str) -> Result<Self, String> {
        let all = [Self::V5_10, Self::V6_1, Self::V6_12, Self::Newest];
        let found = all.into_iter().find(|it| it.to_string() == name);
        found.ok_or_else(|| "no such kernel: 5.10, 6.1, 6.12 or newest".to_owned())
    }

    /// The suites of its release: of the archive, and of its security updates.
    fn suites(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::V5_10 => (&["bullseye"], &["bullseye-security"]),
            Self::V6_1 => (&["bookworm"], &["bookworm-security"]),
            Self::V6_12 => (&["trixie"], &["trixie-security"]),
            Self::Newest => (&["trixie-backports"], &[]),
        }
    }

    /// Finds it in the cache, or downloads and unpacks it.
    ///
    /// # Errors
    /// Returns an error if the machine's Debian mirrors have no such package.
    pub fn fetch(self) -> anyhow::Result<Unpacked> {
        let cache = cache()?;
        let directory = cache.join(self.to_string());
        if !directory.exists() {
            eprintln!("downloading the package of kernel {self}");
            // In another directory first: what is there under its name is complete.
            fs::create_dir_all(&cache)?;
            let fresh = tempfile::tempdir_in(&cache)?;
            self.download(fresh.path())
                .with_context(|| format!("the package of kernel {self}"))?;
            fs::rename(fresh.path().join("unpacked"), &directory)?;
        }
        let modules = fs::read_dir(directory.join("lib/modules"))?.next();
        let modules = modules.context("a package without modules")??;
        let release = modules.file_name().into_string();
        Ok(Unpacked {
            directory,
            release: release.ok().context("a release that is not UTF-8")?,
        })
    }

    /// With apt, by a list of sources of its own: the machine's mirrors, with this kernel's suites.
    fn download(self, directory: &Path) -> anyhow::Result<()> {
        let (archive, security) = self.suites();
        let mirrors = mirrors()?;
        let mut sources = String::new();
        for (ending, suites) in [("debian", archive), ("debian-security", security)] {
            for suite in suites {
                let mirror = mirrors
                    .iter()
                    .find(|uri| uri.trim_end_matches('/').ends_with(ending));
                let mirror = mirror.with_context(|| format!("apt has no source …/{ending}"))?;
                sources += &format!(
                    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n"
                );
            }
        }
        let list = directory.join("sources.list");
        fs::write(&list, sources)?;
        let state = directory.join("lists/partial");
        fs::create_dir_all(&state)?;
        fs::create_dir_all(directory.join("archives/partial"))?;
        let apt = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.current_dir(directory);
            for option in [
                format!("Dir::Etc::sourcelist={}", list.display()),
                "Dir::Etc::sourceparts=-".to_owned(),
                format!("Dir::State::Lists={}", directory.join("lists").display()),
                format!("Dir::Cache={}", directory.display()),
                // Another user would not get at these directories.
                "APT::Sandbox::User=root".to_owned(),
                "Acquire::Languages=none".to_owned(),
            ] {
                command.args(["-o", &option]);
            }
            run(command.args(["-q"]).args(arguments))
        };
        apt("apt-get", &["update"])?;
        let depends = |package: &str| -> anyhow::Result<Vec<String>> {
            let text = apt("apt-cache", &["depends", "--important", package])?;
            let names = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("Depends: "));
            Ok(names.map(str::to_owned).collect())
        };
        let mut packages = depends(META)?;
        packages.retain(|name| name.starts_with("linux-image-"));
        let package = packages.first().cloned();
        let package = package.with_context(|| format!("{META} depends on no kernel"))?;
        // From 7 on the image and its modules are packages of their own.
        let parts = ["linux-binary-", "linux-modules-"];
        let is_part = |name: &String| parts.iter().any(|part| name.starts_with(part));
        packages.extend(depends(&package)?.into_iter().filter(is_part));
        let unpacked = directory.join("unpacked");
        for package in &packages {
            apt("apt-get", &["download", package])?;
        }
        for file in fs::read_dir(directory)? {
            let file = file?.path();
            if file.extension().is_some_and(|it| it == "deb") {
                run(Command::new("dpkg-deb").arg("-x").args([&file, &unpacked]))?;
            }
        }
        // From trixie on they are in /usr, where this machine's depmod does not look.
        let in_usr = unpacked.join("usr/lib/modules");
        if in_usr.exists() {
            fs::create_dir_all(unpacked.join("lib"))?;
            fs::rename(in_usr, unpacked.join("lib/modules"))?;
        }
        let release = package.trim_start_matches("linux-image-");
        run(Command::new("depmod").arg("-b").arg(&unpacked).arg(release))?;
        Ok(())
    }
}

impl Unpacked {
    /// The file that a machine boots.
    pub fn image(&self) -> PathBuf {
        let in_boot = self
            .directory
            .join(format!("boot/vmlinuz-{}", self.release));
        match in_boot.exists() {
            true => in_boot,
            // From 7 on it is beside its modules.
            false => self.modules().join("vmlinuz"),
        }
    }

    /// Its version and that of its package, by the header of its image: `6.1.176-1`.
    ///
    /// # Errors
    /// Returns an error if the file is not an image of the kernel (Documentation/arch/x86/boot.rst, `kernel_version`).
    pub fn version(&self) -> anyhow::Result<String> {
        let image = fs::read(self.image())?;
        let pointer = image.get(0x20E..0x210).context("a short image")?;
        let begin = 0x200 + usize::from(u16::from_le_bytes([pointer[0], pointer[1]]));
        let text = image.get(begin..).context("no version in the image")?;
        let text = String::from_utf8_lossy(text.split(|it| *it == 0).next().unwrap_or_default());
        // "6.1.0-56-cloud-amd64 (…) #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-07-02)"
        let mut words = text.split_whitespace().skip_while(|word| *word != "Debian");
        let version = words.nth(1).unwrap_or(&self.release);
        Ok(version.to_owned())
    }

    /// The directory of its modules.
    pub fn modules(&self) -> PathBuf {
        self.directory.join("lib/modules").join(&self.release)
    }
}

/// The URIs of the machine's package sources.
fn mirrors() -> anyhow::Result<Vec<String>> {
    let mut command = Command::new("apt-get");
    command.args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
    ]);
    Ok(run(&mut command)?.lines().map(str::to_owned).collect())
}

/// Where kernels are kept: `$NETQOS_CACHE/kernels`, or by default `~/.cache/netqos/kernels`.
fn cache() -> anyhow::Result<PathBuf> {
    let directory = |name: &str| {
        env::var_os(name)
            .filter(|it| !it.is_empty())
            .map(PathBuf::from)
    };
    let netqos = directory("NETQOS_CACHE")
        .or_else(|| Some(directory("XDG_CACHE_HOME")?.join("netqos")))
        .or_else(|| Some(directory("HOME")?.join(".cache/netqos")));
    Ok(netqos.context("HOME is not set")?.join("kernels"))
}

/// What it prints. It must succeed.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let what = format!("{command:?}");
    let output = command.output().with_context(|| what.clone())?;
    if !output.status.success() {
        bail!(
            "{what}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8(output.stdout)?;
    ensure!(!text.contains('\0'), "{what} printed no text");
    Ok(text)
}
