//! The buffer that the batches of a request lie in, and which of them may stay there.
//!
//! Hot tails count the bytes of their batches, and a batch that stays here keeps all of the buffer, with everything around it that
//! was refused or went elsewhere. So no batch does before an eighth of the size was kept by the same directory, which evicts
//! in the order of appends: what a directory keeps in memory is then at most nine times what it counts. A request that is one
//! batch, or a few, is never copied; of one with hundreds an eighth is.

/// Of what is kept of a buffer the first eighth is copied out; only what comes behind that stays in it.
const COPIED_PART: usize = 8;

#[derive(Default)]
pub(crate) struct Source {
    size: usize,
    /// Bytes of accepted batches, by directory.
    kept: Vec<usize>,
}

impl Source {
    pub(crate) fn begin(&mut self, size: usize) {
        self.size = size;
        self.kept.clear();
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// True if a batch of so many bytes for this directory may stay where it is; else it is copied.
    pub(crate) fn may_keep(&self, bytes: usize, dir: usize) -> bool {
        let kept = self.kept.get(dir).copied().unwrap_or(0);
        self.size / COPIED_PART <= kept + bytes
    }

    /// A batch was accepted, copied or not.
    pub(crate) fn on_kept(&mut self, bytes: usize, dir: usize) {
        if self.kept.len() <= dir {
            self.kept.resize(dir + 1, 0);
        }
        self.kept[dir] += bytes;
    }
}
