//! A response as a client or follower reads it: it knows API and version, the rest comes from the other side.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::messages::ResponseHeader;
use wire::{ApiKey, Message, Reader, Writer, any};

fuzz_target!(|data: &[u8]| {
    let [key, version, rest @ ..] = data else {
        return;
    };
    let (Some(api), version) = (ApiKey::from_key(i16::from(*key)), i16::from(*version)) else {
        return;
    };
    let mut r = Reader::new(Bytes::copy_from_slice(rest));
    if ResponseHeader::decode(&mut r, api.response_header_version(version)).is_err() {
        return;
    }
    let Ok(response) = any::decode_response(api, version, &mut r) else {
        return;
    };
    let mut w = Writer::new();
    response
        .encode(&mut w, version)
        .expect("decoded responses encode");
    let once = w.finish().into_bytes().expect("in memory");
    let again = any::decode_response(api, version, &mut Reader::new(once.clone()))
        .expect("own bytes decode");
    let mut w = Writer::new();
    again
        .encode(&mut w, version)
        .expect("decoded responses encode");
    assert_eq!(w.finish().into_bytes(), Ok(once));
});
