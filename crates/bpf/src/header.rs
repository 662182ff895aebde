//! What a header of the programs says, for tests that Rust says the same.

use std::collections::BTreeMap;

/// A header's text.
pub(crate) struct Header(pub(crate) &'static str);

impl Header {
    /// What a macro stands for.
    pub(crate) fn macro_text(&self, name: &str) -> &'static str {
        let mut lines = self.0.lines();
        let text = lines.find_map(|line| {
            let rest = line.strip_prefix("#define ")?.strip_prefix(name)?;
            rest.strip_prefix(' ')
        });
        let text = text.unwrap_or_else(|| panic!("there is no {name}"));
        text.split("/*").next().unwrap_or_default().trim()
    }

    /// The number that a macro stands for.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let text = self.macro_text(name);
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.unwrap_or_else(|why| panic!("{name} is {text}: {why}"))
    }

    /// What it asserts of a struct: the places of its fields, and by no name its size.
    pub(crate) fn layout(&self, of: &str) -> BTreeMap<&'static str, usize> {
        let asserted = self.0.lines();
        let asserted = asserted.filter_map(|line| line.strip_prefix("_Static_assert("));
        let of_it = asserted.filter_map(|text| {
            let (what, number) = text.split_once(") == ")?;
            let (_, named) = what.split_once("struct ")?;
            let (name, field) = named.split_once(", ").unwrap_or((named, ""));
            let number = number.split(',').next()?.parse().ok()?;
            (name == of).then_some((field, number))
        });
        of_it.collect()
    }
}

/// The same of a type of ours.
macro_rules! layout {
    ($kind:ty $(, $field:ident)*) => {
        std::collections::BTreeMap::from([
            ("", size_of::<$kind>()),
            $((stringify!($field), std::mem::offset_of!($kind, $field)),)*
        ])
    };
}
pub(crate) use layout;
