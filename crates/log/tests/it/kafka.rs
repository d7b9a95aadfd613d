//! Files of Kafka and ours are the same files.
