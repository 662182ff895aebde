//! `metav1.LabelSelector`, as JSON has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::{LabelSelector, Operator, Requirement};
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    match_labels: Option<std::collections::BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Option<BTreeSet<Arc<str>>>,
}

/// The selector that this value is; none where there is none. An empty one chooses everything.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(value: Option<&Value>) -> Result<Option<LabelSelector>, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let written = Written::deserialize(value).map_err(|error| error.to_string())?;
    let labels = written.match_labels.unwrap_or_default();
    let mut requirements: Vec<Requirement> = labels
        .iter()
        .map(|(key, value)| Requirement::equals(key, value))
        .collect();
    for expression in written.match_expressions.unwrap_or_default() {
        let values = expression.values.unwrap_or_default();
        let operator = match (expression.operator.as_str(), values.is_empty()) {
            ("In", false) => Operator::In(values),
            ("NotIn", false) => Operator::NotIn(values),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::DoesNotExist,
            ("In" | "NotIn", true) => {
                return Err(format!(
                    "{}: {} needs values",
                    expression.key, expression.operator
                ));
            }
            ("Exists" | "DoesNotExist", false) => {
                return Err(format!(
                    "{}: {} has no values",
                    expression.key, expression.operator
                ));
            }
            (other, _) => {
                return Err(format!(
                    "{}: {other:?} is no operator: there are In, NotIn, Exists and DoesNotExist",
                    expression.key
                ));
            }
        };
        requirements.push(Requirement {
            key: expression.key.into(),
            operator,
        });
    }
    Ok(Some(LabelSelector::new(requirements)))
}
