//! One file per API, and the table of what is served.

pub(crate) mod admin;
pub(crate) mod delete_records;
pub(crate) mod describe_log_dirs;
pub(crate) mod describe_producers;
pub(crate) mod error;
pub(crate) mod fetch;
pub(crate) mod init_producer_id;
pub(crate) mod list_offsets;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod produce;
pub(crate) use admin::is_served;
