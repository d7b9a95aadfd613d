//! The `arc_swap` of `log`, with a scheduler behind each use. Has what that crate uses and no more.

use std::ops::Deref;
use std::sync::Arc;

use shuttle::sync::Mutex;

const POISONED: &str = "no thread panics while it holds a lock";

#[derive(Debug)]
pub struct ArcSwap<T>(Mutex<Arc<T>>);

pub struct Guard<T>(Arc<T>);

impl<T> Deref for Guard<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T> ArcSwap<T> {
    pub fn new(value: Arc<T>) -> ArcSwap<T> {
        ArcSwap(Mutex::new(value))
    }

    pub fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap::new(Arc::new(value))
    }

    pub fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().expect(POISONED))
    }

    pub fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    pub fn store(&self, value: Arc<T>) {
        *self.0.lock().expect(POISONED) = value;
    }

    /// Replaces what is there by what is made of it, and returns it.
    pub fn rcu(&self, make: impl Fn(&Arc<T>) -> T) -> Arc<T> {
        let mut value = self.0.lock().expect(POISONED);
        let made = Arc::new(make(&value));
        std::mem::replace(&mut value, made)
    }
}

impl<T: Default> Default for ArcSwap<T> {
    fn default() -> ArcSwap<T> {
        ArcSwap::from_pointee(T::default())
    }
}
