//! A new node asks others for the id of the cluster that it is to join: those that it knows by their addresses alone at its start, or the
//! leader that it follows.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use env::net::Stream;
use wire::messages::{DescribeClusterRequest, DescribeClusterResponse};
use wire::{ApiKey, Message, Reader};

use super::boot::BootError;
use crate::peers::{Answer, Encodable};

/// The whole start waits so long for a node that answers.
const WAIT_MAX: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(200);
const DIAL_MAX: Duration = Duration::from_secs(2);
/// Of the answer; a cluster has fewer nodes than that takes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// First version that asks controllers (KIP-919).
const VERSION: i16 = 1;
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// The cluster of the first of `servers` that answers. Asks them in turn until one does, and says that it waits.
pub(crate) fn learn_cluster_id(env: &Env, servers: &[(String, u16)]) -> Result<String, BootError> {
    let addresses: Vec<String> = servers
        .iter()
        .map(|(host, port)| format!("{host}:{port}"))
        .collect();
    let servers = addresses.join(", ");
    let until = env.clock.now().plus(WAIT_MAX);
    let pause = env.threads.bell();
    let mut has_said = false;
    while env.clock.now() < until {
        let mut asked = addresses.iter().flat_map(|address| {
            [BROKERS, CONTROLLERS].map(|endpoint_type| (address, endpoint_type))
        });
        let found = asked.find_map(|(address, endpoint_type)| ask(env, address, endpoint_type));
        if let Some(id) = found {
            return Ok(id);
        }
        if !has_said {
            tracing::info!(target: env::logs::BROKER, "asks {servers} for the id of its cluster");
            has_said = true;
        }
        // A node that refuses the connection does so at once.
        pause.wait(Some(env.clock.now().plus(RETRY)));
    }
    Err(BootError::UnknownCluster { servers })
}

/// A question for a node that is asked for the `count`th time: as a controller first, then as a broker, in turns.
pub(crate) fn question(count: u32) -> DescribeClusterRequest {
    let types = [BROKERS, CONTROLLERS];
    request(types[(count % 2) as usize])
}

/// The id in an answer.
pub(crate) fn read(answer: Answer) -> Option<String> {
    cluster_id(&mut Reader::new(answer.body), answer.version)
}

fn request(endpoint_type: i8) -> DescribeClusterRequest {
    DescribeClusterRequest {
        endpoint_type,
        ..DescribeClusterRequest::default()
    }
}

fn cluster_id(reader: &mut Reader, version: i16) -> Option<String> {
    let answer = DescribeClusterResponse::decode(reader, version).ok()?;
    (answer.error_code == 0 && !answer.cluster_id.is_empty()).then_some(answer.cluster_id)
}

fn ask(env: &Env, address: &str, endpoint_type: i8) -> Option<String> {
    let frame = request(endpoint_type).frame(VERSION, 1).ok()?;
    let mut stream = env.net.dial(address, DIAL_MAX).ok()?;
    stream.write_all(&frame).ok()?;
    let answer = read_frame(&mut *stream)?;
    let mut reader = Reader::new(answer);
    let header = ApiKey::DescribeCluster.response_header_version(VERSION);
    wire::messages::ResponseHeader::decode(&mut reader, header).ok()?;
    cluster_id(&mut reader, VERSION)
}

/// The frame behind a length.
fn read_frame(stream: &mut dyn Stream) -> Option<Bytes> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let length = usize::try_from(i32::from_be_bytes(head)).ok()?;
    if ANSWER_BYTES_MAX < length {
        return None;
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).ok()?;
    Some(frame.into())
}
