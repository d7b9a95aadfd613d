//! Simulated clients: they speak the protocol over simulated connections and write down what they did and saw.

pub(crate) mod admin;
pub(crate) mod aging;
pub(crate) mod council;
pub(crate) mod crowd;
pub(crate) mod keep;
pub(crate) mod keeper;
pub(crate) mod ledger;
pub(crate) mod line;
pub(crate) mod loner;
pub(crate) mod member;
pub(crate) mod notes;
pub(crate) mod offsets;
pub(crate) mod producer;
pub(crate) mod reader;
pub(crate) mod reassigner;
pub(crate) mod requests;
pub(crate) mod transactor;
pub(crate) mod way;
