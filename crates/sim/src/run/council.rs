//! I15: several clients at the same topics are told what one of them alone would be told; `checker::linear` judges it.

use super::Run;
use crate::checker::linearize;
use crate::client::council::Councillor;

impl Run {
    pub(super) fn convene(&mut self) {
        for _ in 0..self.plan.council {
            let chance = self.chance.split();
            self.council.push(Councillor::new(chance));
        }
    }

    /// Names whose histories cannot be.
    pub(super) fn judge_council(&mut self) {
        for (name, acts) in &self.notes.acts {
            if let Err(around) = linearize(acts) {
                let around: Vec<String> = around.iter().map(|act| format!("{act:?}")).collect();
                let around = around.join("; ");
                let what =
                    format!("no order of what was told of topic {name} is possible: {around}");
                self.notes.violations.push(what);
            }
        }
    }
}
