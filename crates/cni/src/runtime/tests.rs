mod files;
mod operations;
pub(crate) mod stage;
