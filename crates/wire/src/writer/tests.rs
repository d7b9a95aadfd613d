//! Where payloads end up, and what cannot be written.

use super::*;

#[test]
fn long_payloads_are_spliced_and_short_ones_copied() {
    let long = Bytes::from(vec![7; SPLICE_BYTES_MIN]);
    let mut w = Writer::for_frame();
    w.bytes(&long, false).expect("bytes");
    w.bytes(&Bytes::from_static(b"ab"), true).expect("bytes");
    w.records(Some(&Records::External(5)), false, true, "records")
        .expect("records");
    let encoded = w.finish_frame().expect("frame");
    assert_eq!(encoded.len, 4 + 4 + SPLICE_BYTES_MIN + 3 + 4 + 5);
    let lengths: Vec<usize> = encoded.segments().map(|segment| segment.len()).collect();
    assert_eq!(lengths, [8, SPLICE_BYTES_MIN, 7, 5]);
    assert!(
        matches!(&encoded.splices[0].content, Splice::Bytes(bytes) if bytes.as_ptr() == long.as_ptr())
    );
    assert_eq!(encoded.head[..4], (encoded.len as i32 - 4).to_be_bytes());
    assert_eq!(encoded.into_bytes(), Err(EncodeError::External));
}

#[test]
fn a_tag_moves_the_payload_inside_it() {
    let long = Bytes::from(vec![7; 2000]);
    let mut w = Writer::new();
    let tag = w.begin_tag(3);
    w.bytes(&long, true).expect("bytes");
    w.i8(9);
    w.end_tag(tag);
    let bytes = w.finish().into_bytes().expect("in memory");
    // Tag 3, size 2003, length 2001, the payload, the last byte.
    assert_eq!(bytes[..5], [3, 0xd3, 0x0f, 0xd1, 0x0f]);
    assert_eq!((bytes.len(), bytes[5], bytes[2005]), (2006, 7, 9));
}

#[test]
fn what_the_protocol_cannot_say_is_an_error() {
    let mut w = Writer::new();
    assert_eq!(
        w.string(&"x".repeat(0x8000), true),
        Err(EncodeError::TooLong { length: 0x8000 })
    );
    assert_eq!(
        w.nullable_string(None, true, false, "name"),
        Err(EncodeError::Null { field: "name" })
    );
}
