//! `CNI_ARGS`: pairs that the user or the runtime hands to the plugin.

/// What `CNI_ARGS` said: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;IgnoreUnknown=1`.
///
/// Deprecated in favour of `runtimeConfig`, and still how runtimes say which pod it is. A part
/// without `=` is not a pair and is left out; whoever minds reads [`CniArgs::text`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CniArgs {
    text: String,
}

impl CniArgs {
    /// From the variable's value.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// The variable's value.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The pairs, in their order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.split(';').filter_map(|pair| pair.split_once('='))
    }

    /// The value of a key: of several, the last.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs()
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| value)
            .last()
    }

    /// True when keys that the plugin does not know are not to be an error.
    pub fn ignore_unknown(&self) -> bool {
        self.get("IgnoreUnknown")
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_are_read_as_runtimes_write_them() {
        let args = CniArgs::new("IgnoreUnknown=1;K8S_POD_NAME=web;broken;URL=a=b;K8S_POD_NAME=api");
        assert!(args.ignore_unknown());
        assert_eq!(args.get("K8S_POD_NAME"), Some("api"));
        assert_eq!(args.get("URL"), Some("a=b"));
        assert_eq!(args.get("broken"), None);
        assert!(!CniArgs::new("").ignore_unknown());
        assert!(!CniArgs::new("IgnoreUnknown=0").ignore_unknown());
    }

    proptest! {
        #[test]
        fn pairs_round_trip(pairs in proptest::collection::vec(("[A-Z_]{1,9}", "[a-z=]{0,9}"), 0..5)) {
            let text: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let args = CniArgs::new(text.join(";"));
            let read: Vec<_> = args.pairs().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            prop_assert_eq!(read, pairs);
        }
    }
}
