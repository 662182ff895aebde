//! The annotation `netqos.io/mode`.

use std::collections::BTreeSet;

use netqos_core::Mode;

/// Which rules of an object are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Modes {
    /// All of them.
    #[default]
    Enforce,
    /// None: all only count.
    Shadow,
    /// All but these, by their places in `spec.egress` from 0.
    ShadowOf(BTreeSet<usize>),
}

impl Modes {
    /// Reads `enforce`, `shadow`, or `shadow:0,2`, for an object of so many rules.
    ///
    /// # Errors
    /// What is wrong, in words. A rule that does not exist is an error: whoever wrote it means
    /// another one, which would be in force.
    pub fn parse(text: &str, rules: usize) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is neither \"enforce\" nor \"shadow\" nor rules such as \"shadow:0,2\""
            )
        };
        match text.trim() {
            "enforce" => return Ok(Self::Enforce),
            "shadow" => return Ok(Self::Shadow),
            _ => {}
        }
        let (word, list) = text.trim().split_once(':').ok_or_else(wrong)?;
        if word.trim() != "shadow" {
            return Err(wrong());
        }
        let mut shadowed = BTreeSet::new();
        for index in list.split(',') {
            let index = index.trim();
            let digits = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
            let index: usize = index.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
            if index >= rules {
                return Err(format!(
                    "{text:?}: there is no rule {index}; the first is 0, and there are {rules}"
                ));
            }
            shadowed.insert(index);
        }
        Ok(Self::ShadowOf(shadowed))
    }

    /// The mode of the rule at this place.
    pub fn of(&self, rule: usize) -> Mode {
        let shadowed = match self {
            Self::Enforce => false,
            Self::Shadow => true,
            Self::ShadowOf(rules) => rules.contains(&rule),
        };
        if shadowed {
            Mode::Shadow
        } else {
            Mode::Enforce
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_rules_may_be_in_shadow() {
        let modes = Modes::parse("shadow:0, 2", 3).unwrap();
        assert_eq!(
            [0, 1, 2].map(|rule| modes.of(rule)),
            [Mode::Shadow, Mode::Enforce, Mode::Shadow]
        );
        assert_eq!(Modes::parse("enforce", 1), Ok(Modes::Enforce));
        assert_eq!(Modes::parse("shadow", 1), Ok(Modes::Shadow));
        for wrong in [
            "",
            "Shadow",
            "shadow:",
            "shadow:0,",
            "shadow:+1",
            "shadow:-1",
            "shadow:3",
            "on",
            "enforce:0",
            "shadow:99999999999999999999",
        ] {
            let message = Modes::parse(wrong, 3).unwrap_err();
            assert!(message.contains(&format!("{wrong:?}")), "{message}");
        }
    }
}
