//! Which kernel this is, for what cannot be found out without doing harm.

use rustix::system::uname;

/// True from this version on.
pub(crate) fn is_at_least(major: u32, minor: u32) -> bool {
    is_release_at_least(&uname().release().to_string_lossy(), (major, minor))
}

fn is_release_at_least(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        for (release, is_newer) in [
            ("5.7.0", true),
            ("5.10.0-28-amd64", true),
            ("6.1", true),
            ("5.6.19", false),
            ("4.19.0-26-amd64", false),
            ("5", false),
            ("custom", false),
        ] {
            assert_eq!(is_release_at_least(release, (5, 7)), is_newer, "{release}");
        }
    }
}
