//! Nodes that prove themselves, and those that cannot.

use super::*;

const RANDOM: [u8; NONCE_RANDOM_BYTES] = *b"abcdefghijklmnopqrstuvwxyz";
const OTHER: [u8; NONCE_RANDOM_BYTES] = *b"zyxwvutsrqponmlkjihgfedcba";

fn proof(byte: u8) -> NodeProof {
    NodeProof::new(&ClusterSecret::generate(&[byte; SECRET_BYTES_MIN]))
}

#[test]
fn nodes_with_the_same_secret_prove_themselves_to_each_other() {
    let (one, other) = (proof(1), proof(1));
    for id in [0, 7, i32::MAX] {
        let (first, client) = one.begin(id, &RANDOM);
        let (answer, server) = other.answer(&first, &OTHER).expect("the answer");
        let (message, verifying) = client.prove(&one, &answer).expect("the proof");
        let (last, node) = server.end(&message).expect("a node");
        assert_eq!(node, id);
        assert_eq!(verifying.end(&last), Ok(()));
    }
}

#[test]
fn each_end_says_that_the_other_has_another_secret() {
    let (one, other) = (proof(1), proof(2));
    let (first, client) = one.begin(1, &RANDOM);
    let (answer, server) = other.answer(&first, &OTHER).expect("the answer");
    // The client sees it first, by the salt.
    let refused = client.prove(&one, &answer).err();
    assert_eq!(refused, Some(NodeRefusal::OtherSecret));
    // One that proves itself all the same, with the salt of the other.
    let stolen = NodeProof {
        salted: one.salted.clone(),
        credential: Credential {
            salt: other.credential.salt.clone(),
            ..one.credential.clone()
        },
        own: None,
    };
    let (_, client) = one.begin(1, &RANDOM);
    let (message, verifying) = client.prove(&stolen, &answer).expect("a proof");
    let refused = server.end(&message).err();
    assert_eq!(refused, Some(NodeRefusal::OtherSecret));
    let told = refused.expect("refused").to_string();
    assert_eq!(told, "the other end has another cluster secret");
    // A server that lets everybody in has not proved anything.
    let last = format!("v={}", STANDARD.encode([0; 64]));
    let verified = verifying.end(last.as_bytes());
    assert_eq!(verified, Err(NodeRefusal::OtherSecret));
}

#[test]
fn a_node_takes_its_own_id_from_nobody_but_itself() {
    let here = proof(1).of_node(3, &[1; 32]);
    let twin = proof(1).of_node(3, &[2; 32]);
    let older = proof(1);
    for random in [
        RANDOM,
        OTHER,
        [0; NONCE_RANDOM_BYTES],
        [255; NONCE_RANDOM_BYTES],
    ] {
        let (first, client) = here.begin(3, &random);
        let (answer, server) = here.answer(&first, &OTHER).expect("its own login");
        let (message, verifying) = client.prove(&here, &answer).expect("the proof");
        let (last, node) = server.end(&message).expect("itself");
        assert_eq!((node, verifying.end(&last)), (3, Ok(())));
        for other in [&twin, &older] {
            let (first, _) = other.begin(3, &random);
            let refused = here.answer(&first, &OTHER).err();
            assert_eq!(refused, Some(NodeRefusal::SameId));
            let (first, _) = other.begin(4, &random);
            assert!(here.answer(&first, &OTHER).is_ok(), "another id");
        }
    }
    for nonce in [
        "x",
        "0123456789abcdefghijklmno",
        "wwwwwwwwwwwwwwwwwwwwwwwwww",
        "~",
    ] {
        let first = format!("n,,n=3,r={nonce}");
        let refused = here.answer(first.as_bytes(), &OTHER).err();
        assert_eq!(refused, Some(NodeRefusal::SameId), "{nonce}");
    }
}

