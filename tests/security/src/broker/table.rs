//! The table that a command prints: what was asked, how often, what was to come and what came.

use std::collections::BTreeMap;
use std::process::ExitCode;

/// Answers that differ are listed up to here, for each row.
const SHOWN_MAX: usize = 12;

#[derive(Default)]
struct Row {
    count: usize,
    /// The answer, where it was not the one that was wanted.
    wrong: Vec<String>,
}

/// One part of a command. Checks of one name and one wish share a row.
#[derive(Default)]
pub(crate) struct Table {
    order: Vec<(String, String)>,
    rows: BTreeMap<(String, String), Row>,
}

impl Table {
    /// Counts an answer. `which` says where it came from, for the case that it is wrong.
    pub(crate) fn check(&mut self, name: &str, which: &str, wanted: &str, got: &str) {
        self.check_any(name, which, &[wanted], got);
    }

    /// The same where several answers are right.
    pub(crate) fn check_any(&mut self, name: &str, which: &str, wanted: &[&str], got: &str) {
        let key = (name.to_owned(), wanted.join(" or "));
        let row = self.rows.entry(key.clone()).or_insert_with(|| {
            self.order.push(key);
            Row::default()
        });
        row.count += 1;
        if !wanted.contains(&got) {
            row.wrong.push(format!("{which}: {got}"));
        }
    }

    /// Counts something that went well, or why it did not.
    pub(crate) fn done<T>(
        &mut self,
        name: &str,
        which: &str,
        outcome: Result<T, String>,
    ) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.check(name, which, "done", "done");
                Some(value)
            }
            Err(why) => {
                self.check(name, which, "done", &why);
                None
            }
        }
    }

    /// Prints the table; the counts are those of answers that are right, and of others.
    pub(crate) fn print(&self, title: &str) -> (usize, usize) {
        println!("\n{title}");
        let width = |names: &dyn Fn(&(String, String)) -> usize| {
            self.order.iter().map(names).max().unwrap_or(0)
        };
        let (names, wishes) = (
            width(&|(name, _)| name.chars().count()),
            width(&|(_, wish)| wish.chars().count()).min(48),
        );
        let (mut right, mut wrong) = (0, 0);
        for key in &self.order {
            let Some(row) = self.rows.get(key) else {
                continue;
            };
            let (name, wish) = key;
            right += row.count - row.wrong.len();
            wrong += row.wrong.len();
            let word = match row.wrong.len() {
                0 => "ok".to_owned(),
                count => format!("WRONG {count}"),
            };
            println!("  {name:names$}  {:>5}  {wish:wishes$}  {word}", row.count);
            for line in row.wrong.iter().take(SHOWN_MAX) {
                println!("      {line}");
            }
        }
        (right, wrong)
    }
}

/// The last line of a command, and its exit code.
pub(crate) fn close(name: &str, counts: &[(usize, usize)]) -> ExitCode {
    let right: usize = counts.iter().map(|(right, _)| right).sum();
    let wrong: usize = counts.iter().map(|(_, wrong)| wrong).sum();
    println!("\n{name}: {right} right, {wrong} wrong");
    ExitCode::from(u8::from(0 < wrong))
}
