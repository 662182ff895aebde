//! What etcd holds once a server is ready, and how to get back there.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use crate::{Etcd, Operation};

/// Keys that kube-apiserver itself renews: its identity.
const VOLATILE: [&str; 3] = [
    "/registry/leases/kube-system/apiserver-",
    "/registry/peerserverleases/",
    "/registry/masterleases/",
];
/// Keys whose changes kube-apiserver follows with a delay that it does not show.
const DELAYED: [&str; 3] = [
    "/registry/apiextensions.k8s.io/",
    "/registry/apiregistration.k8s.io/",
    "/registry/admissionregistration.k8s.io/",
];
/// The number of operations that etcd takes in a transaction (its default is 128).
const OPERATIONS: usize = 100;
/// The number of changed objects above which a new server is ready sooner.
const MOST: usize = 10_000;

/// All objects of a server at one moment.
pub(crate) struct Baseline {
    objects: BTreeMap<String, Object>,
}

struct Object {
    revision: i64,
    /// Base64.
    value: String,
}

/// How a server got back to its baseline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// Everything is as it was.
    Done,
    /// kube-apiserver needs time to follow, of which it gives no sign, or more than a new server needs to start:
    /// take another server.
    Replace,
}

impl Baseline {
    /// Reads all objects.
    ///
    /// # Errors
    /// Returns an error if etcd does not answer.
    pub(crate) async fn take(etcd: &Etcd) -> anyhow::Result<Self> {
        let mut objects = BTreeMap::new();
        for pair in range(etcd, false).await? {
            let (key, object) = pair.object()?;
            if !is_one_of(&key, &VOLATILE) {
                objects.insert(key, object);
            }
        }
        Ok(Self { objects })
    }

    /// Deletes what has come since, puts back what changed, and reads everything again to verify it.
    ///
    /// # Errors
    /// Returns an error if etcd does not answer, or if an object is not as it was afterwards.
    pub(crate) async fn restore(&mut self, etcd: &Etcd) -> anyhow::Result<Reset> {
        let mut operations = Vec::new();
        let mut unseen: BTreeMap<&String, &Object> = self.objects.iter().collect();
        for pair in range(etcd, true).await? {
            let (key, now) = pair.object()?;
            if is_one_of(&key, &VOLATILE) {
                continue;
            }
            let before = unseen.remove(&key);
            if before.is_some_and(|before| before.revision == now.revision) {
                continue;
            }
            if is_one_of(&key, &DELAYED) {
                return Ok(Reset::Replace);
            }
            operations.push(match before {
                Some(before) => Operation::put_encoded(&key, &before.value),
                None => Operation::delete(&key),
            });
        }
        if unseen.keys().any(|key| is_one_of(key, &DELAYED)) {
            return Ok(Reset::Replace);
        }
        let missing = unseen.iter();
        operations.extend(missing.map(|(key, it)| Operation::put_encoded(key, &it.value)));
        if operations.is_empty() {
            return Ok(Reset::Done);
        }
        if operations.len() > MOST {
            return Ok(Reset::Replace);
        }
        for some in operations.chunks(OPERATIONS) {
            etcd.transact(some).await?;
        }
        let now = Self::take(etcd).await?;
        self.compare(&now)?;
        *self = now;
        Ok(Reset::Done)
    }

    fn compare(&self, now: &Self) -> anyhow::Result<()> {
        for (key, before) in &self.objects {
            let now = now.objects.get(key);
            let now = now.with_context(|| format!("{key} is missing after the reset"))?;
            ensure!(now.value == before.value, "{key} differs after the reset");
        }
        for key in now.objects.keys() {
            if !self.objects.contains_key(key) {
                bail!("{key} exists after the reset");
            }
        }
        Ok(())
    }
}

fn is_one_of(key: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// A pair as the gateway has it.
#[derive(Deserialize)]
struct Pair {
    key: String,
    mod_revision: String,
    #[serde(default)]
    value: String,
}

impl Pair {
    fn object(self) -> anyhow::Result<(String, Object)> {
        let key = String::from_utf8(STANDARD.decode(&self.key)?)?;
        let object = Object {
            revision: self.mod_revision.parse()?,
            value: self.value,
        };
        Ok((key, object))
    }
}

async fn range(etcd: &Etcd, keys_only: bool) -> anyhow::Result<Vec<Pair>> {
    #[derive(Deserialize)]
    struct Range {
        #[serde(default)]
        kvs: Vec<Pair>,
    }
    let body = json!({
        "key": STANDARD.encode("/registry/"),
        // The first key behind all that begin so.
        "range_end": STANDARD.encode("/registry0"),
        "keys_only": keys_only,
    });
    Ok(etcd.call::<Range>("range", &body).await?.kvs)
}
