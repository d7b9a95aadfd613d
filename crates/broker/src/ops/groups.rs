//! Groups: members join, stay and leave; tools describe, list and delete groups.
//!
//! Each operation asks the coordinator of its group, and is done when the answer of that is durable. An asker that may not do it
//! to the group is refused before any coordinator is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use coord::group::Refusal;
use coord::group::ask::{
    self, ConsumerDescribe, ConsumerDescribed, ConsumerHeartbeat, Delete, Describe, Described,
    Filter, Heartbeat, Join, JoinRefusal, Joined, Leave, Listed, Sight, Standing, Sync, Synced,
};
use meta::decide::register_broker::GROUP_VERSION;
use wire::ErrorCode;

use super::asking::{Awaited, Awaiting, Read, only};
use super::once::keep_once;
use super::query::{Query, Told};
use super::{Desk, Step, Tickets};
use crate::asker::Asker;
use crate::asker::access::Resource;
use crate::mail::question::Reach;
use security::authorize::Operation;

/// One result for each group, which is named once.
pub(crate) type Each<T> = Vec<(String, Result<T, ErrorCode>)>;

pub(crate) fn join(
    desk: &mut Desk,
    asker: &Asker,
    join: Join,
    tickets: Tickets<'_>,
) -> Awaited<Join, Result<Result<Joined, JoinRefusal>, ErrorCode>> {
    let place = place(desk, asker, Operation::Read, &join.group_id);
    of_group(desk, place, join, tickets, only)
}

pub(crate) fn sync(
    desk: &mut Desk,
    asker: &Asker,
    sync: Sync,
    tickets: Tickets<'_>,
) -> Awaited<Sync, Result<Synced, ErrorCode>> {
    let place = place(desk, asker, Operation::Read, &sync.group_id);
    of_group(desk, place, sync, tickets, |told| only(told).flatten())
}

pub(crate) fn heartbeat(
    desk: &mut Desk,
    asker: &Asker,
    beat: Heartbeat,
    tickets: Tickets<'_>,
) -> Awaited<Heartbeat, Result<(), ErrorCode>> {
    let place = place(desk, asker, Operation::Read, &beat.group_id);
    of_group(desk, place, beat, tickets, |told| {
        match only(told).flatten() {
            // The member may well be alive: it is looked for once its group is loaded.
            Err(ErrorCode::CoordinatorLoadInProgress) => Ok(()),
            result => result,
        }
    })
}

/// The results come in the order of the members.
pub(crate) fn leave(
    desk: &mut Desk,
    asker: &Asker,
    leave: Leave,
    tickets: Tickets<'_>,
) -> Awaited<Leave, Result<Vec<Result<(), ErrorCode>>, ErrorCode>> {
    let place = place(desk, asker, Operation::Read, &leave.group_id);
    of_group(desk, place, leave, tickets, |told| only(told).flatten())
}

pub(crate) fn consumer_heartbeat(
    desk: &mut Desk,
    asker: &Asker,
    mut beat: ConsumerHeartbeat,
    tickets: Tickets<'_>,
) -> Awaited<ConsumerHeartbeat, Result<Result<Standing, Refusal>, ErrorCode>> {
    if !has_consumer_groups(desk) {
        return Step::Done(Err(ErrorCode::UnsupportedVersion));
    }
    let place = match place(desk, asker, Operation::Read, &beat.group_id) {
        Ok(place) => place,
        Err(code) => return Step::Done(Err(code)),
    };
    let mut names = beat.topic_names.iter().flatten();
    let see = |name| asker.grant(Operation::Describe, Resource::topic(name));
    if let Err(code) = names.try_for_each(|name| see(name).map(drop)) {
        return Step::Done(Err(code));
    }
    if asker.authority.is_some() {
        let eyes = asker.clone();
        beat.sight = Sight::limited(move |topic| {
            let topic = Resource::topic(topic);
            eyes.grant(Operation::Describe, topic).is_ok()
        });
    }
    of_group(desk, Ok(place), beat, tickets, only)
}

/// Groups of the classic protocol.
pub(crate) fn describe(
    desk: &mut Desk,
    asker: &Asker,
    group_ids: Vec<String>,
    tickets: Tickets<'_>,
) -> Awaited<Describe, Each<Result<Described, Refusal>>> {
    let groups = Groups {
        ids: group_ids,
        operation: Operation::Describe,
        denied: Denied::First,
        ask: |group_id| Describe { group_id },
    };
    groups.begin(desk, asker, tickets, |told| told)
}

