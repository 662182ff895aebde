//! Tells text from actions, and takes the white space away that actions ask for.

use anyhow::{Context as _, bail};

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Written as it is.
    Text(String),
    /// What is between the braces.
    Action(String),
}

/// All parts, comments left out.
pub fn scan(text: &str) -> anyhow::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut trim = false;
    loop {
        let (before, found) = match rest.split_once("{{") {
            Some((before, after)) => (before, Some(after)),
            None => (rest, None),
        };
        let mut before = if trim { before.trim_start() } else { before };
        let Some(after) = found else {
            push(&mut tokens, before);
            return Ok(tokens);
        };
        let mut inside = after;
        if let Some(trimming) = after
            .strip_prefix('-')
            .filter(|it| it.starts_with([' ', '\n']))
        {
            before = before.trim_end();
            inside = trimming.trim_start();
        }
        push(&mut tokens, before);
        let length = match inside.starts_with("/*") {
            true => inside.find("*/").context("a comment has no end")? + 2,
            false => action(inside)?,
        };
        let (content, behind) = inside.split_at(length);
        let behind_content = behind.trim_start();
        trim = behind != behind_content && behind_content.starts_with('-');
        let close = behind_content.strip_prefix('-').filter(|_| trim);
        let close = close.unwrap_or(behind_content);
        rest = close
            .strip_prefix("}}")
            .with_context(|| format!("no end behind {content:?}"))?;
        if !content.starts_with("/*") {
            tokens.push(Token::Action(content.trim().to_owned()));
        }
    }
}

fn push(tokens: &mut Vec<Token>, text: &str) {
    if !text.is_empty() {
        tokens.push(Token::Text(text.to_owned()));
    }
}

/// How long an action is, up to the white space before its end. Its strings may hold anything.
fn action(text: &str) -> anyhow::Result<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        if quoted {
            quoted = escaped || letter != '"';
            escaped = letter == '\\' && !escaped;
        } else if letter == '"' {
            quoted = true;
        } else if text[at..].starts_with("}}") {
            let content = &text[..at];
            let content = content.strip_suffix(" -").unwrap_or(content);
            return Ok(content.trim_end().len());
        }
    }
    bail!(
        "an action has no end: {:?}",
        text.lines().next().unwrap_or_default()
    )
}
