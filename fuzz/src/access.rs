//! Valid inputs of the targets `login`, `scram_client`, `acl_model` and `envelope`: logins of each kind that succeed or fail late, rules
//! of every kind with a question behind them, requests as brokers bring them.

use bytes::Bytes;
use wire::messages::{DefaultPrincipalData, EnvelopeRequest};
use wire::{Message, Writer};

use crate::script::piece;

// Steps of the target `login`.
const VERSIONS: [u8; 2] = [0, 1];
const OTHER: u8 = 4;
const HONEST: u8 = 5;
const MANGLED: u8 = 6;
const WAIT: [u8; 3] = [7, 0x75, 0x30];
const VERDICT: u8 = 8;
const OLD_VERDICT: u8 = 9;
/// Those of the mechanisms of `login` that are on offer.
const MECHANISMS: std::ops::Range<u8> = 0..4;

/// A handshake of a version from 0 on.
fn handshake(version: u8, mechanism: u8) -> [u8; 3] {
    [1, version + 1, mechanism]
}

pub fn login() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for mechanism in MECHANISMS {
        for version in [0, 1] {
            // The user, the user with another password, nobody, and one of the settings.
            for who in 0..4 {
                let one = [
                    &handshake(version, mechanism)[..],
                    &[HONEST, who, HONEST, who, VERDICT],
                ]
                .concat();
                // With a session that has no end, and with one; the second time after the first half of it.
                inputs.push([&[0], &VERSIONS[..], &one, &[OTHER]].concat());
                inputs.push([&[1], &one[..], &WAIT, &one, &WAIT, &WAIT, &[OTHER]].concat());
                inputs.push([&[1], &one[..], &WAIT, &handshake(1, 0), &[HONEST, 0]].concat());
                // As another one, by the same mechanism.
                let begun = handshake(version, mechanism);
                let other = [HONEST, who ^ 3, HONEST, who ^ 3, VERDICT];
                inputs.push([&[1], &one[..], &WAIT, &begun, &other].concat());
            }
            let begun = handshake(version, mechanism);
            for (at, how) in [(3, 0), (8, 3), (20, 2), (60, 3)] {
                let mangled = [MANGLED, 0, 0, at, how, 1];
                let last = [&[0], &begun[..], &[HONEST, 0], &mangled].concat();
                inputs.push(last);
                inputs.push([&[0], &begun[..], &mangled, &[HONEST, 0]].concat());
            }
            let old = [VERDICT, OLD_VERDICT];
            inputs.push([&[0], &begun[..], &[HONEST, 1], &old].concat());
        }
    }
    for token in [
        b"\0alice\0open".as_slice(),
        b"alice\0alice\0open",
        b"carol\0alice\0open",
        b"n,a=alice,n=alice,r=x",
        b"n,a=carol,n=alice,r=x",
        b"n,,n=alice,r=x,tokenauth=true",
        b"p=tls-server-end-point,,n=alice,r=x",
    ] {
        for mechanism in MECHANISMS {
            let framed = [&[2, 2][..], &piece(token)].concat();
            let raw = [&[3][..], &piece(token)].concat();
            for (version, frame) in [(1, framed), (0, raw)] {
                let begun = handshake(version, mechanism);
                inputs.push([&[0], &begun[..], &frame, &[VERDICT, OTHER]].concat());
            }
        }
    }
    inputs
}

pub fn scram_client() -> Vec<Vec<u8>> {
    let nonce = security::login::scram::nonce(&[5; 26]);
    let answers = [
        format!("r={nonce}x,s=AAAA,i=4096"),
        format!("r={nonce}x,s=AAAA,i=4097,x=y"),
        format!("r={nonce},s=AAAA,i=4096"),
        format!("r={nonce}x,s=AAAA,i=1000000000"),
        "e=unknown-user".to_owned(),
    ];
    let mut inputs = Vec::new();
    for which in 0..3 {
        // An honest server, and one that says something else at the end.
        for end in ["", "v=AAAA", "v=", "e=other-error"] {
            let last = if end.is_empty() {
                vec![1]
            } else {
                [&[0][..], &piece(end.as_bytes())].concat()
            };
            inputs.push([&[which, 1][..], &last].concat());
            for answer in &answers {
                let first = [&[which, 0][..], &piece(answer.as_bytes())].concat();
                inputs.push([first, last.clone()].concat());
            }
        }
        for (at, how) in [(1, 3), (30, 2), (40, 0), (70, 3)] {
            let mangled = [2, 0, at, how, 1];
            inputs.push([&[which][..], &mangled, &[1]].concat());
            inputs.push([&[which, 1][..], &mangled].concat());
        }
    }
    inputs
}

pub fn acl_model() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for allows in 0..2 {
        for name in 0..9 {
            for pattern in 0..2 {
                // One that allows and one that denies, of each asker and host in turn.
                let rule = |principal: u8, operation, permission| {
                    let host = (name + pattern) % 16;
                    [0, 0, name, pattern, principal, host, operation, permission]
                };
                // Read is 1, Write 2, Describe 6.
                let question = |asker, operation, name| [3, asker, 0, operation, 0, name];
                let mut input = vec![allows, name];
                for principal in [0, 1, 5] {
                    input.extend(rule(principal, 2, 0));
                    input.extend(question(0, 6, name));
                    input.extend(rule(principal, 0, 1));
                    input.extend(question(0, 2, (name + 1) % 9));
                }
                input.extend([2, 0]);
                input.extend(question(1, 1, name));
                inputs.push(input);
            }
        }
    }
    inputs
}

/// Requests of clients, and some that no controller takes.
pub fn envelope() -> Vec<Vec<u8>> {
    // CreateTopics, CreateAcls, AlterUserScramCredentials, IncrementalAlterConfigs, Metadata, Envelope.
    let within = [(19, 7), (30, 3), (51, 0), (44, 1), (3, 12), (58, 0)].map(|(api, version)| {
        let (api, version): (i16, i16) = (api, version);
        let head = [&api.to_be_bytes()[..], &version.to_be_bytes()].concat();
        // Correlation id 0, client id "c", no tagged fields, a body without anything.
        [
            &head[..],
            &[0, 0, 0, 0, 0, 1, b'c', 0, 1, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat()
    });
    let mut inputs = Vec::new();
    for frame in within {
        for (kind, token) in [
            ("User", false),
            ("User", true),
            ("Node", false),
            ("", false),
        ] {
            for address in [&[10, 0, 0, 7][..], &[0; 16], &[1]] {
                let principal = principal(kind, token);
                let parts = [&[0, 1], &piece(&principal)[..]].concat();
                inputs.push([parts, piece(address), piece(&frame)].concat());
                let request = EnvelopeRequest {
                    request_data: Bytes::copy_from_slice(&frame),
                    request_principal: Some(principal.into()),
                    client_host_address: Bytes::copy_from_slice(address),
                };
                let mut w = Writer::new();
                request.encode(&mut w, 0).expect("it fits");
                let whole = w.finish().into_bytes().expect("in memory");
                inputs.push([&[1], &whole[..]].concat());
            }
        }
    }
    inputs
}

fn principal(kind: &str, token_authenticated: bool) -> Vec<u8> {
    let data = DefaultPrincipalData {
        r#type: kind.to_owned(),
        name: "alice".to_owned(),
        token_authenticated,
    };
    let mut w = Writer::new();
    w.i16(0);
    data.encode(&mut w, 0).expect("it fits");
    w.finish().into_bytes().expect("in memory").to_vec()
}
