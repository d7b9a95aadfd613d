//! The `parking_lot` of `log`, with a scheduler behind each use. Has what that crate uses and no more.

use std::ops::{Deref, DerefMut};

pub use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};

const POISONED: &str = "no thread panics while it holds a lock";

#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().expect(POISONED))
    }
}

pub struct MutexGuard<'a, T>(shuttle::sync::MutexGuard<'a, T>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// The content of an option behind a lock; other mappings are not in use.
pub struct MappedMutexGuard<'a, T>(MutexGuard<'a, Option<T>>);

impl<'a, T> MutexGuard<'a, Option<T>> {
    pub fn map(
        mut guard: MutexGuard<'a, Option<T>>,
        content: impl FnOnce(&mut Option<T>) -> &mut T,
    ) -> MappedMutexGuard<'a, T> {
        content(&mut guard);
        MappedMutexGuard(guard)
    }
}

const EMPTY: &str = "the mapping gave the content";

impl<T> Deref for MappedMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(EMPTY)
    }
}

impl<T> DerefMut for MappedMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(EMPTY)
    }
}

#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect(POISONED)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().expect(POISONED)
    }
}
