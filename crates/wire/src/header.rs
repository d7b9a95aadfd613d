//! Request headers, read far enough that even a request we do not know can be answered.

use crate::{ApiKey, DecodeError, Reader};

/// The head of a request as the client sent it: neither key nor version is known to be ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    pub key: i16,
    pub version: i16,
    pub correlation_id: i32,
    /// Missing also when the key is unknown: what follows the correlation id cannot be read then.
    pub client_id: Option<String>,
}

impl RequestHead {
    pub fn api(&self) -> Option<ApiKey> {
        ApiKey::from_key(self.key)
    }
}

/// Reads a request header of any version and leaves the reader at the body.
///
/// An unknown key stops after the correlation id. A version above ours still has a readable header, as the flexible
/// form has not changed since it exists; versions below ours have the old form.
pub fn decode_request_header(r: &mut Reader) -> Result<RequestHead, DecodeError> {
    let mut head = RequestHead {
        key: r.i16()?,
        version: r.i16()?,
        correlation_id: r.i32()?,
        client_id: None,
    };
    if let Some(api) = head.api() {
        head.client_id = r.nullable_string(false, true)?;
        if api.request_header_version(head.version) >= 2 {
            r.skip_tags()?;
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn read(bytes: &[u8]) -> Result<(RequestHead, usize), DecodeError> {
        let mut r = Reader::new(Bytes::copy_from_slice(bytes));
        decode_request_header(&mut r).map(|head| (head, r.remaining()))
    }

    #[test]
    fn flexible_header_keeps_the_old_client_id() {
        let (head, left) =
            read(&[0, 18, 0, 3, 0, 0, 0, 7, 0, 2, b'm', b'e', 0, 0xaa]).expect("header");
        assert_eq!(
            (head.api(), head.version, head.correlation_id),
            (Some(ApiKey::ApiVersions), 3, 7)
        );
        assert_eq!((head.client_id.as_deref(), left), (Some("me"), 1));
    }

    #[test]
    fn unknown_key_still_has_a_correlation_id() {
        let (head, _) = read(&[0x7f, 0, 0, 0, 0, 0, 0, 9, 0xff]).expect("header");
        assert_eq!(
            (head.api(), head.correlation_id, head.client_id),
            (None, 9, None)
        );
    }

    #[test]
    fn version_far_above_ours_still_has_a_correlation_id() {
        let (head, left) = read(&[0, 18, 0x40, 0, 0, 0, 0, 9, 0xff, 0xff, 0]).expect("header");
        assert_eq!((head.correlation_id, head.client_id, left), (9, None, 0));
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = [0, 3, 0, 12, 0, 0, 0, 7, 0, 2, b'm', b'e', 0];
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end} bytes");
        }
    }
}
