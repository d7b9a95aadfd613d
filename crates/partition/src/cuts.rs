//! Cuts and restarts of one log on their way to its files.
//!
//! The log itself is cut at once: nothing at or above the cut is shown or appended to any more. The files follow when the journal has the
//! cut durably, and never before, in the segment writer's turn, so that no batch of an older life is on its way to them then. A machine
//! without IO.

use std::collections::VecDeque;

use log::producer::ProducerStates;
use model::Offset;

use crate::life::Life;

/// Offsets of a log that are not in its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) log_start: Offset,
    pub(crate) local_start: Offset,
    pub(crate) restart_point: Offset,
    pub(crate) committed: Offset,
    pub(crate) restarted_at: Offset,
}

/// A cut or a restart as the files are to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileCut {
    /// The files end here.
    To(Offset),
    /// The files end here, and a copy of what is behind stays for an operator: something in front of it is lost.
    Lost(Offset),
    /// The files restart here, empty. `carries`: behind records of the tier, whose epochs and producers the log goes on with.
    Restart { at: Offset, carries: bool },
}

impl FileCut {
    /// First offset whose bytes in the files do not count any more.
    fn keeps_below(self) -> Offset {
        match self {
            FileCut::To(to) | FileCut::Lost(to) => to,
            FileCut::Restart { .. } => Offset::ZERO,
        }
    }

    /// Both in one, where the files have seen neither.
    fn then(self, later: FileCut) -> FileCut {
        match (self, later) {
            (FileCut::To(to), FileCut::To(later)) => FileCut::To(to.min(later)),
            (FileCut::To(to), FileCut::Lost(later)) => FileCut::Lost(to.min(later)),
            // Nothing that the later cut is of has reached the files.
            (FileCut::Restart { .. }, FileCut::To(_) | FileCut::Lost(_)) => self,
            // Later cuts wait for this one, so that what is kept is what was lost.
            (FileCut::Lost(to), _) => FileCut::Lost(to),
            (_, FileCut::Restart { .. }) => later,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// Cuts that are not durable yet, with the lives that they began; oldest first.
    pending: VecDeque<(Life, FileCut)>,
    /// The durable cut that the files have not seen.
    due: Option<FileCut>,
    /// Offsets of the log that the files have, while they have not seen a restart.
    before: Option<Marks>,
    /// The last life whose beginning is durable.
    durable: Life,
    /// True while the states of producers are older than the cut, and the right ones are still to come from the files.
    awaits_producers: bool,
    /// States of producers with which the last restart goes on.
    carried: Option<Box<ProducerStates>>,
}

impl Cuts {
    pub(crate) fn push(&mut self, life: Life, cut: FileCut) {
        self.pending.push_back((life, cut));
    }

    /// A restart was pushed; `before` is the log that ended with it.
    pub(crate) fn keep(&mut self, before: Marks) {
        self.before.get_or_insert(before);
    }

    /// The states of producers that the files go on with behind the last restart.
    pub(crate) fn carry(&mut self, producers: Option<ProducerStates>) {
        self.carried = producers.map(Box::new);
    }

    pub(crate) fn carried(&self) -> Option<ProducerStates> {
        self.carried.as_deref().cloned()
    }

    /// The log that a checkpoint describes as long as its files do not know the new one.
    pub(crate) fn before(&self) -> Option<Marks> {
        self.before
    }

    pub(crate) fn await_producers(&mut self, awaits: bool) {
        self.awaits_producers = awaits;
    }

    pub(crate) fn awaits_producers(&self) -> bool {
        self.awaits_producers
    }

    /// A round of this life is durable, and so are all before it.
    pub(crate) fn on_durable(&mut self, life: Life) {
        while let Some((_, cut)) = self.pending.pop_front_if(|(begun, _)| *begun <= life) {
            self.due = Some(self.due.map_or(cut, |due| due.then(cut)));
        }
        self.durable = self.durable.max(life);
    }

    pub(crate) fn durable(&self) -> Life {
        self.durable
    }

    /// True if the files behind a loss are not copied yet: nothing is appended or cut meanwhile.
    pub(crate) fn keep_what_is_lost(&self) -> bool {
        let pending = self.pending.iter().map(|(_, cut)| cut);
        (pending.chain(&self.due)).any(|cut| matches!(cut, FileCut::Lost(_)))
    }

    /// True if some cuts are not durable yet.
    pub(crate) fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The cut that the segment writer makes before it writes anything.
    pub(crate) fn due(&self) -> Option<FileCut> {
        self.due
    }

    /// The files are cut. True if nothing is left to be cut.
    pub(crate) fn on_done(&mut self, done: FileCut) -> bool {
        if self.due == Some(done) {
            self.due = None;
        }
        let are_over = self.are_over();
        if are_over {
            self.before = None;
            self.carried = None;
        }
        are_over
    }

    /// True if the files have seen all cuts.
    pub(crate) fn are_over(&self) -> bool {
        self.due.is_none() && self.pending.is_empty()
    }

    /// Bytes of the files at and above this offset do not count; `None` if all do.
    pub(crate) fn files_end(&self) -> Option<Offset> {
        let pending = self.pending.iter().map(|(_, cut)| *cut);
        let all = pending.chain(self.due);
        all.map(FileCut::keeps_below).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cut_once_for_all_cuts_that_they_have_not_seen() {
        let mut cuts = Cuts::default();
        cuts.push(Life(1), FileCut::To(Offset(80)));
        cuts.push(Life(2), FileCut::To(Offset(60)));
        assert_eq!((cuts.due(), cuts.files_end()), (None, Some(Offset(60))));
        cuts.on_durable(Life(1));
        assert_eq!(cuts.due(), Some(FileCut::To(Offset(80))));
        cuts.on_durable(Life(2));
        assert_eq!(cuts.due(), Some(FileCut::To(Offset(60))));
        // A cut that was done meanwhile is not the one that is due.
        assert!(!cuts.on_done(FileCut::To(Offset(80))));
        assert!(cuts.on_done(FileCut::To(Offset(60))));
        assert_eq!((cuts.files_end(), cuts.durable()), (None, Life(2)));
    }

    #[test]
    fn a_loss_is_kept_before_anything_else_is_cut() {
        let mut cuts = Cuts::default();
        cuts.push(Life(1), FileCut::To(Offset(80)));
        cuts.push(Life(2), FileCut::Lost(Offset(60)));
        assert!(cuts.keep_what_is_lost());
        cuts.on_durable(Life(2));
        let lost = FileCut::Lost(Offset(60));
        assert_eq!(
            (cuts.due(), cuts.files_end()),
            (Some(lost), Some(Offset(60)))
        );
        assert!(cuts.keep_what_is_lost());
        assert!(cuts.on_done(lost));
        assert!(!cuts.keep_what_is_lost());
    }

    #[test]
    fn restart_stands_for_the_cuts_around_it() {
        let mut cuts = Cuts::default();
        cuts.push(Life(1), FileCut::To(Offset(80)));
        cuts.push(
            Life(2),
            FileCut::Restart {
                at: Offset(200),
                carries: false,
            },
        );
        cuts.push(Life(3), FileCut::To(Offset(210)));
        cuts.on_durable(Life(3));
        assert_eq!(
            cuts.due(),
            Some(FileCut::Restart {
                at: Offset(200),
                carries: false,
            })
        );
        assert_eq!(cuts.files_end(), Some(Offset::ZERO));
    }
}
