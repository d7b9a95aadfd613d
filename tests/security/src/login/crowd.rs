//! Those who take a place and do not log in: each for ten seconds, and all together half of the places.

use std::time::{Duration, Instant};

use security::login::scram::Hash;
use wire::messages::{ApiVersionsRequest, MetadataRequest};

use super::Plan;
use super::door::{Broker, PASSWORD, USER};
use crate::broker::Place;
use crate::broker::frames::Talk;
use crate::broker::table::Table;
use crate::peer::Reply;

/// Places for connections, half of them for strangers.
const PLACES: usize = 80;
/// The patience of a broker, and when it looks at the latest.
const LOGIN_MIN: Duration = Duration::from_millis(9500);
const LOGIN_MAX: Duration = Duration::from_secs(16);
const HASH: Hash = Hash::Sha512;

pub(crate) fn run(place: &mut Place, _: &Plan, table: &mut Table) -> Result<(), String> {
    let places = format!("max.connections={PLACES}");
    let mut broker = Broker::start(place, &[&places, "num.network.threads=1"])?;
    never_finished(table, &broker.users)?;
    half_of_the_places(table, &broker.users)?;
    many_frames(table, &broker.users)?;
    broker.node.stop()
}

/// A login that stands still, at each of its stages, and one that comes by and by.
fn never_finished(table: &mut Table, at: &str) -> Result<(), String> {
    type Begin = fn(&mut Talk) -> Result<(), String>;
    let stages: [(&str, Begin); 5] = [
        ("nothing", |_| Ok(())),
        ("a part of a frame", |talk| {
            let part = talk.peer.send_raw(&[0, 0, 0, 20, 0, 18]);
            part.map_err(|error| error.to_string())
        }),
        ("ApiVersions", |talk| {
            talk.ask(&ApiVersionsRequest::default(), 0).map(|_| ())
        }),
        ("a handshake", |talk| {
            talk.handshake("SCRAM-SHA-512").map(|_| ())
        }),
        ("the first message", |talk| {
            talk.handshake("SCRAM-SHA-512")?;
            talk.token(b"n,,n=alice,r=0123456789").map(|_| ())
        }),
    ];
    let began = Instant::now();
    let mut all = Vec::new();
    for (name, begin) in stages {
        let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
        begin(&mut talk)?;
        all.push((name, talk));
    }
    // Somebody who sends a byte now and then gains nothing by it.
    let mut slow = Talk::open(at).map_err(|error| error.to_string())?;
    let mut slow_end = None;
    let mut ends: Vec<Option<Duration>> = all.iter().map(|_| None).collect();
    while began.elapsed() < LOGIN_MAX {
        for ((_, talk), end) in all.iter_mut().zip(&mut ends) {
            talk.peer.wait_at_most(Duration::from_millis(40)).ok();
            if end.is_none() && talk.peer.receive() == Reply::Closed {
                *end = Some(began.elapsed());
            }
        }
        slow.peer.wait_at_most(Duration::from_millis(40)).ok();
        let is_gone = slow.peer.send_raw(&[0]).is_err() || slow.peer.receive() == Reply::Closed;
        if slow_end.is_none() && is_gone {
            slow_end = Some(began.elapsed());
        }
        if slow_end.is_some() && ends.iter().all(Option::is_some) {
            break;
        }
    }
    let word = |end: Option<Duration>| match end {
        Some(end) if LOGIN_MIN <= end && end < LOGIN_MAX => "closed after ten seconds".to_owned(),
        Some(end) => format!("closed after {end:?}"),
        None => "still open".to_owned(),
    };
    for ((name, _), end) in all.iter().zip(ends) {
        let row = format!("a login that stands still after {name}");
        table.check(&row, "", "closed after ten seconds", &word(end));
    }
    // Its bytes make a frame of no length, which is none: sooner is well.
    let got = match slow_end {
        Some(end) if end < LOGIN_MAX => "closed".to_owned(),
        other => word(other),
    };
    table.check("a login of one byte now and then", "", "closed", &got);
    Ok(())
}

/// Strangers beyond half of the places send the oldest away; who is in stays in.
fn half_of_the_places(table: &mut Table, at: &str) -> Result<(), String> {
    let mut users = Vec::new();
    for _ in 0..5 {
        let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
        talk.scram(HASH, USER, PASSWORD)?;
        users.push(talk);
    }
    let mut strangers = Vec::new();
    for _ in 0..PLACES {
        strangers.push(Talk::open(at).map_err(|error| error.to_string())?);
    }
    let late = Talk::open(at).map_err(|error| error.to_string());
    let late = late.and_then(|mut talk| talk.scram(HASH, USER, PASSWORD));
    table.done("a login while strangers hold their places", "", late);
    let mut open = 0;
    for talk in &mut strangers {
        talk.peer.wait_at_most(Duration::from_millis(30)).ok();
        open += usize::from(talk.peer.receive() == Reply::Silence);
    }
    let most = PLACES / 2;
    let got = match open <= most && most / 2 <= open {
        true => "half of the places at most".to_owned(),
        false => format!("{open} of {PLACES}"),
    };
    let wanted = "half of the places at most";
    table.check("places of strangers", "", wanted, &got);
    for talk in &mut users {
        let served = talk.ask(&MetadataRequest::default(), 9);
        table.done("who is in is served on", "", served);
    }
    Ok(())
}

/// A stranger that only talks is sent away.
fn many_frames(table: &mut Table, at: &str) -> Result<(), String> {
    let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
    let unknown = crate::broker::frames::frame(wire::ApiKey::ApiVersions.key(), 127, 2, &[]);
    let mut count = 0;
    while count < 100 && matches!(talk.peer.ask(&unknown), Reply::Frame(_)) {
        count += 1;
    }
    let got = match count {
        3..=12 => "closed after a dozen".to_owned(),
        count => format!("{count} answers"),
    };
    let name = "questions of an unknown version, one after the other";
    table.check(name, "", "closed after a dozen", &got);
    Ok(())
}
