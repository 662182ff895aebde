//! The runtime's role.
