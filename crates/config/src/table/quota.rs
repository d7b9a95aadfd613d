//! Settings of quota windows.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "alter.log.dirs.replication.quota.window.num" Int "11" AtLeast(1) ReadOnly Accepted
        "samples kept for the quota of moves between directories";
    "alter.log.dirs.replication.quota.window.size.seconds" Int "1" AtLeast(1) ReadOnly Accepted
        "length of one sample for the quota of moves between directories";
    "controller.quota.window.num" Int "11" AtLeast(1) ReadOnly Accepted "samples kept for the quota of cluster changes";
    "controller.quota.window.size.seconds" Int "1" AtLeast(1) ReadOnly Accepted
        "length of one sample for the quota of cluster changes";
    "follower.replication.throttled.rate" Long "9223372036854775807" AtLeast(0) ClusterWide Works
        "bytes per second that a broker fetches for replicas named by follower.replication.throttled.replicas of their topic";
    "leader.replication.throttled.rate" Long "9223372036854775807" AtLeast(0) ClusterWide Works
        "bytes per second that a broker sends to replicas of partitions named by leader.replication.throttled.replicas of their topic";
    "quota.window.num" Int "11" AtLeast(1) ReadOnly Accepted "samples kept for client quotas";
    "quota.window.size.seconds" Int "1" AtLeast(1) ReadOnly Accepted "length of one sample for client quotas";
    "replica.alter.log.dirs.io.max.bytes.per.second" Long "9223372036854775807" AtLeast(0) ClusterWide Works
        "bytes per second copied for moves between directories";
    "replication.quota.window.num" Int "11" AtLeast(1) ReadOnly Accepted "samples kept for replication quotas";
    "replication.quota.window.size.seconds" Int "1" AtLeast(1) ReadOnly Accepted
        "length of one sample for replication quotas";
};
