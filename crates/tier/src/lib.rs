//! The tier: sealed segments as objects of a store, and what becomes of them.
//!
//! Formats and machines without IO: they are told what happened and say what is to be done. So far there is the check whether a store is fit.

#![forbid(unsafe_code)]

pub mod check;
