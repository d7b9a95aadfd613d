//! Settings of the node, the controller quorum and replication.

use super::Setting;

const LEADER_SELECTOR: &str = "org.apache.kafka.common.replica.LeaderSelector";
/// Has consumers read in their rack.
pub(crate) const RACK_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

pub(super) const SETTINGS: &[Setting] = settings! {
    "auto.leader.rebalance.enable" Boolean "true" Any ReadOnly Works
        "leaders move back to their preferred broker by themselves; that of the active controller counts";
    "broker.heartbeat.interval.ms" Int "2000" Any ReadOnly Works
        "time between heartbeats to the controller; shorter than broker.session.timeout.ms";
    "broker.id" Int "-1" Any ReadOnly Works "number of this broker, the older name of node.id";
    "broker.rack" String - Any ReadOnly Works "rack of this broker";
    "broker.session.timeout.ms" Int "9000" Any ReadOnly Works
        "silence after which the controller fences a broker";
    "controlled.shutdown.enable" Boolean "true" Any ReadOnly Meaningless
        "Leaders always move away before a broker stops";
    "controller.listener.names" List "CONTROLLER" Items ReadOnly Works "listeners of the controller, no doors for clients; opened where other nodes are named. With none of them in listeners, the first listener serves other nodes too";
    "controller.quorum.append.linger.ms" Int "25" AtLeast(0) ReadOnly Accepted
        "time the controller gathers writes before it syncs";
    "controller.quorum.auto.join.enable" Boolean "false" Any ReadOnly Works "a controller joins the voters by itself";
    "controller.quorum.bootstrap.servers" List "" Any ReadOnly Works
        "controllers to ask for the leader first, host:port separated by commas";
    "controller.quorum.election.backoff.max.ms" Int "1000" AtLeast(0) ReadOnly Works
        "longest wait of a successor that the old leader preferred least";
    "controller.quorum.election.timeout.ms" Int "1000" AtLeast(0) ReadOnly Works
        "time that a candidate waits for votes, and up to twice as long";
    "controller.quorum.fetch.max.bytes" Int "1048576" AtLeast(1) ReadOnly Accepted
        "bytes one fetch of the metadata log returns";
    "controller.quorum.fetch.snapshot.max.bytes" Int "1048576" AtLeast(1) ReadOnly Accepted
        "bytes one fetch of a metadata snapshot returns";
    "controller.quorum.fetch.timeout.ms" Int "2000" AtLeast(0) ReadOnly Works
        "time without an answer of the leader before a controller stands for election";
    "controller.quorum.request.timeout.ms" Int "2000" AtLeast(0) ReadOnly Works
        "time a controller waits for an answer";
    "controller.quorum.retry.backoff.ms" Int "20" AtLeast(0) ReadOnly Works
        "pause before a failed request is sent again";
    "controller.quorum.voters" List "" Any ReadOnly Works
        "the voters, id@host:port separated by commas; the same list on each node; a new cluster begins once all of them are up and reach each other";
    "controller.socket.timeout.ms" Int "30000" Any ReadOnly Accepted "socket timeout from the controller to brokers";
    "esker.cluster.insecure" Boolean "false" Any ReadOnly Works
        "nodes are served without proof too: anybody who reaches the listener can act as one. For the time in which a cluster gets its secret, and for nodes of Kafka in it";
    "esker.cluster.secret.file" String - Any ReadOnly Works
        "file with the secret by which the nodes of the cluster prove themselves to each other; one that is not named is cluster.secret in the first of log.dirs, which the first node makes";
    "follower.fetch.last.tiered.offset.enable" Boolean "false" Any ClusterWide Accepted
        "an empty follower starts after what is tiered";
    "initial.broker.registration.timeout.ms" Int "60000" Any ReadOnly Accepted "time the first registration may take";
    "leader.imbalance.check.interval.seconds" Long "300" AtLeast(1) ReadOnly Works
        "time between looks for leaders that are not the preferred ones";
    "metadata.log.dir" String - Any ReadOnly Works "data directory that has the metadata log; when not set, the one where it is found, and the first one of a new broker";
    "metadata.log.max.record.bytes.between.snapshots" Long "20971520" AtLeast(1) ReadOnly Works
        "bytes of metadata records between two snapshots, at most; see docs/decisions/metadata-log.md";
    "metadata.log.max.snapshot.interval.ms" Long "3600000" AtLeast(0) ReadOnly Works
        "time between two metadata snapshots";
    "metadata.log.segment.bytes" Int "1073741824" AtLeast(8388608) ReadOnly Works "size of one metadata log file, at most; they are no larger than what lies between two snapshots";
    "metadata.log.segment.ms" Long "604800000" Any ReadOnly Accepted "age of one metadata log file";
    "metadata.max.idle.interval.ms" Int "500" AtLeast(0) ReadOnly Works
        "time between empty records of an idle controller";
    "metadata.max.retention.bytes" Long "104857600" Any ReadOnly Accepted "bytes of metadata log and snapshots kept; the last two snapshots and the log behind the first are, see docs/decisions/metadata-log.md";
    "metadata.max.retention.ms" Long "604800000" Any ReadOnly Accepted "time metadata log and snapshots are kept; the last two snapshots and the log behind the first are, see docs/decisions/metadata-log.md";
    "node.id" Int "1" AtLeast(0) ReadOnly Works "number of this node, another one on each";
    "num.replica.alter.log.dirs.threads" Int - Any ReadOnly Accepted "threads that move partitions between directories";
    "num.replica.fetchers" Int "1" AtLeast(1) ClusterWide Accepted "connections to each broker that is followed";
    "process.roles" List "broker,controller" ItemsOf(&["broker", "controller"]) ReadOnly Works
        "roles of this process: broker, controller or both";
    "replica.fetch.backoff.ms" Int "1000" AtLeast(0) ReadOnly Works "pause of a follower after an error";
    "replica.fetch.max.bytes" Int "1048576" AtLeast(0) ReadOnly Works "bytes a follower asks for per partition";
    "replica.fetch.min.bytes" Int "1" Any ReadOnly Accepted "bytes a follower waits for";
    "replica.fetch.response.max.bytes" Int "10485760" AtLeast(0) ReadOnly Works "bytes a follower asks for at once";
    "replica.fetch.wait.max.ms" Int "500" Any ReadOnly Works "longest wait of a follower's fetch";
    "replica.high.watermark.checkpoint.interval.ms" Long "5000" Any ReadOnly Accepted
        "time between checkpoints of high watermarks";
    "replica.lag.time.max.ms" Long "30000" Any ReadOnly Works
        "time after which a follower that does not keep up leaves the in-sync set";
    "replica.selector.class" String - OneOf(&[LEADER_SELECTOR, RACK_SELECTOR]) ReadOnly Works
        "RackAwareReplicaSelector has consumers with a client.rack read from a replica there; otherwise they read from leaders (KIP-392)";
    "replica.socket.receive.buffer.bytes" Int "65536" Any ReadOnly Accepted "receive buffer of a follower";
    "replica.socket.timeout.ms" Int "30000" Any ReadOnly Accepted "socket timeout of a follower";
};
