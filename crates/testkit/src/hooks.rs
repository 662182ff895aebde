//! Hooks of the kernel that tests run on.

use std::sync::LazyLock;

/// The first kernel with tcx hooks.
const TCX_SINCE: (u32, u32) = (6, 6);

/// Returns true if the kernel's version has tcx hooks; if not, a line says that tests with them are skipped.
pub fn has_tcx() -> bool {
    static HAS_TCX: LazyLock<bool> = LazyLock::new(|| {
        let uname = rustix::system::uname();
        let release = uname.release().to_string_lossy().into_owned();
        let has_tcx = version(&release).is_none_or(|version| version >= TCX_SINCE);
        if !has_tcx {
            eprintln!("skipped: kernel {release} has no tcx hooks, which came with 6.6");
        }
        has_tcx
    });
    *HAS_TCX
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
