//! The clients of one broker, or those of a whole cluster, and what they have seen.
//!
//! Those of one broker dial it by its address and know of no other one. Those of a cluster look for the brokers that they need: leaders
//! and coordinators. Each acts when its moment has come.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use env::sim::{Chance, HostId, Outside};
use model::Instant;

use super::plan::{self, Plan, Strike};
use super::{GROUP, Topics};
use crate::checker::Isolation;
use crate::client::admin::Admin;
use crate::client::council::Councillor;
use crate::client::crowd::Crowd;
use crate::client::keep::{Client, Link};
use crate::client::keeper::{self, Keeper};
use crate::client::ledger::Ledger;
use crate::client::line::Line;
use crate::client::loner::Loner;
use crate::client::member::Member;
use crate::client::notes::Notes;
use crate::client::producer::{Habits, Producer};
use crate::client::reader::Reader;
use crate::client::reassigner::Reassigner;
use crate::client::requests::GROUP as OF_GROUP;
use crate::client::transactor::{Transactor, TxnHabits};
use crate::client::way::{Goal, Way};

/// The addresses of all brokers of a cluster, from which clients find those that they need.
struct Guides {
    doors: Arc<[SocketAddr]>,
    chance: Chance,
}

impl Guides {
    fn way(&mut self, goal: Goal) -> Way {
        Way::new(goal, self.doors.clone(), self.chance.split())
    }
}

pub(super) struct Clients {
    /// The broker's machine.
    pub(super) node: HostId,
    address: SocketAddr,
    guides: Option<Guides>,
    /// Partitions have several replicas.
    are_replicated: bool,
    pub(super) notes: Notes,
    pub(super) admin: Admin,
    pub(super) producers: Vec<Producer>,
    pub(super) readers: Vec<Reader>,
    pub(super) members: Vec<Member>,
    pub(super) loners: Vec<Loner>,
    pub(super) keeper: Option<Keeper>,
    pub(super) ledger: Option<Ledger>,
    pub(super) transactors: Vec<Transactor>,
    pub(super) crowd: Crowd,
    pub(super) council: Vec<Councillor>,
    pub(super) reassigner: Option<Reassigner>,
    pub(super) topics: Topics,
    /// Of the producers, while there were faults.
    pub(super) turns: u64,
}

