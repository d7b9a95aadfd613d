//! Logins in memory.
