//! What a template says of values.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::functions;
use super::parse::{Node, Operand, Pipeline};

/// Where an action is.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// What may be included.
    pub defined: &'a BTreeMap<String, Vec<Node>>,
    /// `$`.
    pub root: &'a Value,
    /// `.`.
    pub dot: &'a Value,
}

impl<'a> Scope<'a> {
    /// Writes what these say.
    pub fn write(&self, nodes: &[Node], text: &mut String) -> anyhow::Result<()> {
        for node in nodes {
            match node {
                Node::Text(literal) => text.push_str(literal),
                Node::Print(pipeline) => text.push_str(&printed(&self.value(pipeline)?)?),
                Node::If(cases, otherwise) => {
                    let mut chosen = otherwise;
                    for (condition, body) in cases {
                        if functions::is_true(&self.value(condition)?) {
                            chosen = body;
                            break;
                        }
                    }
                    self.write(chosen, text)?;
                }
                Node::Range(pipeline, body, otherwise) => match self.value(pipeline)? {
                    Value::Array(items) if !items.is_empty() => {
                        for item in &items {
                            Scope { dot: item, ..*self }.write(body, text)?;
                        }
                    }
                    Value::Array(_) => self.write(otherwise, text)?,
                    other => bail!("range over {other}, which is no list"),
                },
                Node::With(pipeline, body, otherwise) => {
                    let value = self.value(pipeline)?;
                    match functions::is_true(&value) {
                        true => Scope {
                            dot: &value,
                            ..*self
                        }
                        .write(body, text)?,
                        false => self.write(otherwise, text)?,
                    }
                }
                Node::Define(name, _) => bail!("{name} is defined inside of something"),
            }
        }
        Ok(())
    }

    fn value(&self, pipeline: &Pipeline) -> anyhow::Result<Value> {
        let mut before = None;
        for command in &pipeline.0 {
            before = Some(self.command(command, before)?);
        }
        before.context("an empty action")
    }

    fn command(&self, words: &[Operand], piped: Option<Value>) -> anyhow::Result<Value> {
        let Some((Operand::Function(name), rest)) = words.split_first() else {
            let [only] = words else {
                bail!("{words:?}: too much")
            };
            ensure!(piped.is_none(), "{only:?} takes nothing");
            return self.operand(only);
        };
        let arguments: anyhow::Result<Vec<_>> = rest.iter().map(|it| self.operand(it)).collect();
        let mut arguments = arguments?;
        arguments.extend(piped);
        if name == "include" {
            let [Value::String(part), dot] = &arguments[..] else {
                bail!("include: a name and a value")
            };
            let body = self.defined.get(part);
            let body = body.with_context(|| format!("include: {part} is not defined"))?;
            let mut text = String::new();
            // Inside, both are what was given.
            Scope {
                root: dot,
                dot,
                ..*self
            }
            .write(body, &mut text)?;
            return Ok(Value::String(text));
        }
        functions::call(name, &arguments).with_context(|| name.clone())
    }

    fn operand(&self, word: &Operand) -> anyhow::Result<Value> {
        match word {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Path(path) => field(self.dot, path).cloned(),
            Operand::RootPath(path) => field(self.root, path).cloned(),
            Operand::Nested(pipeline) => self.value(pipeline),
            Operand::Function(name) => self.command(&[Operand::Function(name.clone())], None),
        }
    }
}

fn field<'v>(from: &'v Value, path: &[String]) -> anyhow::Result<&'v Value> {
    path.iter().try_fold(from, |value, name| {
        value
            .get(name)
            .with_context(|| format!("there is no .{}", path.join(".")))
    })
}

/// As Go writes it.
fn printed(value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        other => bail!("{other} cannot be written; use toYaml"),
    }
}
