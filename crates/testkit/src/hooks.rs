//! What the kernel has that tests run on.

use std::sync::LazyLock;

/// The first kernel with tcx hooks.
const TCX_SINCE: (u32, u32) = (6, 6);
/// The first kernel with GSO packets of more than 64 KiB, of IPv6.
const BIG_TCP_SINCE: (u32, u32) = (5, 19);

/// Returns true if the kernel's version has tcx hooks; if not, a line says that tests with them are skipped.
pub fn has_tcx() -> bool {
    static HAS_TCX: LazyLock<bool> = LazyLock::new(|| has("tcx hooks", TCX_SINCE));
    *HAS_TCX
}

/// Returns true if the kernel's version has BIG TCP; if not, a line says that tests with it are skipped.
pub fn has_big_tcp() -> bool {
    static HAS_BIG_TCP: LazyLock<bool> = LazyLock::new(|| has("BIG TCP", BIG_TCP_SINCE));
    *HAS_BIG_TCP
}

fn has(what: &str, since: (u32, u32)) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let has = version(&release).is_none_or(|version| version >= since);
    if !has {
        let (major, minor) = since;
        eprintln!("skipped: kernel {release} has no {what}, which came with {major}.{minor}");
    }
    has
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
