//! The promises of every store, of the one that the simulator has and of a directory on a simulated disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucket::Address;
use bytes::Bytes;
use env::bucket::{Bucket, Done, ETag, LISTED_MAX, Op, Outcome, Part, Tag, Trouble, When};
use env::sim::{Faults, Machine};
use tier::check::Check;

const ROOT: &str = "/archive";

fn machine(seed: u64) -> Machine {
    let machine = Machine::new(seed, Faults::default());
    let disk = machine.env().disk;
    disk.create_dir_all(Path::new(ROOT)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    machine
}

fn directory(machine: &Machine) -> Arc<dyn Bucket> {
    let address: Address = format!("file://{ROOT}").parse().unwrap();
    address.open(&machine.env())
}

fn stores(machine: &Machine) -> [(&'static str, Arc<dyn Bucket>); 2] {
    [
        ("simulated", machine.bucket()),
        ("directory", directory(machine)),
    ]
}

/// Waits for the outcome of one operation.
fn ask(machine: &Machine, bucket: &dyn Bucket, op: Op) -> Result<Outcome, Trouble> {
    bucket.start(Tag(7), op);
    let mut done: Vec<Done> = Vec::new();
    machine.run_until(Duration::from_secs(60), |_| {
        bucket.take(&mut done);
        !done.is_empty()
    });
    assert_eq!(done.len(), 1);
    let done = done.remove(0);
    assert_eq!(done.tag, Tag(7));
    done.result
}

fn put(name: &str, content: &[u8], when: When) -> Op {
    // In two pieces, as records lie in memory.
    let (one, other) = content.split_at(content.len() / 2);
    let content = [one, other].map(Bytes::copy_from_slice).to_vec();
    let name = name.to_owned();
    Op::Put {
        name,
        content,
        when,
    }
}

fn check(machine: &Machine, bucket: &dyn Bucket) -> Check {
    let mut check = Check::new("check/1".to_owned());
    while let Some(op) = check.next() {
        check.take(&ask(machine, bucket, op));
    }
    check
}

#[test]
fn both_stores_are_fit() {
    let machine = machine(1);
    for (name, bucket) in stores(&machine) {
        let check = check(&machine, &*bucket);
        assert!(check.is_fit(), "{name}: {:#?}", check.findings());
    }
}

#[test]
fn a_store_that_ignores_conditions_is_not_fit() {
    let machine = machine(1);
    machine.bucket_faults(|faults| faults.ignores_conditions = true);
    let check = check(&machine, &*machine.bucket());
    assert!(!check.is_fit());
    let wrong = check.findings().iter().filter(|it| it.problem.is_some());
    let wrong: Vec<_> = wrong.map(|finding| finding.property).collect();
    assert!(wrong.contains(&"refuses to make it twice"), "{wrong:?}");
    assert!(wrong.contains(&"refuses an etag of before"), "{wrong:?}");
}

#[test]
fn a_directory_that_is_not_there_says_what_to_do() {
    let machine = Machine::new(1, Faults::default());
    let check = check(&machine, &*directory(&machine));
    assert!(!check.is_fit());
    let problem = check.findings()[0].problem.clone().unwrap();
    assert!(problem.contains("does not exist"), "{problem}");
    assert_eq!(check.findings().len(), 1);
}

#[test]
fn listings_come_in_pieces_and_in_order() {
    let machine = machine(2);
    for (of, bucket) in stores(&machine) {
        let count = LISTED_MAX + 5;
        for number in 0..count {
            let name = format!("t/{}/{number:05}", number % 3);
            ask(&machine, &*bucket, put(&name, b"x", When::Absent)).unwrap();
        }
        ask(&machine, &*bucket, put("u/1", b"x", When::Absent)).unwrap();
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let prefix = "t/".to_owned();
            let listed = ask(&machine, &*bucket, Op::List { prefix, after }).unwrap();
            let Outcome::Listed { objects, has_more } = listed else {
                panic!("{of}: {listed:?}");
            };
            names.extend(objects.into_iter().map(|object| object.name));
            after = names.last().cloned();
            if !has_more {
                break;
            }
        }
        assert_eq!(names.len(), count, "{of}");
        assert!(names.is_sorted(), "{of}");
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let machine = machine(3);
    for (of, bucket) in stores(&machine) {
        for name in ["../a", "/etc/passwd", "a//b", ""] {
            let told = ask(&machine, &*bucket, put(name, b"x", When::Absent));
            assert!(matches!(told, Err(Trouble::Refused(_))), "{of}: {told:?}");
        }
    }
    let (prefix, after) = ("../".to_owned(), None);
    let told = ask(&machine, &*directory(&machine), Op::List { prefix, after });
    assert!(matches!(told, Err(Trouble::Refused(_))), "{told:?}");
    let of_its_own = put(".esker-lock", b"x", When::Absent);
    let told = ask(&machine, &*directory(&machine), of_its_own);
    assert!(matches!(told, Err(Trouble::Refused(_))), "{told:?}");
}

/// Writes objects one after the other until the machine is off; returns the content that each name may have.
fn work(machine: &Machine, may_be: &mut BTreeMap<String, Vec<Option<Vec<u8>>>>) {
    let bucket = directory(machine);
    let mut etags: BTreeMap<String, ETag> = BTreeMap::new();
    for step in 0..40_usize {
        let name = format!("t/{}/{}", step % 2, step % 5);
        let content = format!("content {step} {}", "x".repeat(step * 91)).into_bytes();
        let (op, becomes) = match etags.remove(&name) {
            Some(_) if step % 7 == 6 => (
                Op::Delete {
                    names: vec![name.clone()],
                },
                None,
            ),
            Some(etag) => (put(&name, &content, When::Still(etag)), Some(content)),
            None => (put(&name, &content, When::Absent), Some(content)),
        };
        may_be
            .entry(name.clone())
            .or_insert_with(|| vec![None])
            .push(becomes.clone());
        bucket.start(Tag(0), op);
        let mut done = Vec::new();
        machine.run_until(Duration::from_secs(60), |_| {
            bucket.take(&mut done);
            !done.is_empty()
        });
        match done.pop().map(|done| done.result) {
            Some(Ok(outcome)) => {
                let deletes = outcome == Outcome::Deleted;
                if let Outcome::Put { etag } = outcome {
                    etags.insert(name.clone(), etag);
                }
                // It is done and durable; a deletion may be forgotten.
                if !deletes {
                    may_be.insert(name, vec![becomes]);
                }
            }
            Some(Err(_)) | None => return,
        }
    }
}

#[test]
fn an_object_of_a_directory_is_whole_or_not_there_after_a_power_cut_anywhere() {
    let operations = {
        let machine = machine(4);
        work(&machine, &mut BTreeMap::new());
        machine.counts().disk_ops
    };
    assert!(operations > 300, "{operations}");
    for at in 5..=operations {
        let machine = machine(4);
        machine.faults(|faults| faults.crash_at_op = Some(at));
        let mut may_be = BTreeMap::new();
        work(&machine, &mut may_be);
        machine.power_cut();
        let bucket = directory(&machine);
        for (name, contents) in may_be {
            let get = Op::Get {
                name: name.clone(),
                part: Part::Whole,
            };
            let found = match ask(&machine, &*bucket, get) {
                Ok(Outcome::Got { content, .. }) => Some(content.to_vec()),
                Err(Trouble::Missing) => None,
                other => panic!("cut at {at}: {name}: {other:?}"),
            };
            assert!(contents.contains(&found), "cut at {at}: {name}: {found:?}");
        }
        // An unfinished object is in nobody's way.
        let listed = ask(
            &machine,
            &*bucket,
            Op::List {
                prefix: String::new(),
                after: None,
            },
        );
        let Ok(Outcome::Listed { objects, .. }) = listed else {
            panic!("cut at {at}: {listed:?}");
        };
        assert!(
            objects.iter().all(|object| object.name.starts_with("t/")),
            "{objects:?}"
        );
        assert!(check(&machine, &*bucket).is_fit(), "cut at {at}");
    }
}

/// Directories that a killed writer made, and did not sync, are durable with the first object in them.
#[test]
fn an_object_in_a_directory_that_a_killed_writer_made_outlives_a_power_cut() {
    for seed in 0..20 {
        let machine = machine(seed);
        let left = Path::new(ROOT).join("a/b");
        machine.env().disk.create_dir_all(&left).unwrap();
        let put = put("a/b/1", b"content", When::Absent);
        ask(&machine, &*directory(&machine), put).unwrap();
        machine.power_cut();
        let name = "a/b/1".to_owned();
        let part = Part::Whole;
        let found = ask(&machine, &*directory(&machine), Op::Get { name, part });
        assert!(
            matches!(found, Ok(Outcome::Got { .. })),
            "{seed}: {found:?}"
        );
    }
}
