//! Changes of the metadata whose time is up before they are durable: how long a request waits, and what it is told then.
//!
//! The answer leaves open whether the change will hold: it stays in the queue of the metadata log. So every part of the request
//! is told the same, refusals too, which may rest on changes that are not durable either.

use wire::ErrorCode;
use wire::messages::create_topics_response::CreatableTopicResult;
use wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse, AlterUserScramCredentialsResponse, CreateAclsResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteAclsResponse, DeleteTopicsRequest, DeleteTopicsResponse, ElectLeadersRequest,
    ElectLeadersResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    UpdateFeaturesRequest, UpdateFeaturesResponse,
};

const CODE: ErrorCode = ErrorCode::RequestTimedOut;

fn message() -> Option<String> {
    Some("The change is not durable yet: the disk has taken too long. It may still be made.".into())
}

/// A request for a change.
pub(crate) trait Patience {
    /// How long its client wants to wait, where it says.
    fn timeout_ms(&self) -> Option<i32>;
}

macro_rules! patience {
    ($($request:ident $(. $field:ident)?),*) => {
        $(impl Patience for $request {
            fn timeout_ms(&self) -> Option<i32> {
                patience!(@ self $($field)?)
            }
        })*
    };
    (@ $request:ident $field:ident) => { Some($request.$field) };
    (@ $request:ident) => { None };
}

patience!(
    CreateTopicsRequest.timeout_ms,
    DeleteTopicsRequest.timeout_ms,
    CreatePartitionsRequest.timeout_ms,
    ElectLeadersRequest.timeout_ms,
    AlterPartitionReassignmentsRequest.timeout_ms,
    UpdateFeaturesRequest.timeout_ms,
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest
);

/// The answer to a change.
pub(crate) trait Overdue {
    /// As Kafka answers the whole request with one error.
    fn time_out(&mut self);
}

impl Overdue for CreateTopicsResponse {
    fn time_out(&mut self) {
        for topic in &mut self.topics {
            *topic = CreatableTopicResult {
                name: std::mem::take(&mut topic.name),
                error_code: CODE.code(),
                error_message: message(),
                num_partitions: -1,
                replication_factor: -1,
                configs: Some(Vec::new()),
                ..CreatableTopicResult::default()
            };
        }
    }
}

macro_rules! overdue_lists {
    ($($response:ident . $list:ident),*) => {
        $(impl Overdue for $response {
            fn time_out(&mut self) {
                for one in &mut self.$list {
                    one.error_code = CODE.code();
                    one.error_message = message();
                }
            }
        })*
    };
}

overdue_lists!(
    DeleteTopicsResponse.responses,
    CreatePartitionsResponse.results,
    AlterConfigsResponse.responses,
    IncrementalAlterConfigsResponse.responses,
    CreateAclsResponse.results,
    AlterUserScramCredentialsResponse.results
);

impl Overdue for DeleteAclsResponse {
    fn time_out(&mut self) {
        for one in &mut self.filter_results {
            one.error_code = CODE.code();
            one.error_message = message();
            one.matching_acls.clear();
        }
    }
}

impl Overdue for ElectLeadersResponse {
    fn time_out(&mut self) {
        self.error_code = CODE.code();
        let topics = self.replica_election_results.iter_mut();
        for one in topics.flat_map(|topic| &mut topic.partition_result) {
            one.error_code = CODE.code();
            one.error_message = message();
        }
    }
}

impl Overdue for AlterPartitionReassignmentsResponse {
    fn time_out(&mut self) {
        self.error_code = CODE.code();
        self.error_message = message();
        let topics = self.responses.iter_mut();
        for one in topics.flat_map(|topic| &mut topic.partitions) {
            one.error_code = CODE.code();
            one.error_message = message();
        }
    }
}

impl Overdue for UpdateFeaturesResponse {
    fn time_out(&mut self) {
        self.error_code = CODE.code();
        self.error_message = message();
        self.results.clear();
    }
}
