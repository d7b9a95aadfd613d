//! Chore: spent segment files are unlinked, `file.delete.delay.ms` after they left their log; at once while the volume is full.

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, FULL_RETRY, Flow, Moment};
use super::ledger::Ledger;

pub(super) struct Unlinking;

impl Chore for Unlinking {
    fn due(&self, ledger: &Ledger, _: Instant) -> Option<Instant> {
        ledger.spent.front().map(|(at, _, _)| *at)
    }

    fn runs(&self, _: &Ledger, _: Instant) -> bool {
        true
    }

    fn run(&mut self, ledger: &mut Ledger, moment: &mut Moment) -> Result<Flow, StoreError> {
        let (dir, now) = (&ledger.dir, moment.now);
        while let Some((_, home, deleted)) =
            (ledger.spent).pop_front_if(|(at, _, _)| *at <= now || dir.is_full())
        {
            // What was removed as a whole has left this list.
            let unlinked = home.store.get().map_or(Ok(()), |of| of.unlink(&deleted));
            match unlinked {
                // A removal may need room too.
                Err(error) if error.is_full() => {
                    let at = now.plus(FULL_RETRY);
                    ledger.spent.push_front((at, home, deleted));
                    dir.set_full(true, &error.to_string());
                    break;
                }
                done => done?,
            }
        }
        Ok(Flow::Continue(()))
    }
}
