//! I15: several clients at the same topics are told what one of them alone would be told; `checker::linear` judges it.

use super::Run;
use super::plan::CONGRESS;
use crate::checker::linearize;

impl Run {
    /// Names whose histories cannot be.
    pub(super) fn judge_council(&mut self) {
        let is_united = self.plan.is_united;
        let acts = self.clients.notes.acts.iter();
        // Names that clients of other nodes change too are judged when all are there.
        for (name, acts) in acts.filter(|(name, _)| !is_united || !name.starts_with(CONGRESS)) {
            if let Err(around) = linearize(acts) {
                let around: Vec<String> = around.iter().map(|act| format!("{act:?}")).collect();
                let around = around.join("; ");
                let what =
                    format!("no order of what was told of topic {name} is possible: {around}");
                self.clients.notes.violations.push(what);
            }
        }
    }
}
