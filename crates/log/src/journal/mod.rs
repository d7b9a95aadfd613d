//! The journal of one log directory: where an append becomes durable before anyone hears of it.
//!
//! Preallocated, recycled pieces of zeroes take rounds of entries from all partitions, one write and one sync each. Segments
//! follow later without haste; a checkpoint makes them durable and lets pieces be used again.

mod echo;
mod format;
mod piece;
mod replay;
mod writer;

pub use format::PAGE;
pub use piece::{Making, Piece, Spares, is_full, lacks_descriptors, make_piece, piece_path};
pub use replay::{Damage, From, Lost, Replayed, Step, Unproven, replay};
pub use writer::{CommitError, Entry, Resume, SYNCS_MAX, What, Writer};
