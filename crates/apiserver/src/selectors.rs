//! Label and field selectors, as they stand in a query.

use crate::resource::Resource;
use crate::status::Refusal;
use crate::store::Stored;

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<LabelRequirement>,
    /// Field, value, and whether it is to be equal or different.
    fields: Vec<(String, String, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelRequirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

impl Selector {
    /// Reads both selectors.
    ///
    /// # Errors
    /// One that cannot be read, or a field that cannot be selected by.
    pub(crate) fn parse(labels: &str, fields: &str, resource: &Resource) -> Result<Self, Refusal> {
        let labels = parse_labels(labels).map_err(|why| {
            Refusal::bad_request(format!("unable to parse requirement: {why} in {labels:?}"))
        })?;
        let mut selected = Vec::new();
        for term in fields.split(',').filter(|term| !term.is_empty()) {
            let (field, value, equal) = match (term.split_once("!="), term.split_once("==")) {
                (Some((field, value)), _) => (field, value, false),
                (None, Some((field, value))) => (field, value, true),
                (None, None) => match term.split_once('=') {
                    Some((field, value)) => (field, value, true),
                    None => {
                        let message =
                            format!("invalid selector: {fields:?}; can't understand {term:?}");
                        return Err(Refusal::bad_request(message));
                    }
                },
            };
            let field = field.trim();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && resource.namespaced)
                || resource.selectable.iter().any(|known| known == field);
            if !known {
                let message = format!("field label not supported: {field}");
                return Err(Refusal::bad_request(message));
            }
            selected.push((field.to_owned(), value.trim().to_owned(), equal));
        }
        Ok(Self {
            labels,
            fields: selected,
        })
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let labels = self.labels.iter().all(|required| match required {
            LabelRequirement::In(key, values) => object
                .labels
                .get(key)
                .is_some_and(|value| values.contains(value)),
            LabelRequirement::NotIn(key, values) => object
                .labels
                .get(key)
                .is_none_or(|value| !values.contains(value)),
            LabelRequirement::Exists(key) => object.labels.contains_key(key),
            LabelRequirement::DoesNotExist(key) => !object.labels.contains_key(key),
        });
        labels
            && self.fields.iter().all(|(field, value, equal)| {
                let is = object.fields.get(field).map_or("", String::as_str);
                (is == value) == *equal
            })
    }
}

fn parse_labels(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut requirements = Vec::new();
    for term in terms(text) {
        requirements.push(parse_label(term.trim())?);
    }
    Ok(requirements)
}

/// Terms are between commas, but for those within parentheses.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms.retain(|term| !term.trim().is_empty());
    terms
}

fn parse_label(term: &str) -> Result<LabelRequirement, String> {
    let owned = |text: &str| text.trim().to_owned();
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(LabelRequirement::NotIn(owned(key), vec![owned(value)]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(LabelRequirement::In(owned(key), vec![owned(value)]));
    }
    if let Some((key, rest)) = term.split_once(char::is_whitespace) {
        let (word, values) = rest.split_once('(').ok_or("'(' expected")?;
        let values = values.strip_suffix(')').ok_or("')' expected")?;
        let values = values.split(',').map(owned).collect();
        return match word.trim() {
            "in" => Ok(LabelRequirement::In(owned(key), values)),
            "notin" => Ok(LabelRequirement::NotIn(owned(key), values)),
            other => Err(format!("{other:?} is no operator")),
        };
    }
    match term.strip_prefix('!') {
        Some(key) => Ok(LabelRequirement::DoesNotExist(owned(key))),
        None => Ok(LabelRequirement::Exists(owned(term))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_are_read_in_every_form() {
        let read = parse_labels("a=b,c!=d,e in (x, y),f notin (z),!g,h,i==j").unwrap();
        let text = |text: &str| text.to_owned();
        assert_eq!(
            read,
            [
                LabelRequirement::In(text("a"), vec![text("b")]),
                LabelRequirement::NotIn(text("c"), vec![text("d")]),
                LabelRequirement::In(text("e"), vec![text("x"), text("y")]),
                LabelRequirement::NotIn(text("f"), vec![text("z")]),
                LabelRequirement::DoesNotExist(text("g")),
                LabelRequirement::Exists(text("h")),
                LabelRequirement::In(text("i"), vec![text("j")]),
            ]
        );
        assert!(parse_labels("a near (b)").is_err());
        assert!(parse_labels("a in b").is_err());
    }
}
