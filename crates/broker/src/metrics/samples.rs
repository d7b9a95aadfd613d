//! The samples of one moment, family by family in the order of the table.
//!
//! Locks of partitions and directories are taken for a few instructions each, as readers of records take them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{BrokerId, Instant};
use security::login::server::Reason;
use wire::ErrorCode;

use super::census;
use super::readiness::readiness;
use super::sink::{Number, Sink};
use super::table as metric;
use super::watch::Process;
use crate::meters::lag::{Extent, History};
use crate::meters::meter::{Refusal, Total, api_name};
use crate::shared::Shared;
use crate::topics::Topic;

/// The label of topics and groups beyond `esker.metrics.topics.max`; no topic can have this name.
const OTHERS: &str = "(other)";

pub(super) fn write(
    page: &mut impl Sink,
    shared: &Shared,
    history: &mut History,
    process: Process,
) {
    let now = shared.env.clock.now();
    write_process(page, shared, process);
    write_requests(page, shared);
    write_topics(page, shared);
    census::write(page, shared);
    write_groups(page, shared, history, now);
    write_dirs(page, shared, now);
    write_memory(page, shared);
}

fn write_process(page: &mut impl Sink, shared: &Shared, process: Process) {
    page.family(&metric::BUILD, [(vec![process.version], 1)]);
    page.one(&metric::STARTED, process.started_seconds);
    page.one(&metric::READY, u8::from(readiness(shared).is_ok()));
    page.one(&metric::RESIDENT, process.resident_bytes);
    page.one(&metric::CPU, process.cpu_seconds);
    page.one(&metric::FILES, process.files_open);
    page.one(&metric::FILES_MAX, process.files_max);
}

fn write_requests(page: &mut impl Sink, shared: &Shared) {
    let held = shared.meters.held();
    let mut total = Total::default();
    shared
        .meters
        .iter()
        .for_each(|meter| meter.add_to(&mut total));
    page.one(&metric::CONNECTIONS, held.connections);
    page.one(&metric::CONNECTIONS_MAX, shared.doors.connections_max());
    page.one(&metric::OPENED, total.opened);
    page.one(&metric::CLOSED, total.closed);
    page.one(&metric::LOGINS, total.logins);
    let refused = Refusal::ALL.iter().zip(total.refused);
    page.family(
        &metric::REFUSED,
        refused.map(|((_, name), count)| (vec![*name], count)),
    );
    let refused = Reason::KINDS.iter().zip(total.refused_logins);
    page.family(
        &metric::REFUSED_LOGINS,
        refused.map(|(kind, count)| (vec![*kind], count)),
    );
    let software = shared.meters.software.lock().all();
    let clients = software.iter();
    page.family(
        &metric::CLIENTS,
        clients.map(|(name, version, count)| (vec![name.as_str(), version.as_str()], *count)),
    );

    let names: BTreeMap<i16, String> = (total.apis.keys())
        .chain(total.errors.keys().map(|(key, _)| key))
        .map(|key| (*key, api_name(*key)))
        .collect();
    let name = |key: &i16| vec![names[key].as_str()];
    let apis = || total.apis.iter();
    page.family(
        &metric::REQUESTS,
        apis().map(|(key, api)| (name(key), api.latency.count())),
    );
    let codes: BTreeMap<i16, String> = (total.errors.keys())
        .map(|(_, code)| (*code, error_name(*code)))
        .collect();
    let errors = total.errors.iter();
    page.family(
        &metric::REQUEST_ERRORS,
        errors
            .map(|((key, code), count)| (vec![names[key].as_str(), codes[code].as_str()], *count)),
    );
    page.histograms(
        &metric::REQUEST_TIME,
        apis().map(|(key, api)| (name(key), api.latency)),
    );
    page.family(
        &metric::RECEIVED,
        apis().map(|(key, api)| (name(key), api.received)),
    );
    page.family(
        &metric::SENT,
        apis().map(|(key, api)| (name(key), api.sent)),
    );
    page.one(&metric::WAITING, held.waiting);
    page.one(&metric::FETCH_SESSIONS, held.fetch_sessions);
    page.one(&metric::PAUSES, total.pauses);
}

