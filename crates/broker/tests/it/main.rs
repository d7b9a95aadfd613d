//! The whole broker on a simulated machine, driven through its doors.

mod cluster;
mod hostile;
