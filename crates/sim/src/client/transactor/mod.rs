//! A simulated transactional producer: writes to several partitions, commits or aborts, crashes and comes back.
//!
//! Others may use its transactional id, and then each fences the other. What a transaction became is certain when its end was
//! acknowledged, and when no commit was ever asked for: then nobody may see it. With some requests an old connection is kept and
//! delivers them late, beside or after the same ones sent again, or after the transaction that gave up waiting for them has ended.

mod answers;
mod links;
mod requests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use env::sim::{Chance, Outside};
use model::Instant;

use super::keep::{ANSWER_MAX, Client, Link};
use super::line::{Line, LineError, RawAnswer};
use super::notes::Notes;
use super::requests::STRAY_MAX;
use crate::checker::{Kind, Op, Outcome};
pub(super) use answers::is_fencing;
use links::Sides;

type TxnPartition = (String, i32);

/// How a transactional producer behaves.
#[derive(Clone, Debug)]
pub(crate) struct TxnHabits {
    pub(crate) id: String,
    pub(crate) places: Vec<TxnPartition>,
    /// Adds its partitions itself and keeps its epoch, as before KIP-890.
    pub(crate) is_old: bool,
    pub(crate) timeout: Duration,
    pub(crate) batches_max: u64,
    /// Time between two steps when nothing else holds it up.
    pub(crate) pause: Duration,
    /// One in so many ends of a transaction travels on a connection that stalls; 0 for none.
    pub(crate) delays: u64,
    /// One in so many batches and, four times as often, additions of partitions are held back on their way, until their transaction
    /// is perhaps over; 0 for none.
    pub(crate) strays: u64,
    /// Commits every transaction and never crashes.
    pub(crate) is_calm: bool,
    /// Nobody else uses the id and no clock jumps: within the timeout nothing may fence it.
    pub(crate) is_alone: bool,
    /// Each transaction commits its number as an offset of this group, unless it is calm.
    pub(crate) group: Option<String>,
    /// Somebody else uses the id.
    pub(crate) is_shared: bool,
}

