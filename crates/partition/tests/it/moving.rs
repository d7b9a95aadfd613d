//! A partition moves to another log directory while it is written: cut anywhere it is in one place, with everything acknowledged.

use model::{ProducerId, Sequence};
use partition::{Move, MoveError, MoveStep, Moved, Warrant};

use super::compaction::{self, compacted};
use super::transactions::{self, records};
use super::*;

const DIRS: [&str; 2] = ["/a", "/b"];
const PLACES: &str = "/meta/places";
/// The partition that moves; 1 and 2 stay, one in each directory.
const MOVES: usize = 0;

/// Two directories, and what stands for the metadata: a file that says which of them each partition lives in.
struct House {
    /// Also keeps the partitions and tickets of both.
    first: Rig,
    second: Rig,
    moving: Option<Move>,
    moves: u8,
}

fn places(machine: &Machine) -> Vec<u8> {
    let disk = machine.env().disk;
    let read = || -> std::io::Result<Vec<u8>> {
        let file = disk.open(Path::new(PLACES), env::disk::Open::Read)?;
        let mut places = vec![0; 3];
        file.read_exact_at(&mut places, 0)?;
        Ok(places)
    };
    // There is none before the first move; a machine that is off gives nothing either.
    read().unwrap_or(vec![0, 0, 1])
}

fn store_places(machine: &Machine, places: &[u8]) -> std::io::Result<()> {
    let disk = machine.env().disk;
    let (meta, temporary) = (Path::new("/meta"), Path::new("/meta/places.tmp"));
    disk.create_dir_all(meta)?;
    disk.sync_dir(Path::new("/"))?;
    let file = disk.open(temporary, env::disk::Open::Truncate)?;
    file.write_at(&[std::io::IoSlice::new(places)], 0)?;
    file.sync_data()?;
    disk.rename(temporary, Path::new(PLACES))?;
    disk.sync_dir(meta)
}

fn configs() -> Vec<LogConfig> {
    vec![small_segments(); 3]
}

impl House {
    fn open(machine: &Machine, configs: &[LogConfig]) -> Result<House, OpenError> {
        let places = places(machine);
        let open = |dir: u8| {
            let path = Path::new(DIRS[usize::from(dir)]);
            open_where(machine, path, settings(), configs, |at| places[at] == dir)
        };
        let (mut first, second) = (open(0)?, open(1)?);
        let key = (topic(MOVES), PartitionIndex(0));
        let [first_has, second_has] = [&first, &second].map(|rig| rig.extents.get(&key).copied());
        let (named, other) = match places[MOVES] {
            0 => (first_has, second_has),
            _ => (second_has, first_has),
        };
        if let Some(other) = other.filter(|other| other.end > Offset::ZERO) {
            let named = named.expect("the place that is named has something");
            let is_copy = other.end <= named.end && named.lost_count <= other.lost_count;
            assert!(is_copy, "{named:?} where it lives, {other:?} in the other");
        }
        let all = first.partitions.iter().chain(&second.partitions);
        let mut all: Vec<_> = all.cloned().collect();
        all.sort_by_key(|partition| partition.topic_id.0);
        first.partitions = all;
        Ok(House {
            first,
            second,
            moving: None,
            moves: 0,
        })
    }

    fn rounds(&self) -> u64 {
        self.first.rounds + self.second.rounds
    }

    fn residents(&self, at: usize) -> &Arc<Residents> {
        [&self.first.residents, &self.second.residents][at]
    }

    fn dir(&self, at: usize) -> &Arc<LogDir> {
        &self.residents(at).dir
    }

    fn begin(&mut self, to: usize) {
        self.moves += 1;
        let partition = &self.first.partitions[MOVES];
        let id = Uuid([self.moves; 16]);
        let moved = Arc::new(Moved::default());
        self.moving = Some(Move::begin(partition, self.residents(to), id, moved));
    }

    fn hear(&mut self, mut news: Vec<News>, known: &mut [Known]) {
        news.append(&mut self.second.heard.0.lock());
        self.first.hear(news, known);
    }

    fn commit(&mut self, known: &mut [Known]) {
        for at in 0..2 {
            let mut news = Vec::new();
            let dir = Arc::clone(self.dir(at));
            while dir.commit(&mut news) == Commit::Done && dir.has_queued() {}
            self.hear(news, known);
        }
    }

