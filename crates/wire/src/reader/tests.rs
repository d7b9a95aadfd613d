//! Limits of lengths, counts and variable length numbers, and what shares memory with the frame.

use super::*;

fn reader(bytes: &[u8]) -> Reader {
    Reader::new(Bytes::copy_from_slice(bytes))
}

#[test]
fn varints_hold_their_range_and_no_more() {
    let check = |bytes: &[u8], want: Result<u32, DecodeError>| {
        assert_eq!(reader(bytes).uvarint(), want, "{bytes:x?}")
    };
    check(&[0], Ok(0));
    check(&[0x7f], Ok(127));
    check(&[0x80, 1], Ok(128));
    check(&[0xff, 0xff, 0xff, 0xff, 0x0f], Ok(u32::MAX));
    check(
        &[0xff, 0xff, 0xff, 0xff, 0x1f],
        Err(DecodeError::Varint { at: 5 }),
    );
    check(
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0],
        Err(DecodeError::Varint { at: 0 }),
    );
    check(
        &[0x80, 0x80],
        Err(DecodeError::Truncated { at: 0, needed: 3 }),
    );
    check(&[], Err(DecodeError::Truncated { at: 0, needed: 1 }));
    let nines = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(reader(&[&nines[..], &[1]].concat()).varlong(), Ok(i64::MIN));
    assert_eq!(
        reader(&[&nines[..], &[2]].concat()).varlong(),
        Err(DecodeError::Varint { at: 0 })
    );
    assert_eq!(reader(&[3]).varint(), Ok(-2));
}

#[test]
fn all_lists_together_have_a_bound() {
    let mut r = reader(&[3, 1, 1, 2, 1, 2, 1]);
    r.bound_elements(3);
    assert_eq!(r.strings(true).map(|list| list.len()), Ok(2));
    assert_eq!(r.strings(true).map(|list| list.len()), Ok(1));
    let refused = DecodeError::Elements { at: 5, most: 3 };
    assert_eq!(r.strings(true), Err(refused));
}

#[test]
fn counts_beyond_the_frame_are_refused_before_any_element() {
    assert_eq!(
        reader(&[0x7f, 0xff, 0xff, 0xff]).i32s(false),
        Err(DecodeError::Count {
            at: 0,
            count: 0x7fff_ffff
        })
    );
    assert_eq!(
        reader(&[3, 0, 0, 0, 1]).i32s(true),
        Err(DecodeError::Count { at: 0, count: 2 })
    );
    assert_eq!(
        reader(&[0xff, 0xff, 0xff, 0xff]).nullable_i32s(false, true),
        Ok(None)
    );
    assert_eq!(
        reader(&[0xff, 0xff, 0xff, 0xff]).i32s(false),
        Err(DecodeError::Null { at: 0 })
    );
    assert_eq!(
        reader(&[0xff, 0xff, 0xff, 0xfe]).i32s(false),
        Err(DecodeError::Length { at: 0, length: -2 })
    );
}

#[test]
fn texts_are_checked() {
    assert_eq!(
        reader(&[3, 0xff, 0xff]).string(true),
        Err(DecodeError::Utf8 { at: 1 })
    );
    assert_eq!(reader(&[0]).string(true), Err(DecodeError::Null { at: 0 }));
    assert_eq!(reader(&[0xff, 0xff]).nullable_string(false, true), Ok(None));
    assert_eq!(
        reader(&[0, 9, b'a']).string(false),
        Err(DecodeError::Truncated { at: 2, needed: 9 })
    );
}

#[test]
fn bytes_share_the_frame() {
    let frame = Bytes::from(vec![0, 0, 0, 2, 7, 8, 9]);
    let mut r = Reader::new(frame.clone());
    let bytes = r.bytes(false).expect("bytes");
    assert_eq!(bytes.as_ptr(), frame[4..].as_ptr());
    assert_eq!(
        r.expect_end(),
        Err(DecodeError::Trailing { at: 6, count: 1 })
    );
}