#[test]
fn names_that_are_no_node_ids_are_refused() {
    let here = proof(1);
    for name in [
        "-1",
        "2147483648",
        "01",
        "+1",
        "1 ",
        "alice",
        "1.0",
        "=2C",
        "٣",
    ] {
        let first = format!("n,,n={name},r=x");
        let refused = here.answer(first.as_bytes(), &RANDOM).err();
        assert_eq!(refused, Some(NodeRefusal::NoNodeId), "{name}");
    }
    let acting = here.answer(b"n,a=2,n=1,r=x", &RANDOM).err();
    assert_eq!(acting, Some(NodeRefusal::NoNodeId), "for another node");
    let malformed = |first: &[u8]| here.answer(first, &RANDOM).err();
    let none = Some(NodeRefusal::Malformed(Malformed::ClientFirst));
    assert_eq!(malformed(b""), none);
    assert_eq!(malformed(b"n,,n=,r=x"), none);
}

#[test]
fn a_proof_is_good_for_its_login_alone() {
    let here = proof(1);
    let (first, client) = here.begin(1, &RANDOM);
    let (answer, server) = here.answer(&first, &OTHER).expect("the answer");
    let (message, _) = client.prove(&here, &answer).expect("the proof");
    let (_, another) = here.answer(&first, &RANDOM).expect("the answer");
    let repeated = another.end(&message).err();
    assert_eq!(repeated, Some(NodeRefusal::OtherLogin));
    // The same nonces, another id.
    let (first, _) = here.begin(2, &RANDOM);
    let (_, another) = here.answer(&first, &OTHER).expect("the answer");
    assert_eq!(another.end(&message).err(), Some(NodeRefusal::OtherSecret));
    for at in 0..message.len() {
        let (first, _) = here.begin(1, &RANDOM);
        let (_, server) = here.answer(&first, &OTHER).expect("the answer");
        assert!(server.end(&message[..at]).is_err(), "{at}");
    }
    assert!(server.end(&message).is_ok());
}

#[test]
fn a_refusal_of_the_other_end_is_repeated_in_part() {
    let here = proof(1);
    let (_, client) = here.begin(1, &RANDOM);
    let why = format!("e={}", "ü".repeat(TOLD_BYTES_MAX));
    let refused = client.prove(&here, why.as_bytes()).err();
    let told = "ü".repeat(TOLD_BYTES_MAX / 2);
    assert_eq!(refused, Some(NodeRefusal::Refused(told)));
    let (_, client) = here.begin(1, &RANDOM);
    let few = format!("r={}x,s=AAAA,i=1", super::super::scram::nonce(&RANDOM));
    let refused = client.prove(&here, few.as_bytes()).err();
    assert_eq!(refused, Some(NodeRefusal::OtherSecret));
    let (_, client) = here.begin(1, &RANDOM);
    let refused = client.prove(&here, b"r=another,s=AAAA,i=4096").err();
    assert_eq!(refused, Some(NodeRefusal::OtherLogin));
}

#[test]
fn a_secret_is_one_line_of_base64() {
    let secret = ClusterSecret::generate(&[0xfb; SECRET_BYTES_MIN]);
    let text = secret.text();
    assert_eq!(text.len(), 44);
    let same = ClusterSecret::parse(&format!(" {}\r\n", *text)).map(|read| read.0);
    assert!(same.is_ok_and(|same| same.is(&[0xfb; SECRET_BYTES_MIN])));
    let short = STANDARD.encode([1; 31]);
    for (text, why) in [
        ("", "is empty: one line of base64 is needed"),
        (" \n", "is empty: one line of base64 is needed"),
        ("secret!", "is not base64"),
        ("AAA", "is not base64"),
        (&short, "has 31 bytes, and at least 32 are needed"),
        (&format!("{}\n{}", *text, *text), "has more than one line"),
        (&text.replace('+', "-"), "is not base64"),
    ] {
        let told = ClusterSecret::parse(text)
            .err()
            .map(|error| error.to_string());
        assert_eq!(told.as_deref(), Some(why), "{text:?}");
    }
    assert!(ClusterSecret::parse(&STANDARD.encode([1; 64])).is_ok());
}
