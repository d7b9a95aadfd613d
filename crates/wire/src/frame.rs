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
    let mut w = Writer::for_frame();
    ResponseHeader { correlation_id }.encode(&mut w, key.response_header_version(version))?;
    response.encode(&mut w, version)?;
    w.finish_frame()
}

/// Correlation id and body of the response to a request of type `R`, from a frame without its length prefix.
pub fn decode_response<R: Request>(
    r: &mut Reader,
    version: i16,
) -> Result<(i32, R::Response), DecodeError> {
    let header = ResponseHeader::decode(r, R::KEY.response_header_version(version))?;
    Ok((header.correlation_id, R::Response::decode(r, version)?))
}
