//! Settings of a subscription to client metrics (KIP-714).

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "interval.ms" Int "300000" Any ClusterWide Works "time between two pushes of a client";
    "match" List "" UniqueItems ClusterWide Works "clients that are asked: name=pattern, separated by commas";
    "metrics" List "" UniqueItems ClusterWide Works "beginnings of the names of metrics; * asks for all";
};
