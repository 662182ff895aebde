//! HTTP/1.1: connections, requests, answers.

mod accept;
mod answer;
mod body;
mod watch;

pub(crate) use accept::{Control, serve};
pub(crate) use body::Body;
