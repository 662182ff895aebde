//! One copy of each string that many objects hold: names of namespaces, keys and values of labels.

use std::sync::Arc;

use netqos_core::Labels;

use crate::hash::HashSet;

/// The strings in use.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    strings: HashSet<Arc<str>>,
    /// When there are this many, those that nobody else holds are let go.
    sweep_at: usize,
}

impl Interner {
    /// The one copy of this string.
    pub(crate) fn string(&mut self, string: &mut Arc<str>) {
        if let Some(known) = self.strings.get(string) {
            *string = known.clone();
            return;
        }
        if self.strings.len() >= self.sweep_at {
            self.strings.retain(|string| Arc::strong_count(string) > 1);
            self.sweep_at = (2 * self.strings.len()).max(1024);
        }
        self.strings.insert(string.clone());
    }

    /// These labels, of strings of which there is one copy.
    pub(crate) fn labels(&mut self, labels: &mut Labels) {
        *labels = std::mem::take(labels)
            .into_iter()
            .map(|(mut key, mut value)| {
                self.string(&mut key);
                self.string(&mut value);
                (key, value)
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_are_one_and_forgotten_ones_go() {
        let mut interner = Interner::default();
        let [mut one, mut two]: [Arc<str>; 2] = ["web".into(), "web".into()];
        interner.string(&mut one);
        interner.string(&mut two);
        assert!(Arc::ptr_eq(&one, &two));

        for index in 0..10_000 {
            interner.string(&mut format!("{index}").into());
        }
        assert!(interner.strings.len() < 2_000);
        let mut three: Arc<str> = "web".into();
        interner.string(&mut three);
        assert!(Arc::ptr_eq(&one, &three));
    }
}
