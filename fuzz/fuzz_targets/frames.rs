//! A request as a broker reads it: header of unknown origin, then the body if the API and version are ours.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::{Reader, Writer, any, decode_request_header};

fuzz_target!(|data: &[u8]| {
    let mut r = Reader::new(Bytes::copy_from_slice(data));
    let Ok(head) = decode_request_header(&mut r) else {
        return;
    };
    let Some(api) = head.api() else { return };
    let Ok(request) = any::decode_request(api, head.version, &mut r) else {
        return;
    };
    let mut w = Writer::new();
    request
        .encode(&mut w, head.version)
        .expect("decoded requests encode");
    let once = w.finish().into_bytes().expect("in memory");
    // Compared as bytes: a float that is no number differs from itself.
    let again = any::decode_request(api, head.version, &mut Reader::new(once.clone()))
        .expect("own bytes decode");
    let mut w = Writer::new();
    again
        .encode(&mut w, head.version)
        .expect("decoded requests encode");
    assert_eq!(w.finish().into_bytes(), Ok(once));
});
