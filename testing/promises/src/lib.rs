//! What parsers promise of any text. Property tests and the fuzz targets call it. Beside it, what kubectl reads.
//!
//! Each function feeds one parser, and checks what it made of the text. A broken promise is a
//! panic.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "a broken promise is a panic")]

mod api;
mod cni;
mod k8s;
mod kubectl;

pub use api::{annotations, bandwidth_config, duration, net_files, networks, quantity};
pub use cni::{attachment_tag, cni_result, network_list, plugin_call};
pub use k8s::manifests;
pub use kubectl::{KubectlRow, kubectl_rows, without_head};