    /// One step of the move; true when it is over.
    fn step(&mut self, machine: &Machine, known: &mut [Known]) -> bool {
        let Some(moving) = &mut self.moving else {
            return true;
        };
        let step = moving.step(machine.now(), 1 << 20);
        let mut news = Vec::new();
        match step {
            Ok(MoveStep::On { .. } | MoveStep::Wait(_)) => return false,
            Ok(MoveStep::Placed) => {
                let mut places = places(machine);
                let target = moving.target();
                places[MOVES] = u8::from(Arc::ptr_eq(target, &self.second.dir));
                let moving = self.moving.take().expect("it moves");
                match store_places(machine, &places) {
                    Ok(()) => moving.switch_over(&mut news),
                    Err(_) => moving.call_off(None, &mut news),
                }
            }
            Err(error) => {
                let moving = self.moving.take().expect("it moves");
                moving.call_off(Some(error), &mut news);
            }
        }
        self.hear(news, known);
        true
    }

    /// Lets both segment writers do what they would do within `time`.
    fn work(&mut self, machine: &Machine, time: Duration, known: &mut [Known]) {
        let end = machine.now().plus(time);
        for turns in 0.. {
            assert!(turns < 10_000, "a segment writer spins");
            self.first.make_pieces();
            self.second.make_pieces();
            let turns = [self.first.writer.turn(), self.second.writer.turn()];
            if turns.contains(&Turn::Again) {
                continue;
            }
            if machine.is_off() || machine.now() >= end {
                break;
            }
            let until = turns.iter().filter_map(|turn| match turn {
                Turn::Sleep { until } => *until,
                _ => None,
            });
            machine.step_until(until.fold(end, model::Instant::min));
        }
        self.hear(Vec::new(), known);
    }

    /// Moves to the end, with nothing else going on.
    fn finish(&mut self, machine: &Machine, known: &mut [Known]) {
        for steps in 0.. {
            assert!(steps < 10_000, "the move does not end");
            if self.step(machine, known) {
                return;
            }
            self.work(machine, Duration::from_millis(1), known);
        }
    }

    fn is_failed(&self) -> bool {
        self.first.dir.is_failed() || self.second.dir.is_failed()
    }
}

