//! The namespaces that a cluster lives and ends in.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, ensure};

use super::{GATEWAY, GATEWAY6, ROOT};
use crate::cluster::run;

/// The time until processes that were killed have left their cgroups.
const PATIENCE: Duration = Duration::from_secs(10);
/// The variable that names, inside, the cgroup that nodes have theirs below.
const CGROUP: &str = "NETQOS_SANDBOX_CGROUP";

/// Mounts net_cls beside the hierarchies of cgroup v1, in this mount namespace: few machines have it mounted.
const NET_CLS: &str = r#"
set -eu
[ ! -e /sys/fs/cgroup/cgroup.controllers ] && [ ! -e /sys/fs/cgroup/net_cls ] || exit 0
mkdir -p "$1/net_cls"
mount -t cgroup -o net_cls net_cls "$1/net_cls" || exit 0
for hierarchy in /sys/fs/cgroup/*; do
  if [ -L "$hierarchy" ]; then
    cp -P "$hierarchy" "$1/"
  else
    mkdir "$1/${hierarchy##*/}"
    mount --bind "$hierarchy" "$1/${hierarchy##*/}"
  fi
done
mount --rbind "$1" /sys/fs/cgroup
"#;

/// Removes the cgroup $1 of each hierarchy once its standard input ends, which is when the process that started it
/// has ended in whatever way. Runs in a mount namespace of its own.
const JANITOR: &str = r#"
trap '' HUP INT TERM
cat >/dev/null
mounted=
[ -e /sys/fs/cgroup/net_cls ] || ! mount -t cgroup -o net_cls net_cls /mnt 2>/dev/null || mounted=yes
attempts=100
while [ $attempts -gt 0 ]; do
  left=
  for cgroup in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1" /mnt/"$1"; do
    [ -d "$cgroup" ] || continue
    find "$cgroup" -depth -type d -exec rmdir {} \; 2>/dev/null
    [ ! -d "$cgroup" ] || left="$left $cgroup"
  done
  if [ -z "$left" ]; then
    # The kernel keeps a hierarchy that is unmounted before it has freed the cgroups in it. Others may have theirs.
    while [ -n "$mounted" ] && [ $attempts -gt 80 ] && ! grep -Eq '^net_cls\s+[0-9]+\s+1\s' /proc/cgroups; do
      attempts=$((attempts - 1))
      sleep 0.1
    done
    exit 0
  fi
  attempts=$((attempts - 1))
  sleep 0.1
done
echo "cannot remove$left" >&2
exit 1
"#;

/// Executes this program again, with the same arguments, inside of a sandbox: network, mount, PID and IPC
/// namespaces that end with this process, however it ends. Returns the exit code of the inner process; `None`
/// to the inner process itself.
///
/// # Errors
/// Returns an error without root, or if `unshare` or `setpriv` (util-linux) cannot be executed.
pub fn enter() -> anyhow::Result<Option<u8>> {
    if is_inside() {
        return Ok(None);
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "cannot make namespaces: not root"
    );
    let cgroup = format!("netqos-cluster-{}", std::process::id());
    let mut janitor = start_janitor(&cgroup)?;
    let status = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "unshare"])
        .args(["--net", "--mount", "--pid", "--ipc", "--uts"])
        .args(["--propagation", "private", "--mount-proc"])
        .args(["--fork", "--kill-child=KILL", "--"])
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(CGROUP, &cgroup)
        .status()
        .context("cannot execute setpriv");
    drop(janitor.stdin.take());
    let cleaned = janitor.wait()?;
    let status = status?;
    ensure!(cleaned.success(), "cgroups of the sandbox are left");
    let code = status
        .code()
        .unwrap_or(128 + status.signal().unwrap_or_default());
    Ok(Some(code.try_into().unwrap_or(1)))
}

fn start_janitor(cgroup: &str) -> anyhow::Result<Child> {
    // A session of its own: what ends a terminal's processes leaves it.
    Command::new("setsid")
        .args(["unshare", "--mount", "sh", "-c", JANITOR, "sh", cgroup])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot execute setsid")
}

/// Returns true for the first process of a sandbox. Its descendants inherit the variable, and any shell may set it:
/// what is done inside would harm the machine.
fn is_inside() -> bool {
    std::process::id() == 1 && env::var_os(CGROUP).is_some()
}

/// The name of the cgroup that nodes have theirs below.
pub(super) fn cgroup() -> anyhow::Result<String> {
    ensure!(is_inside(), "not inside of a sandbox");
    env::var(CGROUP).context("not inside of a sandbox")
}

/// Removes the cgroups below that of a node, whose processes have been killed.
pub(super) fn remove_cgroups(node: &str) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    let name = format!("{}/{node}", cgroup()?);
    for hierarchy in fs::read_dir("/sys/fs/cgroup")? {
        let cgroup = hierarchy?.path().join(&name);
        if !cgroup.is_dir() {
            continue;
        }
        // Until the last process has ended.
        while let Err(error) = run(Command::new("find").arg(&cgroup).args([
            "-depth",
            "-mindepth",
            "1",
            "-type",
            "d",
            "-exec",
            "rmdir",
            "{}",
            "+",
        ])) {
            ensure!(Instant::now() < end, "{error}");
            thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Makes the directory of the cluster, and the bridge of its nodes.
pub(super) fn prepare() -> anyhow::Result<()> {
    cgroup()?;
    for line in [
        format!("mount -t tmpfs -o mode=755 tmpfs {ROOT}"),
        "ip link set lo up".to_owned(),
        "ip link add nodes type bridge".to_owned(),
        format!("ip address add {GATEWAY}/24 dev nodes"),
        format!("ip address add {GATEWAY6}/64 dev nodes nodad"),
        "ip link set nodes up".to_owned(),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        run(Command::new(words[0]).args(&words[1..]))?;
    }
    let hierarchies = format!("{ROOT}/hierarchies");
    run(Command::new("sh").args(["-c", NET_CLS, "sh", &hierarchies]))?;
    Ok(())
}
