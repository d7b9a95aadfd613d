//! Whether clients are served, and the reason where they are not.

use std::time::Duration;

use model::Instant;

use super::census;
use crate::control::leads_for;
use crate::quorum::not_counted_in;
use crate::shared::Shared;

/// `Ok` with what clients may miss, or the reason why none is served.
pub(super) fn readiness(shared: &Shared) -> Result<String, String> {
    if let Some(why) = shared.lifetime.failure() {
        return Err(why);
    }
    if shared.lifetime.is_stopping() {
        return Err("stopping".to_owned());
    }
    if shared.lifetime.is_leaving() {
        return Err("stopping: other brokers take over what this one leads".to_owned());
    }
    let outside = outside(shared);
    let is_ready = outside.is_none();
    // A directory in trouble may be why.
    let mut notes = dir_troubles(shared);
    notes.extend(snapshot_trouble(shared));
    notes.insert(
        if is_ready { 0 } else { notes.len() },
        outside.unwrap_or_else(|| "ready".to_owned()),
    );
    // A broker that is refused for good may have the number of another one, which leads these.
    if !is_ready && shared.state.refusal().is_none() {
        let unserved = census::unserved(shared);
        let note = format!("{unserved} partitions that this broker leads are not served");
        notes.extend((0 < unserved).then_some(note));
    }
    if !shared.doors.has_room_for_connection() {
        let most = shared.doors.connections_max();
        notes.push(format!(
            "all {most} places for connections are taken, and new clients wait"
        ));
    }
    let notes = notes.join("; ");
    if is_ready { Ok(notes) } else { Err(notes) }
}

fn dir_troubles(shared: &Shared) -> Vec<String> {
    let mut troubles = Vec::new();
    for dir in shared.volumes.dirs() {
        let path = dir.path.display();
        if dir.is_failed() {
            troubles.push(format!("log dir {path} is offline"));
        } else if dir.is_full() {
            let mib = dir.needed_bytes() >> 20;
            troubles.push(format!(
                "log dir {path} is full, appends are refused while its volume has less than {mib} MiB free"
            ));
        }
    }
    troubles
}

/// The metadata log grows meanwhile.
fn snapshot_trouble(shared: &Shared) -> Option<String> {
    let since = shared.meters.counts.read().snapshot_fails_since?;
    let time = shared.env.clock.now().since(since).as_secs();
    Some(format!(
        "no snapshot of the metadata could be written for {time} s, the log of this node says why"
    ))
}

/// The reason why this node has no part in its cluster now.
fn outside(shared: &Shared) -> Option<String> {
    let (metadata, settings) = (&shared.metadata, shared.catalog.config());
    if !settings.broker.quorum.roles.broker {
        let sight = metadata.quorum_sight();
        let why = format!("waits for its quorum: {}", sight.no_controller());
        return (!sight.hears_leader).then_some(why);
    }
    if !shared.state.is_serving() {
        return Some(format!("waits for its cluster: {}", not_counted_in(shared)));
    }
    if !shared.state.is_self_fenced() {
        return None;
    }
    let sight = metadata.quorum_sight();
    let session = settings.broker.quorum.session_timeout;
    let why = match (sight.controller(), shared.state.leads_until()) {
        (None, _) => sight.no_controller(),
        (Some(controller), None) => {
            format!("{controller}, has fenced this broker, or does not know it yet")
        }
        (Some(controller), Some(until)) => {
            let heard = heard_at(until, session);
            let silence = shared.env.clock.now().since(heard).as_secs();
            let silence = format!("has not answered for {silence} s");
            let unheard = sight.unheard(&silence);
            unheard.unwrap_or_else(|| format!("{controller}, {silence}"))
        }
    };
    Some(format!("acts as no leader: {why}"))
}

/// When the heartbeat was sent that was answered last.
fn heard_at(leads_until: Instant, session: Duration) -> Instant {
    let leads = leads_for(session);
    let nanos = u64::try_from(leads.as_nanos()).unwrap_or(u64::MAX);
    Instant(leads_until.0.saturating_sub(nanos))
}
