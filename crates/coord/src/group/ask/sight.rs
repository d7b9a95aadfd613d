//! The topics that a member may see, where somebody decides about that.

use std::fmt;
use std::sync::Arc;

type Sees = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Everything, unless it is limited. Asked again at each look: what it says may change meanwhile.
#[derive(Clone, Default)]
pub struct Sight(Option<Sees>);

impl Sight {
    pub fn limited(sees: impl Fn(&str) -> bool + Send + Sync + 'static) -> Sight {
        Sight(Some(Arc::new(sees)))
    }

    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    #[must_use]
    pub fn sees(&self, topic: &str) -> bool {
        self.0.as_ref().is_none_or(|sees| sees(topic))
    }
}

impl fmt::Debug for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_limited() {
            "limited"
        } else {
            "whole"
        })
    }
}

/// The same eyes.
impl PartialEq for Sight {
    fn eq(&self, other: &Sight) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}
