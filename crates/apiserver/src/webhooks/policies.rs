//! Admission policies: expressions that a write is held to, without anybody being asked.
//!
//! Of `ValidatingAdmissionPolicy` there are constraints, `matchConditions`, `validations` with a
//! `message`, and `failurePolicy`; of its bindings, of which there may be several, `Deny`. Left out: parameters, variables,
//! `messageExpression`, audit annotations, the authorizer, and a binding's own `matchResources`.

use kube::core::cel::KubeCelExt as _;
use kube::core::cel::cel::{Context, Program, Value as Answer};
use serde_json::{Value, json};

use super::matching::matches;
use super::{GROUP, Question};
use crate::shared::Shared;
use crate::status::Refusal;

/// Holds a write to all policies that are bound.
///
/// # Errors
/// One denies it.
pub(super) fn hold(shared: &Shared, question: &Question) -> Result<(), Refusal> {
    // As with webhooks: nobody is to lock out who would put that right.
    if question.resource.group == GROUP {
        return Ok(());
    }
    let (policies, bindings) = {
        let state = shared.read();
        let all = |plural: &str| -> Vec<Value> {
            let Some(resource) = state.registry.get(GROUP, "v1", plural) else {
                return Vec::new();
            };
            let stored = state.store.objects(&resource.storage, None);
            stored.map(|it| it.value(&resource)).collect()
        };
        let bindings = all("validatingadmissionpolicybindings");
        let policies = all("validatingadmissionpolicies").into_iter();
        let concerned = policies.filter(|policy| {
            let of = &policy["spec"]["matchConstraints"];
            let mut constraints = of.clone();
            constraints["rules"] = of["resourceRules"].clone();
            matches(&state, &constraints, question)
        });
        (concerned.collect::<Vec<Value>>(), bindings)
    };
    for policy in policies {
        let name = &policy["metadata"]["name"];
        // Each binding counts by itself: one that only warns takes nothing from one that denies.
        let denies = |binding: &&Value| {
            let actions = binding["spec"]["validationActions"].as_array();
            binding["spec"]["policyName"] == *name
                && actions.is_some_and(|actions| actions.contains(&json!("Deny")))
        };
        let Some(binding) = bindings.iter().find(denies) else {
            continue;
        };
        if let Some((reason, why)) = denied(&policy["spec"], question) {
            let text = |value: &Value| value["metadata"]["name"].as_str().unwrap_or("").to_owned();
            let (policy, binding) = (text(&policy), text(binding));
            let says = format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {why}"
            );
            return Err(refusal(question, &reason, &says));
        }
    }
    Ok(())
}

/// Why a policy denies it: a reason and words.
fn denied(spec: &Value, question: &Question) -> Option<(String, String)> {
    let request = question.review("", &question.object)["request"].clone();
    let holds = |expression: &Value| {
        let expression = expression.as_str().unwrap_or("");
        let evaluated = evaluate(expression, question, &request);
        evaluated.map_err(|why| format!("expression '{expression}' resulted in error: {why}"))
    };
    let fails = spec["failurePolicy"] != "Ignore";
    let failed = |why: String| fails.then_some(("Invalid".to_owned(), why));
    for condition in spec["matchConditions"].as_array().into_iter().flatten() {
        match holds(&condition["expression"]) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => return failed(why),
        }
    }
    for validation in spec["validations"].as_array().into_iter().flatten() {
        let text = |name: &str| validation[name].as_str();
        match holds(&validation["expression"]) {
            Ok(true) => {}
            Ok(false) => {
                let expression = text("expression").unwrap_or("");
                let otherwise = format!("failed expression: {}", expression.trim());
                let message = text("message").map_or(otherwise, str::to_owned);
                return Some((text("reason").unwrap_or("Invalid").to_owned(), message));
            }
            Err(why) => {
                if let Some(failed) = failed(why) {
                    return Some(failed);
                }
            }
        }
    }
    None
}

/// Whether an expression is true of what is asked.
///
/// # Errors
/// It cannot be evaluated.
pub(super) fn holds(expression: &Value, question: &Question) -> Result<bool, String> {
    let request = question.review("", &question.object)["request"].clone();
    evaluate(expression.as_str().unwrap_or(""), question, &request)
}

fn evaluate(expression: &str, question: &Question, request: &Value) -> Result<bool, String> {
    let program = Program::compile(expression).map_err(|why| why.to_string())?;
    let mut context = Context::default().with_all();
    for (name, value) in [
        ("object", &question.object),
        ("oldObject", &question.old),
        ("request", request),
    ] {
        let added = context.add_variable(name, value.clone());
        added.map_err(|why| why.to_string())?;
    }
    match program.execute(&context) {
        Ok(Answer::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("{other:?} is not true or false")),
        Err(why) => Err(why.to_string()),
    }
}

fn refusal(question: &Question, reason: &str, says: &str) -> Refusal {
    let (code, reason) = match reason {
        "Unauthorized" => (401, "Unauthorized"),
        "Forbidden" => (403, "Forbidden"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    let (what, name) = (question.resource.qualified(), &question.key.name);
    Refusal::new(
        code,
        reason,
        format!("{what} {name:?} is forbidden: {says}"),
    )
}
