//! Bytes from a peer that errs or means harm: cut short, altered, announcing more than they hold.

use crate::memory::largest_during;
use crate::vectors::{Vector, lines};
use bytes::Bytes;
use wire::{AnyMessage, ApiKey, Reader, RecodeError, Writer, any, decode_request_header};

/// A frame of a few kilobytes must not make us allocate more than this at once.
const ALLOCATION_BYTES_MAX: usize = 1 << 20;

/// Mutations tried per vector.
const MUTATIONS_COUNT: u32 = 24;

/// A small generator, so that a failure repeats.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

fn mutate(bytes: &[u8], chance: &mut Chance) -> Bytes {
    const HOSTILE: [&[u8]; 7] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0, 0, 0x7f, 0xff],
        &[0x7f, 0xff],
    ];
    let mut out = bytes.to_vec();
    for _ in 0..=chance.below(3) {
        let at = chance.below(out.len());
        match chance.below(4) {
            0 if !out.is_empty() => out[at] = chance.below(256) as u8,
            1 => {
                let patch = HOSTILE[chance.below(HOSTILE.len())];
                let end = (at + patch.len()).min(out.len());
                out.splice(at..end, patch.iter().copied());
            }
            2 => out.insert(at, chance.below(256) as u8),
            _ if !out.is_empty() => out[at] ^= 1 << chance.below(8),
            _ => {}
        }
    }
    Bytes::from(out)
}

/// Decodes bounded, and whatever decodes can be encoded; that form is stable.
fn survive(message: &AnyMessage, version: i16, input: &Bytes) {
    let (outcome, largest) = largest_during(|| message.recode(input.clone(), version));
    assert!(
        largest <= ALLOCATION_BYTES_MAX,
        "{} v{version}: {largest} bytes at once for {input:02x?}",
        message.name
    );
    match outcome {
        Err(RecodeError::Decode(_)) => {}
        Err(RecodeError::Encode(why)) => panic!(
            "{} v{version}: {why}, decoded from {input:02x?}",
            message.name
        ),
        Ok(encoded) => {
            let once = encoded.into_bytes().expect("in memory");
            let twice = message
                .recode(once.clone(), version)
                .expect("own bytes")
                .into_bytes()
                .expect("in memory");
            assert_eq!(once, twice, "{} v{version}: {input:02x?}", message.name);
        }
    }
}

#[test]
fn every_cut_of_a_valid_message_is_an_error() {
    for line in lines() {
        let Vector::Random(bytes) = &line.vector else {
            continue;
        };
        for end in 0..bytes.len() {
            let cut = line.message.recode(bytes.slice(..end), line.version);
            assert!(
                cut.is_err(),
                "{} v{}: {end} of {} bytes",
                line.message.name,
                line.version,
                bytes.len()
            );
        }
    }
}

#[test]
fn altered_messages_neither_panic_nor_allocate_by_the_word_of_the_sender() {
    let mut chance = Chance(20_261_121);
    for line in lines() {
        let Vector::Random(bytes) = &line.vector else {
            continue;
        };
        for _ in 0..MUTATIONS_COUNT {
            survive(line.message, line.version, &mutate(bytes, &mut chance));
        }
    }
}

#[test]
fn noise_is_survived_in_every_version() {
    let mut chance = Chance(4711);
    for message in any::ALL {
        for version in message.min_version..=message.max_version {
            for byte in [0x00, 0x01, 0x02, 0x7f, 0x80, 0xff] {
                survive(message, version, &Bytes::from(vec![byte; 512]));
            }
            let noise: Bytes = (0..512).map(|_| chance.below(256) as u8).collect();
            survive(message, version, &noise);
        }
    }
}

#[test]
fn bodies_are_dispatched_by_key_to_their_own_type() {
    for line in lines()
        .iter()
        .filter(|line| line.message.group == "messages")
    {
        let Vector::Random(bytes) = &line.vector else {
            continue;
        };
        let named = |stem: Option<&str>| {
            stem.and_then(|stem| ApiKey::ALL.into_iter().find(|key| key.name() == stem))
        };
        let (mut r, mut w) = (Reader::new(bytes.clone()), Writer::new());
        if let Some(key) = named(line.message.name.strip_suffix("Request")) {
            let request = any::decode_request(key, line.version, &mut r).expect("valid");
            assert_eq!(request.key(), key);
            request.encode(&mut w, line.version).expect("decoded");
        } else if let Some(key) = named(line.message.name.strip_suffix("Response")) {
            let response = any::decode_response(key, line.version, &mut r).expect("valid");
            assert_eq!(response.key(), key);
            response.encode(&mut w, line.version).expect("decoded");
        } else {
            continue;
        }
        assert_eq!(w.finish().into_bytes().as_ref(), Ok(bytes));
    }
}

#[test]
fn request_headers_survive_noise() {
    let mut chance = Chance(99);
    for _ in 0..20_000 {
        let mut noise: Vec<u8> = (0..chance.below(40))
            .map(|_| chance.below(256) as u8)
            .collect();
        if let Some(high) = noise.first_mut() {
            *high = 0;
        }
        let whole = noise.len();
        let mut r = Reader::new(Bytes::from(noise));
        if decode_request_header(&mut r).is_ok() {
            assert!(8 <= r.position() && r.position() <= whole);
        }
    }
}
