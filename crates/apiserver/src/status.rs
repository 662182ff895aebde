//! What a server says when it does not do what it was asked for: `metav1.Status`.

use netqos_k8s::FieldError;
use serde_json::{Map, Value, json};

use crate::resource::Resource;

/// A request refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Map<String, Value>,
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
        }
    }

    /// 400: the request itself cannot be read.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404 of a path behind which there is nothing, whatever is stored.
    pub(crate) fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 404 of an object.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// 409: there is one already.
    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the request was made of another state than there is.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let what = resource.qualified();
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 409 of who writes what he has not read.
    pub(crate) fn stale(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// 410: what was asked for is too old to be remembered.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 422, with what is wrong field by field.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let told: Vec<String> = errors.iter().map(FieldError::to_string).collect();
        let told = match &told[..] {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {told}", resource.kind_and_group());
        let causes: Vec<Value> = errors.iter().map(cause).collect();
        let mut refusal = Self::new(422, "Invalid", message).about(resource, name);
        refusal.details.insert("kind".into(), json!(resource.kind));
        refusal.details.insert("causes".into(), json!(causes));
        refusal
    }

    /// The same, with the object in its details.
    pub(crate) fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details.insert("name".into(), json!(name));
        if !resource.group.is_empty() {
            self.details.insert("group".into(), json!(resource.group));
        }
        self.details.insert("kind".into(), json!(resource.plural));
        self
    }

    /// The same, with one more entry in its details.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.details.insert(name.into(), value);
        self
    }

    /// The document.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}

/// The document of a request that was done and has nothing to show.
pub(crate) fn success(resource: &Resource, name: &str, uid: Option<&str>) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    if let Some(uid) = uid {
        details["uid"] = json!(uid);
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}

fn cause(error: &FieldError) -> Value {
    let reason = match error.message.as_str() {
        "missing" => "FieldValueRequired",
        message if message.contains(" is none of ") => "FieldValueNotSupported",
        message if message.contains("is expected") => "FieldValueTypeInvalid",
        message if message.contains("are more than") => "FieldValueTooMany",
        message if message.starts_with("there is another one") => "FieldValueDuplicate",
        message if message.starts_with("may not ") => "FieldValueForbidden",
        _ => "FieldValueInvalid",
    };
    // A rule of the whole object has no path; a server writes so.
    let field = match error.path.as_str() {
        "" => "<nil>",
        path => path,
    };
    json!({"reason": reason, "message": error.message, "field": field})
}
