//! Any message or record of the crate: number in `any::ALL` (two bytes), version, body.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::{RecodeError, any};

fuzz_target!(|data: &[u8]| {
    let [high, low, version, body @ ..] = data else {
        return;
    };
    let message = &any::ALL[usize::from(u16::from_be_bytes([*high, *low])) % any::ALL.len()];
    let version = i16::from(*version);
    match message.recode(Bytes::copy_from_slice(body), version) {
        Ok(encoded) => {
            let once = encoded.into_bytes().expect("in memory");
            let twice = message
                .recode(once.clone(), version)
                .expect("own bytes decode")
                .into_bytes();
            assert_eq!(twice, Ok(once));
        }
        Err(RecodeError::Decode(_)) => {}
        Err(RecodeError::Encode(why)) => panic!("{} v{version}: {why}", message.name),
    }
});
