//! Requests that only nodes may send, in each version and at each listener, from who is none: refused as Kafka refuses them, and nothing
//! has changed afterwards.

use security::login::node::{ClusterSecret, MECHANISM, NodeProof};
use security::login::scram::Hash;
use wire::any::AnyRequest;
use wire::messages::{ApiVersionsRequest, EnvelopeRequest};
use wire::{ApiKey, ErrorCode};

use super::cluster::{Addresses, Cluster, Sight, TOPIC, look};
use super::{envelopes, requests};
use crate::broker::Place;
use crate::broker::frames::{self, Talk, codes, random};
use crate::broker::table::Table;

const REFUSED: &str = "CLUSTER_AUTHORIZATION_FAILED";
const NO_TOPIC: &str = "TOPIC_AUTHORIZATION_FAILED";
/// The APIs of nodes alone, as Kafka's controllers list them.
const NODES_ALONE: [ApiKey; 12] = [
    ApiKey::Vote,
    ApiKey::BeginQuorumEpoch,
    ApiKey::EndQuorumEpoch,
    ApiKey::AlterPartition,
    ApiKey::Envelope,
    ApiKey::FetchSnapshot,
    ApiKey::BrokerRegistration,
    ApiKey::BrokerHeartbeat,
    ApiKey::AllocateProducerIds,
    ApiKey::ControllerRegistration,
    ApiKey::AssignReplicasToDirs,
    ApiKey::UpdateRaftVoter,
];
/// Replica ids of requests: a follower, a client that compares replicas, and Kafka's future replica.
const REPLICAS: [i32; 3] = [2, -2, -3];
const USER: &str = "alice";
const ADMIN: &str = "admin";
pub(super) const PASSWORD: &str = "open-sesame-too";

/// A way to a node.
struct Way {
    name: String,
    address: String,
    user: Option<&'static str>,
}

impl Way {
    fn open(&self) -> Result<Talk, String> {
        let mut talk = Talk::open(&self.address).map_err(|error| error.to_string())?;
        if let Some(user) = self.user {
            talk.scram(Hash::Sha512, user, PASSWORD)?;
        }
        Ok(talk)
    }

    /// The codes of the answer to a request on a connection of its own.
    fn ask(&self, key: ApiKey, version: i16, frame: &[u8]) -> String {
        match self.open() {
            Ok(mut talk) => codes(key, version, &talk.peer.ask(frame)),
            Err(why) => why,
        }
    }
}

pub(crate) fn run(place: &mut Place, table: &mut Table) -> Result<(), String> {
    let mut cluster = Cluster::new(place, &[]);
    cluster.start()?;
    let at = cluster.addresses[0].clients.clone();
    place.esker(
        &["topic", "create", TOPIC, "-p", "3", "-b", at.as_str()],
        "",
    )?;
    let file = place.root.join("password");
    crate::broker::write_secret(&file, PASSWORD, 0o600)?;
    let file = file.display().to_string();
    for user in [USER, ADMIN] {
        let add = ["user", "add", user, "--password-file", &file, "-b", &at];
        place.esker(&add, "")?;
    }
    let admin = |of: &Addresses| Way {
        name: "admin".to_owned(),
        address: of.users.clone(),
        user: Some(ADMIN),
    };
    for has_rules in [false, true] {
        if has_rules {
            let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
            let settings = [
                format!("authorizer.class.name={authorizer}"),
                format!("super.users=User:{ADMIN}"),
            ];
            cluster.stop()?;
            for node in &mut cluster.nodes {
                for setting in &settings {
                    node.arguments.extend(["--set".to_owned(), setting.clone()]);
                }
                // Strangers are told nothing now.
                node.start()?;
            }
        }
        let watch = admin(&cluster.addresses[0]);
        let before = settled(&watch)?;
        let suffix = if has_rules { ", with rules" } else { "" };
        let ways = (1..)
            .zip(&cluster.addresses)
            .flat_map(|(id, of)| ways(id, of));
        for way in ways {
            ask_all(table, &way, &before, has_rules, suffix);
        }
        let after = watch.open().and_then(|mut talk| look(&mut talk));
        let same = match after {
            Ok(after) if after == before => "the same".to_owned(),
            Ok(after) => format!("{after:?} after {before:?}"),
            Err(why) => why,
        };
        let name = format!("quorum, brokers, leaders and replicas{suffix}");
        table.check(&name, "afterwards", "the same", &same);
        if !has_rules {
            with_proof(table, &cluster, &before)?;
        }
    }
    cluster.stop()
}

/// Waits until all replicas are in sync: what changes by itself is over then.
fn settled(watch: &Way) -> Result<Sight, String> {
    let pause = || std::thread::sleep(std::time::Duration::from_millis(100));
    let mut last = Err("nobody was asked".to_owned());
    let mut same = 0;
    for _ in 0..600 {
        let now = watch.open().and_then(|mut talk| look(&mut talk));
        let is_whole = now.as_ref().is_ok_and(Sight::is_whole);
        same = if is_whole && now == last { same + 1 } else { 0 };
        last = now;
        if same == 5 {
            break;
        }
        pause();
    }
    last
}

