//! An image for decisions: what the records say, less what this node knows to be unusable before any record says so.
//!
//! It can be read like an image and not be replayed on: it is no state that the log ever had.

use std::ops::Deref;

use model::BrokerId;
use wire::Uuid;

use crate::image::Image;

#[derive(Clone, Debug)]
pub struct Candidate {
    image: Image,
}

impl Candidate {
    /// Everything is as the records say.
    #[must_use]
    pub fn new(image: &Image) -> Candidate {
        Candidate {
            image: image.clone(),
        }
    }

    /// The same, where directories of a broker have `failed` since it registered, and others are `cordoned`.
    #[must_use]
    pub fn without_log_dirs(
        mut self,
        broker: BrokerId,
        failed: &[Uuid],
        cordoned: &[Uuid],
    ) -> Candidate {
        self.image.set_log_dirs(broker, failed, cordoned);
        self
    }
}

impl Deref for Candidate {
    type Target = Image;

    fn deref(&self) -> &Image {
        &self.image
    }
}
