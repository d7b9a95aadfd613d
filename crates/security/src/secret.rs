//! Bytes that must not be seen: passwords, keys, shared secrets.

use zeroize::{Zeroize, Zeroizing};

/// A value that is zeroed when it is dropped. Has no `Debug`, no `Display` and no form on the wire, so that a line of the log, a metric or a
/// dump with a secret in it does not compile.
#[derive(Clone)]
pub struct Secret<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Secret<T> {
    #[must_use]
    pub fn new(value: T) -> Secret<T> {
        Secret(Zeroizing::new(value))
    }

    /// The value itself. Named so that each place that looks at a secret can be found.
    #[must_use]
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl Secret<Vec<u8>> {
    /// True if both are the same bytes. The time does not depend on where they differ.
    #[must_use]
    pub fn is(&self, other: &[u8]) -> bool {
        same(self.expose(), other)
    }
}

/// True if both are the same bytes; the time depends on their lengths alone.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(one, other).is_ok()
}
