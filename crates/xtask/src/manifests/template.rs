//! Renders the chart's templates: as much of Go's text/template, and of what Helm adds to it, as they
//! use, and nothing more. What is not known is an error, so that a template that Helm would take and
//! this does not is found when it is written.
//!
//! ```text
//!   text ─► scan ─► parse ─► Node… ─► evaluate, with the functions ─► text
//! ```
//!
//! In two things it is stricter than Helm: a value that is not there is an error, where Helm writes
//! nothing; and only strings, numbers and booleans can be written.

mod evaluate;
mod functions;
mod parse;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;

use evaluate::Scope;
use parse::Node;

/// The templates of a chart.
#[derive(Debug, Default)]
pub struct Templates {
    files: BTreeMap<String, Vec<Node>>,
    defined: BTreeMap<String, Vec<Node>>,
}

impl Templates {
    /// Reads a template.
    ///
    /// # Errors
    /// It is not one, or holds what is not known here.
    pub fn add(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let tokens = scan::scan(text).with_context(|| name.to_owned())?;
        let nodes = parse::parse(&tokens).with_context(|| name.to_owned())?;
        let mut rest = Vec::new();
        for node in nodes {
            match node {
                Node::Define(part, body) => {
                    anyhow::ensure!(
                        self.defined.insert(part.clone(), body).is_none(),
                        "{name}: {part} is defined twice"
                    );
                }
                other => rest.push(other),
            }
        }
        self.files.insert(name.to_owned(), rest);
        Ok(())
    }

    /// What the template of this name says of these values: `Values`, `Chart` and `Release`.
    ///
    /// # Errors
    /// It asks for what is not there.
    pub fn render(&self, name: &str, root: &Value) -> anyhow::Result<String> {
        let nodes = self
            .files
            .get(name)
            .with_context(|| format!("{name}: no such template"))?;
        let scope = Scope {
            defined: &self.defined,
            root,
            dot: root,
        };
        let mut text = String::new();
        scope
            .write(nodes, &mut text)
            .with_context(|| name.to_owned())?;
        Ok(text)
    }
}
