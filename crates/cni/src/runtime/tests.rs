mod attach;
mod cache;
mod execution;
mod files;
pub(crate) mod stage;
mod upkeep;
