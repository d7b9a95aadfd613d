//! Groups: members join, stay and leave; tools describe, list and delete groups.
//!
//! Each operation asks the coordinator of its group, and is done when the answer of that is durable. An asker that may not do it
//! to the group is refused before any coordinator is asked.

use std::sync::Arc;

use coord::group::ask::{
    ConsumerDescribed, ConsumerHeartbeat, Described, Filter, Heartbeat, Join, JoinRefusal, Joined,
    Leave, Listed, Standing, Sync, Synced,
};
use coord::group::{Answer, Ask, Refusal};
use meta::decide::register_broker::GROUP_VERSION;
use wire::ErrorCode;

use super::asking::{Awaited, Awaiting, Read, only};
use super::once::keep_once;
use super::{Desk, Step, Tickets};
use crate::asker::Asker;
use crate::asker::access::{self, Operation, Resource};
use crate::coordinate::question::{Question, Said, Told};

/// One result for each group, which is named once.
pub(crate) type Each<T> = Vec<(String, Result<T, ErrorCode>)>;

/// The refusal behind an answer that is not of the kind that was asked for; only a bug makes a machine answer something else.
pub(super) fn unexpected(told: Result<Answer, ErrorCode>) -> ErrorCode {
    match told {
        // The records of the change do not fit a batch, which the client knows nothing of.
        Err(ErrorCode::MessageTooLarge) => ErrorCode::UnknownServerError,
        Err(code) => code,
        Ok(answer) => unreachable!("a group coordinator answered {answer:?}"),
    }
}

/// Reads what was told as an answer of one kind.
macro_rules! read {
    ($told:expr, $kind:ident) => {
        match $told.map(Said::group) {
            Ok(Answer::$kind(answer)) => Ok(answer),
            other => Err(unexpected(other)),
        }
    };
}
pub(super) use read;

pub(crate) fn join(
    desk: &mut Desk,
    asker: &Asker,
    join: Join,
    tickets: Tickets<'_>,
) -> Awaited<Result<Result<Joined, JoinRefusal>, ErrorCode>> {
    let read = |told| read!(only(told), Join);
    of_group(desk, asker, Operation::Read, Ask::Join(join), tickets, read)
}

pub(crate) fn sync(
    desk: &mut Desk,
    asker: &Asker,
    sync: Sync,
    tickets: Tickets<'_>,
) -> Awaited<Result<Synced, ErrorCode>> {
    let read = |told| read!(only(told), Sync).flatten();
    of_group(desk, asker, Operation::Read, Ask::Sync(sync), tickets, read)
}

pub(crate) fn heartbeat(
    desk: &mut Desk,
    asker: &Asker,
    beat: Heartbeat,
    tickets: Tickets<'_>,
) -> Awaited<Result<(), ErrorCode>> {
    let ask = Ask::Heartbeat(beat);
    let read = |told| match read!(only(told), Heartbeat).flatten() {
        // The member may well be alive: it is looked for once its group is loaded.
        Err(ErrorCode::CoordinatorLoadInProgress) => Ok(()),
        result => result,
    };
    of_group(desk, asker, Operation::Read, ask, tickets, read)
}

/// The results come in the order of the members.
pub(crate) fn leave(
    desk: &mut Desk,
    asker: &Asker,
    leave: Leave,
    tickets: Tickets<'_>,
) -> Awaited<Result<Vec<Result<(), ErrorCode>>, ErrorCode>> {
    let ask = Ask::Leave(leave);
    let read = |told| read!(only(told), Leave).flatten();
    of_group(desk, asker, Operation::Read, ask, tickets, read)
}

pub(crate) fn consumer_heartbeat(
    desk: &mut Desk,
    asker: &Asker,
    beat: ConsumerHeartbeat,
    tickets: Tickets<'_>,
) -> Awaited<Result<Result<Standing, Refusal>, ErrorCode>> {
    if !has_consumer_groups(desk) {
        return Step::Done(Err(ErrorCode::UnsupportedVersion));
    }
    if let Err(code) = check(asker, Operation::Read, &beat.group_id) {
        return Step::Done(Err(code));
    }
    let mut names = beat.topic_names.iter().flatten();
    if !names.all(|name| asker.may(Operation::Describe, Resource::topic(name))) {
        return Step::Done(Err(ErrorCode::TopicAuthorizationFailed));
    }
    let ask = Ask::ConsumerHeartbeat(beat);
    let read = |told| read!(only(told), ConsumerHeartbeat);
    of_group(desk, asker, Operation::Read, ask, tickets, read)
}

/// Groups of the classic protocol.
pub(crate) fn describe(
    desk: &mut Desk,
    asker: &Asker,
    group_ids: Vec<String>,
    tickets: Tickets<'_>,
) -> Awaited<Each<Result<Described, Refusal>>> {
    let groups = Groups {
        ids: group_ids,
        operation: Operation::Describe,
        ask: |group_id| Ask::Describe { group_id },
    };
    groups.begin(desk, asker, tickets, |told| read!(told, Describe))
}

/// Groups of the consumer protocol.
pub(crate) fn describe_consumers(
    desk: &mut Desk,
    asker: &Asker,
    mut group_ids: Vec<String>,
    tickets: Tickets<'_>,
) -> Awaited<Each<Result<ConsumerDescribed, Refusal>>> {
    if !has_consumer_groups(desk) {
        keep_once(&mut group_ids);
        let refused = |id| (id, Err(ErrorCode::UnsupportedVersion));
        return Step::Done(group_ids.into_iter().map(refused).collect());
    }
    let groups = Groups {
        ids: group_ids,
        operation: Operation::Describe,
        ask: |group_id| Ask::ConsumerDescribe { group_id },
    };
    groups.begin(desk, asker, tickets, |told| read!(told, ConsumerDescribe))
}

