//! Operations that depend on each other in a circle.
//!
//! An edge goes from the writer of a value to everyone who read it; a second search adds "ended before the other began".
//! Readers of uncommitted data take no part. Without an operation that both reads and writes, a circle can only be one reader
//! that ended before its writer began, and no graph is needed.

use super::history::{History, Isolation, Op, Outcome};
use super::order::{NONE, Orders};
use super::report::{Anomaly, Report};

/// Edges as (from, to), operations by their number in the history.
type Edges = Vec<(u32, u32)>;

pub(super) fn check(history: &History, orders: &Orders, report: &mut Report) {
    let edges = write_read(history, orders);
    for (writer, reader) in &edges {
        let (writer, reader) = (
            &history.ops[*writer as usize],
            &history.ops[*reader as usize],
        );
        if reader.returned < writer.invoked {
            report.add(Anomaly::WriteReadCycleRealtime, || {
                format!(
                    "process {} read at {} what was sent at {}",
                    reader.process, reader.returned, writer.invoked
                )
            });
        }
    }
    if !history
        .ops
        .iter()
        .any(|op| !op.sends.is_empty() && !op.polls.is_empty())
    {
        return;
    }
    let count = history.ops.len();
    for circle in circles(count, &edges) {
        report.add(Anomaly::WriteReadCycle, || describe(history, &circle));
    }
    let (nodes, timed) = with_time(history, edges);
    for mut circle in circles(nodes, &timed) {
        circle.retain(|node| (*node as usize) < count);
        report.add(Anomaly::WriteReadCycleRealtime, || {
            describe(history, &circle)
        });
    }
}

fn describe(history: &History, circle: &[u32]) -> String {
    let one = |node: &u32| {
        format!(
            "op {node} of process {}",
            history.ops[*node as usize].process
        )
    };
    circle
        .iter()
        .take(6)
        .map(one)
        .collect::<Vec<_>>()
        .join(", ")
}

fn takes_part(op: &Op) -> bool {
    op.outcome != Outcome::Fail
}

fn write_read(history: &History, orders: &Orders) -> Edges {
    let mut edges = Edges::new();
    let mut polled = orders.polled.iter();
    for (number, op) in history.ops.iter().enumerate() {
        let count = op.polls.iter().map(|polled| polled.records.len()).sum();
        let ids = polled.by_ref().take(count);
        if op.isolation == Isolation::Uncommitted || !takes_part(op) {
            ids.for_each(drop);
            continue;
        }
        for id in ids {
            let writer = orders.known[*id as usize].writer;
            let edge = (writer, number as u32);
            let is_known = edges.last() == Some(&edge);
            if writer != NONE
                && edge.0 != edge.1
                && !is_known
                && takes_part(&history.ops[writer as usize])
            {
                edges.push(edge);
            }
        }
    }
    edges
}

/// Adds one node per return, chained in time: a linear number of edges says who ended before whom began.
fn with_time(history: &History, mut edges: Edges) -> (usize, Edges) {
    let mut moments: Vec<(u64, bool, u32)> = Vec::with_capacity(history.ops.len() * 2);
    for (number, op) in history
        .ops
        .iter()
        .enumerate()
        .filter(|(_, op)| takes_part(op))
    {
        moments.push((op.invoked, false, number as u32));
        // An operation whose end nobody knows may end at any time, so it comes before nothing.
        if op.outcome == Outcome::Ok {
            moments.push((op.returned, true, number as u32));
        }
    }
    // At equal times the beginning comes first, so that no edge claims more than is known.
    moments.sort_unstable();
    let mut next = history.ops.len() as u32;
    let mut latest: Option<u32> = None;
    for (_, is_return, number) in moments {
        if is_return {
            edges.extend(latest.map(|latest| (latest, next)));
            edges.push((number, next));
            latest = Some(next);
            next += 1;
        } else {
            edges.extend(latest.map(|latest| (latest, number)));
        }
    }
    (next as usize, edges)
}

/// Strongly connected parts with more than one node (Tarjan's algorithm with its own stack).
fn circles(nodes: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut starts = vec![0_u32; nodes + 2];
    edges
        .iter()
        .for_each(|(from, _)| starts[*from as usize + 2] += 1);
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut targets = vec![0_u32; edges.len()];
    for (from, to) in edges {
        let at = &mut starts[*from as usize + 1];
        targets[*at as usize] = *to;
        *at += 1;
    }

    let mut search = Search {
        starts,
        targets,
        index: vec![NONE; nodes],
        low: vec![0; nodes],
        ..Search::default()
    };
    (0..nodes as u32).for_each(|node| search.visit(node));
    search.circles
}

#[derive(Default)]
struct Search {
    /// Targets of node `n` are `targets[starts[n]..starts[n + 1]]`.
    starts: Vec<u32>,
    targets: Vec<u32>,
    index: Vec<u32>,
    low: Vec<u32>,
    next: u32,
    /// Nodes whose part is not closed yet; a closed node has `low` of [`NONE`].
    open: Vec<u32>,
    circles: Vec<Vec<u32>>,
}

impl Search {
    fn enter(&mut self, node: u32, path: &mut Vec<(u32, u32)>) {
        (self.index[node as usize], self.low[node as usize]) = (self.next, self.next);
        self.next += 1;
        self.open.push(node);
        path.push((node, self.starts[node as usize]));
    }

    fn visit(&mut self, root: u32) {
        if self.index[root as usize] != NONE {
            return;
        }
        let mut path = Vec::new();
        self.enter(root, &mut path);
        while let Some((node, at)) = path.last_mut() {
            let node = *node;
            if *at < self.starts[node as usize + 1] {
                let target = self.targets[*at as usize];
                *at += 1;
                if self.index[target as usize] == NONE {
                    self.enter(target, &mut path);
                } else if self.low[target as usize] != NONE {
                    self.low[node as usize] =
                        self.low[node as usize].min(self.index[target as usize]);
                }
                continue;
            }
            path.pop();
            let low = self.low[node as usize];
            if let Some((parent, _)) = path.last() {
                self.low[*parent as usize] = self.low[*parent as usize].min(low);
            }
            if low == self.index[node as usize] {
                self.close(node);
            }
        }
    }

    fn close(&mut self, root: u32) {
        let at = self
            .open
            .iter()
            .rposition(|node| *node == root)
            .unwrap_or(0);
        let part = self.open.split_off(at);
        part.iter().for_each(|node| self.low[*node as usize] = NONE);
        if part.len() > 1 {
            self.circles.push(part);
        }
    }
}
