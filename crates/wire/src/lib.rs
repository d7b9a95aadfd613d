//! wire

pub mod error_code;

pub use error_code::ErrorCode;