fn ways(id: i32, of: &Addresses) -> Vec<Way> {
    let way = |name: &str, address: &str, user| Way {
        name: format!("{name} of node {id}"),
        address: address.to_owned(),
        user,
    };
    vec![
        way("PLAINTEXT", &of.clients, None),
        way("CONTROLLER", &of.controllers, None),
        way("SASL_PLAINTEXT (alice)", &of.users, Some(USER)),
        way("SASL_PLAINTEXT (no login)", &of.users, None),
    ]
}

fn ask_all(table: &mut Table, way: &Way, sight: &Sight, has_rules: bool, suffix: &str) {
    let is_open = way.user.is_some() || !way.address_asks();
    let all = requests::of_nodes(sight);
    let envelopes = envelopes::all().into_iter();
    let named = (all
        .into_iter()
        .map(|request| (request.key().name().to_owned(), request)))
    .chain(
        envelopes
            .map(|(name, _, request)| (format!("Envelope {name}"), AnyRequest::Envelope(request))),
    );
    for (name, request) in named {
        let key = request.key();
        for version in key.min_version()..=key.max_version_stable() {
            let which = format!("v{version} at {}", way.name);
            let Some(frame) = frames::of_any(&request, version) else {
                table.check(&name, &which, REFUSED, "cannot be written");
                continue;
            };
            let wanted = if is_open { REFUSED } else { "closed" };
            table.check(&name, &which, wanted, &way.ask(key, version, &frame));
        }
        let unknown = key.max_version() + 1;
        let header = key.request_header_version(key.max_version());
        let frame = frames::frame(key.key(), unknown, header, &[]);
        let which = format!("{name} v{unknown} at {}", way.name);
        let got = way.ask(key, unknown, &frame);
        table.check(
            "requests of nodes in a version to come",
            &which,
            "closed",
            &got,
        );
    }
    for key in requests::SHARE_STATE {
        let version = key.max_version_stable();
        let header = key.request_header_version(version);
        let frame = frames::frame(key.key(), version, header, &[0; 16]);
        let which = format!("{} at {}", key.name(), way.name);
        let got = way.ask(key, version, &frame);
        table.check(
            "states of share groups, which are not served",
            &which,
            "closed",
            &got,
        );
    }
    if !is_open {
        return;
    }
    lists_none(table, way);
    of_logs(table, way, sight, has_rules, suffix);
}

impl Way {
    /// True if nobody is served here before a login.
    fn address_asks(&self) -> bool {
        self.name.starts_with("SASL")
    }
}

/// Nobody but nodes is told of requests of nodes.
fn lists_none(table: &mut Table, way: &Way) {
    let told = way
        .open()
        .and_then(|mut talk| talk.ask(&ApiVersionsRequest::default(), 0));
    let got = match told {
        Ok(told) => {
            let listed = told
                .api_keys
                .iter()
                .filter_map(|row| ApiKey::from_key(row.api_key));
            let listed: Vec<&str> = listed
                .filter(|key| NODES_ALONE.contains(key) || requests::SHARE_STATE.contains(key))
                .map(ApiKey::name)
                .collect();
            match listed.is_empty() {
                true => "none".to_owned(),
                false => listed.join(" "),
            }
        }
        Err(why) => why,
    };
    table.check(
        "requests of nodes that ApiVersions lists",
        &way.name,
        "none",
        &got,
    );
}

