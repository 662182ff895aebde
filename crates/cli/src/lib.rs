//! The netqos command
