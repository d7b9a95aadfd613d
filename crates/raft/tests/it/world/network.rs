//! The network between the replicas: requests, their answers and their failures, in the order in which they were sent.

use raft::{CallId, Caller, Event, Failure, Fill, Listener, Replica, Request, Response};
use wire::Records;
use wire::messages::api_versions_response::SupportedFeatureKey;
use wire::messages::{AddRaftVoterRequest, ApiVersionsResponse};

use super::{Node, World};

pub(super) enum Parcel {
    Request(i32, CallId, Request),
    Response(CallId, Response),
    Failed(CallId, Failure),
}

impl World {
    pub(super) fn answer(
        &mut self,
        id: i32,
        caller: Caller,
        mut response: Response,
        fill: Option<Fill>,
    ) {
        match (&mut response, fill) {
            (Response::Fetch(response), Some(Fill::Records { from, to, .. })) => {
                let batches = self.nodes[&id].batches.iter();
                let wanted = batches.filter(|b| b.base_offset() >= from && b.next_offset() <= to);
                let bytes: Vec<u8> = wanted.flat_map(|b| b.to_bytes().to_vec()).collect();
                let part = &mut response.responses[0].partitions[0];
                part.records = Some(Records::Bytes(bytes.into()));
            }
            (Response::FetchSnapshot(response), Some(Fill::Snapshot { .. })) => {
                let part = &mut response.topics[0].partitions[0];
                part.unaligned_records = Some(Records::Bytes(vec![0].into()));
            }
            _ => {}
        }
        let Some((back, call, _)) = self.ways.remove(&caller.0) else {
            panic!("{id} answers twice");
        };
        let Some(call) = call else {
            let code = match response {
                Response::AddVoter(response) => response.error_code,
                Response::RemoveVoter(response) => response.error_code,
                Response::Fetch(response) => response.responses[0].partitions[0].error_code,
                other => panic!("an operator asked for {other:?}"),
            };
            return self.node(id).answers.push(code);
        };
        self.queue
            .push_back((id, back, Parcel::Response(call, response)));
    }

    pub(super) fn ask(&mut self, id: i32, request: Request) {
        self.callers += 1;
        self.ways.insert(self.callers, (0, None, id));
        let caller = Caller(self.callers);
        self.step(id, Event::Request { caller, request });
    }

    pub(super) fn add(&mut self, id: i32, listeners: Vec<Listener>, other: Replica) {
        let listeners =
            listeners
                .into_iter()
                .map(|at| wire::messages::add_raft_voter_request::Listener {
                    name: at.name,
                    host: at.endpoint.host,
                    port: at.endpoint.port,
                });
        let request = Request::AddVoter(AddRaftVoterRequest {
            cluster_id: None,
            timeout_ms: 1_000,
            voter_id: other.id.0,
            voter_directory_id: other.directory,
            listeners: listeners.collect(),
            ack_when_committed: true,
        });
        self.ask(id, request);
    }

    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.run_one() {
                return;
            }
        }
        panic!("messages without end");
    }

    pub(super) fn run_one(&mut self) -> bool {
        let Some((from, to, parcel)) = self.queue.pop_front() else {
            return false;
        };
        if !self.cut.contains(&from) && !self.cut.contains(&to) {
            self.deliver(to, parcel);
        }
        true
    }

    pub(super) fn die(&mut self, id: i32) {
        self.node(id).quorum = None;
        self.queue.retain(|(from, to, _)| *from != id && *to != id);
        let waiting: Vec<_> = self.ways.extract_if(.., |_, way| way.2 == id).collect();
        for (_, (back, call, _)) in waiting {
            let call = call.map(|call| Parcel::Failed(call, Failure::Disconnected));
            self.queue.extend(call.map(|parcel| (id, back, parcel)));
        }
    }

    pub(super) fn deliver(&mut self, to: i32, parcel: Parcel) {
        match parcel {
            Parcel::Request(from, call, _) if self.nodes.get(&to).is_none_or(Node::is_gone) => {
                let parcel = Parcel::Failed(call, Failure::Disconnected);
                self.queue.push_back((to, from, parcel));
            }
            Parcel::Request(from, call, Request::ApiVersions(_)) => {
                let response = Response::ApiVersions(ApiVersionsResponse {
                    supported_features: vec![SupportedFeatureKey {
                        name: "kraft.version".to_owned(),
                        min_version: 0,
                        max_version: 1,
                    }],
                    ..Default::default()
                });
                self.queue
                    .push_back((to, from, Parcel::Response(call, response)));
            }
            Parcel::Request(from, call, Request::Vote(request))
                if self.knows_no_pre_votes && request.topics[0].partitions[0].pre_vote =>
            {
                let parcel = Parcel::Failed(call, Failure::UnsupportedVersion);
                self.queue.push_back((to, from, parcel));
            }
            Parcel::Request(from, call, request) => {
                self.callers += 1;
                self.ways.insert(self.callers, (from, Some(call), to));
                let caller = Caller(self.callers);
                self.step(to, Event::Request { caller, request });
            }
            Parcel::Response(call, response) => self.step(to, Event::Answer { call, response }),
            Parcel::Failed(call, failure) => self.step(to, Event::Failed { call, failure }),
        }
    }

    /// A peer sends this, whoever it is, and looks at no answer.
    pub(crate) fn pester(&mut self, id: i32, request: Request) {
        self.callers += 1;
        self.ways.insert(self.callers, (0, Some(CallId(0)), id));
        let caller = Caller(self.callers);
        self.step(id, Event::Request { caller, request });
        self.queue.retain(|(_, to, _)| *to != 0);
    }
}