/// Groups without members, and everything that they committed.
pub(crate) fn delete(
    desk: &mut Desk,
    asker: &Asker,
    group_ids: Vec<String>,
    tickets: Tickets<'_>,
) -> Awaited<Each<()>> {
    let groups = Groups {
        ids: group_ids,
        operation: Operation::Delete,
        ask: |group_id| Ask::Delete { group_id },
    };
    groups.begin(desk, asker, tickets, |told| read!(told, Delete).flatten())
}

/// Which groups to list, by the names of states and types.
pub(crate) struct List {
    pub(crate) states: Filter,
    pub(crate) types: Filter,
}

/// The groups of all coordinators of this broker that the asker may see.
pub(crate) fn list(
    desk: &mut Desk,
    asker: &Asker,
    list: List,
    tickets: Tickets<'_>,
) -> Awaited<Result<Vec<Listed>, ErrorCode>> {
    let topics = desk.topics();
    let topic = topics.named(meta::name::OFFSETS);
    let partitions = topic.map_or(0, |topic| topic.partitions_count());
    let sees_all = asker.may(Operation::Describe, Resource::CLUSTER);
    let principal = asker.principal;
    let read = Read::with(move |told| {
        let mut listed = listed(told)?;
        listed.retain(|group| {
            let group = Resource::group(&group.group_id);
            sees_all || access::may(principal, Operation::Describe, group)
        });
        Ok(listed)
    });
    Awaiting::begin(desk, questions(partitions, list), tickets, read)
}

/// The same for each partition of the offsets topic.
fn questions(partitions: usize, list: List) -> Vec<(i32, Question)> {
    let (states, types) = (Arc::new(list.states), Arc::new(list.types));
    let ask = || Ask::List {
        states: Arc::clone(&states),
        types: Arc::clone(&types),
    };
    (0..)
        .take(partitions)
        .map(|partition| (partition, Question::Group(ask())))
        .collect()
}

/// A list with a part missing would look as if those groups were gone: it is refused.
fn listed(told: Vec<Told>) -> Result<Vec<Listed>, ErrorCode> {
    let mut all = Vec::new();
    let mut refusal = None;
    for told in told {
        match read!(told, List) {
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

pub(super) fn check(asker: &Asker, operation: Operation, group_id: &str) -> Result<(), ErrorCode> {
    if asker.may(operation, Resource::group(group_id)) {
        Ok(())
    } else {
        Err(ErrorCode::GroupAuthorizationFailed)
    }
}

/// Asks the coordinator of the one group that `ask` names.
fn of_group<T>(
    desk: &mut Desk,
    asker: &Asker,
    operation: Operation,
    ask: Ask,
    tickets: Tickets<'_>,
    read: fn(Vec<Told>) -> Result<T, ErrorCode>,
) -> Awaited<Result<T, ErrorCode>> {
    let group_id = ask.group_id().unwrap_or_default();
    if let Err(code) = check(asker, operation, group_id) {
        return Step::Done(Err(code));
    }
    let question = desk.group_question(ask);
    Awaiting::begin(desk, vec![question], tickets, Read::Plain(read))
}

/// Several groups that are each asked the same.
struct Groups {
    ids: Vec<String>,
    operation: Operation,
    ask: fn(String) -> Ask,
}

impl Groups {
    fn begin<T: 'static>(
        mut self,
        desk: &mut Desk,
        asker: &Asker,
        tickets: Tickets<'_>,
        read: fn(Told) -> Result<T, ErrorCode>,
    ) -> Awaited<Each<T>> {
        keep_once(&mut self.ids);
        let mut questions = Vec::with_capacity(self.ids.len());
        let checked = |id: String| {
            let checked = check(asker, self.operation, &id);
            if checked.is_ok() {
                questions.push(desk.group_question((self.ask)(id.clone())));
            }
            (id, checked)
        };
        let groups: Vec<(String, Result<(), ErrorCode>)> =
            self.ids.into_iter().map(checked).collect();
        let read = Read::with(move |told: Vec<Told>| {
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
    fn a_change_too_large_for_its_log_is_the_servers_own_trouble() {
        for (code, told) in [
            (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
            (ErrorCode::NotCoordinator, ErrorCode::NotCoordinator),
        ] {
            assert_eq!(unexpected(Err(code)), told);
        }
    }

    #[test]
    fn all_coordinators_are_asked_with_one_filter() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let list = List {
            states: names(&["Stable", "Nonsense"]),
            types: names(&["Classic"]),
        };
        let asked = questions(50, list);
        assert_eq!(asked.len(), 50);
        for (partition, (at, question)) in (0..).zip(&asked) {
            let Question::Group(Ask::List { states, types }) = question else {
                panic!("another question");
            };
            assert_eq!(*at, partition);
            let holders = (Arc::strong_count(states), Arc::strong_count(types));
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
        let told = |id| Ok(Said::Group(Answer::List(vec![group(id)])));
        let elsewhere = || Err(ErrorCode::NotCoordinator);
        let loading = ErrorCode::CoordinatorLoadInProgress;
        let all = listed(vec![told("g"), elsewhere(), told("h")]);
        assert_eq!(all, Ok(vec![group("g"), group("h")]));
        assert_eq!(listed(vec![told("g"), Err(loading)]), Err(loading));
    }
}
