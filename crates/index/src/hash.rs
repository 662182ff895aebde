//! Hash tables of short keys: names, digests, addresses.
//!
//! Their hash is seeded anew in each process, as that of the standard library is, and takes a few
//! nanoseconds where that takes twenty: an event asks several tables for each address that it
//! concerns.

pub(crate) use foldhash::fast::RandomState;

pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
pub(crate) type HashSet<T> = std::collections::HashSet<T, RandomState>;
