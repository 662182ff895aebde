//! The names of slices: the name of their set, and the smallest number that is free.

use netqos_core::plan::SetId;

/// What stands before the set's name.
const PREFIX: &str = "peers-";

/// The number of the slice that is there as long as its set is named.
pub(super) const HEAD: u32 = 0;

pub(super) fn of(set: SetId, number: u32) -> String {
    format!("{PREFIX}{}-{number}", set.0)
}

/// The name of the slice that says, by being there, that this set is published as a whole, empty or
/// not.
pub fn head_name(set: SetId) -> String {
    of(set, HEAD)
}

/// The set and the number that a name is made of.
pub(super) fn parse(name: &str) -> Option<(SetId, u32)> {
    let (set, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let (set, number) = (SetId(set.parse().ok()?), number.parse().ok()?);
    (of(set, number) == name).then_some((set, number))
}

#[cfg(test)]
mod tests {
    use netqos_core::Digest;

    use super::*;

    #[test]
    fn a_name_says_the_set_and_the_number_and_nothing_else_is_one() {
        let set = SetId(Digest::of(&"a"));
        for number in [0, 7, u32::MAX] {
            assert_eq!(parse(&of(set, number)), Some((set, number)));
        }
        let name = of(set, 7);
        for wrong in [
            name.replace("-7", "-07"),
            name.replace("-7", "-+7"),
            name.replace("-7", "-"),
            name.replace("-7", "-4294967296"),
            name.replace("peers", "peer"),
            format!("{name}-8"),
        ] {
            assert_eq!(parse(&wrong), None, "{wrong}");
        }
    }
}
