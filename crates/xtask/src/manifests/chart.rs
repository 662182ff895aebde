//! The chart, rendered as Helm would.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::template::Templates;
use super::values::Values;
use crate::generated::root;

/// Where the chart is.
pub const CHART: &str = "deploy/helm/netqos";
/// The namespace that the documents and the agent's defaults name.
pub const NAMESPACE: &str = "netqos-system";

/// The chart.
#[derive(Debug)]
pub struct Chart {
    templates: Templates,
    /// Those that say something by themselves.
    names: Vec<String>,
    about: Value,
}

impl Chart {
    /// Reads it.
    ///
    /// # Errors
    /// A file cannot be read, or is no template that is known here.
    pub fn read() -> anyhow::Result<Self> {
        let folder = root().join(CHART);
        let about = fs::read_to_string(folder.join("Chart.yaml")).context("Chart.yaml")?;
        let about: Value = serde_saphyr::from_str(&about)?;
        let mut chart = Self {
            templates: Templates::default(),
            names: Vec::new(),
            about: json!({
                "Name": about["name"],
                "Version": about["version"],
                "AppVersion": about["appVersion"],
            }),
        };
        for entry in fs::read_dir(folder.join("templates")).context("templates")? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            chart
                .templates
                .add(&name, &fs::read_to_string(&path).context(name.clone())?)?;
            if !name.starts_with('_') {
                chart.names.push(name);
            }
        }
        chart.names.sort();
        Ok(chart)
    }

    /// What each template says, with what is chosen put over the defaults. Templates that say nothing
    /// are left out.
    ///
    /// # Errors
    /// A template asks for what is not there.
    pub fn render(&self, chosen: &Value) -> anyhow::Result<BTreeMap<String, String>> {
        let mut values = serde_json::to_value(Values::default())?;
        merge(&mut values, chosen);
        let root = json!({
            "Values": values,
            "Chart": self.about,
            "Release": {"Name": "netqos", "Namespace": NAMESPACE, "Service": "Helm"},
        });
        let mut all = BTreeMap::new();
        for name in &self.names {
            let text = self.templates.render(name, &root)?;
            if !text.trim().is_empty() {
                all.insert(name.clone(), format!("{}\n", text.trim()));
            }
        }
        Ok(all)
    }

    /// The objects, by kind and name.
    ///
    /// # Errors
    /// As [`render`](Self::render); or what is said is no YAML.
    pub fn objects(&self, chosen: &Value) -> anyhow::Result<BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        for (file, text) in self.render(chosen)? {
            if file.ends_with(".yaml") {
                all.extend(objects(&text).context(file)?);
            }
        }
        Ok(all)
    }
}

/// The objects of a text, by kind and name.
///
/// # Errors
/// It is no YAML, has an object twice, or one without a name.
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
        anyhow::ensure!(
            all.insert(name.clone(), object).is_none(),
            "{name} is there twice"
        );
    }
    Ok(all)
}

/// As Helm puts values over others.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                merge(under.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}
