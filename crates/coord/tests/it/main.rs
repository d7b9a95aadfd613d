//! Group coordinators from outside: scripts whose answers are written beside what was asked, and random runs with crashes.

mod admin;
mod both;
mod joining;
mod offsets;
mod random;
mod render;
mod script;
mod statics;
mod world;
