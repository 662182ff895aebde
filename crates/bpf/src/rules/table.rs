//! A map of plain keys and values.

use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::Result;
use crate::sys::{self, BPF_NOEXIST};

/// Elements in one call of a batch.
const BATCH: usize = 4096;

/// What a map may hold.
///
/// # Safety
/// Every bit of the type is part of a field (no padding), and every pattern of bits is a value.
pub unsafe trait Plain: Copy + Default + 'static {}

/// Values by keys, however a map has them.
pub trait Entries<K, V> {
    /// The value of a key.
    fn get(&self, key: &K) -> Result<Option<V>>;

    /// Writes the value of a key, whether it had one or not.
    fn put(&self, key: &K, value: &V) -> Result<()>;

    /// Removes a key; says whether it was there.
    fn remove(&self, key: &K) -> Result<bool>;

    /// All keys. What others change meanwhile may be among them or not.
    fn keys(&self) -> Result<Vec<K>>;
}

impl<K: Plain, V: Plain> Entries<K, V> for Table<K, V> {
    fn get(&self, key: &K) -> Result<Option<V>> {
        self.get(key)
    }

    fn put(&self, key: &K, value: &V) -> Result<()> {
        self.put(key, value)
    }

    fn remove(&self, key: &K) -> Result<bool> {
        self.remove(key)
    }

    fn keys(&self) -> Result<Vec<K>> {
        self.keys()
    }
}

/// A map whose keys and values have these types.
#[derive(Debug)]
pub struct Table<K, V> {
    map: OwnedFd,
    kind: PhantomData<(K, V)>,
}

impl<K: Plain, V: Plain> Table<K, V> {
    /// The map that is pinned at this path.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign) when its keys and values are not of these sizes.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        sys::get_table::<K, V>(path).map(Self::new)
    }

    /// A map of one element's room that is pinned nowhere.
    pub(crate) fn empty(name: &str) -> Result<Self> {
        sys::create_hash(size_of::<K>(), size_of::<V>(), 1, name).map(Self::new)
    }

    /// A map that is known to have keys and values of these sizes.
    pub(super) fn new(map: OwnedFd) -> Self {
        Self {
            map,
            kind: PhantomData,
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        // SAFETY: the sizes were checked when the map was opened.
        unsafe { sys::lookup(self.map.as_fd(), key, 0) }
    }

    /// Writes the value of a key, whether it had one or not.
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        // SAFETY: the sizes were checked when the map was opened.
        unsafe { sys::update(self.map.as_fd(), key, value, 0) }
    }

    /// Writes the value of a key that has none; says whether it did.
    pub fn claim(&self, key: &K, value: &V) -> Result<bool> {
        // SAFETY: the sizes were checked when the map was opened.
        match unsafe { sys::update(self.map.as_fd(), key, value, BPF_NOEXIST) } {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes many; those before the first that fails are written.
    pub fn put_all(&self, elements: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let (mut keys, mut values) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut elements = elements.into_iter();
        loop {
            keys.clear();
            values.clear();
            for (key, value) in elements.by_ref().take(BATCH) {
                keys.push(key);
                values.push(value);
            }
            if keys.is_empty() {
                return Ok(());
            }
            // SAFETY: the sizes were checked when the map was opened.
            unsafe { sys::update_batch(self.map.as_fd(), &keys, &values) }?;
        }
    }

    /// Removes a key; says whether it was there.
    pub fn remove(&self, key: &K) -> Result<bool> {
        // SAFETY: the size was checked when the map was opened.
        unsafe { sys::delete(self.map.as_fd(), key) }
    }

    /// Removes many keys, whether they are there or not.
    pub fn remove_all(&self, keys: &[K]) -> Result<()> {
        for some in keys.chunks(BATCH) {
            // SAFETY: the size was checked when the map was opened.
            match unsafe { sys::delete_batch(self.map.as_fd(), some) } {
                Err(error) if error.errno() == Some(libc::ENOENT) => {
                    for key in some {
                        self.remove(key)?;
                    }
                }
                removed => removed?,
            }
        }
        Ok(())
    }

    /// All keys. What others change meanwhile may be among them or not.
    pub fn keys(&self) -> Result<Vec<K>> {
        // SAFETY: the size was checked when the map was opened.
        unsafe { sys::keys(self.map.as_fd()) }
    }

    /// All keys of an array and their values, in one call.
    #[cfg(feature = "classes")]
    pub(crate) fn whole(&self) -> Result<Vec<(K, V)>> {
        // SAFETY: the sizes were checked when the map was opened.
        unsafe { sys::lookup_batch(self.map.as_fd()) }
    }

    /// All keys and their values.
    pub fn all(&self) -> Result<Vec<(K, V)>> {
        let mut found = Vec::new();
        for key in self.keys()? {
            if let Some(value) = self.get(&key)? {
                found.push((key, value));
            }
        }
        Ok(found)
    }
}
