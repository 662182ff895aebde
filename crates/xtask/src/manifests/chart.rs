//! The chart, rendered by Helm.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail, ensure};
use netqos_kubernetes::Binaries;
use serde_json::Value;

use crate::generated::root;

/// The directory of the chart.
pub const CHART: &str = "deploy/helm/netqos";
/// The namespace that the documents and the agent's defaults name.
pub const NAMESPACE: &str = "netqos-system";
/// The oldest supported Kubernetes, for which the chart is rendered.
const KUBERNETES: &str = "1.34.0";

/// The chart, with a cache of its renderings.
#[derive(Debug)]
pub struct Chart {
    helm: PathBuf,
    /// By values, as JSON.
    rendered: Mutex<BTreeMap<String, Arc<Rendered>>>,
}

/// The chart rendered with some values.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The text of each template that is not empty, by file name. Its documents are in the order in which
    /// Helm installs them.
    pub templates: BTreeMap<String, String>,
    /// The text of each CRD, by file name.
    pub crds: BTreeMap<String, String>,
}

impl Chart {
    /// Finds Helm. Builds it, which takes minutes, where neither the environment nor the cache has it.
    ///
    /// # Errors
    /// Returns an error if Helm cannot be built: see [`Binaries::tool`].
    pub fn find() -> anyhow::Result<Self> {
        Ok(Self {
            helm: Binaries::tool("helm")?,
            rendered: Mutex::default(),
        })
    }

    /// Renders the chart with these values put over its defaults, once for equal values.
    ///
    /// # Errors
    /// Returns an error with Helm's message if the schema refuses a value, or if a template fails.
    pub fn render(&self, values: &Value) -> anyhow::Result<Arc<Rendered>> {
        let key = values.to_string();
        let rendered = || self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = rendered().get(&key) {
            return Ok(known.clone());
        }
        let arguments = ["template", "--include-crds", "--kube-version", KUBERNETES];
        let new = Arc::new(sources(&self.helm(&arguments, values)?)?);
        rendered().insert(key, new.clone());
        Ok(new)
    }

    /// The objects of the templates, by kind and name, without CRDs.
    ///
    /// # Errors
    /// Returns an error as [`render`](Self::render) does, or if a template is not YAML.
    pub fn objects(&self, values: &Value) -> anyhow::Result<BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        for (file, text) in &self.render(values)?.templates {
            all.extend(objects(text).with_context(|| file.clone())?);
        }
        Ok(all)
    }

    /// The output of a command of Helm about a release of the chart with these values.
    ///
    /// # Errors
    /// Returns an error with Helm's message if the command fails.
    pub fn helm(&self, arguments: &[&str], values: &Value) -> anyhow::Result<String> {
        let mut helm = Command::new(&self.helm)
            .args(arguments)
            .args(["--namespace", NAMESPACE, "--values", "-", "netqos"])
            .arg(root().join(CHART))
            // The user's plugins must not matter.
            .env("HELM_NO_PLUGINS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot execute {}", self.helm.display()))?;
        // If Helm ends before it has read them, its message says why.
        let written = match helm.stdin.take() {
            Some(mut input) => input.write_all(values.to_string().as_bytes()),
            None => Ok(()),
        };
        let output = helm.wait_with_output()?;
        ensure!(
            output.status.success(),
            "cannot render the chart with {values}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        written.context("cannot write the values to Helm")?;
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Splits the output of `helm template` by the files of the chart.
fn sources(printed: &str) -> anyhow::Result<Rendered> {
    let mut rendered = Rendered::default();
    let printed = format!("\n{printed}");
    for document in printed.split("\n---\n# Source: netqos/").skip(1) {
        let (source, text) = document
            .split_once('\n')
            .with_context(|| format!("{document:?} is empty"))?;
        let (files, name) = match source.split_once('/') {
            Some(("templates", name)) => (&mut rendered.templates, name),
            Some(("crds", name)) => (&mut rendered.crds, name),
            _ => bail!("{source} is neither a template nor a CRD"),
        };
        let file = files.entry(name.to_owned()).or_default();
        if !file.is_empty() {
            file.push_str("---\n");
        }
        file.push_str(text.trim());
        file.push('\n');
    }
    ensure!(
        !rendered.templates.is_empty(),
        "Helm printed no template: {printed:?}"
    );
    Ok(rendered)
}

/// The objects of a text, by kind and name.
///
/// # Errors
/// Returns an error if the text is not YAML, or if an object has no name or occurs twice.
pub fn objects(text: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for object in serde_saphyr::from_multiple::<Value>(text)? {
        let kind = object["kind"]
            .as_str()
            .context("an object without a kind")?;
        let name = object["metadata"]["name"]
            .as_str()
            .context("an object without a name")?;
        let name = format!("{kind}/{name}");
        ensure!(
            all.insert(name.clone(), object).is_none(),
            "{name} occurs twice"
        );
    }
    Ok(all)
}
