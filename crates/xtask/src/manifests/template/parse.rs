//! What a template is made of.

use anyhow::{Context as _, bail, ensure};

use super::scan::Token;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Written as it is.
    Text(String),
    /// Its value is written.
    Print(Pipeline),
    /// The first whose condition holds, else the last.
    If(Vec<(Pipeline, Vec<Node>)>, Vec<Node>),
    /// For each of a list, as `.`; the other where there is none.
    Range(Pipeline, Vec<Node>, Vec<Node>),
    /// With the value as `.`; the other where it is empty.
    With(Pipeline, Vec<Node>, Vec<Node>),
    /// A part with a name, to be included.
    Define(String, Vec<Node>),
}

/// Each one's value is the next one's last argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline(pub Vec<Vec<Operand>>);

/// A word of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// `.a.b`, from the current value.
    Path(Vec<String>),
    /// `$.a.b`, from what the template was given.
    RootPath(Vec<String>),
    /// A string, a number, a boolean.
    Literal(serde_json::Value),
    /// The name of a function.
    Function(String),
    /// What is in parentheses.
    Nested(Pipeline),
}

/// Reads what was scanned.
pub fn parse(tokens: &[Token]) -> anyhow::Result<Vec<Node>> {
    let mut at = 0;
    let (nodes, stop) = block(tokens, &mut at)?;
    ensure!(stop.is_none(), "{:?} of nothing", stop.unwrap_or_default());
    Ok(nodes)
}

/// Up to an `end` or `else`, which is given back, or the end of all.
fn block(tokens: &[Token], at: &mut usize) -> anyhow::Result<(Vec<Node>, Option<String>)> {
    let mut nodes = Vec::new();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        let action = match token {
            Token::Text(text) => {
                nodes.push(Node::Text(text.clone()));
                continue;
            }
            Token::Action(action) => action.as_str(),
        };
        let (word, rest) = action
            .split_once(char::is_whitespace)
            .unwrap_or((action, ""));
        nodes.push(match word {
            "end" | "else" => return Ok((nodes, Some(action.to_owned()))),
            "if" => conditions(rest, tokens, at)?,
            "range" => {
                let (body, otherwise) = bodies(tokens, at, action)?;
                Node::Range(pipeline(rest)?, body, otherwise)
            }
            "with" => {
                let (body, otherwise) = bodies(tokens, at, action)?;
                Node::With(pipeline(rest)?, body, otherwise)
            }
            "define" => {
                let (body, otherwise) = bodies(tokens, at, action)?;
                ensure!(otherwise.is_empty(), "{action}: it has an else");
                Node::Define(serde_json::from_str(rest.trim())?, body)
            }
            "block" | "template" | "break" | "continue" => bail!("{word} is not known here"),
            _ => Node::Print(pipeline(action)?),
        });
    }
    Ok((nodes, None))
}

fn conditions(first: &str, tokens: &[Token], at: &mut usize) -> anyhow::Result<Node> {
    let mut cases = Vec::new();
    let mut condition = pipeline(first)?;
    loop {
        let (body, stop) = block(tokens, at)?;
        cases.push((condition, body));
        let stop = stop.with_context(|| format!("if {first} has no end"))?;
        match stop.strip_prefix("else").map(str::trim) {
            None => return Ok(Node::If(cases, Vec::new())),
            Some("") => {
                let (otherwise, stop) = block(tokens, at)?;
                ensure!(stop.as_deref() == Some("end"), "if {first} has no end");
                return Ok(Node::If(cases, otherwise));
            }
            Some(more) => {
                let text = more.strip_prefix("if ").with_context(|| stop.clone())?;
                condition = pipeline(text)?;
            }
        }
    }
}

/// Up to the end; and what is behind an `else`.
fn bodies(tokens: &[Token], at: &mut usize, of: &str) -> anyhow::Result<(Vec<Node>, Vec<Node>)> {
    let (body, stop) = block(tokens, at)?;
    match stop.as_deref() {
        Some("end") => Ok((body, Vec::new())),
        Some("else") => {
            let (otherwise, stop) = block(tokens, at)?;
            ensure!(stop.as_deref() == Some("end"), "{of} has no end");
            Ok((body, otherwise))
        }
        other => bail!("{of} ends with {other:?}"),
    }
}

fn pipeline(text: &str) -> anyhow::Result<Pipeline> {
    let mut rest = text.trim();
    let pipeline = commands(&mut rest).with_context(|| text.to_owned())?;
    ensure!(rest.is_empty(), "{text}: {rest:?} is too much");
    Ok(pipeline)
}

/// Up to a closing parenthesis, or the end.
fn commands(rest: &mut &str) -> anyhow::Result<Pipeline> {
    let mut all = vec![Vec::new()];
    loop {
        *rest = rest.trim_start();
        let Some(letter) = rest.chars().next() else {
            break;
        };
        let operand = match letter {
            ')' => break,
            '|' => {
                *rest = &rest[1..];
                all.push(Vec::new());
                continue;
            }
            '(' => {
                *rest = &rest[1..];
                let nested = commands(rest)?;
                *rest = rest.strip_prefix(')').context("a parenthesis is open")?;
                ensure!(
                    !rest.starts_with('.'),
                    "a field of what is in parentheses is not known here"
                );
                Operand::Nested(nested)
            }
            '"' => {
                // Go's strings are JSON's, as far as they are used here.
                let mut read = serde_json::Deserializer::from_str(rest).into_iter();
                let literal = read.next().context("a string")??;
                *rest = &rest[read.byte_offset()..];
                Operand::Literal(literal)
            }
            _ => {
                let ends = |letter: char| letter.is_whitespace() || "|()".contains(letter);
                let (word, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
                *rest = behind;
                operand(word)?
            }
        };
        if let Some(command) = all.last_mut() {
            command.push(operand);
        }
    }
    ensure!(
        all.iter().all(|command| !command.is_empty()),
        "nothing is asked for"
    );
    Ok(Pipeline(all))
}

fn operand(word: &str) -> anyhow::Result<Operand> {
    let fields = |path: &str| -> anyhow::Result<Vec<String>> {
        let path = path.strip_prefix('.').with_context(|| word.to_owned())?;
        let fields = path.split('.').filter(|_| !path.is_empty());
        let fields: Vec<String> = fields.map(str::to_owned).collect();
        let plain = |name: &String| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|letter| letter.is_alphanumeric() || letter == '_')
        };
        ensure!(fields.iter().all(plain), "{word} is not a path");
        Ok(fields)
    };
    if word == "$" {
        return Ok(Operand::RootPath(Vec::new()));
    }
    if let Some(path) = word.strip_prefix('$') {
        return Ok(Operand::RootPath(
            fields(path).context("variables are not known here")?,
        ));
    }
    if word.starts_with('.') {
        return Ok(Operand::Path(fields(word)?));
    }
    if word == "true" || word == "false" || word.starts_with(|it: char| it.is_ascii_digit()) {
        return Ok(Operand::Literal(serde_json::from_str(word)?));
    }
    Ok(Operand::Function(word.to_owned()))
}
