//! The checker tested on itself: a clean history passes, and every way of breaking it is named.

mod clean;
mod mutations;
mod outcomes;
