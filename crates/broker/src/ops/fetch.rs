//! Fetch: plan the partitions within the byte budget, gather the pieces, and be whole, or wait until there is enough.
//!
//! Each partition is planned once. Pieces that need the disk come back from the reader pool and are taken as they are. A fetch
//! that finds too little lets go of what it found, watches its partitions, and plans those anew that have more, with those that
//! it let go of. At its deadline it looks at all of them again, so that what it reports is of that moment. Record bytes are not
//! copied here.

mod part;

use model::{BrokerId, InboxId, Instant, LeaderEpoch, Offset, Ticket, WaiterKey};
use partition::{
    Isolation, Need, Piece, Plan, Range, Read, ReadError, ReadRequest, Records, Scope, WarmUp,
};
use wire::{ErrorCode, Uuid};

use self::part::{Found, Part, Place, called, find};
use super::leaders::{FetchCall, Reads};
use super::{Desk, Refused};
use crate::asker::Asker;
use crate::mail::question::Reach;
use crate::peers::Answer;
use crate::reads::Readers;
use crate::topics::Absent;

/// The question about one partition.
pub(crate) struct Wanted<'a> {
    /// Zero: the topic is named.
    pub(crate) topic_id: Uuid,
    pub(crate) topic: &'a str,
    pub(crate) index: i32,
    pub(crate) from: Offset,
    pub(crate) bytes_max: usize,
    pub(crate) current_epoch: LeaderEpoch,
}

/// Why a partition gives nothing.
#[derive(Debug)]
pub(crate) enum FetchRefusal {
    UnknownTopic,
    Absent(Absent),
    NotLeader,
    Read(ReadError),
    /// By its leader, which is another broker.
    Refused(ErrorCode),
}

pub(crate) type FetchResult = Result<Read, Refused<FetchRefusal>>;

/// The outcome for one partition.
pub(crate) struct Fetched {
    pub(crate) result: FetchResult,
    /// Of damage: where to go on.
    pub(crate) goes_on: Option<Offset>,
    /// The replica that the client is to read from instead.
    pub(crate) nearest: Option<BrokerId>,
}

/// The kind of reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Consumer,
    /// Compares replicas: it is shown what this one has, whoever leads.
    Comparison,
    /// A broker that compares its own replica, and is shown the log itself.
    Repair,
    /// A follower that may not be one is refused; the requests of the others never come here.
    Replica,
}

pub(crate) struct Terms {
    pub(crate) kind: Kind,
    pub(crate) scope: Scope,
    /// With fewer bytes the fetch waits.
    pub(crate) bytes_min: usize,
    /// Of all partitions together, but for a first batch.
    pub(crate) bytes_max: usize,
    /// Brokers that are nearer to the client than this one.
    pub(crate) near: Vec<BrokerId>,
    /// Then it is answered with what there is.
    pub(crate) deadline: Instant,
}

/// The known facts about the client that waits for the answer.
pub(crate) struct Client<'a> {
    /// Its sequential readers, unless it has gone.
    pub(crate) readers: Option<&'a mut Readers>,
    /// Bytes that its answer may keep in memory, but for a first batch.
    pub(crate) memory_max: usize,
}

/// How far a fetch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Its results can be taken.
    Whole,
    /// Pieces are on their way from the reader pool.
    Gathers,
    /// It watches its partitions until there is more, or its deadline.
    Watches,
    /// It would watch, which would keep a stopping broker from its end.
    Dropped,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is seen whether there is enough.
    Planning,
    /// There is enough; the files of it are brought to memory.
    Warming,
}

/// A fetch, parked or not.
pub(crate) struct Fetching {
    parts: Vec<Part>,
    terms: Terms,
    stage: Stage,
    /// Pieces that are on their way.
    awaited: usize,
    /// How many parts other brokers lead.
    elsewhere: usize,
    /// Leaders that have not answered.
    calls: Vec<FetchCall>,
    #[cfg(test)]
    pub(crate) plans_count: usize,
}

