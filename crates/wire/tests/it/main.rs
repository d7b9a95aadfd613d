//! The codec from outside: against the bytes of Kafka's own codec, and against bytes that nobody should send.

mod golden;
mod hostile;
mod memory;
mod vectors;
