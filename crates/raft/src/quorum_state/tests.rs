//! The vote file against Kafka's own text, and every damage that a crash or a disk can do to it.

use super::*;
use crate::voters::{VersionRange, Voter};

fn election(voted: Option<Replica>) -> Election {
    Election {
        epoch: LeaderEpoch(7),
        leader: None,
        voted,
    }
}

fn candidate() -> Replica {
    Replica {
        id: BrokerId(3),
        directory: "zBs5J2-hSfSE_TGQsp1zDw".parse().unwrap(),
    }
}

#[test]
fn contents_are_what_kafka_writes() {
    let text = encode(&election(Some(candidate())), 1, &VoterSet::default());
    assert_eq!(
        text,
        "{\"leaderId\":-1,\"leaderEpoch\":7,\"votedId\":3,\
         \"votedDirectoryId\":\"zBs5J2-hSfSE_TGQsp1zDw\",\"data_version\":1}"
    );
    assert_eq!(decode(text.as_bytes()), Some(election(Some(candidate()))));
}

#[test]
fn contents_of_version_0_name_no_directory() {
    let text = encode(&election(Some(candidate())), 0, &VoterSet::default());
    assert_eq!(
        text,
        "{\"clusterId\":\"\",\"leaderId\":-1,\"leaderEpoch\":7,\"votedId\":3,\
         \"appliedOffset\":0,\"currentVoters\":[],\"data_version\":0}"
    );
    let voted = Replica {
        directory: Uuid::ZERO,
        ..candidate()
    };
    assert_eq!(decode(text.as_bytes()), Some(election(Some(voted))));
}

#[test]
fn contents_of_version_0_alone_name_the_voters() {
    let voter = |id| Voter {
        replica: Replica {
            id: BrokerId(id),
            directory: Uuid::ZERO,
        },
        listeners: Vec::new(),
        versions: VersionRange::default(),
    };
    let voters = VoterSet::of([voter(2), voter(5)]);
    let named = |version| named_voters(encode(&election(None), version, &voters).as_bytes());
    assert_eq!(named(0), [BrokerId(2), BrokerId(5)]);
    assert_eq!(named(1), []);
    assert_eq!(named_voters(b"{"), []);
}

#[test]
fn crash_between_the_two_files_leaves_a_vote_that_is_believed() {
    let old = encode(&election(None), 1, &VoterSet::default());
    let new = encode(&election(Some(candidate())), 1, &VoterSet::default());
    let check = check(Some(old.as_bytes()), new.as_bytes());
    let verify = |file: &str| verify(Some(file.as_bytes()), Some(check.as_bytes()));
    assert_eq!(verify(&old), VoteFile::Known(election(None)));
    assert_eq!(verify(&new), VoteFile::Known(election(Some(candidate()))));
}

#[test]
fn every_cut_and_every_flip_is_a_loss() {
    let text = encode(&election(Some(candidate())), 1, &VoterSet::default());
    let check = check(None, text.as_bytes());
    for len in 0..text.len() {
        let cut = &text.as_bytes()[..len];
        assert_eq!(verify(Some(cut), Some(check.as_bytes())), VoteFile::Lost);
        assert_eq!(verify(Some(cut), None), VoteFile::Lost, "{len}");
    }
    for at in 0..text.len() * 8 {
        let mut flipped = text.clone().into_bytes();
        flipped[at / 8] ^= 1 << (at % 8);
        let verified = verify(Some(&flipped), Some(check.as_bytes()));
        assert_eq!(verified, VoteFile::Lost, "bit {at}");
    }
    for len in 0..check.len() {
        let cut = &check.as_bytes()[..len];
        assert_eq!(
            verify(Some(text.as_bytes()), Some(cut)),
            VoteFile::Lost,
            "check of {len}"
        );
    }
}

#[test]
fn lost_contents_are_not_a_fresh_directory() {
    assert_eq!(verify(None, None), VoteFile::Fresh);
    assert_eq!(verify(None, Some(b"0\n00000000 0\n")), VoteFile::Lost);
}
