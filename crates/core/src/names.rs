//! Lists of names in messages.

use std::fmt::Display;

/// The names that a message lists.
pub const LISTED_NAMES: usize = 5;

/// Lists the first names, as many as `most`, and counts the others: `a, b, c, d, e, and 2 more`.
pub fn list_names(names: impl IntoIterator<Item = impl Display>, most: usize) -> String {
    let mut names = names.into_iter();
    let first: Vec<String> = names.by_ref().take(most).map(|it| it.to_string()).collect();
    let first = first.join(", ");
    match names.count() {
        0 => first,
        more => format!("{first}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_many_names_counts_the_others() {
        for (many, expected) in [
            (0, ""),
            (1, "n1"),
            (5, "n1, n2, n3, n4, n5"),
            (6, "n1, n2, n3, n4, n5, and 1 more"),
            (5000, "n1, n2, n3, n4, n5, and 4995 more"),
        ] {
            let names = (1..=many).map(|number| format!("n{number}"));
            assert_eq!(list_names(names, LISTED_NAMES), expected);
        }
    }
}
