//! The ConfigMap `slo-controller-config`, and what of it counts.

use std::collections::BTreeMap;

use netqos_api::koordinator::{Mistake, SloConfig};

/// What the ConfigMap says, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The last that could be followed; `None` as long as none was seen. A key that cannot be read does
    /// not change what it said before.
    good: Option<SloConfig>,
    /// The ConfigMap's uid, also once it is gone.
    uid: String,
    wrong: Wrong,
}

/// What is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    /// What cannot be read, by its path.
    pub(super) unreadable: Vec<Mistake>,
    /// What can, and no line could keep.
    pub(super) contradictions: Vec<Mistake>,
    /// What is followed, and hardly meant.
    pub(super) warnings: Vec<Mistake>,
    /// It is gone, and was in use.
    pub(super) is_gone: bool,
}

impl Source {
    /// It is there, or has changed.
    pub(super) fn there(&mut self, uid: &str, data: &BTreeMap<String, String>) {
        uid.clone_into(&mut self.uid);
        let mut config = self.good.clone().unwrap_or_default();
        let unreadable = config.update(data).err().unwrap_or_default();
        self.wrong = Wrong {
            contradictions: config.contradictions(),
            warnings: config.warnings(),
            is_gone: false,
            unreadable,
        };
        // Of a key that has been wrong since this process began nobody knows what it said before: what
        // nodes were told then stays.
        if self.good.is_some() || self.wrong.unreadable.is_empty() {
            self.good = Some(config);
        }
    }

    /// It is gone: what it said last stays.
    pub(super) fn gone(&mut self) {
        self.wrong = Wrong {
            is_gone: self.good.is_some(),
            ..Wrong::default()
        };
    }

    /// What counts.
    pub(super) fn good(&self) -> Option<&SloConfig> {
        self.good.as_ref()
    }

    pub(super) fn wrong(&self) -> &Wrong {
        &self.wrong
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }
}

impl Wrong {
    /// True where it says nothing that cannot be followed.
    pub(super) const fn is_followed(&self) -> bool {
        self.unreadable.is_empty() && self.contradictions.is_empty() && !self.is_gone
    }

    /// Each kind of what is wrong, with how often it is and in words. The kinds are always the same.
    pub(super) fn said(&self) -> [(&'static str, usize, String); 4] {
        let gone = "it is gone: every node keeps what it was told last, and nodes that come are \
                    told nothing once this process ends. Write it again; to share lines no more, set netQOSPolicy to none in it";
        [
            (
                "SLOConfigUnreadable",
                self.unreadable.len(),
                told(&self.unreadable),
            ),
            (
                "SLOConfigContradicts",
                self.contradictions.len(),
                told(&self.contradictions),
            ),
            ("SLOConfigWarned", self.warnings.len(), told(&self.warnings)),
            ("SLOConfigGone", self.is_gone.into(), gone.to_owned()),
        ]
    }
}

/// Mistakes in words.
pub(super) fn told(mistakes: &[Mistake]) -> String {
    let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use netqos_api::koordinator::{RESOURCE_QOS, SYSTEM};

    use super::*;

    fn data(resources: &str, system: &str) -> BTreeMap<String, String> {
        [(RESOURCE_QOS, resources), (SYSTEM, system)]
            .map(|(key, text)| (key.to_owned(), text.to_owned()))
            .into()
    }

    const TOTAL: &str = r#"{"clusterStrategy": {"totalNetworkBandwidth": "1000M"}}"#;
    const BE: &str = r#"{"clusterStrategy": {"beClass": {"networkQOS": {"egressRequest": 10}}}}"#;

    #[test]
    fn what_was_good_stays_until_something_better_comes() {
        let mut source = Source::default();
        source.gone();
        assert_eq!((source.good(), source.wrong()), (None, &Wrong::default()));
        source.there("1", &data(BE, TOTAL));
        let good = source.good().cloned();
        assert!(good.is_some());
        assert_eq!(source.wrong(), &Wrong::default());
        source.there("1", &data("{", TOTAL));
        assert_eq!(source.good().cloned(), good);
        assert_eq!(source.wrong().said()[0].1, 1);
        // The other key counts.
        source.there("1", &data("{", "{}"));
        assert_ne!(source.good().cloned(), good);
        source.there("1", &data(BE, TOTAL));
        source.gone();
        assert_eq!(source.good().cloned(), good);
        assert!(source.wrong().is_gone);
        assert_eq!(source.uid(), "1");
    }

    /// After a restart nobody knows what a key said before it became wrong.
    #[test]
    fn what_was_wrong_from_the_beginning_is_not_followed_in_part() {
        let mut source = Source::default();
        source.there("1", &data("{", TOTAL));
        assert_eq!(source.good(), None);
        source.there("1", &data(BE, TOTAL));
        assert!(source.good().is_some());
    }

    #[test]
    fn a_contradiction_is_told_and_is_for_each_node_to_find() {
        let mut source = Source::default();
        let both = r#"{"clusterStrategy": {
            "lsClass": {"networkQOS": {"egressRequest": 90}},
            "beClass": {"networkQOS": {"egressRequest": 20}}}}"#;
        source.there("1", &data(both, TOTAL));
        let [unreadable, contradictions, warned, _] = source.wrong().said();
        assert_eq!((unreadable.1, contradictions.1, warned.1), (0, 1, 0));
        assert!(!source.wrong().is_followed());
        assert!(contradictions.2.contains("egress"), "{}", contradictions.2);
        assert!(source.good().is_some());
        let limited =
            r#"{"clusterStrategy": {"systemClass": {"networkQOS": {"egressLimit": 50}}}}"#;
        source.there("1", &data(limited, TOTAL));
        // It is followed.
        let [_, (_, contradictions, _), (reason, many, said), _] = source.wrong().said();
        assert_eq!((contradictions, reason, many), (0, "SLOConfigWarned", 1));
        assert!(source.wrong().is_followed());
        assert!(
            said.contains("systemClass.networkQOS.egressLimit: is not kept"),
            "{said}"
        );
        // A rate above its limit is so on every line.
        let above = r#"{"clusterStrategy": {
            "beClass": {"networkQOS": {"egressRequest": "80M", "egressLimit": "70M"}}}}"#;
        source.there("1", &data(above, "{}"));
        let [_, (_, many, said), ..] = source.wrong().said();
        assert_eq!(many, 1);
        let says = "best-effort: a request of 80 Mbit/s is above the limit of 70 Mbit/s";
        assert!(said.ends_with(says), "{said}");
    }
}
