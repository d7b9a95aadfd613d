//! Leaders propose ISRs, and replicas in trouble hand over.

use ::model::{BrokerId, LeaderEpoch, PartitionIndex};
use meta::decide::alter_partition::{
    AlterPartitionError, Altered, Member, Proposal, alter_partitions,
};
use meta::decide::heartbeat::{fence, relieve};
use meta::sessions::HeartbeatError;
use meta::{Image, Trouble};
use wire::Uuid;

use crate::members::{STRICT, after, cluster, dir, partition, shown};

pub(super) fn proposal(isr: &[i32]) -> Proposal {
    let member = |id: &i32| Member {
        broker: BrokerId(*id),
        epoch: Some(i64::from(*id) + 10),
    };
    Proposal {
        topic: Uuid([1; 16]),
        partition: PartitionIndex(0),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
        isr: isr.iter().map(member).collect(),
        is_recovering: false,
    }
}

/// The same for any partition, with its present epochs.
fn proposal_of(image: &Image, index: i32, isr: &[i32]) -> Proposal {
    let known = partition(image, index as usize);
    Proposal {
        partition: PartitionIndex(index),
        leader_epoch: known.leader_epoch,
        partition_epoch: known.epoch,
        ..proposal(isr)
    }
}

/// The image behind a proposal, and the ISR that it came to.
fn decided(
    image: &Image,
    trouble: &Trouble,
    leader: i32,
    proposal: Proposal,
) -> (Image, Result<Vec<BrokerId>, AlterPartitionError>) {
    let asks = (BrokerId(leader), i64::from(leader) + 10);
    let decided = alter_partitions(image, &STRICT, trouble, asks, &[proposal]);
    let mut decided = decided.expect("its registration");
    let answer = decided.answers.remove(0).2;
    (
        after(image, &decided.records),
        answer.map(|altered| altered.isr),
    )
}

pub(super) fn altered(
    image: &Image,
    leader: i32,
    proposal: Proposal,
) -> Result<Altered, AlterPartitionError> {
    let epoch = i64::from(leader) + 10;
    let decided = alter_partitions(
        image,
        &STRICT,
        &Trouble::default(),
        (BrokerId(leader), epoch),
        &[proposal],
    );
    let decided = decided.expect("the epoch is right");
    let records = decided.records.len();
    let answer = decided.answers.into_iter().next().expect("one").2;
    let changes = answer.is_ok() || answer == Err(AlterPartitionError::NewLeaderElected);
    assert!(changes || records == 0, "a refusal changes nothing");
    answer
}

#[test]
fn a_leader_shrinks_and_expands_the_isr() {
    let image = cluster(&[&[1, 2, 3]]);
    let shrunk = altered(&image, 1, proposal(&[1])).expect("allowed");
    assert_eq!((shrunk.isr, shrunk.partition_epoch), (vec![BrokerId(1)], 1));
    assert_eq!(
        (shrunk.leader, shrunk.leader_epoch),
        (BrokerId(1), LeaderEpoch(0))
    );
    let decided = alter_partitions(
        &image,
        &STRICT,
        &Trouble::default(),
        (BrokerId(1), 11),
        &[proposal(&[1])],
    );
    let image = after(&image, &decided.expect("the epoch is right").records);
    assert_eq!(shown(&image, 0), (1, vec![1], vec![2, 3]));
    let back = Proposal {
        partition_epoch: 1,
        ..proposal(&[1, 3])
    };
    assert_eq!(
        altered(&image, 1, back).expect("allowed").isr,
        [BrokerId(1), BrokerId(3)]
    );
}

#[test]
fn each_reason_against_an_isr_has_the_code_of_kafka() {
    let image = cluster(&[&[1, 2, 3]]);
    let with = |change: &dyn Fn(&mut Proposal)| {
        let mut wanted = proposal(&[1, 2]);
        change(&mut wanted);
        altered(&image, 1, wanted).err()
    };
    use AlterPartitionError as E;
    for (error, found) in [
        (E::UnknownTopic, with(&|one| one.topic = Uuid([9; 16]))),
        (
            E::UnknownPartition,
            with(&|one| one.partition = PartitionIndex(1)),
        ),
        (
            E::UnknownPartition,
            with(&|one| one.partition = PartitionIndex(-1)),
        ),
        (
            E::NotController,
            with(&|one| one.leader_epoch = LeaderEpoch(1)),
        ),
        (E::NotController, with(&|one| one.partition_epoch = 1)),
        (
            E::FencedLeaderEpoch,
            with(&|one| one.leader_epoch = LeaderEpoch(-1)),
        ),
        (
            E::InvalidUpdateVersion,
            with(&|one| one.partition_epoch = -1),
        ),
        (E::InvalidRequest, with(&|one| one.isr.clear())),
        (
            E::InvalidRequest,
            with(&|one| one.isr = proposal(&[2, 3]).isr),
        ),
        (
            E::InvalidRequest,
            with(&|one| one.isr = proposal(&[1, 1]).isr),
        ),
        (
            E::InvalidRequest,
            with(&|one| one.isr = proposal(&[1, 4]).isr),
        ),
        (E::InvalidRequest, with(&|one| one.is_recovering = true)),
        (
            E::InvalidRequest,
            with(&|one| {
                one.isr.truncate(1);
                one.is_recovering = true;
            }),
        ),
        (
            E::IneligibleReplica,
            with(&|one| one.isr[1].epoch = Some(99)),
        ),
    ] {
        assert_eq!(found, Some(error));
    }
    assert_eq!(with(&|one| one.isr[1].epoch = None), None);
    assert_eq!(altered(&image, 2, proposal(&[2])), Err(E::InvalidRequest));
    let fenced = after(&image, &fence(&image, &STRICT, BrokerId(3)));
    let with_fenced = Proposal {
        partition_epoch: 1,
        ..proposal(&[1, 2, 3])
    };
    assert_eq!(altered(&fenced, 1, with_fenced), Err(E::IneligibleReplica));
    let stale = alter_partitions(&image, &STRICT, &Trouble::default(), (BrokerId(1), 10), &[]);
    assert_eq!(stale, Err(HeartbeatError::Stale { known: 11, got: 10 }));
}

