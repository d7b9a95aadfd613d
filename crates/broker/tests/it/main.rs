//! The whole broker on a simulated machine, driven through its doors.

mod hostile;
