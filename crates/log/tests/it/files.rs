//! Files held open: fewer than there are, and none forgotten whose bytes are not synced.

use super::*;

/// Of so many partitions, each in a directory of its own.
fn stores(place: &TestDir, pool: &Arc<FilePool>, count: usize) -> Vec<Store> {
    let create = |at| {
        let dir = place.dir.join(format!("t-{at}"));
        Store::create(pool, &dir, Arc::new(LogConfig::default()), Offset(0)).unwrap()
    };
    (0..count).map(create).collect()
}

/// A few more than the pool of 10 holds may be open at a time.
#[track_caller]
fn assert_few_are_open(pool: &FilePool) {
    let open = pool.open_count();
    assert!(open <= 12, "{open} files are open");
}

#[test]
fn more_files_than_the_pool_holds_are_opened_and_closed_in_turn() {
    let place = TestDir::real("pool");
    let pool = FilePool::new(Arc::clone(&place.env.disk), 3);
    let store = Store::create(&pool, &place.dir, Arc::new(small_segments(200)), Offset(0)).unwrap();
    append(&store, &hundred_batches());
    store.sync().unwrap();
    for _ in 0..3 {
        assert_eq!(read_all(&store, 0, 300, 1).len(), 100);
        assert!(
            pool.open_count() <= 4,
            "{} files are open",
            pool.open_count()
        );
    }
    assert!(pool.opened() > 100);
}

#[test]
fn many_partitions_with_unsynced_bytes_stay_below_the_bound_of_files() {
    let place = TestDir::simulated(3);
    let pool = FilePool::new(Arc::clone(&place.env.disk), 10);
    let stores = stores(&place, &pool, 100);
    for round in 0..3 {
        for store in &stores {
            append(store, &[batch(round, 1, 0)]);
            if round > 0 {
                assert_few_are_open(&pool);
            }
        }
    }
    for store in &stores {
        assert_eq!(read_all(store, 0, 3, 1).len(), 3);
        store.sync().unwrap();
    }
    drop(stores);
    assert_eq!(
        pool.open_count(),
        0,
        "what goes with its log is no longer counted"
    );
}

#[test]
fn files_with_unsynced_bytes_are_closed_when_the_next_sync_is_of_the_volume() {
    let place = TestDir::simulated(4);
    let syncs = || place.machine.as_ref().unwrap().counts().syncs;
    let pool = FilePool::new(Arc::clone(&place.env.disk), 10);
    pool.expect_volume_sync();
    let stores = stores(&place, &pool, 100);
    let before = syncs();
    for round in 0..3 {
        for store in &stores {
            append(store, &[batch(round, 1, 0)]);
        }
        if round > 0 {
            assert_few_are_open(&pool);
        }
    }
    assert_eq!(syncs(), before, "no file was synced by itself");
    let covered: Vec<_> = stores.iter().map(Store::before_volume_sync).collect();
    place.env.disk.sync_volume(&place.dir).unwrap();
    for (store, covered) in stores.iter().zip(&covered) {
        store.on_volume_synced(covered);
        assert!(!store.is_dirty());
        assert_eq!(read_all(store, 0, 3, 1).len(), 3);
    }
}

/// Its bytes came after the sync had begun: only another one of the volume covers them.
#[test]
fn what_is_closed_while_the_volume_is_synced_is_left_for_the_next_sync_of_it() {
    let place = TestDir::simulated(6);
    let pool = FilePool::new(Arc::clone(&place.env.disk), 10);
    pool.expect_volume_sync();
    let stores = stores(&place, &pool, 40);
    let sync = |meanwhile: &dyn Fn()| {
        let closed = pool.closed_unsynced();
        let covered: Vec<_> = stores.iter().map(Store::before_volume_sync).collect();
        place.env.disk.sync_volume(&place.dir).unwrap();
        meanwhile();
        for (store, covered) in stores.iter().zip(&covered) {
            store.on_volume_synced(covered);
        }
        pool.on_volume_synced(closed);
    };
    let append_all = |round| {
        for store in &stores {
            append(store, &[batch(round, 1, 0)]);
        }
    };
    append_all(0);
    sync(&|| append_all(1));
    assert!(pool.expects_volume_sync());
    assert!(stores.iter().all(Store::is_dirty));
    sync(&|| ());
    assert!(!pool.expects_volume_sync());
    assert!(!stores.iter().any(Store::is_dirty));
}
