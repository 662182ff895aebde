//! etcd by its JSON gateway, in which integers of 64 bits are texts, and bytes Base64.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A client of etcd, which repeats no request by itself.
#[derive(Clone)]
pub struct Etcd(Client);

/// An operation of a transaction.
#[derive(Clone, Debug, Serialize)]
pub struct Operation(Value);

impl Operation {
    /// Writes an object as JSON, which kube-apiserver reads as well as its own protobuf.
    pub fn put(key: &str, object: &Value) -> Self {
        Self::put_encoded(key, &STANDARD.encode(object.to_string()))
    }

    /// Writes a value that is Base64 already.
    pub(crate) fn put_encoded(key: &str, value: &str) -> Self {
        Self(json!({"requestPut": {"key": STANDARD.encode(key), "value": value}}))
    }

    /// Deletes a key.
    pub fn delete(key: &str) -> Self {
        Self(json!({"requestDeleteRange": {"key": STANDARD.encode(key)}}))
    }
}

impl Etcd {
    /// A client of the etcd that a port on loopback leads to.
    pub(crate) fn at(port: u16) -> anyhow::Result<Self> {
        let mut config = kube::Config::new(format!("http://127.0.0.1:{port}").parse()?);
        config.default_retry = false;
        Ok(Self(Client::try_from(config)?))
    }

    /// Does all operations, of which etcd takes 128 by default, or none.
    ///
    /// # Errors
    /// Returns an error if etcd does not answer, or refuses them.
    pub async fn transact(&self, operations: &[Operation]) -> anyhow::Result<()> {
        let _: Value = self.call("txn", &json!({"success": operations})).await?;
        Ok(())
    }

    pub(crate) async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        body: &Value,
    ) -> anyhow::Result<T> {
        let request = http::Request::post(format!("/v3/kv/{method}"));
        let request = request.body(serde_json::to_vec(body)?)?;
        let text = self.0.request_text(request).await;
        let text = text.with_context(|| format!("etcd refused {method}"))?;
        Ok(serde_json::from_str(&text)?)
    }
}