fn names(machine: &Machine, dir: &str) -> Vec<String> {
    let entries = machine.env().disk.read_dir(Path::new(dir)).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// The partition has files in one directory at most, and nothing is left of moves.
fn check_places(machine: &Machine, house: &House, context: &str) {
    let lives = usize::from(places(machine)[MOVES]);
    let partition = &house.first.partitions[MOVES];
    assert!(
        Arc::ptr_eq(&partition.dir(), house.dir(lives)),
        "{context}: lives elsewhere"
    );
    for (at, dir) in DIRS.iter().enumerate() {
        let own = |name: &&String| name.starts_with("t0-0");
        let names: Vec<_> = names(machine, dir).iter().filter(own).cloned().collect();
        let fits = names.is_empty() || at == lives && names == ["t0-0"];
        assert!(fits, "{context}: {dir} has {names:?}, lives in {lives}");
    }
}

/// Appends, commits, trims and moves to and fro; ends early when the machine is off.
fn work(
    house: &mut House,
    machine: &Machine,
    known: &mut [Known],
    mut on_commit: impl FnMut(&[Known]),
) {
    for step in 0..44 {
        for at in 0..3 {
            if (step + at) % 3 != 1 {
                let values: Vec<_> = (0..step % 3 + 1)
                    .map(|i| value("v", step * 10 + i))
                    .collect();
                let _ = house.first.append(at, &values, known);
            }
        }
        if step % 13 == 8 {
            let to = house.first.partitions[MOVES].bounds().high_watermark.0 / 3;
            let _ = house.first.trim(MOVES, to, known);
        }
        if step % 3 != 1 {
            house.commit(known);
            on_commit(known);
        }
        if step % 5 == 3 {
            house.work(machine, SECOND / 3, known);
            on_commit(known);
        }
        if step == 6 || step == 28 {
            house.begin(usize::from(step == 6));
        }
        if house.moving.is_some() {
            house.step(machine, known);
            on_commit(known);
        }
        if machine.is_off() || house.is_failed() {
            return;
        }
    }
    house.commit(known);
    house.finish(machine, known);
    house.work(machine, SECOND, known);
    on_commit(known);
}

fn recover_and_go_on(machine: &Machine, known: &mut [Known], context: &str) {
    let house =
        House::open(machine, &configs()).unwrap_or_else(|error| panic!("{context}: {error}"));
    check(&house.first, known, context);
    check_places(machine, &house, context);
    let bounds = |house: &House| -> Vec<_> {
        let partitions = house.first.partitions.iter();
        partitions.map(|partition| partition.bounds()).collect()
    };
    let before = bounds(&house);
    drop(house);
    machine.kill();
    let mut house = House::open(machine, &configs()).unwrap();
    assert_eq!(bounds(&house), before, "{context}: again");
    assert_eq!(house.rounds(), 0, "{context}: again");
    for at in 0..3 {
        house
            .first
            .append(at, &[value("later", at)], known)
            .unwrap();
    }
    house.commit(known);
    assert!(house.first.waiting.is_empty() && house.first.failed.is_empty());
    let lives = usize::from(places(machine)[MOVES]);
    house.begin(1 - lives);
    house.finish(machine, known);
    house
        .first
        .append(MOVES, &[value("there", 1)], known)
        .unwrap();
    house.commit(known);
    drop(house);
    machine.kill();
    let house = House::open(machine, &configs()).unwrap();
    check(&house.first, known, context);
    check_places(machine, &house, context);
}

#[test]
fn a_power_cut_at_any_disk_operation_leaves_the_old_place_or_the_new_one() {
    let operations = {
        let machine = machine(7);
        let mut known = vec![Known::default(); 3];
        let mut house = House::open(&machine, &configs()).unwrap();
        work(&mut house, &machine, &mut known, |_| ());
        let operations = machine.counts().disk_ops;
        assert!(house.first.waiting.is_empty(), "every ticket was redeemed");
        assert!(house.first.failed.is_empty(), "no append failed");
        assert!(known.iter().all(|known| known.acked > 20));
        assert_eq!((house.moves, places(&machine)[MOVES]), (2, 0));
        check_places(&machine, &house, "at the end");
        operations
    };
    let mut there = 0;
    for at in 1..=operations {
        let machine = machine(7);
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let mut known = vec![Known::default(); 3];
        if let Ok(mut house) = House::open(&machine, &configs()) {
            work(&mut house, &machine, &mut known, |_| ());
        }
        assert!(machine.is_off(), "operation {at} was reached");
        machine.power_cut();
        there += u64::from(places(&machine)[MOVES]);
        recover_and_go_on(&machine, &mut known, &format!("cut at operation {at}"));
    }
    assert!(0 < there && there < operations, "{there} of {operations}");
}

#[test]
fn every_state_that_a_crash_leaves_of_a_move_recovers() {
    let machine = machine(3);
    machine.record();
    let mut promised = vec![(0, vec![Known::default(); 3])];
    let mut known = vec![Known::default(); 3];
    let mut house = House::open(&machine, &configs()).unwrap();
    work(&mut house, &machine, &mut known, |known| {
        promised.push((machine.recorded(), known.to_vec()));
    });
    drop(house);
    let tape = machine.tape();
    let mut images = 0;
    for point in (0..tape.points()).step_by(3) {
        for image in tape.images(point, 3, 11) {
            let machine = Machine::on(5, Faults::default(), image.volume);
            let at = promised.partition_point(|(length, _)| *length <= point);
            let mut known: Vec<Known> = promised[at - 1].1.clone();
            let later = &promised[at.min(promised.len() - 1)].1;
            for (known, later) in known.iter_mut().zip(later) {
                known.sent.extend(later.sent.clone());
                known.start_asked = known.start_asked.max(later.start_asked);
            }
            let context = format!("point {point} image {images}");
            recover_and_go_on(&machine, &mut known, &context);
            images += 1;
        }
    }
    assert!(images > 300, "{images} images");
}

/// Brings the move to where the target has taken the files in, and nothing says yet that they hold.
fn place(house: &mut House, machine: &Machine, known: &mut [Known]) {
    for steps in 0.. {
        assert!(steps < 10_000, "the move does not come to its end");
        let moving = house.moving.as_mut().expect("it moves");
        match moving.step(machine.now(), 1 << 20).unwrap() {
            MoveStep::Placed => return,
            _ => house.work(machine, Duration::from_millis(1), known),
        }
    }
}

fn filled(machine: &Machine, known: &mut [Known]) -> House {
    let mut house = House::open(machine, &configs()).unwrap();
    for step in 0..60 {
        for at in 0..3 {
            house.first.append(at, &[value("v", step)], known).unwrap();
        }
        house.commit(known);
    }
    house.work(machine, SECOND, known);
    house
}

#[test]
fn what_is_appended_at_the_end_of_a_move_waits_and_is_committed_where_the_partition_then_lives() {
    for is_called_off in [false, true] {
        let machine = machine(1);
        let mut known = vec![Known::default(); 3];
        let mut house = filled(&machine, &mut known);
        house.begin(1);
        place(&mut house, &machine, &mut known);
        for number in 0..5 {
            house
                .first
                .append(MOVES, &[value("waits", number)], &mut known)
                .unwrap();
        }
        house.first.trim(MOVES, 20, &mut known).unwrap();
        house
            .first
            .append(1, &[value("goes on", 1)], &mut known)
            .unwrap();
        house.commit(&mut known);
        assert_eq!((known[MOVES].acked, known[1].acked), (60, 61));
        if is_called_off {
            let mut news = Vec::new();
            let moving = house.moving.take().unwrap();
            moving.call_off(None, &mut news);
            house.hear(news, &mut known);
        } else {
            assert!(house.step(&machine, &mut known));
        }
        assert_eq!((known[MOVES].acked, known[MOVES].start), (65, 20));
        assert!(house.first.waiting.is_empty() && house.first.failed.is_empty());
        house.work(&machine, SECOND, &mut known);
        check_places(&machine, &house, "at once");
        assert_eq!(places(&machine)[MOVES], u8::from(!is_called_off));
        assert!(!house.first.dir.is_overloaded() && !house.second.dir.is_overloaded());
        drop(house);
        machine.power_cut();
        let house = House::open(&machine, &configs()).unwrap();
        check(&house.first, &mut known, "after a cut");
    }
}

#[test]
fn a_trim_that_waited_for_a_move_that_is_called_off_joins_one_that_is_queued() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 3];
    let mut house = filled(&machine, &mut known);
    house.begin(1);
    house.first.trim(MOVES, 10, &mut known).unwrap();
    for _ in 0..100 {
        assert!(!house.step(&machine, &mut known));
    }
    for number in 0..3 {
        house
            .first
            .append(MOVES, &[value("waits", number)], &mut known)
            .unwrap();
        house
            .first
            .trim(MOVES, 20 + number as i64, &mut known)
            .unwrap();
    }
    let mut news = Vec::new();
    house.moving.take().unwrap().call_off(None, &mut news);
    house.hear(news, &mut known);
    house.commit(&mut known);
    assert_eq!((known[MOVES].acked, known[MOVES].start), (63, 22));
    assert!(house.first.waiting.is_empty() && house.first.failed.is_empty());
    drop(house);
    machine.power_cut();
    let house = House::open(&machine, &configs()).unwrap();
    check(&house.first, &mut known, "after a cut");
}

