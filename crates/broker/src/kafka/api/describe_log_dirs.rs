//! DescribeLogDirs: what lies in which directory, what is on its way there, how much room is left, and whether it takes new
//! partitions (KIP-113, KIP-827, KIP-1066).

use std::collections::BTreeMap;
use std::sync::Arc;

use meta::Image;
use model::BrokerId;
use partition::{LogDir, Partition};
use wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use wire::{ApiKey, ErrorCode};

use crate::kafka::call::Call;
use crate::net::Outcome;

const UNKNOWN: i64 = -1;

pub(crate) fn on_describe_log_dirs(
    call: &mut Call<'_>,
    request: DescribeLogDirsRequest,
) -> Outcome {
    let topics = call.desk.topics();
    let asked: Vec<Arc<Partition>> = match &request.topics {
        None => topics
            .sorted()
            .flat_map(|topic| topic.here().cloned())
            .collect(),
        Some(named) => named
            .iter()
            .filter_map(|asked| Some((topics.named(&asked.topic)?, asked)))
            .flat_map(|(topic, asked)| {
                asked
                    .partitions
                    .iter()
                    .filter_map(|index| topic.partition(*index).ok().cloned())
            })
            .collect(),
    };
    let shared = Arc::clone(&call.desk.shared);
    let results = shared
        .volumes
        .dirs()
        .iter()
        .map(|dir| describe_dir(call, dir, &asked))
        .collect();
    call.reply(
        ApiKey::DescribeLogDirs,
        &DescribeLogDirsResponse {
            results,
            ..Default::default()
        },
    )
}

fn describe_dir(
    call: &mut Call<'_>,
    dir: &Arc<LogDir>,
    asked: &[Arc<Partition>],
) -> DescribeLogDirsResult {
    let log_dir = dir.path.display().to_string();
    if dir.is_failed() {
        return DescribeLogDirsResult {
            error_code: ErrorCode::KafkaStorageError.code(),
            log_dir,
            ..Default::default()
        };
    }
    let image = call.desk.shared.catalog.image();
    let me = call.desk.shared.catalog.config().broker.node_id;
    let mut topics: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for partition in asked
        .iter()
        .filter(|partition| Arc::ptr_eq(&partition.dir(), dir))
    {
        topics
            .entry(&partition.topic)
            .or_default()
            .push(DescribeLogDirsPartition {
                partition_index: partition.index.0,
                partition_size: partition.size() as i64,
                offset_lag: 0,
                is_future_key: false,
                reassignment_still_ms: still_ms(&image, me, partition).unwrap_or(UNKNOWN),
            });
    }
    for wish in call.desk.shared.moves.coming_to(dir) {
        let partition = &wish.partition;
        let Some(partition) = asked.iter().find(|asked| Arc::ptr_eq(asked, partition)) else {
            continue;
        };
        let lag = partition.bounds().log_end.0 - wish.moved.end().0;
        topics
            .entry(&partition.topic)
            .or_default()
            .push(DescribeLogDirsPartition {
                partition_index: partition.index.0,
                partition_size: wish.moved.bytes() as i64,
                offset_lag: lag.max(0),
                is_future_key: true,
                reassignment_still_ms: UNKNOWN,
            });
    }
    let space = call.desk.shared.env.disk.space(&dir.path).ok();
    // A directory that is full for want of descriptors has room.
    let needed = dir.needed_bytes();
    let is_full = dir.is_full() && space.is_some_and(|space| space.available < needed);
    DescribeLogDirsResult {
        error_code: 0,
        log_dir,
        topics: topics
            .into_iter()
            .map(|(name, partitions)| DescribeLogDirsTopic {
                name: name.to_owned(),
                partitions,
            })
            .collect(),
        total_bytes: space.map_or(UNKNOWN, |space| space.total as i64),
        usable_bytes: space.map_or(UNKNOWN, |space| space.available as i64),
        is_cordoned: call
            .desk
            .shared
            .catalog
            .config()
            .broker
            .is_cordoned(&dir.path),
        full_below_bytes: if is_full { needed as i64 } else { UNKNOWN },
    }
}

/// The time for which a reassignment of a partition that is led here has not moved; `None` where none is under way.
fn still_ms(image: &Image, me: BrokerId, here: &Partition) -> Option<i64> {
    let topic = image.topic(&here.topic)?;
    let of = topic.partitions.get(usize::try_from(here.index.0).ok()?)?;
    let is_coming = of.leader == me && !of.adding.is_empty();
    let still = is_coming.then(|| here.coming_still(&of.adding, &of.isr))??;
    i64::try_from(still.as_millis()).ok()
}
