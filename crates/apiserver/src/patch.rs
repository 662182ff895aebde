//! Changes to an object that a client sends as a change.

pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;

use serde_json::Value;

use crate::fields::Shape;
use crate::status::Refusal;

/// What a patch says, by the media type that it came with.
pub(crate) enum Patch {
    /// RFC 7396.
    Merge(Value),
    /// RFC 6902.
    Json(Value),
    /// Kubernetes' own: lists whose items have keys are merged by them.
    Strategic(Value),
    /// Server-side apply, which is not made of the object alone.
    Apply(Value),
}

impl Patch {
    /// The object with the patch, which is none of server-side apply.
    ///
    /// # Errors
    /// A JSON patch that does not fit the object.
    pub(crate) fn apply_to(&self, object: &Value, shape: Shape<'_>) -> Result<Value, Refusal> {
        let mut patched = object.clone();
        match self {
            Self::Merge(patch) => merge::merge(&mut patched, patch),
            Self::Json(patch) => json::patch(&mut patched, patch)
                .map_err(|why| Refusal::new(422, "Invalid", why.to_string()))?,
            Self::Strategic(patch) => strategic::merge(&mut patched, patch, shape),
            Self::Apply(_) => {}
        }
        Ok(patched)
    }
}
