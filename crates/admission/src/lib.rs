//! The admission webhook: what an API server asks before it takes an object.
//!
//! ```text
//!   API server ──HTTPS──► server ──► review ──┬─ pods       bad annotations: a warning
//!       ▲                   ▲                 ├─ policies   NetworkQoS: schema, quotas, equal priorities
//!       │ caBundle          │ certificate     ├─ bounds     NetworkQoSQuota, BandwidthProfile
//!       │                   │                 ├─ slo        slo-controller-config, NodeSLO
//!       │                   │                 ├─ attachments  NetworkAttachmentDefinition: a warning
//!       │                   │                 └─ defaults   NetworkQoS without priority
//!   register ◄── Keeper ────┘                       ▲
//!                  │ Secret, shared by replicas     │ quotas, namespaces, policies
//!                  └────────────────────────────  Known ◄── watches
//! ```
//!
//! **It is a courtesy.** All that it refuses, agents leave out of force as well: an object that got
//! past it has a condition in place of an error message. So its failure policy is `Ignore`: where no
//! replica answers, pods start and objects are written. With `Fail`, a node that takes the webhook
//! down would keep the webhook's own pod from being made anew, and every pod of the cluster with it.
//!
//! **It changes nothing but the object that it is asked about.** A `NetworkQoS` for each namespace of
//! some kind is therefore not made here when a `Namespace` is created: a webhook that makes other
//! objects does so for requests that are refused afterwards or were dry runs, it would miss each
//! namespace that is created while no replica answers, and all those that were there before or are
//! labelled later. [`inject`], which compares what should be with what is, misses none of them; it is
//! for the controller that leads. What is filled in by the webhook is the priority that a `NetworkQoS` does not say.
//!
//! **Its certificate is its own.** Each is signed by an authority of its own, whose key is forgotten
//! at once: nobody can sign another. It is kept in a Secret that all replicas share, and is made anew
//! by whichever of them first finds that it ends soon; the API server is told of the new authority
//! before the new certificate is shown, and trusts the old one beside it.
#![forbid(unsafe_code)]

mod attachments;
mod bounds;
mod certificate;
mod configuration;
mod defaults;
mod findings;
mod injection;
mod keeper;
mod known;
mod options;
mod pods;
mod policies;
mod readiness;
mod register;
mod review;
mod serve;
mod slo;
mod tls;

pub use certificate::{CertificateError, Certificates};
pub use configuration::{
    MUTATE, OF_ANNOTATIONS, OF_NETWORKS, Reach, VALIDATE, mutating, validating,
};
pub use injection::inject;
pub use known::Known;
pub use options::Options;
pub use readiness::Readiness;
pub use review::{Request, mutate, validate};
pub use serve::{ServeError, Webhook, serve};
