//! Scripts of events and what they lead to, and random events against a model.

use model::{InboxId, WaiterKey};

use super::*;

const ME: BrokerId = BrokerId(1);

fn ticket(key: u64) -> Ticket {
    Ticket {
        inbox: InboxId(0),
        key: WaiterKey(key),
        part: 0,
    }
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn brokers(list: &str) -> Vec<BrokerId> {
    let ids = list.split(',');
    ids.map(|id| BrokerId(id.parse().expect("a broker")))
        .collect()
}

fn said((broker, epoch): (BrokerId, LeaderEpoch), broker_epoch: i64, synced: i64) -> FollowerAt {
    FollowerAt {
        epoch,
        broker,
        broker_epoch,
        log_start: Offset::ZERO,
        synced: Offset(synced),
    }
}

/// A machine and what it has reported.
struct Script {
    progress: Progress,
    now: u64,
    partition_epoch: i32,
    wish: Option<IsrWish>,
    told: Vec<String>,
}

fn of_an_empty_log() -> Progress {
    let ends = (Offset::ZERO, Offset::ZERO);
    Progress::new(ends, Offset::ZERO, LeaderEpoch(0), 1)
}

impl Script {
    fn new() -> Script {
        Script {
            progress: of_an_empty_log(),
            now: 0,
            partition_epoch: 1,
            wish: None,
            told: Vec::new(),
        }
    }

    fn step(&mut self, event: &str) {
        let words: Vec<&str> = event.split_whitespace().collect();
        let number = |word: &str| -> i64 { word.parse().expect("a number") };
        let mut news = Vec::new();
        let (now, progress) = (at(self.now), &mut self.progress);
        let epoch = progress.epoch();
        match words[..] {
            ["leads", epoch, "of", all, "isr", in_sync] => {
                let replicas = Replicas {
                    me: ME,
                    all: brokers(all),
                    in_sync: brokers(in_sync),
                    partition_epoch: self.partition_epoch,
                };
                self.partition_epoch += 1;
                let epoch = LeaderEpoch(epoch.parse().expect("an epoch"));
                progress.on_role(epoch, Role::Leading(replicas), now, &mut news);
            }
            ["miss", changes] => self.partition_epoch += number(changes) as i32,
            ["resigns", epoch] => {
                let epoch = LeaderEpoch(epoch.parse().expect("an epoch"));
                progress.on_role(epoch, Role::NotLeading, now, &mut news);
            }
            ["min", min] => progress.on_in_sync_min(number(min) as usize, &mut news),
            ["append", end] => progress.on_appended(Offset(number(end))),
            ["durable", end] => {
                progress.on_durable(Offset(number(end)), Life::default());
            }
            ["start", start] => progress.on_start(Offset(number(start))),
            [broker, "at", end] => {
                let broker = BrokerId(broker.parse().expect("a broker"));
                let broker_epoch = 5;
                progress.on_follower_at(said((broker, epoch), broker_epoch, number(end)), now);
            }
            [broker, "at", end, "from", start] => {
                let broker = BrokerId(broker.parse().expect("a broker"));
                let said = FollowerAt {
                    log_start: Offset(number(start)),
                    ..said((broker, epoch), 5, number(end))
                };
                progress.on_follower_at(said, now);
            }
            [broker, "of", broker_epoch, "at", end] => {
                let broker = BrokerId(broker.parse().expect("a broker"));
                progress.on_follower_at(
                    said((broker, epoch), number(broker_epoch), number(end)),
                    now,
                );
            }
            ["wish", seconds, ref rest @ ..] => {
                let silent = match rest {
                    ["silent", silent] => brokers(silent),
                    _ => Vec::new(),
                };
                let laggards = Laggards {
                    lag_max: Duration::from_secs(number(seconds) as u64),
                    is_silent: &|broker| silent.contains(&broker),
                };
                let wish = progress.wish_isr(now, laggards, |_, epoch| epoch < 9);
                let text = wish.as_ref().map(|wish| {
                    let ids: Vec<_> = wish.isr.iter().map(|(id, _)| id.to_string()).collect();
                    ids.join(",")
                });
                self.told
                    .push(format!("wish {}", text.as_deref().unwrap_or("none")));
                self.wish = wish.or(self.wish.take());
            }
            ["refused"] => progress.on_wish_refused(self.wish.as_ref().expect("a wish")),
            ["leader", "says", end] => progress.on_committed(Offset(number(end))),
            ["wait", wanted, until, key] => {
                let wanted = match wanted {
                    "1" => Wanted::Durable,
                    "all" => Wanted::CommittedSoon,
                    "committed" => Wanted::Committed,
                    other => panic!("{other}"),
                };
                let until = Offset(number(until));
                assert!(!progress.has_reached(until, wanted), "{event}");
                progress.wait(until, wanted, ticket(number(key) as u64));
            }
            ["pass", seconds] => self.now += number(seconds) as u64,
            ["lag", seconds] => {
                let behind = progress.on_tick(now, Duration::from_secs(number(seconds) as u64));
                let ids: Vec<_> = behind.iter().map(ToString::to_string).collect();
                self.told.push(format!("behind [{}]", ids.join(",")));
            }
            _ => panic!("{event}"),
        }
        self.progress.redeem(&mut news);
        self.told.extend(news.iter().map(|item| match item {
            News::Reached(ticket) => format!("reached {}", ticket.key),
            News::Failed(ticket) => format!("failed {}", ticket.key),
            News::NotLeader(ticket) => format!("not leader {}", ticket.key),
            News::TooFewReplicas(ticket) => format!("too few {}", ticket.key),
            News::Readable(ticket) => panic!("{ticket:?} reads"),
        }));
    }
}

/// `events => reports; committed N`
fn check(case: &str) {
    let (events, expected) = case.split_once("=>").expect("a result");
    let mut script = Script::new();
    events
        .split('|')
        .for_each(|event| script.step(event.trim()));
    let committed = script.progress.points().committed;
    script.told.push(format!("committed {committed}"));
    let expected: Vec<&str> = expected.split(';').map(str::trim).collect();
    assert_eq!(script.told, expected, "{case}");
}

#[test]
fn alone_what_is_durable_is_committed() {
    for case in [
        "append 3 | durable 3 => committed 0",
        "append 3 | durable 3 | leads 0 of 1 isr 1 => committed 3",
        "leads 0 of 1 isr 1 | append 3 | wait 1 3 7 | wait all 3 8 | durable 2 => committed 2",
        "leads 0 of 1 isr 1 | append 3 | wait 1 3 7 | wait all 3 8 | durable 3 => reached 7; reached 8; committed 3",
        "leads 0 of 1 isr 1 | append 3 | durable 3 | append 5 | wait all 5 1 | wait all 4 2 | durable 5 => reached 2; reached 1; committed 5",
    ] {
        check(case);
    }
}

#[test]
fn the_slowest_replica_in_sync_decides_what_is_committed() {
    for case in [
        "leads 0 of 1,2,3 isr 1,2,3 | append 9 | durable 9 => committed 0",
        "leads 0 of 1,2,3 isr 1,2,3 | append 9 | durable 9 | 2 at 9 => committed 0",
        "leads 0 of 1,2,3 isr 1,2,3 | append 9 | durable 9 | 2 at 9 | 3 at 4 => committed 4",
        "leads 0 of 1,2,3 isr 1,2,3 | append 9 | 2 at 9 | 3 at 9 | durable 5 => committed 5",
        "leads 0 of 1,2,3 isr 1,2 | append 9 | durable 9 | 2 at 9 | 3 at 4 => committed 9",
        // A smaller ISR lets the commit go on, a larger one does not take it back.
        "leads 0 of 1,2 isr 1,2 | append 9 | durable 9 | wait all 9 5 | leads 0 of 1,2 isr 1 => reached 5; committed 9",
        "leads 0 of 1,2 isr 1 | append 9 | durable 9 | leads 0 of 1,2 isr 1,2 | append 12 | durable 12 => committed 9",
        // A follower that reports less than before takes nothing back either, and a broker without a replica has no say.
        "leads 0 of 1,2 isr 1,2 | append 9 | durable 9 | 2 at 9 | 2 at 3 => committed 9",
        "leads 0 of 1,2 isr 1,2 | append 9 | durable 9 | 4 at 9 => committed 0",
        // A follower that claims more than we have is believed no more than ourselves.
        "leads 0 of 1,2 isr 1,2 | append 9 | durable 8 | 2 at 100 => committed 8",
    ] {
        check(case);
    }
}

#[test]
fn with_one_ack_a_slow_follower_is_not_waited_for() {
    check(
        "leads 0 of 1,2 isr 1,2 | append 9 | wait 1 9 7 | wait all 9 8 | durable 9 => reached 7; committed 0",
    );
}

#[test]
fn below_the_minimum_nothing_is_committed_and_appends_are_told() {
    for case in [
        "min 2 | leads 0 of 1,2,3 isr 1 | append 9 | durable 9 => committed 0",
        "min 2 | leads 0 of 1,2,3 isr 1 | append 9 | durable 9 | min 1 => committed 9",
        "min 2 | leads 0 of 1,2,3 isr 1,2 | append 9 | wait all 9 1 | wait committed 9 2 | wait 1 9 3 | leads 0 of 1,2,3 isr 1 => too few 1; committed 0",
        "leads 0 of 1,2,3 isr 1 | append 9 | wait all 9 1 | wait committed 9 2 | min 2 | durable 9 | min 1 => too few 1; reached 2; committed 9",
    ] {
        check(case);
    }
}

/// A minimum above the number of replicas asks for all of them, as in Kafka.
#[test]
fn the_minimum_is_never_more_than_there_are_replicas() {
    check(
        "min 3 | leads 0 of 1 isr 1 | append 9 | wait all 9 1 | durable 9 => reached 1; committed 9",
    );
    check("min 3 | leads 0 of 1,2 isr 1 | append 9 | durable 9 => committed 0");
    let refusal = |all: &str, in_sync: &str, min: usize| {
        let mut script = Script::new();
        script.step(&format!("min {min}"));
        script.step(&format!("leads 0 of {all} isr {in_sync}"));
        script.progress.check_in_sync()
    };
    let too_few = |in_sync, needed| Err(TooFew { in_sync, needed });
    for (all, in_sync, min, expected) in [
        ("1", "1", 1, Ok(())),
        ("1", "1", 2, Ok(())),
        ("1,2", "1", 1, Ok(())),
        ("1,2", "1", 2, too_few(1, 2)),
        ("1,2", "1", 3, too_few(1, 2)),
        ("1,2,3", "1,3", 2, Ok(())),
        ("1,2,3", "1,3", 3, too_few(2, 3)),
    ] {
        assert_eq!(
            refusal(all, in_sync, min),
            expected,
            "{all} {in_sync} {min}"
        );
    }
}

/// Two brokers that do not hear each other stall nobody for as long as a follower may lag.
#[test]
fn a_silent_follower_is_done_without_where_it_holds_up_others_that_are_enough() {
    let leads = "min 2 | leads 0 of 1,2,3 isr 1,2,3 | 2 at 0 | 3 at 0";
    for (then, told) in [
        (
            "append 9 | durable 9 | 2 at 9 | wish 30 silent 3",
            "wish 1,2",
        ),
        // Follower 3 has everything.
        ("wish 30 silent 3", "wish none"),
        // Nothing would be committed without them.
        ("append 9 | durable 9 | wish 30 silent 2,3", "wish none"),
        (
            "append 9 | durable 9 | pass 31 | wish 30 silent 2,3",
            "wish 1",
        ),
        // The epoch is new, and follower 3 has not been heard in it yet.
        (
            "leads 1 of 1,2,3 isr 1,2,3 | append 9 | 2 at 9 | wish 30 silent 3",
            "wish none",
        ),
    ] {
        let mut script = Script::new();
        let events = leads.split('|').chain(then.split('|'));
        events.for_each(|event| script.step(event.trim()));
        assert_eq!(script.told, [told], "{then}");
    }
}

/// A replica that was removed and added again speaks of another log, also where this leader sees both changes at once.
#[test]
fn a_replica_that_may_have_been_dropped_has_to_say_again_where_it_is() {
    let in_step = "leads 0 of 1,2,3 isr 1,2 | append 9 | durable 9 | 2 at 9 | 3 at 9";
    for (then, heard) in [
        ("leads 0 of 1,2,3 isr 1,2", [true, true]),
        (
            "leads 0 of 1,2 isr 1,2 | leads 0 of 1,2,3 isr 1,2",
            [true, false],
        ),
        ("miss 1 | leads 0 of 1,2,3 isr 1,2", [true, false]),
        ("miss 1 | leads 0 of 1,2,3 isr 1,2 | 3 at 4", [true, true]),
        ("leads 1 of 1,2,3 isr 1,2", [false, false]),
    ] {
        let mut script = Script::new();
        let events = in_step.split('|').chain(then.split('|'));
        events.for_each(|event| script.step(event.trim()));
        let has_heard = |broker| script.progress.has_heard(BrokerId(broker), 5);
        assert_eq!([2, 3].map(has_heard), heard, "{then}");
        assert!(!script.progress.has_heard(BrokerId(2), 6), "of that life");
        assert!(!script.progress.has_heard(BrokerId(4), 5), "no replica");
    }
}

#[test]
fn the_end_of_an_epoch_fails_its_tickets_first() {
    for case in [
        "leads 0 of 1 isr 1 | append 9 | wait 1 9 1 | wait all 9 2 | wait committed 9 3 | resigns 1 => not leader 1; not leader 2; not leader 3; committed 0",
        // Commits of the new role come too late for them.
        "leads 0 of 1,2 isr 1,2 | append 9 | durable 9 | wait all 9 2 | leads 1 of 1,2 isr 1 => not leader 2; committed 9",
        // The same epoch continues, and the role of an older one is late.
        "leads 3 of 1,2 isr 1,2 | append 9 | durable 9 | wait all 9 2 | leads 2 of 1,2 isr 1 | resigns 2 => committed 0",
        "leads 3 of 1 isr 1 | append 9 | wait all 9 2 | resigns 3 | durable 9 => not leader 2; committed 0",
        // Followers report again: the log that they told an earlier leader of may have been cut.
        "leads 0 of 1,2 isr 1,2 | append 9 | 2 at 9 | leads 1 of 1,2 isr 1,2 | durable 9 => committed 0",
    ] {
        check(case);
    }
}

#[test]
fn a_follower_is_behind_when_it_has_not_had_everything_for_too_long() {
    for case in [
        "leads 0 of 1,2 isr 1,2 | append 9 | pass 11 | lag 10 => behind [2]; committed 0",
        "leads 0 of 1,2 isr 1,2 | append 9 | pass 10 | lag 10 => behind []; committed 0",
        "leads 0 of 1,2 isr 1,2 | append 9 | pass 9 | 2 at 9 | pass 10 | lag 10 => behind []; committed 0",
        // A busy follower never has everything, but always what there was at its last report.
        "leads 0 of 1,2 isr 1,2 | append 9 | pass 6 | 2 at 5 | append 12 | pass 6 | 2 at 9 | lag 10 => behind []; committed 0",
        "leads 0 of 1,2 isr 1,2 | append 9 | pass 6 | 2 at 5 | append 12 | pass 6 | 2 at 8 | lag 10 => behind [2]; committed 0",
        // Reports overtake syncs: each names the end of two reports ago.
        "leads 0 of 1,2 isr 1,2 | append 9 | 2 at 0 | pass 2 | append 20 | 2 at 4 | pass 2 | append 30 | 2 at 9 | pass 2 | append 40 | 2 at 20 | pass 2 | append 50 | 2 at 30 | pass 2 | append 60 | 2 at 40 | pass 2 | lag 10 => behind []; committed 0",
        // Only a leader judges followers, and only those in sync.
        "leads 0 of 1,2 isr 1 | append 9 | pass 11 | lag 10 => behind []; committed 0",
        // Nothing was appended since: a follower that is silent for that reason stays.
        "leads 0 of 1,2 isr 1,2 | append 9 | 2 at 9 | pass 11 | lag 10 => behind []; committed 0",
        "leads 0 of 1,2 isr 1,2 | append 9 | 2 at 9 | pass 11 | lag 10 | append 12 | pass 9 | lag 10 | pass 2 | lag 10 => behind []; behind []; behind [2]; committed 0",
        "leads 0 of 1,2 isr 1,2 | append 9 | resigns 1 | pass 11 | lag 10 => behind []; committed 0",
    ] {
        check(case);
    }
}

#[test]
fn a_leader_wishes_for_those_that_have_caught_up_and_without_those_that_have_not() {
    for case in [
        // A follower joins at what is committed and at what this leader began with.
        "append 9 | durable 9 | leads 1 of 1,2 isr 1 | 2 at 8 | wish 10 => wish none; committed 9",
        "append 9 | durable 9 | leads 1 of 1,2 isr 1 | append 11 | 2 at 9 | wish 10 => wish 1,2; committed 9",
        "append 9 | durable 9 | leads 1 of 1,2,3 isr 1,2 | pass 11 | 3 at 9 | wish 10 => wish 1,3; committed 0",
        // Below the minimum the committed offset stands still, and would be reached by a follower that lacks most.
        "min 2 | append 9 | durable 9 | leads 1 of 1,2,3 isr 1 | 2 at 8 | wish 10 => wish none; committed 0",
        "min 2 | append 9 | durable 9 | leads 1 of 1,2,3 isr 1 | 2 at 9 | wish 10 => wish 1,2; committed 0",
        // A wish is asked for once, until the metadata say what became of it or it is refused.
        "leads 1 of 1,2 isr 1 | 2 at 0 | wish 10 | wish 10 | leads 1 of 1,2 isr 1 | wish 10 => wish 1,2; wish none; wish 1,2; committed 0",
        "leads 1 of 1,2 isr 1 | 2 at 0 | wish 10 | refused | wish 10 => wish 1,2; wish 1,2; committed 0",
        // A broker that the caller does not take for eligible.
        "leads 1 of 1,2 isr 1 | 2 of 9 at 0 | wish 10 => wish none; committed 0",
    ] {
        check(case);
    }
}

/// Records that clients know to be deleted would come back with the next leader. A replica that deleted more by itself may join.
#[test]
fn a_follower_joins_when_its_log_begins_no_earlier() {
    for case in [
        "append 9 | durable 9 | leads 1 of 1,2 isr 1 | start 5 | 2 at 9 from 0 | wish 10 => wish none; committed 9",
        "append 9 | durable 9 | leads 1 of 1,2 isr 1 | start 5 | 2 at 9 from 0 | 2 at 9 from 5 | wish 10 => wish 1,2; committed 9",
        "append 9 | durable 9 | leads 1 of 1,2 isr 1 | start 5 | 2 at 9 from 8 | wish 10 => wish 1,2; committed 9",
    ] {
        check(case);
    }
}

#[test]
fn a_wish_in_doubt_counts_for_what_is_committed() {
    for case in [
        // The controller may have taken 2 in already, and elect it.
        "leads 1 of 1,2 isr 1 | 2 at 0 | wish 10 | append 9 | durable 9 => wish 1,2; committed 0",
        "leads 1 of 1,2 isr 1 | 2 at 0 | wish 10 | append 9 | durable 9 | 2 at 7 => wish 1,2; committed 7",
        "leads 1 of 1,2 isr 1 | 2 at 0 | wish 10 | append 9 | durable 9 | refused => wish 1,2; committed 9",
        // A follower that is to leave the ISR is waited for until it has left.
        "leads 1 of 1,2 isr 1,2 | append 9 | durable 9 | pass 11 | wish 10 => wish 1; committed 0",
        "leads 1 of 1,2 isr 1,2 | append 9 | durable 9 | pass 11 | wish 10 | leads 1 of 1,2 isr 1 => wish 1; committed 9",
    ] {
        check(case);
    }
}

#[test]
fn a_follower_that_was_started_anew_says_again_what_it_has() {
    for case in [
        "leads 1 of 1,2 isr 1,2 | append 9 | durable 9 | 2 of 6 at 3 | 2 of 5 at 9 => committed 3",
        "leads 1 of 1,2 isr 1,2 | append 9 | durable 9 | 2 of 5 at 3 | append 12 | durable 12 | 2 of 6 at 2 | 2 of 6 at 12 => committed 12",
    ] {
        check(case);
    }
}

#[test]
fn a_follower_shows_what_the_leader_says_once_it_is_durable_here() {
    for case in [
        "append 9 | durable 3 | leader says 7 => committed 3",
        "append 9 | durable 3 | leader says 7 | durable 9 => committed 7",
        // The next leader names the committed offset again, of the log that this replica comes to have.
        "append 9 | durable 3 | leader says 7 | resigns 5 | durable 9 => committed 3",
    ] {
        check(case);
    }
}

#[test]
#[should_panic(expected = "offsets out of order")]
fn a_log_start_above_what_is_committed_is_a_bug() {
    Script::new().step("start 1");
}

#[test]
#[should_panic(expected = "a ticket that no event redeems")]
fn a_ticket_where_nobody_leads_is_a_bug() {
    Script::new().step("wait 1 1 1");
}

/// A generator of numbers that a seed names.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Random events: each ticket gets one piece of news, in its epoch, and not before what it waits for; nothing falls.
#[test]
fn every_ticket_is_redeemed_once_and_never_early() {
    for seed in 0..300 {
        let mut chance = Chance(seed);
        let mut progress = of_an_empty_log();
        // Ends that each replica has reported in this epoch; ours is what is durable.
        let mut synced: BTreeMap<i32, i64> = BTreeMap::new();
        let (mut in_sync, mut min, mut epoch) = (vec![ME], 1, 0);
        let mut open: BTreeMap<u64, (Offset, Wanted)> = BTreeMap::new();
        let (mut keys, mut committed) = (0, Offset::ZERO);
        for _ in 0..200 {
            let mut news = Vec::new();
            let points = progress.points();
            let mut is_new_epoch = false;
            match chance.below(8) {
                0 | 1 => {
                    let end = points.end.advance(1 + chance.below(3) as i64);
                    progress.on_appended(end);
                    let wanted = [Wanted::Durable, Wanted::Committed, Wanted::CommittedSoon]
                        [chance.below(3) as usize];
                    if progress.is_leading() && progress.check_in_sync().is_ok() {
                        keys += 1;
                        progress.wait(end, wanted, ticket(keys));
                        open.insert(keys, (end, wanted));
                    }
                }
                2 | 3 => {
                    let more = chance.below((points.end.0 - points.durable.0) as u64 + 1);
                    progress.on_durable(points.durable.advance(more as i64), Life::default());
                }
                4 | 5 => {
                    let broker = 2 + chance.below(3) as i32;
                    let end = chance.below(points.end.0 as u64 + 1) as i64;
                    progress.on_follower_at(
                        said((BrokerId(broker), LeaderEpoch(epoch)), 5, end),
                        at(0),
                    );
                    if progress.is_leading() {
                        let known = synced.entry(broker).or_insert(end);
                        *known = end.max(*known);
                    }
                }
                6 => {
                    min = 1 + chance.below(3) as usize;
                    progress.on_in_sync_min(min, &mut news);
                }
                _ => {
                    let is_next = chance.below(3) == 0;
                    epoch += i32::from(is_next);
                    let leads = chance.below(4) > 0 || (!is_next && progress.is_leading());
                    is_new_epoch = is_next || leads != progress.is_leading();
                    if is_new_epoch {
                        synced.clear();
                    }
                    in_sync = vec![ME];
                    in_sync.extend((2..4).filter(|_| chance.below(2) == 0).map(BrokerId));
                    let role = if leads {
                        Role::Leading(Replicas {
                            me: ME,
                            all: (1..4).map(BrokerId).collect(),
                            in_sync: in_sync.clone(),
                            partition_epoch: epoch,
                        })
                    } else {
                        Role::NotLeading
                    };
                    progress.on_role(LeaderEpoch(epoch), role, at(0), &mut news);
                }
            }
            progress.redeem(&mut news);
            let points = progress.points();
            assert!(committed <= points.committed, "seed {seed}");
            if committed < points.committed {
                let others = in_sync.iter().filter(|broker| **broker != ME);
                let known = others.map(|broker| synced.get(&broker.0).copied().unwrap_or(-1));
                let reached = known.fold(points.durable.0, i64::min);
                assert_eq!(points.committed.0, reached, "seed {seed}");
                assert!(progress.is_leading() && min <= in_sync.len(), "seed {seed}");
                committed = points.committed;
            }
            for item in news {
                let (ticket, is_expected): (_, fn(Points, Offset, Wanted) -> bool) = match item {
                    News::Reached(ticket) => (ticket, |points, until, wanted| match wanted {
                        Wanted::Durable => until <= points.durable,
                        _ => until <= points.committed,
                    }),
                    News::NotLeader(ticket) => (ticket, |_, _, _| true),
                    News::TooFewReplicas(ticket) => {
                        (ticket, |_, _, wanted| wanted == Wanted::CommittedSoon)
                    }
                    other => panic!("{other:?}"),
                };
                let (until, wanted) = open.remove(&ticket.key.0).expect("once");
                assert!(is_expected(points, until, wanted), "seed {seed}: {item:?}");
                assert_eq!(
                    matches!(item, News::NotLeader(_)),
                    is_new_epoch,
                    "seed {seed}"
                );
            }
            // No ticket waits for what is there, or under another leader.
            for (until, wanted) in open.values() {
                assert!(progress.is_leading(), "seed {seed}");
                assert!(!progress.has_reached(*until, *wanted), "seed {seed}");
            }
        }
    }
}