#[test]
fn a_topic_that_is_deleted_on_its_way_leaves_nothing_and_its_name_is_free_in_both_places() {
    for steps in 0..40 {
        let machine = machine(1);
        let mut known = vec![Known::default(); 3];
        let mut house = filled(&machine, &mut known);
        house.begin(1);
        for _ in 0..steps {
            let moving = house.moving.as_mut().expect("it moves");
            if moving.step(machine.now(), 1 << 20).unwrap() == MoveStep::Placed {
                break;
            }
            house.work(&machine, Duration::from_millis(1), &mut known);
        }
        let old = Arc::clone(&house.first.partitions[MOVES]);
        let mut news = Vec::new();
        old.delete(&mut news);
        old.discard();
        // Made again at once, and written, before anyone has looked at what is to go.
        let again = |residents: &Arc<Residents>, id: usize| {
            let start = Start::empty(LeaderEpoch(0), Arc::new(small_segments()));
            let new = residents.create(topic(id), "t0".into(), PartitionIndex(0), start);
            lead(&new, 0);
            new
        };
        let new = again(house.residents(steps % 2), 7);
        house.first.partitions[MOVES] = Arc::clone(&new);
        known[MOVES] = Known::default();
        house
            .first
            .append(MOVES, &[value("new", 1)], &mut known)
            .unwrap();
        let moving = house.moving.take().unwrap();
        moving.call_off(Some(MoveError::Deleted), &mut news);
        house.hear(news, &mut known);
        house.commit(&mut known);
        house.work(&machine, SECOND, &mut known);
        assert!(!house.is_failed(), "after {steps} steps");
        for (at, dir) in DIRS.iter().enumerate() {
            let names: Vec<_> = names(&machine, dir);
            let own: Vec<_> = names.iter().filter(|of| of.starts_with("t0")).collect();
            let wanted: &[&str] = if at == steps % 2 { &["t0-0"] } else { &[] };
            assert_eq!(own, wanted, "{dir} after {steps} steps");
        }
        assert_eq!(house.first.read(MOVES).len(), 1);
    }
}

