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
/// The longest key: a prefix of 253 characters, a slash, and a name of 63.
const KEY: usize = 317;
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
        label_value(value)
            .map_err(|error| error.inside(&crate::field::entry("matchLabels", key)))?;
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
    let length = expression.key.chars().count();
    if length == 0 || length > KEY {
        return Err(FieldError::new("key", "empty, or too long"));
    }
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
    let is_inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let has_ends = |value: &str| {
        let ends = [value.chars().next(), value.chars().next_back()];
        ends.iter().flatten().all(char::is_ascii_alphanumeric)
    };
    match value.chars().all(is_inner) && has_ends(value) {
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
