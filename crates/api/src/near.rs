//! Names that are likely meant.

/// The length from which a name is long: two letters of it may be wrong.
const LONG: usize = 8;

/// The name of these that a text, which is none of them, is likely meant to be: one letter of it is wrong, or two of a
/// long one that begins alike. The case of letters does not count.
pub fn near<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let first = |text: &str| text.chars().next().map(|it| it.to_ascii_lowercase());
    let near = names.into_iter().filter_map(|name| {
        let is_other = first(text) != first(name);
        let most = if name.len() >= LONG && !is_other {
            2
        } else {
            1
        };
        let distance = distance(text, name);
        (distance <= most).then_some((distance, is_other, name))
    });
    near.min().map(|(.., name)| name)
}

/// The number of letters to insert, to delete or to replace to make one text of the other
/// (Levenshtein), whatever their case.
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_ascii_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.to_ascii_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, expected) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *expected);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn name_is_near_by_one_letter_or_two_of_a_long_one() {
        let names = [
            "ingress-burst",
            "egress-burst",
            "enable",
            "ingress-bandwidth",
            "egress-bandwidth",
        ];
        for (text, name) in [
            ("egress-brust", Some("egress-burst")),
            ("igress-bandwidth", Some("ingress-bandwidth")),
            ("Egress-Burst", Some("egress-burst")),
            ("enabel", None),
            ("enabled", Some("enable")),
            ("xgress-brust", None),
            ("", None),
            ("bandwidth", None),
        ] {
            assert_eq!(near(text, names), name, "{text}");
        }
    }
}
