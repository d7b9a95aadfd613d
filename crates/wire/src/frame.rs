//! Whole frames: the length that precedes them, the header, the body.

use crate::messages::{RequestHeader, ResponseHeader};
use crate::{ApiKey, DecodeError, EncodeError, Encoded, Message, Reader, Request, Writer};

/// A request with its length prefix and header, as it goes to the socket.
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Encoded, EncodeError> {
    let header = RequestHeader {
        request_api_key: R::KEY.key(),
        request_api_version: version,
        correlation_id,
        client_id: client_id.map(str::to_owned),
    };
    let mut w = Writer::for_frame();
    header.encode(&mut w, R::KEY.request_header_version(version))?;
    request.encode(&mut w, version)?;
    w.finish_frame()
}

/// A response with its length prefix and header, as it goes to the socket.
pub fn encode_response<M: Message>(
    key: ApiKey,
    response: &M,
    version: i16,
    correlation_id: i32,
) -> Result<Encoded, EncodeError> {
    let mut w = Writer::with_capacity(256);
    append_response(&mut w, key, response, version, correlation_id)?;
    Ok(w.finish())
}

/// The same, behind whatever the writer already holds. On an error nothing of the frame stays.
pub fn append_response<M: Message>(
    w: &mut Writer,
    key: ApiKey,
    response: &M,
    version: i16,
    correlation_id: i32,
) -> Result<(), EncodeError> {
    let open = w.begin_frame();
    let header = ResponseHeader { correlation_id };
    let written = header
        .encode(w, key.response_header_version(version))
        .and_then(|()| response.encode(w, version))
        .and_then(|()| w.end_frame(open));
    if written.is_err() {
        w.abandon_frame(open);
    }
    written
}

/// Correlation id and body of the response to a request of type `R`, from a frame without its length prefix.
pub fn decode_response<R: Request>(
    r: &mut Reader,
    version: i16,
) -> Result<(i32, R::Response), DecodeError> {
    let header = ResponseHeader::decode(r, R::KEY.response_header_version(version))?;
    Ok((header.correlation_id, R::Response::decode(r, version)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use crate::messages::{ApiVersionsResponse, FetchRequest, FetchResponse, HeartbeatResponse};
    use crate::{Records, Uuid};
    use bytes::Bytes;

    fn fetched(records: Records) -> FetchResponse {
        let partition = PartitionData {
            records: Some(records),
            ..PartitionData::default()
        };
        let topic = FetchableTopicResponse {
            topic_id: Uuid([1; 16]),
            partitions: vec![partition],
            ..Default::default()
        };
        FetchResponse {
            responses: vec![topic],
            ..FetchResponse::default()
        }
    }

    #[test]
    fn frames_in_one_writer_are_those_written_alone() {
        let fetch = fetched(Records::Bytes(Bytes::from(vec![7; 5000])));
        let heartbeat = HeartbeatResponse::default();
        let mut w = Writer::new();
        append_response(&mut w, ApiKey::Fetch, &fetch, 17, 1).expect("fetch");
        append_response(&mut w, ApiKey::Heartbeat, &heartbeat, 4, 2).expect("heartbeat");
        append_response(&mut w, ApiKey::Fetch, &fetch, 17, 3).expect("fetch");
        let alone = [
            encode_response(ApiKey::Fetch, &fetch, 17, 1),
            encode_response(ApiKey::Heartbeat, &heartbeat, 4, 2),
            encode_response(ApiKey::Fetch, &fetch, 17, 3),
        ];
        let alone: Vec<Bytes> = alone
            .into_iter()
            .map(|f| f.and_then(Encoded::into_bytes).expect("alone"))
            .collect();
        assert_eq!(w.finish().into_bytes().expect("together"), alone.concat());
        for frame in alone {
            assert_eq!(frame[..4], (frame.len() as i32 - 4).to_be_bytes());
        }
    }

    #[test]
    fn a_frame_that_cannot_be_written_leaves_nothing() {
        let mut w = Writer::new();
        append_response(
            &mut w,
            ApiKey::Heartbeat,
            &HeartbeatResponse::default(),
            4,
            1,
        )
        .expect("heartbeat");
        let before = w.position();
        // The first topic is already a splice when the second turns out to be too long.
        let mut wrong = fetched(Records::External(100));
        wrong
            .responses
            .extend(fetched(Records::External(u32::MAX)).responses);
        let refused = append_response(&mut w, ApiKey::Fetch, &wrong, 17, 2);
        assert_eq!(
            refused,
            Err(EncodeError::TooLong {
                length: u32::MAX as usize
            })
        );
        let encoded = w.finish();
        assert_eq!((encoded.len, encoded.splices.len()), (before, 0));
    }

    #[test]
    fn a_response_is_read_with_the_header_of_its_request() {
        let frame = encode_response(
            ApiKey::Fetch,
            &fetched(Records::Bytes(Bytes::from_static(b"ab"))),
            17,
            5,
        );
        let mut r = Reader::new(
            frame
                .and_then(Encoded::into_bytes)
                .expect("frame")
                .slice(4..),
        );
        let (correlation_id, response) =
            decode_response::<FetchRequest>(&mut r, 17).expect("response");
        assert_eq!((correlation_id, r.remaining()), (5, 0));
        assert_eq!(response, fetched(Records::Bytes(Bytes::from_static(b"ab"))));
        // The answer about versions has the old header even in flexible versions: no byte of tagged fields.
        let frame = encode_response(ApiKey::ApiVersions, &ApiVersionsResponse::default(), 3, 5)
            .expect("versions");
        assert_eq!(frame.head[..10], [0, 0, 0, 12, 0, 0, 0, 5, 0, 0]);
    }
}