/// Kafka's name of a code: `NOT_LEADER_OR_FOLLOWER`.
fn error_name(code: i16) -> String {
    ErrorCode::try_from(code).map_or_else(|_| code.to_string(), |known| known.name().to_owned())
}

type Column = (&'static metric::Metric, fn(&OfTopic) -> Number);

/// The numbers of one topic, or of all beyond the bound. The sum over brokers counts each partition once: where it is led.
#[derive(Clone, Copy, Default)]
struct OfTopic {
    /// Replicas of this broker.
    here: u64,
    partitions: u64,
    offline: u64,
    ends: i64,
    size: u64,
    appended: u64,
    fetched: u64,
}

impl OfTopic {
    fn add(&mut self, topic: &Topic, me: BrokerId) {
        for partition in topic.here() {
            // Traffic of clients: a follower counts nothing, and one that led goes on from what it counted.
            let traffic = partition.traffic();
            self.here += 1;
            self.offline += u64::from(partition.is_offline());
            self.appended += traffic.appended_bytes;
            self.fetched += traffic.fetched_bytes;
        }
        for (partition, _) in topic.led_by(me) {
            self.partitions += 1;
            self.ends += partition.bounds().log_end.0;
            self.size += partition.size();
        }
    }
}

fn write_topics(page: &mut impl Sink, shared: &Shared) {
    let topics = shared.catalog.topics();
    let settings = shared.catalog.config();
    let (most, me) = (settings.metrics_topics_max, settings.broker.node_id);
    let mut rows: Vec<(&str, OfTopic)> = Vec::new();
    for (at, topic) in topics.sorted().enumerate() {
        let name = if at < most { &*topic.name } else { OTHERS };
        if rows.last().is_none_or(|(last, _)| *last != name) {
            rows.push((name, OfTopic::default()));
        }
        if let Some((_, row)) = rows.last_mut() {
            row.add(topic, me);
        }
    }
    let sum = |field: fn(&OfTopic) -> u64| rows.iter().map(|(_, row)| field(row)).sum::<u64>();
    page.one(&metric::TOPICS, topics.count());
    page.one(&metric::PARTITIONS, sum(|row| row.here));
    page.one(&metric::PARTITIONS_OFFLINE, sum(|row| row.offline));
    if most == 0 {
        rows.clear();
    }
    let columns: [Column; 6] = [
        (&metric::TOPIC_PARTITIONS, |row| row.partitions.into()),
        (&metric::TOPIC_OFFLINE, |row| row.offline.into()),
        (&metric::TOPIC_OFFSETS, |row| row.ends.into()),
        (&metric::TOPIC_SIZE, |row| row.size.into()),
        (&metric::TOPIC_APPENDED, |row| row.appended.into()),
        (&metric::TOPIC_FETCHED, |row| row.fetched.into()),
    ];
    for (metric, value) in columns {
        let samples = rows.iter().map(|(name, row)| (vec![*name], value(row)));
        page.family(metric, samples);
    }
}

fn write_groups(page: &mut impl Sink, shared: &Shared, history: &mut History, now: Instant) {
    let topics = shared.catalog.topics();
    let most = shared.catalog.config().metrics_topics_max;
    let rows = shared.meters.committed();
    let mut numbers: HashMap<Arc<str>, usize> = HashMap::new();
    for row in &rows {
        let next = numbers.len();
        numbers.entry(Arc::clone(&row.group)).or_insert(next);
    }
    let extent = |topic: &str, partition: i32| {
        let bounds = topics.partition(topic, partition).ok()?.bounds();
        Some(Extent {
            start: bounds.log_start.0,
            end: bounds.high_watermark.0,
        })
    };
    let lags = history.lags(&rows, extent, now);
    let shown: Vec<_> = (lags.iter())
        .filter(|((group, _), _)| numbers[group] < most)
        .collect();
    page.one(&metric::GROUPS, numbers.len());
    page.family(
        &metric::GROUP_LAG,
        (shown.iter()).map(|((group, topic), lag)| (vec![&**group, &**topic], lag.records)),
    );
    page.family(
        &metric::GROUP_LAG_TIME,
        (shown.iter())
            .map(|((group, topic), lag)| (vec![&**group, &**topic], lag.time.as_secs_f64())),
    );
}

fn write_dirs(page: &mut impl Sink, shared: &Shared, now: Instant) {
    let dirs = shared.volumes.dirs();
    let paths: Vec<String> = (dirs.iter())
        .map(|dir| dir.path.display().to_string())
        .collect();
    let named = || dirs.iter().zip(paths.iter().map(String::as_str));
    let one = |name| vec![name];
    page.family(
        &metric::DIR_ONLINE,
        named().map(|(dir, name)| (one(name), u8::from(!dir.is_failed()))),
    );
    page.family(
        &metric::DIR_FULL,
        named().map(|(dir, name)| (one(name), u8::from(dir.is_full()))),
    );
    // A volume that does not say has no sample.
    let spaces: Vec<_> = named()
        .filter_map(|(dir, name)| Some((name, shared.env.disk.space(&dir.path).ok()?)))
        .collect();
    page.family(
        &metric::DIR_FREE,
        spaces
            .iter()
            .map(|(name, space)| (one(*name), space.available)),
    );
    page.family(
        &metric::DIR_TOTAL,
        spaces.iter().map(|(name, space)| (one(*name), space.total)),
    );
    let done: Vec<_> = named()
        .map(|(dir, name)| (name, dir.counters.done()))
        .collect();
    let done = || done.iter();
    page.family(
        &metric::ROUNDS,
        done().map(|(name, done)| (one(*name), done.rounds)),
    );
    page.family(
        &metric::ROUND_BYTES,
        done().map(|(name, done)| (one(*name), done.round_bytes)),
    );
    page.histograms(
        &metric::COMMIT_TIME,
        named().map(|(dir, name)| (one(name), dir.counters.commits.read())),
    );
    page.family(
        &metric::JOURNAL_LIVE,
        named().map(|(dir, name)| (one(name), dir.journal_live_bytes())),
    );
    page.family(
        &metric::CHECKPOINTS,
        done().map(|(name, done)| (one(*name), done.checkpoints)),
    );
    page.family(
        &metric::CHECKPOINT_AGE,
        done().map(|(name, done)| {
            let at = done.checkpoint_at.unwrap_or(shared.lifetime.started_at);
            (one(*name), now.since(at).as_secs_f64())
        }),
    );
    page.family(
        &metric::UNWRITTEN,
        named().map(|(dir, name)| (one(name), dir.unwritten_bytes().max(0))),
    );
    page.family(
        &metric::COMPACTIONS,
        done().map(|(name, done)| (one(*name), done.compactions)),
    );
    page.family(
        &metric::COMPACTED,
        done().map(|(name, done)| (one(*name), done.compacted_bytes)),
    );
    page.family(
        &metric::ROT_FOUND,
        named().map(|(dir, name)| (one(name), dir.rot_found())),
    );
    page.family(
        &metric::ROT_REPAIRED,
        named().map(|(dir, name)| (one(name), dir.rot_repaired())),
    );
    page.family(
        &metric::ROT_UNREPAIRED,
        named().map(|(dir, name)| (one(name), dir.rot_unrepaired())),
    );
}

fn write_memory(page: &mut impl Sink, shared: &Shared) {
    let memory = shared.catalog.config().broker.memory;
    let held = shared.meters.held();
    let unwritten: isize = shared
        .volumes
        .dirs()
        .iter()
        .map(|dir| dir.unwritten_bytes())
        .sum();
    let hot: usize = (shared.volumes.residents().iter())
        .map(|residents| residents.in_memory().hot_bytes)
        .sum();
    page.one(&metric::MEMORY_LIMIT, memory.limit);
    page.family(
        &metric::MEMORY_BUDGET,
        memory.budgets().map(|(name, bytes)| (vec![name], bytes)),
    );
    let used = [
        ("requests", held.request_bytes + held.unfinished_bytes),
        ("answers", held.answer_bytes),
        ("tail", hot),
        ("unwritten", usize::try_from(unwritten).unwrap_or(0)),
    ];
    page.family(
        &metric::MEMORY_USED,
        used.map(|(name, bytes)| (vec![name], bytes)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_names_that_kafka_gives_them() {
        assert_eq!(error_name(6), "NOT_LEADER_OR_FOLLOWER");
        assert_eq!(error_name(-1), "UNKNOWN_SERVER_ERROR");
        assert_eq!(error_name(9999), "9999");
    }
}
