//! `esker.hot.tail.bytes`: how much of what was written to segments stays in memory too.

use super::*;

const PARTITIONS: usize = 4;

/// Bytes of batches that readers get from memory. Each holds one record.
fn in_memory(rig: &Rig) -> usize {
    let mut memory = 0;
    for partition in &rig.partitions {
        for offset in 0..partition.bounds().high_watermark.0 {
            if let Plan::Memory(batches) =
                partition.plan_read(read_from(Offset(offset))).unwrap().plan
            {
                memory += batches[0].size();
            }
        }
    }
    memory
}

#[test]
fn hot_tails_of_all_partitions_together_keep_within_their_bound() {
    const STEP: usize = 1 << 10;
    for bound in [0, 2 * STEP, 16 * STEP] {
        let machine = machine(1);
        let settings = DirSettings {
            hot_tail_bytes: bound,
            ..settings()
        };
        let configs = vec![small_segments(); PARTITIONS];
        let mut rig = open_at(&machine, Path::new(DIR), settings, &configs).unwrap();
        let mut known = vec![Known::default(); PARTITIONS];
        for step in 1..=60 {
            for at in 0..PARTITIONS {
                rig.append(at, &[value("hot", step)], &mut known).unwrap();
            }
            rig.commit(&mut known);
            rig.work(&machine, SECOND, &mut known);
            // By then there is more than any of the bounds allows.
            if step % 10 == 0 && step >= 40 {
                let memory = in_memory(&rig);
                assert!(memory <= bound, "{memory} bytes, {bound} allowed");
                assert!(
                    memory + STEP >= bound,
                    "{memory} bytes of {bound}: the newest stay"
                );
            }
        }
        check(&rig, &mut known, "all of it is there");
    }
}
