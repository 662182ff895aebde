//! Requests to the API server during an ADD.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Who;
use super::testbed::{KINDS, Testbed};

/// The time after ADD in which requests count: the agent writes `network-status` once, after the ADD.
const AFTERWARDS: Duration = Duration::from_secs(6);

/// The requests for pods with this number of networks beside the default one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    pub networks: usize,
    /// Of ADD, and until six seconds behind it: by the agent.
    pub multinet: BTreeMap<String, usize>,
    /// The same by Multus.
    pub thin: BTreeMap<String, usize>,
    /// Of Multus' DEL.
    pub thin_del: BTreeMap<String, usize>,
}

/// Counts the requests for pods with one, two and three networks.
pub fn measure(testbed: &Testbed) -> Result<Vec<Requests>> {
    let mut all = Vec::new();
    for kind in ["bridge", "two", "three"] {
        let networks = KINDS
            .iter()
            .find(|it| it.0 == kind)
            .map_or(0, |it| it.1.len());
        let pod = &testbed.pods[kind];
        let counted = |who| -> Result<_> {
            let sandbox = testbed.node.empty_pod("counted")?;
            let client = testbed.client_of(who);
            // Behind those of the pods before.
            thread::sleep(AFTERWARDS);
            let before = testbed.requests(client).len();
            testbed.call(who, "ADD", &sandbox, pod)?;
            thread::sleep(AFTERWARDS);
            let of_add = count(testbed, client, before);
            let before = testbed.requests(client).len();
            testbed.call(who, "DEL", &sandbox, pod)?;
            let of_del = count(testbed, client, before);
            testbed.node.remove_pod(sandbox)?;
            Ok((of_add, of_del))
        };
        let (multinet, _) = counted(Who::Multinet)?;
        let (thin, thin_del) = counted(Who::Thin)?;
        all.push(Requests {
            networks,
            multinet,
            thin,
            thin_del,
        });
    }
    Ok(all)
}

/// The requests of a client behind the first ones, by verb and resource. Leases and watches are those of no pod.
fn count(testbed: &Testbed, client: &str, before: usize) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for request in testbed.requests(client).iter().skip(before) {
        if request.verb != "watch" && request.resource != "leases" {
            let what = format!("{} {}", request.verb, request.qualified_resource());
            *counted.entry(what).or_default() += 1;
        }
    }
    counted
}
