//! Chore: spent segment files are unlinked, `file.delete.delay.ms` after they left their log; at once while the volume is full.

use std::time::Duration;

use log::store::StoreError;
use model::Instant;

use super::chore::{Chore, FULL_RETRY, Flow, Moment};
use super::ledger::{Ledger, is_passing};

/// How soon a file is tried again that cannot be removed: where open files stay, a reader has it.
const UNLINK_RETRY: Duration = Duration::from_secs(60);

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
            // Files that were removed as a whole have left this list.
            let unlinked = home.store.get().map_or(Ok(()), |of| of.unlink(&deleted));
            match unlinked {
                // A removal may need room too.
                Err(error) if error.is_full() => {
                    let at = now.plus(FULL_RETRY);
                    ledger.spent.push_front((at, home, deleted));
                    dir.set_full(true, &error.to_string());
                    break;
                }
                Err(error) if !is_passing(&error) => {
                    env::tell!("an old segment cannot be removed as yet: {error}");
                    let at = now.plus(UNLINK_RETRY);
                    ledger.spent.push_back((at, home, deleted));
                }
                done => done?,
            }
        }
        Ok(Flow::Continue(()))
    }
}