/// The metadata log may have taken the record of a move before the one of the deletion.
#[test]
fn a_topic_that_is_deleted_between_the_commit_of_its_move_and_the_switch_is_gone() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 3];
    let mut house = filled(&machine, &mut known);
    house.begin(1);
    place(&mut house, &machine, &mut known);
    let mut news = Vec::new();
    house.first.partitions[MOVES].delete(&mut news);
    house.first.partitions[MOVES].discard();
    house.moving.take().unwrap().switch_over(&mut news);
    house.hear(news, &mut known);
    house.work(&machine, SECOND, &mut known);
    for dir in DIRS {
        let names = names(&machine, dir);
        assert!(!names.iter().any(|of| of.starts_with("t0")), "{names:?}");
    }
}

#[test]
fn a_full_target_is_waited_for_and_one_that_breaks_ends_the_move_alone() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 3];
    let mut house = filled(&machine, &mut known);
    let free = machine.env().disk.space(Path::new(DIRS[1])).unwrap();
    machine.faults(|faults| faults.disk_bytes = free.total - free.available);
    house.begin(1);
    let step = |house: &mut House| {
        house
            .moving
            .as_mut()
            .unwrap()
            .step(machine.now(), 1 << 20)
            .unwrap()
    };
    assert!(matches!(step(&mut house), MoveStep::Wait(_)));
    machine.faults(|faults| faults.disk_bytes = 1 << 40);
    assert!(matches!(step(&mut house), MoveStep::On { .. }));
    machine.faults(|faults| faults.write_fails_at = Some(1 + machine.counts().writes));
    house.finish(&machine, &mut known);
    assert!(house.second.dir.is_failed() && !house.first.dir.is_failed());
    house
        .first
        .append(MOVES, &[value("goes on", 1)], &mut known)
        .unwrap();
    house.commit(&mut known);
    assert_eq!(known[MOVES].acked, 61);
    assert_eq!(house.first.read(MOVES).len(), 61);
}

#[test]
fn producers_and_transactions_move_along() {
    for is_cut in [false, true] {
        let machine = machine(1);
        let mut known = vec![Known::default(); 3];
        let mut house = House::open(&machine, &configs()).unwrap();
        let append = |house: &mut House, batch: Batch| {
            let appended = transactions::append(&mut house.first, batch, Warrant::Waived);
            appended.unwrap().base_offset
        };
        append(&mut house, records(1, 0, 3, false));
        append(&mut house, records(2, 0, 2, true));
        transactions::end(&mut house.first, 2, false).unwrap();
        for number in 0..30 {
            append(&mut house, records(1, 3 + number, 1, false));
        }
        append(&mut house, records(3, 0, 1, true));
        append(&mut house, records(2, 2, 1, true));
        house.commit(&mut known);
        house.work(&machine, SECOND, &mut known);
        house.begin(1);
        house.finish(&machine, &mut known);
        house.work(&machine, SECOND, &mut known);
        if is_cut {
            drop(house);
            machine.power_cut();
            house = House::open(&machine, &configs()).unwrap();
        }
        assert_eq!(places(&machine)[MOVES], 1);
        assert_eq!(
            house.first.partitions[MOVES].bounds().last_stable,
            Offset(36)
        );
        assert_eq!(transactions::committed(&house.first, 0).1, [(2, 3)]);
        let last = append(&mut house, records(1, 32, 1, false));
        assert_eq!(last, Offset(35), "a duplicate is known");
        let next = house.first.partitions[MOVES].producers(|all| {
            let last = all.get(ProducerId(1)).and_then(|of| of.last());
            last.map(|last| last.last_sequence)
        });
        assert_eq!(next, Some(Sequence(32)));
        transactions::end(&mut house.first, 2, false).unwrap();
        transactions::end(&mut house.first, 3, true).unwrap();
        house.commit(&mut known);
        let bounds = house.first.partitions[MOVES].bounds();
        assert_eq!(
            (bounds.last_stable, bounds.log_end),
            (Offset(40), Offset(40))
        );
        let (_, aborted) = transactions::committed(&house.first, 36);
        assert_eq!(aborted, [(2, 37)]);
    }
}

