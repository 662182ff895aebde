//! What one may do: what a review of access says.

use http::Method;
use serde_json::{Value, json};

use crate::call::{Call, Target};
use crate::shared::Shared;

/// True when somebody asks what he himself may do (`SelfSubjectAccessReview`).
pub(crate) fn is_review(call: &Call, target: &Target) -> bool {
    let Target {
        group,
        version,
        plural,
        ..
    } = target;
    let is = ["authorization.k8s.io", "v1", "selfsubjectaccessreviews"];
    [group.as_str(), version, plural] == is && call.method == Method::POST
}

/// The review with its answer: all is allowed but what a fault refuses with 403 each time. Nothing is
/// stored.
pub(crate) fn review(shared: &Shared, call: &Call, asked: &Value) -> Value {
    let attributes = &asked["spec"]["resourceAttributes"];
    let text = |name: &str| attributes[name].as_str().unwrap_or_default();
    let forbidden = shared
        .faults
        .forbid(&call.client, text("verb"), text("resource"));
    let mut review = asked.clone();
    review["kind"] = "SelfSubjectAccessReview".into();
    review["apiVersion"] = "authorization.k8s.io/v1".into();
    review["status"] = json!({"allowed": !forbidden});
    review
}
