//! Label selectors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use netqos_core::{LabelSelector, Operator, Requirement};

use crate::FieldError;
use crate::field::item;

/// The most labels in `matchLabels`.
const LABELS: usize = 100;
/// The most requirements in `matchExpressions`.
const EXPRESSIONS: usize = 50;
/// The most values of a requirement.
const VALUES: usize = 100;
/// The longest prefix of a key, in front of a slash.
const PREFIX: usize = 253;
/// The longest value.
const VALUE: usize = 63;

/// A selector. Requirements of `matchLabels` and `matchExpressions` must all hold.
///
/// # Errors
/// An operator that is none, values that it cannot have, or more than a `NetworkQoS` may hold.
pub fn label_selector(selector: &meta::LabelSelector) -> Result<LabelSelector, FieldError> {
    let mut requirements = Vec::new();
    let labels = selector.match_labels.iter().flatten();
    for (key, value) in labels {
        let path = crate::field::entry("matchLabels", key);
        label_key(key).map_err(|error| error.inside(&path))?;
        label_value(value).map_err(|error| error.inside(&path))?;
        requirements.push(Requirement::equals(key, value));
    }
    at_most(requirements.len(), LABELS, "matchLabels")?;
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    at_most(expressions.len(), EXPRESSIONS, "matchExpressions")?;
    for (index, expression) in expressions.iter().enumerate() {
        let path = item("matchExpressions", index);
        requirements.push(requirement(expression).map_err(|error| error.inside(&path))?);
    }
    Ok(LabelSelector::new(requirements))
}

fn requirement(expression: &meta::LabelSelectorRequirement) -> Result<Requirement, FieldError> {
    label_key(&expression.key).map_err(|error| error.inside("key"))?;
    let values = expression.values.as_deref().unwrap_or_default();
    at_most(values.len(), VALUES, "values")?;
    for (index, value) in values.iter().enumerate() {
        label_value(value).map_err(|error| error.inside(&item("values", index)))?;
    }
    let set = || values.iter().map(|value| value.as_str().into()).collect();
    let operator = match (expression.operator.as_str(), values) {
        ("In" | "NotIn", []) => {
            return Err(FieldError::new("values", "In and NotIn need values"));
        }
        ("In", _) => Operator::In(set()),
        ("NotIn", _) => Operator::NotIn(set()),
        ("Exists", []) => Operator::Exists,
        ("DoesNotExist", []) => Operator::DoesNotExist,
        ("Exists" | "DoesNotExist", _) => {
            return Err(FieldError::new(
                "values",
                "Exists and DoesNotExist have none",
            ));
        }
        (other, _) => {
            let message = format!("{other:?} is none of In, NotIn, Exists, DoesNotExist");
            return Err(FieldError::new("operator", message));
        }
    };
    Ok(Requirement {
        key: expression.key.as_str().into(),
        operator,
    })
}

/// Refuses what no label can have, as API servers do: a selector with it selects nothing.
fn label_value(value: &str) -> Result<(), FieldError> {
    if value.chars().count() > VALUE {
        return Err(FieldError::new("", format_args!("longer than {VALUE}")));
    }
    match is_qualified(value) {
        true => Ok(()),
        false => Err(FieldError::new(
            "",
            format_args!(
                "no label can have the value {value:?}: it is empty, or letters, digits, '-', '_' and '.', \
                 with a letter or digit at both ends"
            ),
        )),
    }
}

/// Refuses what no label can be called, as API servers do: a selector with it selects nothing.
fn label_key(key: &str) -> Result<(), FieldError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_name = !name.is_empty() && name.len() <= VALUE && is_qualified(name);
    let is_prefix = |prefix: &str| {
        let is_inner =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        let mut parts = prefix.split('.');
        prefix.len() <= PREFIX
            && parts.all(|part| !part.is_empty() && part.chars().all(is_inner) && has_ends(part))
    };
    match is_name && prefix.is_none_or(is_prefix) {
        true => Ok(()),
        false => Err(FieldError::new(
            "",
            format_args!(
                "no label can have the key {key:?}: it is a name of at most {VALUE} letters, digits, '-', '_' and '.', \
                 with a letter or digit at both ends, and in front of it, if anything, a DNS name and '/'"
            ),
        )),
    }
}

/// Returns true for letters, digits, '-', '_' and '.', with a letter or digit at both ends, if any.
fn is_qualified(text: &str) -> bool {
    let is_inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.chars().all(is_inner) && has_ends(text)
}

/// Returns true if both ends, if any, are a letter or a digit.
fn has_ends(text: &str) -> bool {
    let ends = [text.chars().next(), text.chars().next_back()];
    ends.iter().flatten().all(char::is_ascii_alphanumeric)
}

/// Refuses a list that is too long.
pub(super) fn at_most(there_are: usize, most: usize, path: &str) -> Result<(), FieldError> {
    if there_are <= most {
        return Ok(());
    }
    Err(FieldError::new(
        path,
        format_args!("{there_are} are more than {most}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(value: &str) -> [Result<LabelSelector, FieldError>; 2] {
        let labels = meta::LabelSelector {
            match_labels: Some([("app".to_owned(), value.to_owned())].into()),
            match_expressions: None,
        };
        let expressions = meta::LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![meta::LabelSelectorRequirement {
                key: "app".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec!["web".to_owned(), value.to_owned()]),
            }]),
        };
        [label_selector(&labels), label_selector(&expressions)]
    }

    #[test]
    fn selector_with_key_that_no_label_can_have_is_refused() {
        let selects = |key: &str| {
            let labels = meta::LabelSelector {
                match_labels: Some([(key.to_owned(), "a".to_owned())].into()),
                match_expressions: None,
            };
            let expressions = meta::LabelSelector {
                match_labels: None,
                match_expressions: Some(vec![meta::LabelSelectorRequirement {
                    key: key.to_owned(),
                    operator: "Exists".to_owned(),
                    values: None,
                }]),
            };
            [label_selector(&labels), label_selector(&expressions)]
        };
        for key in [
            "a",
            "App_1.x",
            "example.com/app",
            "a-b.c/D",
            &"a".repeat(63),
        ] {
            assert!(selects(key).iter().all(Result::is_ok), "{key:?}");
        }
        for key in [
            "",
            "a b",
            "-a",
            "/a",
            "a/",
            "Example.com/a",
            "a/b/c",
            "a..b/c",
            "-a/b",
            "ä",
            &"a".repeat(64),
        ] {
            let [labels, expressions] = selects(key).map(|it| it.unwrap_err().path);
            assert_eq!(labels, format!("matchLabels[{key}]"));
            assert_eq!(expressions, "matchExpressions[0].key", "{key:?}");
        }
    }

    #[test]
    fn selector_with_value_that_no_label_can_have_is_refused() {
        for value in ["", "a", "web-1_2.3", "A0", &"a".repeat(63)] {
            assert!(selects(value).iter().all(Result::is_ok), "{value:?}");
        }
        for value in ["a b", "-a", "a.", "_", "ä", "a/b", "a\n", &"a".repeat(64)] {
            let [labels, expressions] = selects(value).map(|it| it.unwrap_err().path);
            assert_eq!(labels, "matchLabels[app]", "{value:?}");
            assert_eq!(expressions, "matchExpressions[0].values[1]", "{value:?}");
        }
    }
}
