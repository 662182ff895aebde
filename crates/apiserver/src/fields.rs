//! Who owns which field of an object: `metadata.managedFields`, and what server-side apply makes of
//! them.

mod apply;
mod diff;
mod managed;
mod set;
mod shape;

pub(crate) use apply::apply;
pub(crate) use managed::{Manager, note_update};
pub(crate) use shape::{ListKind, Shape};
