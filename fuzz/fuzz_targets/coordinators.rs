//! Logs of coordinators, replayed whatever they hold: the first byte chooses groups or transactions, then come their entries. What
//! was loaded is asked, ticked and told to write; the log that comes of it makes the same coordinator again.

#![no_main]

use std::sync::Arc;

use coord::group::Ask as GroupAsk;
use coord::group::ask::{self, ConsumerHeartbeat, Join, Protocol};
use coord::txn::{self, Answer, Ask, Markers, Transactions};
use coord::{Moment, Step};
use esker_fuzz::{Entry, World, caller};
use libfuzzer_sys::fuzz_target;
use model::{Instant, ProducerEpoch, ProducerId, Timestamp};
use wire::DecodeError;
use wire::Uuid;
use wire::group::GroupRecord;
use wire::transaction::TransactionRecord;

/// Groups or transactions of a log that are asked for.
const ASKED_MAX: usize = 4;

fuzz_target!(|data: &[u8]| {
    let [log, rest @ ..] = data else { return };
    let entries = Entry::read_all(rest);
    match log & 1 {
        0 => groups(entries),
        _ => transactions(&entries),
    }
});

fn groups(entries: Vec<Entry>) {
    let mut ids: Vec<String> = entries.iter().filter_map(group_of).collect();
    ids.truncate(ASKED_MAX);
    let Some(mut world) = World::load(entries) else {
        return;
    };
    for id in &ids {
        world.offsets(id).expect("a tool may ask");
        world.ask(GroupAsk::Describe(ask::Describe {
            group_id: id.clone(),
        }));
        world.ask(GroupAsk::ConsumerDescribe(ask::ConsumerDescribe {
            group_id: id.clone(),
        }));
        world.ask(GroupAsk::ConsumerHeartbeat(ConsumerHeartbeat {
            group_id: id.clone(),
            member_id: "new".to_owned(),
            rebalance_timeout_ms: Some(1_000),
            topic_names: Some(vec!["t".to_owned()]),
            owned: Some(Vec::new()),
            brings_member_id: true,
            ..ConsumerHeartbeat::default()
        }));
        world.send(GroupAsk::Join(Join {
            group_id: id.clone(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: Some(10_000),
            protocol_type: "consumer".to_owned(),
            protocols: vec![Protocol::default()],
            fresh: Uuid([7; 16]),
            ..Join::default()
        }));
        world.turn();
    }
    world.mark(1, true);
    for _ in 0..6 {
        world.turn();
    }
    for id in &ids {
        world.ask(GroupAsk::Delete(ask::Delete {
            group_id: id.clone(),
        }));
    }
    world.check_restart(&ids);
}

fn group_of(entry: &Entry) -> Option<String> {
    let Entry::Record { key, value, .. } = entry else {
        return None;
    };
    match GroupRecord::decode(key.clone(), value.clone()).ok()? {
        GroupRecord::OffsetCommit(key, _) => Some(key.group),
        GroupRecord::GroupMetadata(key, _) => Some(key.group),
        GroupRecord::ConsumerGroupMetadata(key, _) => Some(key.group_id),
        GroupRecord::ConsumerGroupMemberMetadata(key, _) => Some(key.group_id),
        GroupRecord::ConsumerGroupCurrentMemberAssignment(key, _) => Some(key.group_id),
        GroupRecord::ConsumerGroupTargetAssignmentMember(key, _) => Some(key.group_id),
        _ => None,
    }
}

/// The outcome of a question, and of others that waited for it.
struct Told {
    answers: Vec<Answer>,
    markers: Vec<Markers>,
}

struct Ledger {
    machine: Transactions,
    log: Vec<TransactionRecord>,
    now_ms: u64,
}

impl Ledger {
    fn load(log: Vec<TransactionRecord>) -> Ledger {
        let mut machine = Transactions::new(txn::Settings::default());
        for record in &log {
            machine.replay(record);
        }
        let mut ledger = Ledger {
            machine,
            log,
            now_ms: 1_000,
        };
        ledger.machine.on_loaded(ledger.at());
        ledger
    }

    fn at(&self) -> Moment {
        Moment {
            now: Instant(self.now_ms * 1_000_000),
            wall: Timestamp(1_700_000_000_000 + self.now_ms as i64),
        }
    }

    fn ask(&mut self, ask: Ask) -> Told {
        let step = self.machine.ask(caller(1), ask, self.at());
        self.perform(step)
    }

    fn perform(&mut self, step: Step<TransactionRecord, Answer, Markers>) -> Told {
        for record in step.records {
            let (key, value) = record
                .encode(self.machine.record_version(&record))
                .expect("own records encode");
            let again = TransactionRecord::decode(key, value).expect("and decode");
            self.machine.replay(&again);
            self.log.push(again);
        }
        let answers = step.answers.into_iter().map(|reply| reply.into_parts().1);
        Told {
            answers: answers.collect(),
            markers: step.effects,
        }
    }

    fn turn(&mut self) {
        if let Some(due) = self.machine.next_deadline() {
            self.now_ms = self.now_ms.max(due.0.div_ceil(1_000_000));
        }
        let step = self.machine.tick(self.at(), &|| None);
        self.perform(step);
    }

    fn all(&mut self) -> Vec<txn::Described> {
        let list = txn::List {
            filter: Arc::default(),
        };
        match self.ask(Ask::List(list)).answers.pop() {
            Some(Answer::List(all)) => all,
            other => panic!("asked for a list, told {other:?}"),
        }
    }
}

fn transactions(entries: &[Entry]) {
    let mut log = Vec::new();
    for entry in entries {
        let Entry::Record { key, value, .. } = entry else {
            continue;
        };
        match TransactionRecord::decode(key.clone(), value.clone()) {
            Ok(record) => log.push(record),
            Err(DecodeError::ApiKey { .. }) => {}
            Err(_) => return,
        }
    }
    let mut ledger = Ledger::load(log);
    for known in ledger.all().into_iter().take(ASKED_MAX) {
        use_it(&mut ledger, &known);
    }
    for _ in 0..4 {
        ledger.turn();
    }
    let before = ledger.all();
    let mut again = Ledger::load(std::mem::take(&mut ledger.log));
    assert_eq!(before, again.all());
}

/// Everything that a producer may ask for, as the incarnation that is known and as one before it.
fn use_it(ledger: &mut Ledger, known: &txn::Described) {
    let id = || known.transactional_id.clone();
    let before = txn::Producer {
        id: known.producer.id,
        epoch: ProducerEpoch(known.producer.epoch.0.saturating_sub(1)),
    };
    let places = vec![("t".to_owned(), 0), ("t".to_owned(), 1)];
    for producer in [before, known.producer] {
        for version in [0, 2] {
            ledger.ask(Ask::Add(txn::Add {
                transactional_id: id(),
                producer,
                places: places.clone(),
                version,
                may_wait: version == 2,
            }));
            ledger.ask(Ask::Verify(txn::Verify {
                transactional_id: id(),
                producer,
                places: places.clone(),
            }));
            let ended = ledger.ask(Ask::End(txn::End {
                transactional_id: id(),
                producer,
                committed: version == 0,
                version,
                fresh: Some(ProducerId(1_000)),
            }));
            complete(ledger, ended);
        }
    }
    for expected in [None, Some(before), Some(known.producer)] {
        let begun = ledger.ask(Ask::Init(txn::Init {
            transactional_id: id(),
            timeout_ms: 1_000,
            expected,
            fresh: Some(ProducerId(2_000)),
        }));
        complete(ledger, begun);
    }
    ledger.turn();
}

fn complete(ledger: &mut Ledger, told: Told) {
    for markers in told.markers {
        ledger.ask(Ask::Marked(txn::Marked {
            transactional_id: markers.transactional_id,
            producer: markers.producer,
        }));
    }
}