#[test]
fn an_isr_that_ends_a_reassignment_may_end_a_leadership_too() {
    let mut image = cluster(&[&[1, 2]]);
    let change = wire::metadata::PartitionChangeRecord {
        partition_id: 0,
        topic_id: Uuid([1; 16]),
        replicas: Some(vec![2, 3, 1]),
        adding_replicas: Some(vec![3]),
        removing_replicas: Some(vec![1]),
        directories: Some(vec![dir(2, 1), dir(3, 1), dir(1, 1)]),
        ..wire::metadata::PartitionChangeRecord::default()
    };
    crate::replay(&mut image, &[change.into()]);
    let joins = Proposal {
        partition_epoch: 1,
        ..proposal(&[1, 2, 3])
    };
    let decided = alter_partitions(
        &image,
        &STRICT,
        &Trouble::default(),
        (BrokerId(1), 11),
        std::slice::from_ref(&joins),
    );
    let image_after = after(&image, &decided.expect("the epoch is right").records);
    assert_eq!(shown(&image_after, 0), (2, vec![2, 3], vec![]));
    assert!(partition(&image_after, 0).removing.is_empty());
    assert_eq!(
        altered(&image, 1, joins),
        Err(AlterPartitionError::NewLeaderElected)
    );
}

#[test]
fn replicas_in_a_directory_in_trouble_hand_over_to_others_in_sync_and_stay_where_none_can() {
    let image = cluster(&[&[1, 2, 3], &[1, 2], &[1], &[2, 1, 3]]);
    let mut trouble = Trouble::default();
    assert_eq!(trouble.on_told(BrokerId(1), &[dir(1, 1)]), [dir(1, 1)]);
    assert_eq!(trouble.on_told(BrokerId(1), &[dir(1, 1)]), []);
    let relieved = after(&image, &relieve(&image, &STRICT, BrokerId(1), &trouble));
    assert_eq!(shown(&relieved, 0), (2, vec![2, 3], vec![]));
    // Two of two have to be in sync: it follows.
    assert_eq!(shown(&relieved, 1), (2, vec![1, 2], vec![]));
    assert_eq!(shown(&relieved, 2), (1, vec![1], vec![]));
    assert_eq!(shown(&relieved, 3), (2, vec![2, 3], vec![]));
    assert_eq!(relieve(&relieved, &STRICT, BrokerId(1), &trouble), []);

    // It comes back into the ISR when it is well, and not before.
    let joins = Proposal {
        leader_epoch: partition(&relieved, 0).leader_epoch,
        partition_epoch: partition(&relieved, 0).epoch,
        ..proposal(&[1, 2, 3])
    };
    let ask = |trouble: &Trouble| {
        let asks = (BrokerId(2), 12);
        let joins = std::slice::from_ref(&joins);
        let decided = alter_partitions(&relieved, &STRICT, trouble, asks, joins);
        let answer = decided.expect("its registration").answers.remove(0).2;
        answer.map(|altered| altered.isr.len())
    };
    assert_eq!(ask(&trouble), Err(AlterPartitionError::IneligibleReplica));
    assert_eq!(trouble.on_told(BrokerId(1), &[]), []);
    assert_eq!(ask(&trouble), Ok(3));

    // One of two that want to join is well: it joins alone.
    let shrunk = decided(&image, &Trouble::default(), 2, proposal_of(&image, 3, &[2])).0;
    trouble.on_told(BrokerId(1), &[dir(1, 1)]);
    let both = proposal_of(&shrunk, 3, &[2, 1, 3]);
    let (joined, isr) = decided(&shrunk, &trouble, 2, both);
    assert_eq!(isr, Ok(vec![BrokerId(2), BrokerId(3)]));
    // There are enough now. Before that the one in trouble would have been better than none.
    let all = decided(&joined, &trouble, 2, proposal_of(&joined, 3, &[2, 3, 1])).1;
    assert_eq!(all, Err(AlterPartitionError::IneligibleReplica));
    let needed = decided(&shrunk, &trouble, 2, proposal_of(&shrunk, 3, &[2, 1])).1;
    assert_eq!(needed, Ok(vec![BrokerId(2), BrokerId(1)]));

    // All are in trouble: nothing is won by a change.
    for broker in 1..=3 {
        trouble.on_told(BrokerId(broker), &[dir(broker, 1)]);
    }
    assert_eq!(relieve(&image, &STRICT, BrokerId(1), &trouble), []);
}