/// Files that went because a tier has them are no damage where the log comes to.
#[test]
fn a_log_whose_files_begin_later_moves_as_it_is() {
    let machine = machine(5);
    let mut known = vec![Known::default(); 3];
    let mut house = filled(&machine, &mut known);
    let partition = Arc::clone(&house.first.partitions[MOVES]);
    partition.set_restart_point(Offset(50));
    house.work(&machine, SECOND, &mut known);
    let start = partition.advance_local_start(Offset(45));
    assert_eq!(start, Offset(45));
    house.work(&machine, SECOND, &mut known);
    house.begin(1);
    house.finish(&machine, &mut known);
    house.work(&machine, SECOND, &mut known);
    for _ in 0..2 {
        assert_eq!(places(&machine)[MOVES], 1);
        let partition = &house.first.partitions[MOVES];
        let bounds = partition.bounds();
        assert_eq!(bounds.log_start, Offset(0));
        assert!(bounds.local_start <= start && Offset(0) < bounds.local_start);
        assert_eq!(bounds.restart_point, Offset(50));
        assert!(!partition.has_holes() && !partition.is_offline());
        let all = super::cuts::contents(partition);
        assert_eq!(all.len() as i64, 60 - bounds.local_start.0);
        drop(house);
        machine.kill();
        house = House::open(&machine, &configs()).unwrap();
    }
}

#[test]
fn a_compacted_log_moves_with_its_gaps_and_is_compacted_further_where_it_came_to() {
    let machine = machine(1);
    let configs = vec![compacted(); 3];
    let mut house = House::open(&machine, &configs).unwrap();
    let mut table = compaction::Table::new();
    let mut cleaner = compaction::cleaners(&house.first, &machine, f64::MAX);
    for number in 0..200 {
        compaction::put(&mut house.first, MOVES, number, &mut table);
    }
    compaction::work(&mut house.first, &mut cleaner, &machine, SECOND * 10);
    let before = compaction::fold(&house.first, MOVES);
    assert!(before.0 == table && before.1 < 300, "{}", before.1);
    let progress = |dir: &str| {
        let path = format!("{dir}/t0-0/esker.compaction");
        let file = machine
            .env()
            .disk
            .open(Path::new(&path), env::disk::Open::Read);
        let file = file.unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let passed = progress(DIRS[0]);
    house.begin(1);
    house.finish(&machine, &mut []);
    assert_eq!(progress(DIRS[1]), passed);
    assert_eq!(compaction::fold(&house.first, MOVES), before);
    house.work(&machine, SECOND, &mut []);
    drop((house, cleaner));
    machine.power_cut();
    let mut house = House::open(&machine, &configs).unwrap();
    assert_eq!(compaction::fold(&house.first, MOVES), before);
    // `put` and `work` go by the directory of the rig.
    house
        .second
        .partitions
        .insert(0, Arc::clone(&house.first.partitions[MOVES]));
    let mut cleaner = compaction::cleaners(&house.second, &machine, f64::MAX);
    for number in 200..400 {
        compaction::put(&mut house.second, 0, number, &mut table);
    }
    compaction::work(&mut house.second, &mut cleaner, &machine, SECOND * 10);
    let (seen, count) = compaction::fold(&house.second, 0);
    assert!(seen == table && count < 300, "{count}");
    assert_ne!(progress(DIRS[1]), passed);
}
