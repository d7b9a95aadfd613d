//! AlterReplicaLogDirs: partitions move to another log directory of this broker while they are used (KIP-113).
//!
//! Answered at once; DescribeLogDirs reports how far a move is. A partition that does not exist is refused, and made in the
//! directory that was named when it comes to exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use partition::LogDir;
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};
use wire::{ApiKey, ErrorCode};

use crate::error;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::topics::{Absent, Topics};

/// Length of a dot, an id in hex and `-future`, which follow the name of a directory that is on its way.
const FUTURE_BYTES: usize = 1 + 32 + 7;
const NAME_BYTES_MAX: usize = 255;

pub(crate) fn on_alter_replica_log_dirs(
    call: &mut Call<'_>,
    request: AlterReplicaLogDirsRequest,
) -> Outcome {
    let topics = call.desk.topics();
    // Of a partition that is named twice the last directory holds.
    let mut wanted: BTreeMap<String, BTreeMap<i32, &str>> = BTreeMap::new();
    for dir in &request.dirs {
        for topic in &dir.topics {
            let partitions = wanted.entry(topic.name.clone()).or_default();
            partitions.extend(topic.partitions.iter().map(|index| (*index, &*dir.path)));
        }
    }
    let results = wanted.into_iter().map(|(topic_name, partitions)| {
        let result = |(partition_index, path): (i32, &str)| {
            let code = alter_dir(call, &topics, &topic_name, partition_index, path);
            AlterReplicaLogDirPartitionResult {
                partition_index,
                error_code: code.code(),
            }
        };
        AlterReplicaLogDirTopicResult {
            partitions: partitions.into_iter().map(result).collect(),
            topic_name,
        }
    });
    let response = AlterReplicaLogDirsResponse {
        results: results.collect(),
        ..Default::default()
    };
    call.reply(ApiKey::AlterReplicaLogDirs, &response)
}

fn alter_dir(
    call: &mut Call<'_>,
    topics: &Topics,
    topic: &str,
    index: i32,
    path: &str,
) -> ErrorCode {
    let name_bytes = format!("{topic}-{index}").len() + FUTURE_BYTES;
    if name_bytes > NAME_BYTES_MAX {
        return ErrorCode::InvalidTopicException;
    }
    let dirs = call.desk.shared.volumes.dirs();
    let named = |dir: &&Arc<LogDir>| dir.path.display().to_string() == path;
    let Some(dir) = dirs.iter().find(named) else {
        return ErrorCode::LogDirNotFound;
    };
    if dir.is_failed() {
        return ErrorCode::KafkaStorageError;
    }
    if call
        .desk
        .shared
        .catalog
        .config()
        .broker
        .is_cordoned(&dir.path)
    {
        return ErrorCode::InvalidReplicaAssignment;
    }
    let moves = &call.desk.shared.moves;
    let partition = match topics.partition(topic, index) {
        Ok(partition) => partition,
        Err(why) => {
            if let Absent::Unknown = why {
                moves.prefer(topic, index, dir.id);
            }
            return error::absent(why);
        }
    };
    if partition.is_offline() {
        return ErrorCode::KafkaStorageError;
    }
    let home = partition.dir();
    let key = (partition.topic_id, partition.index);
    let under_way = moves.wanted(key);
    let is_under_way = under_way.is_some_and(|wish| Arc::ptr_eq(&wish.to, dir));
    // While a directory is offline nobody knows what lies there: a move to elsewhere ends, no other begins.
    let may_begin = dirs.iter().all(|dir| !dir.is_failed());
    if Arc::ptr_eq(&home, dir) || is_under_way || may_begin {
        moves.wish(partition, dir);
        ErrorCode::None
    } else {
        moves.wish(partition, &home);
        ErrorCode::KafkaStorageError
    }
}
