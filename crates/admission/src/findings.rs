//! What is wrong with an object, and how an API server is told so.

use kube::core::Status;
use kube::core::admission::AdmissionResponse;
use kube::core::response::{StatusCause, StatusDetails};
use netqos_k8s::FieldError;

/// The longest warning that clients are sure to be shown whole.
const LONGEST: usize = 256;
/// The most warnings of one object.
const MOST: usize = 16;

/// What was found wrong with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// For which it is refused: it says what nobody can follow.
    pub(crate) invalid: Vec<FieldError>,
    /// For which it is refused: others say that it may not.
    pub(crate) forbidden: Vec<FieldError>,
    /// Of which whoever writes it is told.
    pub(crate) warnings: Vec<String>,
}

impl From<netqos_k8s::check::Findings> for Findings {
    fn from(found: netqos_k8s::check::Findings) -> Self {
        Self {
            invalid: found.errors,
            warnings: found.warnings.iter().map(ToString::to_string).collect(),
            forbidden: Vec::new(),
        }
    }
}

impl Findings {
    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// The answer, about an object that is called so.
    pub(crate) fn answer(self, mut response: AdmissionResponse, what: &str) -> AdmissionResponse {
        if !self.warnings.is_empty() {
            let warnings = self.warnings.iter().take(MOST).map(|it| shortened(it));
            response.warnings = Some(warnings.collect());
        }
        let (code, reason, how) = match (self.invalid.is_empty(), self.forbidden.is_empty()) {
            (true, true) => return response,
            (false, _) => (422, "Invalid", "is invalid"),
            (true, false) => (403, "Forbidden", "is forbidden"),
        };
        let errors: Vec<FieldError> = self.invalid.into_iter().chain(self.forbidden).collect();
        let told: Vec<String> = errors.iter().map(FieldError::to_string).collect();
        let mut status = Status::failure(&format!("{what} {how}: {}", told.join("; ")), reason);
        status.code = code;
        let causes = errors.into_iter().map(|error| StatusCause {
            reason: "FieldValueInvalid".to_owned(),
            message: error.message,
            field: error.path,
        });
        status.details = Some(StatusDetails {
            causes: causes.collect(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            retry_after_seconds: 0,
        });
        response.allowed = false;
        response.result = status;
        response
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