fn each<'a, C: Client + 'a>(clients: &'a mut [C]) -> impl Iterator<Item = &'a mut dyn Client> {
    clients.iter_mut().map(|client| client as &mut dyn Client)
}

impl Clients {
    /// At first only the administrator, who creates the topics.
    pub(super) fn new(
        (node, address): (HostId, SocketAddr),
        plan: &Plan,
        chance: &mut Chance,
    ) -> Clients {
        let plan = &plan.on(node);
        let mut notes = Notes::default();
        for topic in &plan.topics {
            for partition in 0..topic.partitions {
                let key = notes.key(&topic.name, partition);
                if let Some(keep) = topic.keeps() {
                    notes.ages(key, keep);
                }
            }
        }
        let topics = plan.topics.iter();
        let all = topics.clone().chain(&plan.table).chain(&plan.ledger);
        let admin = Admin::new(all.cloned().collect(), chance.split(), &mut notes);
        let mut clients = Clients {
            node,
            address,
            guides: None,
            are_replicated: 1 < plan.replicas,
            admin,
            notes,
            producers: Vec::new(),
            readers: Vec::new(),
            members: Vec::new(),
            loners: Vec::new(),
            keeper: None,
            ledger: None,
            transactors: Vec::new(),
            crowd: Crowd::new(0, Vec::new(), address, Chance::new(0)),
            council: Vec::new(),
            reassigner: None,
            topics: topics
                .map(|topic| (topic.name.clone(), topic.partitions))
                .collect(),
            turns: 0,
        };
        clients.admin.link_mut().address = address;
        if plan.is_united {
            clients.admin.suffix = plan::suffix(node);
        }
        clients
    }

    /// Lets those who come look for the brokers that they need.
    pub(super) fn lead(&mut self, doors: Arc<[SocketAddr]>, chance: Chance) {
        self.guides = Some(Guides { doors, chance });
    }

    /// All the others come.
    pub(super) fn gather(&mut self, plan: &Plan, chance: &mut Chance, now: Instant) {
        let plan = &plan.on(self.node);
        (self.admin.trims, self.admin.changes) = (plan.trims, plan.changes);
        (self.admin.moves, self.admin.squeezes) = (plan.moves, plan.squeezes);
        for habits in plan.producers.clone() {
            self.produce(habits, chance.split(), now);
        }
        for number in 0..plan.readers {
            let (topic, partitions) = self.topics[number % self.topics.len()].clone();
            let isolation = if chance.one_in(2) {
                Isolation::Committed
            } else {
                Isolation::Uncommitted
            };
            self.read(&topic, partitions, isolation, chance.split());
        }
        for number in 0..plan.members {
            self.join(number, plan, chance.split());
        }
        if let Some(table) = &plan.table {
            let retains = keeper::retains_deletions(table) && plan.is_clock_true();
            self.keeper = Some(self.at_home(Keeper::new(chance.split(), now, retains)));
        }
        if let Some(topic) = &plan.ledger {
            let retains = keeper::retains_deletions(topic);
            self.ledger = Some(self.at_home(Ledger::new(chance.split(), now, retains)));
        }
        for habits in plan.transactors.clone() {
            self.transact(habits, chance.split(), now);
        }
        if plan.crowd > 0 {
            let (topics, address) = (self.topics.clone(), self.address);
            self.crowd = Crowd::new(plan.crowd, topics, address, chance.split());
        }
        for agenda in plan.agendas(self.node) {
            let member = self.at_home(Councillor::new(agenda, chance.split()));
            self.council.push(member);
        }
        if let Some(guides) = self.guides.as_ref().filter(|_| plan.reassigns) {
            let (topics, doors) = (self.topics.clone(), Arc::clone(&guides.doors));
            self.reassigner = Some(Reassigner::new(topics, doors, chance.split()));
        }
        for number in 0..plan.loners {
            let topic = self.topics[0].clone();
            // What a coordinator wrote before its term ended may come true in the next.
            let is_disk_sound = !plan.hurts_disk() && !plan.is_led;
            let loner = Loner::new(number, topic, is_disk_sound, chance.split());
            let goal = of_group(loner.group());
            let loner = self.led(loner, goal);
            self.loners.push(loner);
        }
    }

    fn join(&mut self, number: usize, plan: &Plan, chance: Chance) {
        let (topic, partitions) = self.topics[0].clone();
        let group = group(plan, number);
        let member = Member::new(
            plan.group_protocol,
            &group,
            &topic,
            partitions,
            chance,
            &mut self.notes,
        );
        let delays = [Strike::Stall, Strike::Pause, Strike::CutLink];
        let is_delayed = delays.iter().any(|it| plan.strikes.contains(it));
        let mut member = member.delayed(is_delayed);
        if number < plan.statics {
            // The last two run for the same.
            let first = number.min(plan.statics.saturating_sub(2));
            let is_shared = first + 2 == plan.statics;
            member = member.of_instance(format!("instance-{first}"), is_shared);
        }
        let member = self.led(member, of_group(&group));
        self.members.push(member);
    }

    fn at_home<C: Client>(&self, mut client: C) -> C {
        client.link_mut().address = self.address;
        client
    }

    /// The same, which looks for its broker where there are several.
    fn led<C: Client>(&mut self, client: C, goal: Goal) -> C {
        let mut client = self.at_home(client);
        client.link_mut().way = self.guides.as_mut().map(|guides| guides.way(goal));
        client
    }

    /// Of a cluster there is one producer for each partition, whose leader it follows.
    pub(super) fn produce(&mut self, habits: Habits, mut chance: Chance, now: Instant) {
        if self.guides.is_none() {
            let producer = Producer::new(habits, chance, now, &mut self.notes);
            self.producers.push(self.at_home(producer));
            return;
        }
        for partitions in habits.partitions.clone().map(only) {
            let goal = of_leader(&habits.topic, &partitions);
            let habits = Habits {
                partitions,
                ..habits.clone()
            };
            let producer = Producer::new(habits, chance.split(), now, &mut self.notes);
            let producer = self.led(producer, goal);
            self.producers.push(producer);
        }
    }

    pub(super) fn transact(&mut self, habits: TxnHabits, chance: Chance, now: Instant) {
        let transactor = Transactor::new(habits, chance, now, &mut self.notes);
        let transactor = match &mut self.guides {
            Some(guides) => transactor.led(|goal| guides.way(goal)),
            None => self.at_home(transactor),
        };
        self.transactors.push(transactor);
    }

    /// Of a cluster there is one reader for each partition, whose leader it follows.
    pub(super) fn read(
        &mut self,
        topic: &str,
        partitions: i32,
        isolation: Isolation,
        mut chance: Chance,
    ) {
        let all = 0..partitions;
        if self.guides.is_none() {
            let reader = Reader::new(topic, all, isolation, chance, &mut self.notes);
            self.readers.push(self.at_home(reader));
            return;
        }
        for partitions in all.map(only) {
            let goal = of_leader(topic, &partitions);
            let chance = chance.split();
            let mut reader = Reader::new(topic, partitions, isolation, chance, &mut self.notes);
            reader.believes_ends = !self.are_replicated;
            let reader = self.led(reader, goal);
            self.readers.push(reader);
        }
    }

    /// Each whose moment it is acts. Returns when one wants to act next.
    pub(super) fn act(&mut self, world: &Outside) -> Instant {
        let notes = &mut self.notes;
        let clients = std::iter::once(&mut self.admin as &mut dyn Client)
            .chain(each(&mut self.producers))
            .chain(each(&mut self.readers))
            .chain(each(&mut self.members))
            .chain(each(&mut self.loners))
            .chain(each(self.keeper.as_mut_slice()))
            .chain(each(self.ledger.as_mut_slice()))
            .chain(each(&mut self.transactors))
            .chain(each(&mut self.council))
            .chain(each(self.reassigner.as_mut_slice()));
        let mut next = Instant(u64::MAX);
        for client in clients {
            next = next.min(client.act(world, notes));
        }
        next.min(self.crowd.act(world))
    }

    /// The connections of all to one broker.
    pub(super) fn lines_to(&self, address: SocketAddr) -> impl Iterator<Item = &Line> {
        let links = std::iter::once(self.admin.link())
            .chain(self.producers.iter().map(Client::link))
            .chain(self.readers.iter().map(Client::link))
            .chain(self.members.iter().map(Client::link))
            .chain(self.loners.iter().map(Client::link))
            .chain(self.keeper.iter().map(Client::link))
            .chain(self.ledger.iter().map(Client::link))
            .chain(self.transactors.iter().flat_map(Transactor::links))
            .chain(self.council.iter().map(Client::link))
            .chain(self.reassigner.iter().map(Client::link));
        let links = links.filter(move |link| link.address == address);
        links.filter_map(|link| link.line.as_ref())
    }

    /// The broker has answered producers in its present life, and owes them more.
    pub(super) fn are_served_by(&self, address: SocketAddr) -> bool {
        let is_it = |link: &Link| link.address == address;
        let mut producers = self.producers.iter();
        producers.any(|producer| is_it(producer.link()) && producer.is_served())
    }
}

fn only(partition: i32) -> Range<i32> {
    partition..partition + 1
}

fn of_leader(topic: &str, partitions: &Range<i32>) -> Goal {
    Goal::Leader {
        topic: topic.to_owned(),
        partition: partitions.start,
    }
}

fn of_group(group: &str) -> Goal {
    Goal::Coordinator {
        key: group.to_owned(),
        key_type: OF_GROUP,
    }
}

/// The group of the member with this number.
fn group(plan: &Plan, number: usize) -> String {
    match number % plan.groups {
        0 => GROUP.to_owned(),
        other => format!("{GROUP}-{other}"),
    }
}