const RECONNECT: Duration = Duration::from_millis(300);
/// A transaction that could not be ended for so long is given up with its producer.
const GIVE_UP: Duration = Duration::from_secs(90);
const IN_FLIGHT_MAX: usize = 5;
/// Where the offsets of all groups point.
pub(crate) const OFFSET_OF: (&str, i32) = ("load-0", 0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactorState {
    /// Does not know its coordinator, or that of its group.
    Lost,
    LostGroup,
    /// Has no producer id that counts.
    Out,
    /// Looks which offset of its group is committed.
    Looking,
    Idle,
    /// Asks for its partitions to be added.
    Adding,
    Open,
    /// Asks for its group to be added.
    AddingGroup,
    /// Commits its offset.
    Committing,
    Ending {
        committed: bool,
    },
}

/// A connection that was given up with something on its way, and how long it is kept.
struct Late {
    until: Instant,
    line: Line,
    /// The transaction it was of.
    txn: u64,
}

struct Txn {
    op: Op,
    places: Vec<TxnPartition>,
    began: Instant,
    /// Batches that are still to be made.
    left: u64,
    batches: Vec<Batch>,
    is_doomed: bool,
    /// Its number, while the offset for it is not committed; and that number.
    owes_offset: bool,
    number: i64,
    /// A commit was sent, and what became of it is not known.
    is_commit_open: bool,
}

struct Batch {
    place: TxnPartition,
    records: Bytes,
    sends: Range<usize>,
    /// The request it is under way in.
    correlation: Option<i32>,
    is_acked: bool,
}

pub(crate) struct Transactor {
    habits: TxnHabits,
    process: u32,
    chance: Chance,
    link: Link,
    sides: Option<Sides>,
    late: Vec<Late>,
    state: TransactorState,
    /// Id and epoch.
    producer: Option<(i64, i16)>,
    /// Asks for the next epoch of its own instead of beginning anew.
    recovers: bool,
    sequences: BTreeMap<TxnPartition, i32>,
    txn: Option<Txn>,
    /// Transactions that were begun.
    begun: u64,
    patience: Duration,
    /// Until then an earlier request for a producer id may still arrive, and fence us.
    strays_until: Instant,
    pub(crate) is_ending: bool,
    pub(crate) commits: u64,
}

impl Client for Transactor {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn link_at(&mut self, at: usize) -> Option<&mut Link> {
        self.links_mut().nth(at)
    }

    fn name(&self) -> String {
        format!("{} ({})", self.habits.id, self.process)
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        self.judge(answer, world, notes)
    }

    /// Requests that were under way are sent again.
    fn hang_up(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        let lines: Vec<Line> = self
            .links_mut()
            .filter_map(|link| link.line.take())
            .collect();
        for link in self.links_mut() {
            link.lose(now, notes);
        }
        if self.state == TransactorState::Out {
            self.strays_until = now.plus(STRAY_MAX);
        }
        if !lines.is_empty() && self.patience < ANSWER_MAX && self.state != TransactorState::Out {
            let until = now.plus(STRAY_MAX);
            let txn = self.begun;
            let late = lines.into_iter().map(|line| Late { until, line, txn });
            self.late.extend(late);
            self.give_up_sometimes(world, notes);
        }
        self.patience = ANSWER_MAX;
        if let Some(txn) = &mut self.txn {
            txn.is_commit_open |= self.state == TransactorState::Ending { committed: true };
            for batch in &mut txn.batches {
                batch.correlation = None;
            }
        }
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        self.link.wake =
            now.plus(self.habits.pause + Duration::from_micros(self.chance.below(2_000)));
        let too_long = |txn: &Txn| now.since(txn.began) > GIVE_UP;
        if self.txn.as_ref().is_some_and(too_long) {
            self.crash(world, notes);
            return;
        }
        if !self.reach(world, notes) {
            return;
        }
        let unanswered = self.unanswered();
        let patience = self.link.answer_max(self.patience);
        let oldest = self.links().filter_map(|link| link.asked).min();
        if oldest.is_some_and(|asked| now.since(asked) > patience) {
            self.hang_up(world, notes);
            return;
        }
        if unanswered > 0 && self.state != TransactorState::Open {
            return;
        }
        match self.state {
            TransactorState::Lost | TransactorState::LostGroup => self.find_coordinator(now),
            TransactorState::Looking => self.look(now),
            TransactorState::AddingGroup => self.add_group(now),
            TransactorState::Committing => self.commit_offset(now),
            TransactorState::Out => self.init(now),
            TransactorState::Idle if self.is_ending => {}
            TransactorState::Idle if !self.habits.is_calm && self.chance.one_in(60) => {
                self.crash(world, notes);
            }
            TransactorState::Idle => self.begin(now, notes),
            TransactorState::Adding => self.add(now),
            TransactorState::Open => self.go_on(unanswered, world, notes),
            TransactorState::Ending { .. } if !self.habits.is_calm && self.chance.one_in(8) => {
                self.crash(world, notes);
            }
            TransactorState::Ending { committed } => self.end(committed, now),
        }
    }

    fn tend(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        let current = self.txn.as_ref().map(|_| self.begun);
        self.late.retain_mut(|late| {
            let told = late.line.poll();
            if let Ok(Some(answer)) = &told
                && current != Some(late.txn)
            {
                notes.strayed(answer.key());
            }
            now < late.until && told.is_ok()
        });
    }

    fn has_news(&self) -> bool {
        self.links().any(Link::has_news) || self.late.iter().any(|late| late.line.has_news())
    }
}

impl Transactor {
    pub(crate) fn new(habits: TxnHabits, chance: Chance, now: Instant, notes: &mut Notes) -> Self {
        Transactor {
            process: notes.process(),
            chance,
            link: Link::new(now, RECONNECT),
            sides: None,
            late: Vec::new(),
            state: TransactorState::Lost,
            producer: None,
            recovers: false,
            sequences: BTreeMap::new(),
            txn: None,
            begun: 0,
            patience: ANSWER_MAX,
            // The first of its id has nobody before it.
            strays_until: if habits.is_calm {
                now.plus(STRAY_MAX)
            } else {
                now
            },
            is_ending: false,
            commits: 0,
            habits,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.txn.is_some()
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{} {:?} as {:?}, {} commits, {} batches open",
            self.habits.id,
            self.state,
            self.producer,
            self.commits,
            self.txn
                .iter()
                .flat_map(|txn| &txn.batches)
                .filter(|batch| !batch.is_acked)
                .count()
        )
    }

    /// Ends as a process, in the middle of whatever it does; a new one takes its place.
    pub(crate) fn crash(&mut self, world: &Outside, notes: &mut Notes) {
        self.hang_up(world, notes);
        self.begin_anew(world, notes);
    }

    fn begin_anew(&mut self, world: &Outside, notes: &mut Notes) {
        let outcome = match &self.txn {
            Some(txn) if txn.is_commit_open => Outcome::Info,
            _ => Outcome::Fail,
        };
        self.finish(outcome, world, notes);
        self.process = notes.process();
        self.state = TransactorState::Out;
        self.recovers = false;
        self.link.wake = world
            .now()
            .plus(Duration::from_millis(self.chance.between(50, 1_500)));
    }

    /// Something of the transaction is held back: half of them do not wait for it, and end without. Who has added nothing yet leaves
    /// it at that, and begins another.
    fn give_up_sometimes(&mut self, world: &Outside, notes: &mut Notes) {
        if self.habits.strays == 0 {
            return;
        }
        let now = world.now();
        match self.state {
            // A batch that arrives after the end begins a transaction that nobody knows of, until its timeout.
            TransactorState::Adding => {
                self.strays_until = now.plus(STRAY_MAX + self.habits.timeout);
                if self.chance.one_in(2) {
                    self.finish(Outcome::Fail, world, notes);
                    self.state = TransactorState::Idle;
                }
            }
            TransactorState::Open if self.chance.one_in(2) => {
                if let Some(txn) = &mut self.txn {
                    txn.is_doomed = true;
                }
            }
            _ => {}
        }
    }

    /// Its last batches are not sent again.
    fn gives_up(&self) -> bool {
        self.habits.strays > 0 && self.txn.as_ref().is_some_and(|txn| txn.is_doomed)
    }

    fn finish(&mut self, outcome: Outcome, world: &Outside, notes: &mut Notes) {
        let Some(txn) = self.txn.take() else { return };
        notes.ended(outcome);
        self.commits += u64::from(outcome == Outcome::Ok);
        let mut op = txn.op;
        op.outcome = outcome;
        op.returned = world.now().0;
        let at = (!op.sends.is_empty()).then_some(notes.history.ops.len());
        if at.is_some() {
            notes.done(op);
        }
        if let Some(group) = self.habits.group.as_ref().filter(|_| txn.number >= 0) {
            notes.numbers(group).end(txn.number, outcome, at);
        }
    }

    fn begin(&mut self, now: Instant, notes: &mut Notes) {
        let number = match &self.habits.group {
            Some(group) if !self.habits.is_calm => notes.numbers(group).begin(),
            _ => -1,
        };
        let mut all = self.habits.places.clone();
        let count = if self.habits.is_calm {
            all.len()
        } else {
            self.chance.between(1, all.len() as u64) as usize
        };
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(all.swap_remove(self.chance.below(all.len() as u64) as usize));
        }
        self.begun += 1;
        let left = self.chance.between(1, self.habits.batches_max);
        self.txn = Some(Txn {
            op: Op::new(self.process, Kind::Txn, now.0),
            left: left.max(places.len() as u64),
            places,
            began: now,
            batches: Vec::new(),
            is_doomed: false,
            owes_offset: number >= 0,
            number,
            is_commit_open: false,
        });
        self.state = if self.habits.is_old {
            TransactorState::Adding
        } else {
            TransactorState::Open
        };
    }

    fn go_on(&mut self, unanswered: usize, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        let is_calm = self.habits.is_calm;
        let Some(txn) = &mut self.txn else { return };
        if !is_calm && self.chance.one_in(150) {
            self.crash(world, notes);
            return;
        }
        if !is_calm && self.chance.one_in(200) {
            // Asleep, sometimes for longer than a transaction may be open.
            let most = self.habits.timeout.as_millis() as u64 * 2;
            self.link.wake = now.plus(Duration::from_millis(self.chance.below(most)));
            return;
        }
        txn.is_doomed |= !is_calm && self.chance.one_in(60);
        if txn.is_doomed || txn.left == 0 {
            let is_acked = txn.batches.iter().all(|batch| batch.is_acked);
            if unanswered == 0 && is_acked && txn.owes_offset && !txn.is_doomed {
                self.state = if self.habits.is_old {
                    TransactorState::AddingGroup
                } else {
                    TransactorState::Committing
                };
            } else if unanswered == 0 && (is_acked || txn.is_doomed) {
                let committed = !txn.is_doomed && (is_calm || !self.chance.one_in(4));
                self.end(committed, now);
                if !is_calm && self.chance.one_in(40) {
                    // Its last words are still on their way.
                    self.patience = Duration::ZERO;
                    self.crash(world, notes);
                }
            }
        } else if txn.batches.iter().filter(|batch| !batch.is_acked).count() < IN_FLIGHT_MAX {
            // Those that wait for their leader count, too: a broker knows no more than five batches again.
            self.send_new(now, notes);
        }
    }
}