impl Fetching {
    /// Finds the partitions; nothing is read yet.
    pub(crate) fn new<'a>(
        desk: &mut Desk,
        asker: &Asker,
        wanted: impl IntoIterator<Item = Wanted<'a>>,
        terms: Terms,
    ) -> Fetching {
        let topics = desk.topics();
        let mut elsewhere = 0;
        let part = |(number, wanted): (u32, Wanted<'a>)| {
            if desk.reach == Reach::Cluster
                && let Some(place) = called(desk, &topics, asker, (number, &wanted))
            {
                elsewhere += 1;
                return Part::new(Place::NotHere(Some(Box::new(place))), Found::Nothing);
            }
            let found = find(&topics, asker, terms.kind, &wanted);
            let found = found.and_then(|partition| match terms.kind {
                Kind::Consumer | Kind::Comparison | Kind::Repair => Ok(partition),
                Kind::Replica if desk.shared.catalog.settings().trusts(asker) => {
                    Err(Refused::Because(FetchRefusal::NotLeader))
                }
                // Kafka's answer to a follower that may not act for the cluster.
                Kind::Replica => Err(Refused::Unauthorised),
            });
            match found {
                Ok(partition) => Part::new(Place::of(partition, &wanted), Found::Nothing),
                Err(refused) => Part::new(Place::NotHere(None), Found::Have(Err(refused))),
            }
        };
        let parts = (0..).zip(wanted).map(part).collect();
        Fetching {
            parts,
            terms,
            stage: Stage::Planning,
            awaited: 0,
            elsewhere,
            calls: Vec::new(),
            #[cfg(test)]
            plans_count: 0,
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.terms.deadline
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.terms.scope.isolation
    }

    /// Record bytes that it keeps in memory meanwhile.
    pub(crate) fn memory(&self) -> usize {
        self.parts.iter().map(Part::memory).sum()
    }

    /// Goes as far as it comes without waiting. Its tickets name `key`.
    pub(crate) fn advance(
        &mut self,
        desk: &Desk,
        key: WaiterKey,
        mut client: Client<'_>,
    ) -> Progress {
        if self.awaited > 0 {
            return Progress::Gathers;
        }
        while self.stage == Stage::Planning {
            let is_fenced = self.terms.kind == Kind::Consumer && desk.shared.state.is_self_fenced();
            let needs = self.plan(client.memory_max, is_fenced);
            self.call_leaders(desk, key);
            if self.gather(needs, desk, key) || 0 < self.awaited {
                return Progress::Gathers;
            }
            if self.is_enough(client.memory_max) || self.terms.deadline <= desk.now {
                self.stage = Stage::Warming;
                let (needs, ahead) = self.warm_up(&mut client);
                let gathers = self.gather(needs, desk, key);
                // Bytes sent now come before those that may be asked for next.
                let pool = &desk.shared.readers;
                ahead.into_iter().for_each(|range| pool.bring_ahead(range));
                if gathers {
                    return Progress::Gathers;
                }
            } else if desk.is_stopping {
                return Progress::Dropped;
            } else if self.watch(desk, key) {
                self.let_go();
                return Progress::Watches;
            }
        }
        Progress::Whole
    }

    /// A piece has come.
    pub(crate) fn put(&mut self, part: u32, piece: Piece) {
        let Some(part) = self.parts.get_mut(part as usize) else {
            return;
        };
        if let (Found::Awaited { .. }, Piece::Read(read)) = (&part.found, piece) {
            part.found = Found::Have(read.map_err(refused));
            self.awaited -= 1;
        }
    }

    /// A leader that was called has answered, or has not.
    pub(crate) fn on_replied(&mut self, ticket: Ticket, answer: Option<Answer>) {
        let mut calls = self.calls.extract_if(.., |call| call.is_under(ticket.part));
        let Some(call) = calls.next() else {
            return;
        };
        drop(calls);
        for (number, read) in call.read(answer) {
            if let Some(part) = self.parts.get_mut(number as usize)
                && matches!(part.found, Found::Awaited { .. })
            {
                let refused = |code| Refused::Because(FetchRefusal::Refused(code));
                part.found = Found::Have(read.map_err(refused));
                self.awaited -= 1;
            }
        }
    }

    /// These parts have more to read, or their partitions are gone.
    pub(crate) fn on_readable(&mut self, parts: impl IntoIterator<Item = u32>) {
        for part in parts {
            let Some(part) = self.parts.get_mut(part as usize) else {
                continue;
            };
            part.is_watched = false;
            // A piece that is on its way is seen to be old when it is there.
            let is_awaited = matches!(part.found, Found::Awaited { .. });
            if self.stage == Stage::Planning && !is_awaited && !part.is_denied() {
                part.found = Found::Nothing;
            }
        }
    }

    /// Refuses the parts that the asker may no longer read, so that it is answered at once. Records that were found for it do not leave.
    pub(crate) fn ask_again(&mut self, asker: &Asker) {
        if asker.authority.is_none() {
            return;
        }
        for part in &mut self.parts {
            if part.is_allowed(asker, self.terms.kind) {
                continue;
            }
            if let Found::Awaited { .. } = part.found {
                self.awaited -= 1;
            }
            part.found = Found::Have(Err(Refused::Unauthorised));
        }
    }

    /// The deadline has come.
    pub(crate) fn on_deadline(&mut self) {
        if self.stage == Stage::Planning && self.awaited == 0 {
            let parts = self.parts.iter_mut();
            let parts = parts.filter(|part| !part.place.is_nowhere() && !part.is_denied());
            parts.for_each(|part| part.found = Found::Nothing);
        }
    }

    /// Watches nothing any more.
    pub(crate) fn unwatch(&mut self, inbox: InboxId, key: WaiterKey) {
        for part in &mut self.parts {
            if let (true, Some(source)) = (part.is_watched, part.place.here()) {
                source.partition.unwatch(inbox, key);
                part.is_watched = false;
            }
        }
    }

    /// The results of a whole fetch, in the order in which it was asked for.
    pub(crate) fn into_results(self) -> impl Iterator<Item = Fetched> {
        self.parts.into_iter().map(|part| match part.found {
            Found::Have(Err(why)) => {
                let goes_on = part.place.here().and_then(|source| source.goes_on(&why));
                Fetched {
                    result: Err(why),
                    goes_on,
                    nearest: None,
                }
            }
            Found::Have(Ok(read)) => {
                if let Some(source) = part.place.here() {
                    source.partition.on_fetched(read.records.len());
                }
                Fetched {
                    result: Ok(read),
                    goes_on: None,
                    nearest: part.nearest,
                }
            }
            Found::Nothing | Found::Awaited { .. } => unreachable!("the fetch is whole"),
        })
    }

    /// Plans all parts of which nothing is known, or refuses them: a broker that may be no leader any more does not say where a log
    /// ends. Returns what they need.
    fn plan(&mut self, memory_max: usize, is_fenced: bool) -> Vec<(u32, Need)> {
        let mut bytes: usize = self.parts.iter().map(Part::bytes).sum();
        let mut memory = self.memory();
        let mut needs = Vec::new();
        for (at, part) in self.parts.iter_mut().enumerate() {
            let (Some(source), Found::Nothing) = (part.place.here(), &part.found) else {
                continue;
            };
            if is_fenced {
                let elsewhere = FetchRefusal::Absent(Absent::Elsewhere);
                part.found = Found::Have(Err(Refused::Because(elsewhere)));
                continue;
            }
            let bytes_left = self.terms.bytes_max.saturating_sub(bytes);
            let request = ReadRequest {
                from: source.from,
                bytes_max: source.bytes_max.min(bytes_left),
                memory_bytes_max: memory_max.saturating_sub(memory),
                at_least_one: bytes == 0,
                current_epoch: source.current_epoch,
                scope: self.terms.scope,
            };
            #[cfg(test)]
            {
                self.plans_count += 1;
            }
            let nearest = source.partition.nearest(&request, &self.terms.near);
            let (nearest, plan) = match nearest {
                Ok(Some((broker, read))) => (Some(broker), Ok(Plan::Ready(read))),
                Ok(None) => (None, source.partition.plan_read(request)),
                Err(error) => (None, Err(error)),
            };
            part.nearest = nearest;
            part.found = match plan {
                Ok(Plan::Ready(read)) => Found::Have(Ok(read)),
                Ok(Plan::Need(need)) => {
                    let (bytes, memory) = (need.bytes(), need.memory());
                    needs.push((at as u32, need));
                    Found::Awaited { bytes, memory }
                }
                Err(error) => Found::Have(Err(refused(error))),
            };
            bytes += part.bytes();
            memory += part.memory();
        }
        self.awaited += needs.len();
        needs
    }

    /// Calls the leaders of the parts that other brokers lead and of which nothing is known.
    fn call_leaders(&mut self, desk: &Desk, key: WaiterKey) {
        if self.elsewhere == 0 {
            return;
        }
        let bytes: usize = self.parts.iter().map(Part::bytes).sum();
        let mut reads = Reads::default();
        for part in &mut self.parts {
            if let (Some(of), Found::Nothing) = (part.place.elsewhere(), &part.found) {
                reads.put(of.leader, of.away.clone(), of.wish);
                let (bytes, memory) = (0, 0);
                part.found = Found::Awaited { bytes, memory };
                self.awaited += 1;
            }
        }
        let bounds = (
            self.terms.scope.isolation,
            self.terms.bytes_max.saturating_sub(bytes),
        );
        let calls = reads.send(desk, bounds, |part| desk.ticket(key, part));
        self.calls.extend(calls);
    }

    /// Takes the reads whose files are not in memory, and keeps the windows of sequential readers full.
    fn warm_up(&mut self, client: &mut Client<'_>) -> (Vec<(u32, Need)>, Vec<Range>) {
        let (mut needs, mut ahead) = (Vec::new(), Vec::new());
        let Some(readers) = client.readers.as_deref_mut() else {
            return (needs, ahead);
        };
        for (at, part) in self.parts.iter_mut().enumerate() {
            let Found::Have(Ok(read)) = &part.found else {
                continue;
            };
            let Records::File(slice) = &read.records else {
                continue;
            };
            let wish = readers.on_slice(slice.slice());
            ahead.extend(wish.ahead);
            if !wish.is_cold {
                continue;
            }
            let (bytes, memory) = (part.bytes(), part.memory());
            let awaited = Found::Awaited { bytes, memory };
            if let Found::Have(Ok(read)) = std::mem::replace(&mut part.found, awaited) {
                match WarmUp::new(Box::new(read)) {
                    Ok(warm_up) => needs.push((at as u32, Need::WarmUp(warm_up))),
                    Err(read) => part.found = Found::Have(Ok(*read)),
                }
            }
        }
        self.awaited += needs.len();
        (needs, ahead)
    }

    /// Hands needs to the reader pool; true if pieces are on their way. Executes them here when it takes no more.
    fn gather(&mut self, needs: Vec<(u32, Need)>, desk: &Desk, key: WaiterKey) -> bool {
        if needs.is_empty() {
            return false;
        }
        let needs = needs.into_iter();
        let needs = needs.map(|(part, need)| (need, desk.ticket(key, part)));
        match desk.shared.readers.ask(needs.collect()) {
            Ok(()) => true,
            Err(needs) => {
                for (need, ticket) in needs {
                    self.put(ticket.part, need.execute());
                }
                false
            }
        }
    }

    fn is_enough(&self, memory_max: usize) -> bool {
        // A bound on memory may not be filled exactly; then something is enough.
        let enough = if memory_max == usize::MAX {
            self.terms.bytes_min
        } else {
            self.terms.bytes_min.min(1)
        };
        let bytes: usize = self.parts.iter().map(Part::bytes).sum();
        bytes >= enough || self.parts.iter().any(Part::is_urgent) || self.parts.is_empty()
    }

    /// Watches all partitions; false when some have more than was seen, which are to be planned again.
    fn watch(&mut self, desk: &Desk, key: WaiterKey) -> bool {
        let mut is_current = true;
        for (at, part) in self.parts.iter_mut().enumerate() {
            let (Some(source), Found::Have(Ok(read)), false) =
                (part.place.here(), &part.found, part.is_watched)
            else {
                continue;
            };
            let seen = read.bounds.end(self.terms.scope.isolation);
            let ticket = desk.ticket(key, at as u32);
            if source.partition.watch(ticket, seen, self.terms.scope) {
                part.is_watched = true;
            } else {
                part.found = Found::Nothing;
                is_current = false;
            }
        }
        is_current
    }

    /// A fetch that waits for more keeps nothing for so long: neither memory that others want, nor files that are deleted.
    fn let_go(&mut self) {
        for part in &mut self.parts {
            if part.bytes() > 0 {
                part.found = Found::Nothing;
            }
        }
    }
}

fn refused(error: ReadError) -> Refused<FetchRefusal> {
    Refused::Because(FetchRefusal::Read(error))
}

#[cfg(test)]
mod tests;
