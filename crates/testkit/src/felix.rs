//! What Calico does to the qdiscs of a pod.

use std::collections::BTreeSet;

use anyhow::Result;
use netqos_api::calico_ifb_name;

use crate::{Node, Pod};

/// Felix, of Calico 3.30 and later, at an update of a pod's endpoint. It makes the requests of its `dataplane/linux/qos`, in
/// their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Felix {
    /// The pod's ingress limit, as `tc` writes a rate.
    pub ingress: Option<&'static str>,
    /// Its egress limit.
    pub egress: Option<&'static str>,
}

impl Felix {
    /// Updates a pod's endpoint.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a request, as Felix' log would.
    pub fn update(&self, node: &Node, pod: &Pod) -> Result<()> {
        let link = pod.host_link();
        match self.ingress {
            Some(rate) => limit(node, link, rate)?,
            None => {
                for parent in parents_of_tbfs(node, link)? {
                    let delete: Vec<&str> = ["qdisc", "delete", "dev", link]
                        .into_iter()
                        .chain(parent.split(' '))
                        .collect();
                    node.run("tc", &delete)?;
                }
            }
        }
        let Some(rate) = self.egress else {
            return Ok(());
        };
        let ifb = calico_ifb_name(link);
        if node.run("ip", &["link", "show", &ifb]).is_err() {
            node.run("ip", &["link", "add", &ifb, "type", "ifb"])?;
            node.run("ip", &["link", "set", &ifb, "up"])?;
        }
        let qdiscs = node.run("tc", &["qdisc", "show", "dev", link])?;
        if !qdiscs.contains("qdisc ingress ") {
            let replace = [
                "qdisc", "replace", "dev", link, "handle", "ffff:", "ingress",
            ];
            node.run("tc", &replace)?;
        }
        let parent = ["dev", link, "parent", "ffff:"];
        let filters = node.run("tc", &[&["filter", "show"], &parent[..]].concat())?;
        let preferences = filters.lines().filter(|line| line.contains(" u32 "));
        let preferences =
            preferences.filter_map(|line| line.split("pref ").nth(1)?.split(' ').next());
        for preference in preferences.collect::<BTreeSet<_>>() {
            let delete = [&["filter", "delete"], &parent[..], &["pref", preference]];
            node.run("tc", &delete.concat())?;
        }
        let redirect = [
            "pref", "1", "protocol", "all", "u32", "match", "u32", "0", "0", "action", "mirred",
            "egress", "redirect", "dev", &ifb,
        ];
        node.run("tc", &[&["filter", "add"], &parent[..], &redirect].concat())?;
        limit(node, &ifb, rate)
    }

    /// Deletes what limits the pod's egress, as when its annotation goes.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a request.
    pub fn end(&self, node: &Node, pod: &Pod) -> Result<()> {
        node.run("ip", &["link", "delete", &calico_ifb_name(pod.host_link())])?;
        let delete = ["qdisc", "delete", "dev", pod.host_link(), "ingress"];
        node.run("tc", &delete).map(drop)
    }
}

fn limit(node: &Node, link: &str, rate: &str) -> Result<()> {
    let tbf = [
        "handle", "1:", "tbf", "rate", rate, "burst", "64kb", "limit", "128kb",
    ];
    let replace = [&["qdisc", "replace", "dev", link, "root"], &tbf[..]];
    node.run("tc", &replace.concat()).map(drop)
}

/// Where the TBFs of a link are, as `tc` writes it: `root`, or `parent 1:1`.
fn parents_of_tbfs(node: &Node, link: &str) -> Result<Vec<String>> {
    let qdiscs = node.run("tc", &["qdisc", "show", "dev", link])?;
    let tbfs = qdiscs.lines().filter(|line| line.starts_with("qdisc tbf "));
    let parents = tbfs.map(|line| {
        let mut words = line.split(' ').skip(3);
        match words.next() {
            Some("parent") => format!("parent {}", words.next().unwrap_or_default()),
            _ => "root".to_owned(),
        }
    });
    Ok(parents.collect())
}
