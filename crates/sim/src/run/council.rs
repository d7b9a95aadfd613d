//! I15: several clients at the same topics are told what one of them alone would be told; `checker::linear` judges it.

use super::Run;
use crate::checker::linearize;

impl Run {
    /// Names whose histories cannot be.
    pub(super) fn judge_council(&mut self) {
        for (name, acts) in &self.clients.notes.acts {
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
