use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=git.rs");
    println!("cargo::rerun-if-env-changed=NETQOS_BUILD_COMMIT");
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = variable("NETQOS_BUILD_COMMIT");
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let build = match named {
        Some(commit) => build(&commit),
        None if is_release => {
            // The sources, too: whether they have uncommitted changes.
            for path in watched(&root) {
                println!("cargo::rerun-if-changed={path}");
            }
            build(commit(&root).as_deref().unwrap_or("unknown"))
        }
        None => String::new(),
    };
    println!("cargo::rustc-env=NETQOS_BUILD={build}");
}

/// The build metadata of a version: `+3d7f3e0ab12c.dirty`. Other characters have no place in a version.
fn build(commit: &str) -> String {
    let allowed = |letter: &char| letter.is_ascii_alphanumeric() || "-.".contains(*letter);
    let commit: String = commit.chars().filter(allowed).take(64).collect();
    format!("+{commit}")
}

/// The commit that is checked out at `root`, and whether the sources differ from it. `None`: git is
/// absent, or `root` is not the root of a repository.
fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    let is_root = Path::new(&top).canonicalize().ok() == root.canonicalize().ok();
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"]).filter(|_| is_root)?;
    let changes = git(root, &["status", "--porcelain"])?;
    Some(match changes.is_empty() {
        true => commit,
        false => format!("{commit}.dirty"),
    })
}

/// The files that say which commit is checked out, and the sources.
fn watched(root: &Path) -> Vec<String> {
    let of_git = |name: &str| git(root, &["rev-parse", "--git-path", name]);
    let branch = git(root, &["symbolic-ref", "-q", "HEAD"]);
    let files = [of_git("HEAD"), branch.and_then(|branch| of_git(&branch))];
    let sources = ["Cargo.toml", "Cargo.lock", "crates"].map(|name| Some(name.to_owned()));
    let all = files.into_iter().chain(sources).flatten();
    // A file that is absent would run this script each time.
    let all = all.map(|name| root.join(name)).filter(|path| path.exists());
    all.map(|path| path.display().to_string()).collect()
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}
