//! The version, commit and dirty state of a build.
//!
//! Only packages with executables depend on this crate, as a new commit rebuilds it. A debug build names
//! no commit, so that tests are not rebuilt for each commit, unless `NETQOS_BUILD_COMMIT` does.
#![forbid(unsafe_code)]

/// The version with the build: `0.1.0+3d7f3e0ab12c`, `0.1.0+3d7f3e0ab12c.dirty` if the sources had
/// uncommitted changes, `0.1.0+unknown` if git was absent, `0.1.0` for a debug build.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("NETQOS_BUILD"));

/// The release, without the build: `0.1.0`.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The build: `3d7f3e0ab12c`, `3d7f3e0ab12c.dirty`, `unknown`, or empty for a debug build.
pub const fn commit() -> &'static str {
    match env!("NETQOS_BUILD").split_at_checked(1) {
        Some((_plus, commit)) => commit,
        None => "",
    }
}