/// Groups of the consumer protocol.
pub(crate) fn describe_consumers(
    desk: &mut Desk,
    asker: &Asker,
    mut group_ids: Vec<String>,
    tickets: Tickets<'_>,
) -> Awaited<ConsumerDescribe, Each<Result<ConsumerDescribed, Refusal>>> {
    if !has_consumer_groups(desk) {
        keep_once(&mut group_ids);
        let refused = |id| (id, Err(ErrorCode::UnsupportedVersion));
        return Step::Done(group_ids.into_iter().map(refused).collect());
    }
    let groups = Groups {
        ids: group_ids,
        operation: Operation::Describe,
        denied: Denied::First,
        ask: |group_id| ConsumerDescribe { group_id },
    };
    let sight = asker.clone();
    groups.begin(desk, asker, tickets, move |told| match told {
        Ok(Ok(group)) if hides_topics(&sight, &group) => Err(ErrorCode::TopicAuthorizationFailed),
        told => told,
    })
}

/// True if members have, or are to have, topics that the asker may not see: it is shown nothing of the group then.
fn hides_topics(asker: &Asker, group: &ConsumerDescribed) -> bool {
    if asker.authority.is_none() {
        return false;
    }
    let members = group.members.iter();
    let assigned = members.flat_map(|member| member.assignment.iter().chain(&member.target));
    let names: BTreeSet<&str> = assigned.map(|topic| &*topic.topic_name).collect();
    let is_hidden = |name: &&str| {
        let seen = asker.grant(Operation::Describe, Resource::topic(name));
        seen.is_err()
    };
    names.iter().any(is_hidden)
}

/// Groups without members, and everything that they committed.
pub(crate) fn delete(
    desk: &mut Desk,
    asker: &Asker,
    group_ids: Vec<String>,
    tickets: Tickets<'_>,
) -> Awaited<Delete, Each<()>> {
    let groups = Groups {
        ids: group_ids,
        operation: Operation::Delete,
        denied: Denied::Last,
        ask: |group_id| Delete { group_id },
    };
    groups.begin(desk, asker, tickets, Result::flatten)
}

/// Which groups to list, by the names of states and types.
pub(crate) struct List {
    pub(crate) states: Filter,
    pub(crate) types: Filter,
}

/// The groups of all coordinators that the asker may see: of those of this broker, or of the cluster where the desk reaches so far.
pub(crate) fn list(
    desk: &mut Desk,
    asker: &Asker,
    list: List,
    tickets: Tickets<'_>,
) -> Awaited<ask::List, Result<Vec<Listed>, ErrorCode>> {
    let partitions = listing(desk);
    let asker = asker.clone();
    let sees_all = asker.grant(Operation::Describe, Resource::CLUSTER).is_ok();
    let read = Read::with(move |told| {
        let mut listed = listed(told)?;
        let sees = |group: &Listed| {
            let group = Resource::group(&group.group_id);
            asker.grant(Operation::Describe, group).is_ok()
        };
        listed.retain(|group| sees_all || sees(group));
        Ok(listed)
    });
    Awaiting::begin(desk, questions(partitions, list), tickets, read)
}

/// The partitions whose coordinators are asked. Another broker, which lists the groups of all that it coordinates, is asked once.
fn listing(desk: &mut Desk) -> Vec<i32> {
    let topics = desk.topics();
    let topic = topics.named(meta::name::OFFSETS);
    let partitions = (0..).take(topic.map_or(0, |topic| topic.partitions_count()));
    let mut asked = BTreeSet::new();
    let is_first = |partition: &i32| {
        let other = match desk.reach {
            Reach::ThisBroker => None,
            Reach::Cluster => desk.other_leader(meta::name::OFFSETS, *partition),
        };
        other.is_none_or(|broker| asked.insert(broker))
    };
    partitions.filter(is_first).collect()
}

/// The same for each of these partitions of the offsets topic.
fn questions(partitions: Vec<i32>, list: List) -> Vec<(i32, ask::List)> {
    let list = ask::List {
        states: Arc::new(list.states),
        types: Arc::new(list.types),
    };
    let partitions = partitions.into_iter();
    partitions
        .map(|partition| (partition, list.clone()))
        .collect()
}

