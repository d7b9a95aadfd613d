//! Settings of a group, each with the broker setting that gives its default and those that bound it.

use super::GroupSetting;

pub(super) const SETTINGS: &[GroupSetting] = group_settings! {
    "consumer.assignment.interval.ms" Int "1000" AtLeast(0) Works
        ["group.consumer.assignment.interval.ms"] ["group.consumer.min.assignment.interval.ms"] ["group.consumer.max.assignment.interval.ms"]
        "pause between two assignments of the group";
    "consumer.heartbeat.interval.ms" Int "5000" AtLeast(1) Works
        ["group.consumer.heartbeat.interval.ms"] ["group.consumer.min.heartbeat.interval.ms"] ["group.consumer.max.heartbeat.interval.ms"]
        "heartbeat interval of its members; a fifth of it while partitions move";
    "consumer.session.timeout.ms" Int "45000" AtLeast(1) Works
        ["group.consumer.session.timeout.ms"] ["group.consumer.min.session.timeout.ms"] ["group.consumer.max.session.timeout.ms"]
        "silence after which a member leaves the group";
    "share.assignment.interval.ms" Int "1000" AtLeast(0) Accepted
        ["group.share.assignment.interval.ms"] ["group.share.min.assignment.interval.ms"] ["group.share.max.assignment.interval.ms"]
        "pause between two assignments of a share group";
    "share.auto.offset.reset" String "latest" OffsetReset Accepted [] [] []
        "where a share group begins: earliest, latest or by_duration:PnDTnHnMn.nS";
    "share.delivery.count.limit" Int "5" AtLeast(2) Accepted
        ["group.share.delivery.count.limit"] ["group.share.min.delivery.count.limit"] ["group.share.max.delivery.count.limit"]
        "deliveries of a record in a share group";
    "share.heartbeat.interval.ms" Int "5000" AtLeast(1) Accepted
        ["group.share.heartbeat.interval.ms"] ["group.share.min.heartbeat.interval.ms"] ["group.share.max.heartbeat.interval.ms"]
        "heartbeat interval of a share group's members";
    "share.isolation.level" String "read_uncommitted" OneOf(&["read_committed", "read_uncommitted"]) Accepted [] [] []
        "whether a share group sees records of transactions that did not commit";
    "share.partition.max.record.locks" Int "2000" AtLeast(100) Accepted
        ["group.share.partition.max.record.locks"] ["group.share.min.partition.max.record.locks"] ["group.share.max.partition.max.record.locks"]
        "records of a partition a share group may lock";
    "share.record.lock.duration.ms" Int "30000" AtLeast(1000) Accepted
        ["group.share.record.lock.duration.ms"] ["group.share.min.record.lock.duration.ms"] ["group.share.max.record.lock.duration.ms"]
        "time a record stays locked for its receiver";
    "share.renew.acknowledge.enable" Boolean "true" Any Accepted [] [] []
        "members of a share group may renew their locks";
    "share.session.timeout.ms" Int "45000" AtLeast(1) Accepted
        ["group.share.session.timeout.ms"] ["group.share.min.session.timeout.ms"] ["group.share.max.session.timeout.ms"]
        "silence after which a member leaves a share group";
    "streams.assignment.interval.ms" Int "1000" AtLeast(0) Accepted
        ["group.streams.assignment.interval.ms"] ["group.streams.min.assignment.interval.ms"] ["group.streams.max.assignment.interval.ms"]
        "pause between two assignments of a streams group";
    "streams.heartbeat.interval.ms" Int "5000" AtLeast(1) Accepted
        ["group.streams.heartbeat.interval.ms"] ["group.streams.min.heartbeat.interval.ms"] ["group.streams.max.heartbeat.interval.ms"]
        "heartbeat interval of a streams group's members";
    "streams.initial.rebalance.delay.ms" Int "3000" AtLeast(0) Accepted ["group.streams.initial.rebalance.delay.ms"] [] []
        "wait for more members before the first rebalance of a streams group";
    "streams.num.standby.replicas" Int "0" AtLeast(0) Accepted
        ["group.streams.num.standby.replicas"] [] ["group.streams.max.standby.replicas"]
        "standby replicas of each task of a streams group";
    "streams.session.timeout.ms" Int "45000" AtLeast(1) Accepted
        ["group.streams.session.timeout.ms"] ["group.streams.min.session.timeout.ms"] ["group.streams.max.session.timeout.ms"]
        "silence after which a member leaves a streams group";
};