/// Requests that clients send too, in the name of a replica.
fn of_logs(table: &mut Table, way: &Way, sight: &Sight, has_rules: bool, suffix: &str) {
    let mut check = |name: &str, request: &AnyRequest, version: i16, wanted: &[&str]| {
        let which = format!("v{version} at {}", way.name);
        let Some(frame) = frames::of_any(request, version) else {
            return;
        };
        let got = way.ask(request.key(), version, &frame);
        table.check_any(&format!("{name}{suffix}"), &which, wanted, &got);
    };
    // Without a place for an id Kafka names the topic as unknown; nobody may follow the log but nodes.
    let no_log: &[&str] = &[
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        NO_TOPIC,
        REFUSED,
    ];
    for replica in REPLICAS.into_iter().chain([-1]) {
        let name = format!("Fetch of the metadata log as {replica}");
        for version in 4..=18 {
            let request = requests::fetch_of_metadata(replica, version);
            check(&name, &request, version, no_log);
        }
    }
    // Elsewhere the answer depends on who leads, which is of no account here.
    let elsewhere = "NOT_LEADER_OR_FOLLOWER";
    for replica in REPLICAS {
        for version in 4..=18 {
            let request = requests::fetch(TOPIC, sight.topic_id, replica, version);
            let name = format!("Fetch as {replica}");
            let wanted: &[&str] = match replica {
                0.. => &[NO_TOPIC],
                _ if has_rules => &[NO_TOPIC],
                _ => &["none", elsewhere],
            };
            check(&name, &request, version, wanted);
        }
        let wanted: &[&str] = match has_rules {
            true => &[NO_TOPIC],
            false => &["none", elsewhere],
        };
        for version in 1..=11 {
            let name = format!("ListOffsets as {replica}");
            check(&name, &requests::list_offsets(replica), version, wanted);
        }
        for version in 3..=4 {
            let name = format!("OffsetForLeaderEpoch as {replica}");
            check(&name, &requests::epoch_end(replica), version, wanted);
        }
    }
    // Administrators abort transactions by them: where there are no rules they are for everybody, as in Kafka.
    for version in 1..=2 {
        let wanted = if has_rules {
            REFUSED
        } else {
            "UNKNOWN_TOPIC_OR_PARTITION"
        };
        check("WriteTxnMarkers", &requests::markers(), version, &[wanted]);
    }
    for version in 4..=5 {
        let wanted: &[&str] = match has_rules {
            true => &[REFUSED],
            false => &[
                "NOT_COORDINATOR",
                "INVALID_PRODUCER_ID_MAPPING",
                "COORDINATOR_NOT_AVAILABLE",
                "TRANSACTION_ABORTABLE",
            ],
        };
        check(
            "AddPartitionsToTxn of a broker",
            &requests::verification(),
            version,
            wanted,
        );
    }
}

/// A node with the secret: let in by any id but that of the node that it asks, and not believed everything.
fn with_proof(table: &mut Table, cluster: &Cluster, sight: &Sight) -> Result<(), String> {
    let text = read(&cluster.secret())?;
    let secret = ClusterSecret::parse(&text).map_err(|error| error.to_string())?;
    let proof = NodeProof::new(&secret);
    let wrong = NodeProof::new(&ClusterSecret::generate(&[1; 32]));
    for (id, of) in (1..).zip(&cluster.addresses) {
        for (name, address) in [
            ("PLAINTEXT", &of.clients),
            ("CONTROLLER", &of.controllers),
            ("SASL_PLAINTEXT", &of.users),
        ] {
            let which = format!("{name} of node {id}");
            let mut prove = |what: &str, proof: &NodeProof, as_id: i32, wanted: &str| {
                let got = log_in(address, proof, as_id).map(|_| "let in".to_owned());
                table.check(what, &which, wanted, &got.unwrap_or_else(|why| why));
            };
            prove("a node with another id", &proof, id % 3 + 1, "let in");
            prove(
                "a node with the id of the one that it asks",
                &proof,
                id,
                "the node that it reached has the same node id, and each node of a cluster has one of its own",
            );
            prove(
                "a node with another secret",
                &wrong,
                id % 3 + 1,
                "the other end has another cluster secret",
            );
        }
        // Only the active controller opens envelopes; the others say that they are none.
        let is_active = sight.controller == id;
        for (name, wanted, request) in envelopes::all() {
            let wanted = if is_active { wanted } else { "NOT_CONTROLLER" };
            let got = log_in(&of.controllers, &proof, id % 3 + 1)
                .and_then(|mut talk| talk.ask::<EnvelopeRequest>(&request, 0));
            let got = match got {
                Ok(told) => match ErrorCode::try_from(told.error_code) {
                    Ok(ErrorCode::None) => "none".to_owned(),
                    Ok(code) => code.name().to_owned(),
                    Err(_) => told.error_code.to_string(),
                },
                Err(why) => why,
            };
            let name = format!("with proof: Envelope {name}");
            table.check(&name, &format!("node {id}"), wanted, &got);
        }
    }
    Ok(())
}

/// A connection on which a node has proved itself.
fn log_in(address: &str, proof: &NodeProof, id: i32) -> Result<Talk, String> {
    let mut talk = Talk::open(address).map_err(|error| error.to_string())?;
    match talk.handshake(MECHANISM)? {
        0 => {}
        code => return Err(format!("the handshake has code {code}")),
    }
    let (first, client) = proof.begin(id, &random());
    let told = talk.token(&first)?;
    if told.error_code != 0 {
        return Err(told.error_message.unwrap_or_default());
    }
    let proved = client.prove(proof, &told.auth_bytes);
    let (last, verifying) = proved.map_err(|error| error.to_string())?;
    let told = talk.token(&last)?;
    if told.error_code != 0 {
        return Err(told.error_message.unwrap_or_default());
    }
    let ended = verifying.end(&told.auth_bytes);
    ended.map_err(|error| error.to_string())?;
    Ok(talk)
}
fn read(path: &std::path::Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
