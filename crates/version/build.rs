//! Takes the commit from `NETQOS_BUILD_COMMIT`, or from git for a release build.

// A file of its own, which the tests include.
include!("git.rs");
