mod attach;
mod cache;
mod cache_round_trip;
mod execution;
mod files;
pub(crate) mod stage;
mod upkeep;