/// A list with a part missing would look as if those groups were gone: it is refused.
fn listed(told: Vec<Told<ask::List>>) -> Result<Vec<Listed>, ErrorCode> {
    let mut all = Vec::new();
    let mut refusal = None;
    for told in told {
        match told {
            Ok(groups) => all.extend(groups),
            // Not ours to list.
            Err(ErrorCode::NotCoordinator) => {}
            Err(code) => refusal = Some(code),
        }
    }
    refusal.map_or(Ok(all), Err)
}

/// True if the cluster has taken up the consumer protocol, and this broker speaks it; groups of it that exist stay as they are
/// meanwhile.
fn has_consumer_groups(desk: &Desk) -> bool {
    let level = desk.shared.catalog.image().feature(GROUP_VERSION);
    0 < level && desk.shared.catalog.config().has_consumer_protocol
}

/// The partition whose coordinator looks after the group, for an asker that may do this to it.
pub(super) fn place(
    desk: &mut Desk,
    asker: &Asker,
    operation: Operation,
    group_id: &str,
) -> Result<i32, ErrorCode> {
    let granted = asker.grant(operation, Resource::group(group_id))?;
    Ok(desk.coordinator_of(granted, operation))
}

/// Asks the coordinator of one group.
fn of_group<Q: Query, T>(
    desk: &mut Desk,
    place: Result<i32, ErrorCode>,
    question: Q,
    tickets: Tickets<'_>,
    read: fn(Vec<Told<Q>>) -> Result<T, ErrorCode>,
) -> Awaited<Q, Result<T, ErrorCode>> {
    match place {
        Ok(place) => Awaiting::begin(desk, vec![(place, question)], tickets, Read::Plain(read)),
        Err(code) => Step::Done(Err(code)),
    }
}

/// Several groups that are each asked the same.
struct Groups<Q> {
    ids: Vec<String>,
    operation: Operation,
    denied: Denied,
    ask: fn(String) -> Q,
}

/// The place of refused groups in an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Denied {
    First,
    Last,
}

impl<Q: Query + 'static> Groups<Q> {
    fn begin<T: 'static>(
        mut self,
        desk: &mut Desk,
        asker: &Asker,
        tickets: Tickets<'_>,
        read: impl Fn(Told<Q>) -> Result<T, ErrorCode> + Send + 'static,
    ) -> Awaited<Q, Each<T>> {
        keep_once(&mut self.ids);
        let mut questions = Vec::with_capacity(self.ids.len());
        let checked = |id: String| {
            let place = place(desk, asker, self.operation, &id);
            let checked = place.map(|place| questions.push((place, (self.ask)(id.clone()))));
            (id, checked)
        };
        let mut groups: Vec<(String, Result<(), ErrorCode>)> =
            self.ids.into_iter().map(checked).collect();
        groups.sort_by_key(|(_, checked)| match self.denied {
            Denied::First => checked.is_ok(),
            Denied::Last => checked.is_err(),
        });
        let read = Read::with(move |told: Vec<Told<Q>>| {
            let mut told = told.into_iter();
            let mut next = || read(told.next().unwrap_or(Err(ErrorCode::NotCoordinator)));
            let each = groups.into_iter();
            each.map(|(id, checked)| (id, checked.and_then(|()| next())))
                .collect()
        });
        Awaiting::begin(desk, questions, tickets, read)
    }
}

#[cfg(test)]
mod tests {
    use coord::group::ClassicState;
    use coord::group::ask::GroupState;

    use super::*;

    #[test]
    fn all_coordinators_are_asked_with_one_filter() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let list = List {
            states: names(&["Stable", "Nonsense"]),
            types: names(&["Classic"]),
        };
        let asked = questions((0..50).collect(), list);
        assert_eq!(asked.len(), 50);
        for (partition, (at, list)) in (0..).zip(&asked) {
            assert_eq!(*at, partition);
            let holders = (
                Arc::strong_count(&list.states),
                Arc::strong_count(&list.types),
            );
            assert_eq!(holders, (50, 50));
        }
    }

    #[test]
    fn a_list_is_of_all_coordinators_or_refused() {
        let group = |id: &str| Listed {
            group_id: id.to_owned(),
            state: GroupState::Classic(ClassicState::Empty),
            protocol_type: None,
        };
        let told = |id| Ok(vec![group(id)]);
        let elsewhere = || Err(ErrorCode::NotCoordinator);
        let loading = ErrorCode::CoordinatorLoadInProgress;
        let all = listed(vec![told("g"), elsewhere(), told("h")]);
        assert_eq!(all, Ok(vec![group("g"), group("h")]));
        assert_eq!(listed(vec![told("g"), Err(loading)]), Err(loading));
    }
}
