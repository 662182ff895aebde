//! Admission: what a write meets between being read and being kept.
//!
//! Mutating ones are asked one after the other, each of what the one before made of the object; then
//! validating ones, after the policies that need nobody to be asked. One that does not answer is passed over where its `failurePolicy` is `Ignore`.

mod calling;
mod matching;
mod policies;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::patch::json::patch;
use crate::random;
use crate::resource::Resource;
use crate::shared::Shared;
use crate::status::Refusal;
use crate::store::Key;

use calling::{Address, call};
use matching::matches;

const GROUP: &str = "admissionregistration.k8s.io";

/// What webhooks are asked about.
pub(crate) struct Question {
    pub(crate) resource: Arc<Resource>,
    pub(crate) key: Key,
    pub(crate) subresource: Option<String>,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'static str,
    /// What is to be there; null of what is deleted.
    pub(crate) object: Value,
    /// What is there; null of what is new.
    pub(crate) old: Value,
    /// Who asks, as `userInfo` has it.
    pub(crate) user: Value,
    pub(crate) dry_run: bool,
}

/// A webhook that is to be asked.
struct Hook {
    /// As its configuration has it.
    said: Value,
    address: Result<Address, String>,
}

/// What mutating webhooks make of an object; `None`: nothing else. What they warn of is added.
///
/// # Errors
/// One refuses it, or does not answer and may not be passed over.
pub(crate) async fn mutate(
    shared: &Shared,
    question: &Question,
    warnings: &mut Vec<String>,
) -> Result<Option<Value>, Refusal> {
    let mut object = question.object.clone();
    for hook in hooks(shared, question, "mutatingwebhookconfigurations") {
        let Some(response) = hook.ask(question, &object, warnings).await? else {
            continue;
        };
        let changed = patched(&object, &response);
        match changed {
            Ok(changed) => object = changed,
            Err(why) => hook.failed(&why)?,
        }
    }
    Ok((object != question.object).then_some(object))
}

/// Holds a write to policies, and asks validating webhooks. What they warn of is added.
///
/// # Errors
/// As [`mutate`].
pub(crate) async fn validate(
    shared: &Shared,
    question: &Question,
    warnings: &mut Vec<String>,
) -> Result<(), Refusal> {
    policies::hold(shared, question)?;
    for hook in hooks(shared, question, "validatingwebhookconfigurations") {
        hook.ask(question, &question.object, warnings).await?;
    }
    Ok(())
}

/// The webhooks that are to be asked, in their order.
fn hooks(shared: &Shared, question: &Question, plural: &str) -> Vec<Hook> {
    // Who could lock out everybody could lock out whoever would put that right.
    if question.resource.group == GROUP {
        return Vec::new();
    }
    let state = shared.read();
    let Some(resource) = state.registry.get(GROUP, "v1", plural) else {
        return Vec::new();
    };
    let mut hooks = Vec::new();
    for stored in state.store.objects(&resource.storage, None) {
        let configuration = stored.value(&resource);
        let webhooks = configuration["webhooks"].as_array();
        for said in webhooks.into_iter().flatten() {
            if matches(&state, said, question) {
                let address = Address::of(&state, &said["clientConfig"]);
                let said = said.clone();
                hooks.push(Hook { said, address });
            }
        }
    }
    hooks
}

impl Hook {
    fn name(&self) -> &str {
        self.said["name"].as_str().unwrap_or("")
    }

    /// Asks; `None` when there is no answer, and none is needed.
    async fn ask(
        &self,
        question: &Question,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Refusal> {
        let uid = random::uid();
        let review = question.review(&uid, object);
        let seconds = self.said["timeoutSeconds"].as_u64().unwrap_or(10);
        let answered = match &self.address {
            Ok(address) => call(address, &review, seconds).await,
            Err(why) => Err(why.clone()),
        };
        let response = answered.and_then(|answer| {
            let response = answer["response"].clone();
            match response["uid"] == uid.as_str() && response["allowed"].is_boolean() {
                true => Ok(response),
                false => Err(format!("expected response.uid={uid:?}, got {answer}")),
            }
        });
        let response = match response {
            Ok(response) => response,
            Err(why) => {
                self.failed(&why)?;
                return Ok(None);
            }
        };
        let told = response["warnings"].as_array().into_iter().flatten();
        warnings.extend(told.filter_map(|it| Some(it.as_str()?.to_owned())));
        match response["allowed"] == true {
            true => Ok(Some(response)),
            false => Err(self.refusal(&response["status"])),
        }
    }

    /// No answer, or none that can be used.
    fn failed(&self, why: &str) -> Result<(), Refusal> {
        if self.said["failurePolicy"] == "Ignore" {
            return Ok(());
        }
        let name = self.name();
        let message = format!("Internal error occurred: failed calling webhook {name:?}: {why}");
        Err(Refusal::new(500, "InternalError", message))
    }

    fn refusal(&self, status: &Value) -> Refusal {
        let denied = format!("admission webhook {:?} denied the request", self.name());
        let text = |name: &str| status[name].as_str().filter(|text| !text.is_empty());
        let message = match text("message").or_else(|| text("reason")) {
            Some(why) => format!("{denied}: {why}"),
            None => format!("{denied} without explanation"),
        };
        let code = status["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok());
        let code = code.filter(|code| *code >= 400).unwrap_or(400);
        let reason = match text("reason") {
            Some("Invalid") => "Invalid",
            Some("Forbidden") => "Forbidden",
            Some("BadRequest") => "BadRequest",
            _ => "",
        };
        let mut refusal = Refusal::new(code, reason, message);
        if let Some(details) = status["details"].as_object() {
            refusal.details = details.clone();
        }
        refusal
    }
}

impl Question {
    /// The `AdmissionReview`, about the object as it is by now.
    fn review(&self, uid: &str, object: &Value) -> Value {
        let resource = &self.resource;
        let (group, version) = (&resource.group, &resource.version);
        let kind = json!({"group": group, "version": version, "kind": resource.kind});
        let plural = json!({"group": group, "version": version, "resource": resource.plural});
        let options = match self.operation {
            "CREATE" => "CreateOptions",
            "UPDATE" => "UpdateOptions",
            _ => "DeleteOptions",
        };
        let mut request = json!({
            "uid": uid,
            "kind": kind,
            "requestKind": kind,
            "resource": plural,
            "requestResource": plural,
            "name": self.key.name,
            "operation": self.operation,
            "userInfo": self.user,
            "object": object,
            "oldObject": self.old,
            "dryRun": self.dry_run,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
        });
        if !self.key.namespace.is_empty() {
            request["namespace"] = self.key.namespace.clone().into();
        }
        if let Some(subresource) = &self.subresource {
            request["subResource"] = subresource.clone().into();
            request["requestSubResource"] = subresource.clone().into();
        }
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": request,
        })
    }
}

/// The object with the patch of an answer.
fn patched(object: &Value, response: &Value) -> Result<Value, String> {
    // As Go reads bytes: base64, or a list of numbers.
    let bytes = match &response["patch"] {
        Value::String(encoded) => STANDARD.decode(encoded).map_err(|why| why.to_string())?,
        Value::Array(_) => serde_json::from_value(response["patch"].clone())
            .map_err(|why: serde_json::Error| why.to_string())?,
        _ => return Ok(object.clone()),
    };
    if response["patchType"] != "JSONPatch" {
        return Err("the patch is no JSONPatch".to_owned());
    }
    let operations: Value = serde_json::from_slice(&bytes).map_err(|why| why.to_string())?;
    let mut object = object.clone();
    patch(&mut object, &operations).map_err(|why| why.to_string())?;
    Ok(object)
}
