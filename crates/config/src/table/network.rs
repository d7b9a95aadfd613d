//! Settings of listeners, connections and request limits.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "advertised.listeners" List - Items ReadOnly Works
        "addresses clients are told to connect to; the bound ones when not set";
    "connection.failed.authentication.delay.ms" Int "100" AtLeast(0) ReadOnly Works
        "wait before a connection that failed authentication is told so and closed; also with the prefix listener.name.NAME.";
    "connections.max.idle.ms" Long "600000" Any ReadOnly Works "time after which a silent connection is closed";
    "connections.max.reauth.ms" Long "0" Any ReadOnly Works
        "longest life of a SASL session before it must authenticate again, 0 for no end; also with the prefix listener.name.NAME. or listener.name.NAME.MECHANISM.";
    "early.start.listeners" List - Items ReadOnly Meaningless "Listeners open together: there is no authorizer to wait for";
    "fetch.max.bytes" Int "57671680" AtLeast(1024) ReadOnly Works "bytes one fetch answer holds at most";
    "inter.broker.listener.name" String - Any ReadOnly Works
        "listener the brokers use among themselves; its connections do not wait behind those of clients";
    "listener.security.protocol.map" String "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT" Any ReadOnly Works
        "security protocol of each listener name";
    "listeners" List "PLAINTEXT://127.0.0.1:9092" Items ReadOnly Works "addresses the broker listens on";
    "max.connection.creation.rate" Int "2147483647" AtLeast(0) ClusterWide Accepted "connections accepted per second";
    "max.connections" Int "2147483647" AtLeast(0) ClusterWide Works "connections the broker keeps open at most, more wait; never more than leave 9000 descriptors for files, or half of those beyond 80";
    "max.connections.per.ip" Int "2147483647" AtLeast(0) ClusterWide Works "connections one address may keep open at most, more are closed";
    "max.connections.per.ip.overrides" String "" Any ClusterWide Works
        "exceptions to max.connections.per.ip: address:count, separated by commas";
    "max.incremental.fetch.session.cache.slots" Int "1000" AtLeast(0) ReadOnly Works "fetch sessions the broker remembers";
    "num.io.threads" Int "8" AtLeast(1) ClusterWide Meaningless "Requests are served on the network threads";
    "num.network.threads" Int - AtLeast(1) ReadOnly Works
        "network threads, each an event loop with its own connections; one less than there are cores when not set";
    "queued.max.request.bytes" Long "-1" Any ReadOnly Works
        "bytes of requests, half of them for those not yet whole; past it sockets are not read. -1: one byte in 64 of the memory, 64 MiB to 1 GiB, and one in 16 of less than 1 GiB";
    "queued.max.requests" Int "500" AtLeast(1) ReadOnly Meaningless
        "Requests are not queued between threads; bytes are bounded by queued.max.request.bytes";
    "request.timeout.ms" Int "30000" Any ReadOnly Works
        "wait of a change of settings for a disk that is full; bound of add.partitions.to.txn.retry.backoff.max.ms";
    "security.inter.broker.protocol" String "PLAINTEXT" OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]) ReadOnly Works
        "inter.broker.listener.name where that is not set";
    "socket.connection.setup.timeout.max.ms" Long "30000" Any ReadOnly Accepted
        "upper bound of the growing connection timeout among brokers";
    "socket.connection.setup.timeout.ms" Long "10000" Any ReadOnly Accepted "first connection timeout among brokers";
    "socket.listen.backlog.size" Int "50" AtLeast(1) ReadOnly Accepted
        "connections the system may hold before they are accepted";
    "socket.receive.buffer.bytes" Int "102400" Any ReadOnly Accepted
        "SO_RCVBUF of a client connection; -1 takes the system's";
    "socket.request.max.bytes" Int "104857600" AtLeast(1) ReadOnly Works "largest request";
    "socket.send.buffer.bytes" Int "102400" Any ReadOnly Accepted "SO_SNDBUF of a client connection; -1 takes the system's";
    "esker.client.metrics.enable" Boolean "false" Any ReadOnly Works
        "clients are asked for the metrics of subscriptions (kafka-client-metrics); `esker client` shows what they push";
    "telemetry.max.bytes" Int "1048576" AtLeast(1) ReadOnly Works "largest push of client telemetry";
};
