//! What is read from manifests, and what is not.

mod agreement;
mod definition;
mod documents;
mod node_reports;
mod node_slos;
mod peer_slices;
mod pods;
mod policies;
mod profiles;
mod quotas;
