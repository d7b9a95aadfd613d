#!/usr/bin/env python3
"""Writes the dashboards beside this file: ops/grafana/build.py. The metrics they name are checked by `cargo test -p broker metrics`."""

import json
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${source}"}


def panel(number, title, unit, *queries, kind="timeseries"):
    targets = [{"refId": chr(65 + at), "expr": expr, "legendFormat": legend, "datasource": SOURCE}
               for at, (expr, legend) in enumerate(queries)]
    return {"id": number + 1, "type": kind, "title": title, "datasource": SOURCE, "targets": targets,
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "gridPos": {"h": 8, "w": 8, "x": 8 * (number % 3), "y": 8 * (number // 3)}}


def quantile(share, metric, *labels):
    by = ", ".join((*labels, "le"))
    return f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket{{instance=~\"$instance\"}}[$__rate_interval])))"


def rate(metric, *labels):
    return f"sum by ({', '.join(labels)}) (rate({metric}{{instance=~\"$instance\"}}[$__rate_interval]))"


def now(metric):
    return f"{metric}{{instance=~\"$instance\"}}"


def known(metric):
    """Of the whole cluster, as the nodes know it that are part of it."""
    return f"max({metric}{{instance=~\"$instance\"}} and on (instance) (esker_ready == 1))"


DASHBOARDS = {
    "cluster": ("Esker: cluster", [
        ("Ready", "bool", "stat", (now("esker_ready"), "{{instance}}")),
        ("Active controller", "short", "stat", (now("esker_active_controller") + " == 1", "{{instance}}")),
        ("Brokers", "short", "stat", (known("esker_cluster_brokers"), "registered"), (known("esker_cluster_brokers_fenced"), "fenced")),
        ("Partitions without leader", "short", "stat", (known("esker_cluster_partitions_without_leader"), "without leader")),
        ("Below minimum ISR", "short", "stat", ("sum(" + now("esker_partitions_below_min_isr") + ")", "below"),
         ("sum(" + now("esker_partitions_at_min_isr") + ")", "just at it")),
        ("Not served", "short", "stat", (now("esker_partitions_unserved"), "{{instance}}"), (now("esker_partitions_offline"), "offline {{instance}}")),
        ("Under-replicated partitions", "short", "timeseries", (now("esker_partitions_under_replicated"), "led by {{instance}}")),
        ("Lag of followers in seconds", "s", "timeseries", ("max by (follower) (" + now("esker_follower_lag_seconds") + ")", "broker {{follower}}")),
        ("Lag of followers in records", "short", "timeseries", ("sum by (follower) (" + now("esker_follower_lag_records") + ")", "broker {{follower}}")),
        ("Changes of ISRs", "ops", "timeseries", (rate("esker_isr_shrinks_total", "instance"), "shrink {{instance}}"),
         (rate("esker_isr_grows_total", "instance"), "grow {{instance}}")),
        ("Elections of leaders", "ops", "timeseries", (rate("esker_leader_elections_total", "instance"), "by {{instance}}"),
         (rate("esker_leader_elections_unclean_total", "instance"), "unclean by {{instance}}")),
        ("Leaders", "short", "timeseries", (now("esker_partitions_led"), "{{instance}}"), (now("esker_partitions_preferred"), "preferred {{instance}}"),
         (known("esker_cluster_partitions_not_preferred"), "not led by the preferred")),
        ("Replication", "Bps", "timeseries", (rate("esker_replication_sent_bytes_total", "instance"), "out {{instance}}"),
         (rate("esker_replication_received_bytes_total", "instance"), "in {{instance}}")),
        ("Reassignments", "short", "timeseries", ("sum(" + now("esker_partitions_reassigning") + ")", "partitions"),
         ("max(" + now("esker_reassignment_stalled_seconds") + ")", "seconds without a step"),
         ("sum by (side) (" + now("esker_replicas_throttled") + ")", "throttled, {{side}}")),
        ("Epoch of the quorum", "short", "timeseries", (now("esker_quorum_epoch"), "{{instance}}"), (now("esker_quorum_leader"), "leader by {{instance}}"),
         (known("esker_quorum_voters"), "voters")),
        ("Age of the metadata", "s", "timeseries", (now("esker_metadata_lag_seconds"), "{{instance}}")),
        ("Metadata not acted on", "short", "timeseries", (now("esker_metadata_lag_records"), "{{instance}}"),
         ("deriv(" + now("esker_metadata_log_end_offset") + "[5m])", "written each second {{instance}}")),
        ("Snapshots of the metadata", "s", "timeseries", (now("esker_metadata_snapshot_age_seconds"), "age {{instance}}"),
         (now("esker_metadata_snapshot_failing_seconds"), "not written {{instance}}"),
         (now("esker_metadata_snapshot_bytes"), "bytes {{instance}}")),
        ("Partitions", "short", "timeseries", (known("esker_cluster_partitions"), "of the cluster"), (now("esker_partitions"), "replicas on {{instance}}")),
        ("Version", "short", "stat", (now("esker_build_info"), "{{version}}")),
        ("Requests", "reqps", "timeseries", (rate("esker_requests_total", "api"), "{{api}}")),
        ("Answers, 99th percentile", "s", "timeseries", (quantile(0.99, "esker_request_duration_seconds", "api"), "{{api}}")),
        ("Errors in answers", "ops", "timeseries", (rate("esker_request_errors_total", "api", "error"), "{{api}} {{error}}")),
        ("Bytes", "Bps", "timeseries", (rate("esker_request_received_bytes_total", "instance"), "in {{instance}}"),
         (rate("esker_request_sent_bytes_total", "instance"), "out {{instance}}")),
        ("Memory", "bytes", "timeseries", (now("process_resident_memory_bytes"), "resident {{instance}}"),
         (now("esker_memory_limit_bytes"), "limit {{instance}}")),
        ("Processor", "percentunit", "timeseries", (rate("process_cpu_seconds_total", "instance"), "{{instance}}")),
    ]),
    "topics": ("Esker: topics", [
        ("Records written", "ops", "timeseries", ("sum by (topic) (deriv(esker_topic_log_end_offsets{instance=~\"$instance\"}[5m]))", "{{topic}}")),
        ("Bytes written", "Bps", "timeseries", (rate("esker_topic_appended_bytes_total", "topic"), "{{topic}}")),
        ("Bytes read", "Bps", "timeseries", (rate("esker_topic_fetched_bytes_total", "topic"), "{{topic}}")),
        ("Size", "bytes", "timeseries", ("topk(20, sum by (topic) (" + now("esker_topic_size_bytes") + "))", "{{topic}}")),
        ("Partitions", "short", "timeseries", ("sum by (topic) (" + now("esker_topic_partitions") + ")", "{{topic}}")),
        ("Partitions offline", "short", "timeseries", (now("esker_topic_partitions_offline"), "{{topic}}")),
        ("Topics and partitions", "short", "timeseries", (now("esker_topics"), "topics"), (now("esker_partitions"), "partitions")),
    ]),
    "groups": ("Esker: groups", [
        ("Groups", "short", "stat", (now("esker_groups"), "{{instance}}")),
        ("Lag in records", "short", "timeseries", ("topk(20, " + now("esker_group_lag_records") + ")", "{{group}} {{topic}}")),
        ("Lag in seconds", "s", "timeseries", ("topk(20, " + now("esker_group_lag_seconds") + ")", "{{group}} {{topic}}")),
        ("Requests of groups", "reqps", "timeseries",
         ("sum by (api) (rate(esker_requests_total{instance=~\"$instance\", api=~\"JoinGroup|SyncGroup|Heartbeat|LeaveGroup|OffsetCommit|OffsetFetch|ConsumerGroupHeartbeat\"}[$__rate_interval]))", "{{api}}")),
        ("Errors of groups", "ops", "timeseries",
         ("sum by (api, error) (rate(esker_request_errors_total{instance=~\"$instance\", api=~\"JoinGroup|SyncGroup|Heartbeat|OffsetCommit|ConsumerGroupHeartbeat\"}[$__rate_interval]))", "{{api}} {{error}}")),
    ]),
    "storage": ("Esker: storage", [
        ("Directories online", "bool", "stat", (now("esker_log_dir_online"), "{{dir}}")),
        ("Free", "bytes", "timeseries", (now("esker_log_dir_free_bytes"), "{{dir}}"), (now("esker_log_dir_total_bytes"), "of {{dir}}")),
        ("Full", "bool", "stat", (now("esker_log_dir_full"), "{{dir}}")),
        ("Commits", "ops", "timeseries", (rate("esker_journal_rounds_total", "dir"), "{{dir}}")),
        ("Commit time", "s", "timeseries", (quantile(0.5, "esker_journal_commit_duration_seconds", "dir"), "half {{dir}}"),
         (quantile(0.99, "esker_journal_commit_duration_seconds", "dir"), "99 % {{dir}}")),
        ("Journal", "Bps", "timeseries", (rate("esker_journal_written_bytes_total", "dir"), "{{dir}}")),
        ("Journal to replay", "bytes", "timeseries", (now("esker_journal_live_bytes"), "{{dir}}")),
        ("Age of the checkpoint", "s", "timeseries", (now("esker_checkpoint_age_seconds"), "{{dir}}")),
        ("Checkpoints", "ops", "timeseries", (rate("esker_checkpoints_total", "dir"), "{{dir}}")),
        ("Not in segment files yet", "bytes", "timeseries", (now("esker_unwritten_bytes"), "{{dir}}")),
        ("Compaction", "Bps", "timeseries", (rate("esker_compaction_moved_bytes_total", "dir"), "{{dir}}")),
        ("Passes of compaction", "ops", "timeseries", (rate("esker_compactions_total", "dir"), "{{dir}}")),
        ("Rot", "short", "timeseries", (now("esker_rot_found_total"), "found {{dir}}"), (now("esker_rot_repaired_total"), "repaired {{dir}}"),
         (now("esker_rot_unrepaired"), "not repaired {{dir}}")),
        ("Memory budgets", "bytes", "timeseries", (now("esker_memory_used_bytes"), "{{budget}}"), (now("esker_memory_budget_bytes"), "bound {{budget}}")),
        ("Reads held back", "ops", "timeseries", (rate("esker_read_pauses_total", "instance"), "{{instance}}")),
    ]),
    "clients": ("Esker: clients", [
        ("Connections", "short", "timeseries", (now("esker_connections"), "{{instance}}")),
        ("Software", "short", "timeseries", (now("esker_client_connections"), "{{software}} {{version}}")),
        ("Opened and closed", "cps", "timeseries", (rate("esker_connections_opened_total", "instance"), "opened"),
         (rate("esker_connections_closed_total", "instance"), "closed")),
        ("Logins", "cps", "timeseries", (rate("esker_logins_total", "instance"), "{{instance}}"),
         (rate("esker_logins_refused_total", "reason"), "refused: {{reason}}")),
        ("Cut off", "cps", "timeseries", (rate("esker_connections_refused_total", "reason"), "{{reason}}")),
        ("Requests that wait", "short", "timeseries", (now("esker_requests_waiting"), "{{instance}}")),
        ("Fetch sessions", "short", "timeseries", (now("esker_fetch_sessions"), "{{instance}}")),
        ("Files", "short", "timeseries", (now("process_open_fds"), "open"), (now("process_max_fds"), "may be open")),
        ("Uptime", "s", "stat", ("time() - " + now("process_start_time_seconds"), "{{instance}}")),
    ]),
}

VARIABLES = [
    {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
    {"name": "instance", "type": "query", "label": "Broker", "datasource": SOURCE, "query": "label_values(esker_build_info, instance)",
     "refresh": 2, "includeAll": True, "multi": True, "current": {"text": "All", "value": "$__all"}},
]

for name, (title, panels) in DASHBOARDS.items():
    page = {"uid": f"esker-{name}", "title": title, "tags": ["esker"], "schemaVersion": 39, "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"}, "templating": {"list": VARIABLES},
            "panels": [panel(at, heading, unit, *queries, kind=kind) for at, (heading, unit, kind, *queries) in enumerate(panels)]}
    (HERE / f"{name}.json").write_text(json.dumps(page, indent=1) + "\n")
