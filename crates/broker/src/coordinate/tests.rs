//! Two brokers that know of each other, whose coordinators and partitions live apart.

mod abroad;
mod moves;
mod pair;
mod txns;
