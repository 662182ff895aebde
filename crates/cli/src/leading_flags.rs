//! Flags of a cluster that stand before the command, as kubectl's may: `kubectl netqos -n games status`.

use std::ffi::OsString;

/// Flags with a value.
const WITH_VALUE: [&str; 4] = ["-n", "--namespace", "--kubeconfig", "--context"];
/// A flag whose value, if any, stands behind `=`.
const ALONE: &str = "--cluster";

/// The arguments with the flags that stand before the command moved behind it, where the command, or a
/// command of it, has them. The first argument is the program.
pub fn moved(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter().peekable();
    let mut moved: Vec<OsString> = arguments.next().into_iter().collect();
    let mut leading = Vec::new();
    while let Some(text) = arguments.peek().and_then(|it| it.to_str()) {
        let takes_next = WITH_VALUE.contains(&text);
        if !takes_next && !is_whole(text) {
            break;
        }
        let count = if takes_next { 2 } else { 1 };
        leading.extend(arguments.by_ref().take(count));
    }
    let rest: Vec<OsString> = arguments.collect();
    if rest.is_empty() {
        moved.extend(leading);
        return moved;
    }
    // What stands behind `--` is no flag.
    let end = rest.iter().position(|it| it == "--").unwrap_or(rest.len());
    moved.extend_from_slice(&rest[..end]);
    moved.extend(leading);
    moved.extend_from_slice(&rest[end..]);
    moved
}

/// Returns true for a flag with its value in one argument: `-ngames`, `--context=a`, `--cluster`.
fn is_whole(text: &str) -> bool {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    name == ALONE
        || (text.contains('=') && WITH_VALUE.contains(&name))
        || (text.starts_with("-n") && text.len() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_flags_move_behind_the_command() {
        for (given, right) in [
            ("status", "status"),
            ("-n games status --wait", "status --wait -n games"),
            ("-ngames status", "status -ngames"),
            (
                "--context=a --cluster -n=b describe pod web",
                "describe pod web --context=a --cluster -n=b",
            ),
            ("--kubeconfig f check -- x", "check --kubeconfig f -- x"),
            // Others are not ours to move, and the parser says so.
            ("--wait -n games status", "--wait -n games status"),
            ("status -n games", "status -n games"),
            ("-n", "-n"),
            ("--help", "--help"),
            ("", ""),
        ] {
            let words = |text: &str| -> Vec<OsString> {
                let all = std::iter::once("netqos").chain(text.split_whitespace());
                all.map(OsString::from).collect()
            };
            assert_eq!(moved(words(given)), words(right), "{given}");
        }
    }
}
