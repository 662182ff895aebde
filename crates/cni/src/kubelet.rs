//! The kubelet's role.
