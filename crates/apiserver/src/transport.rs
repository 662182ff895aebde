//! HTTP/1.1: connections, requests, answers.

mod accept;
mod answer;
mod body;
mod faulty;
mod watch;

pub(crate) use accept::{Answers, Control, serve};
pub(crate) use answer::{Reply, respond};
pub(crate) use body::{Body, Broken};
pub(crate) use faulty::{Faulty, meet};
