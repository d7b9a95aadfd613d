//! Circles of files: those that lead to each other, found by Tarjan's walk.

use std::collections::{BTreeMap, BTreeSet};

type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

struct Walk<'g, 'a> {
    graph: &'g Graph<'a>,
    /// In which order files were met.
    met: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    circles: Vec<Vec<&'a str>>,
}

/// Sets of two files and more that all lead to each other, the largest first.
pub(super) fn circles<'a>(graph: &Graph<'a>) -> Vec<Vec<&'a str>> {
    let mut walk = Walk {
        graph,
        met: BTreeMap::new(),
        stack: Vec::new(),
        circles: Vec::new(),
    };
    for file in graph.keys() {
        if !walk.met.contains_key(file) {
            walk.visit(file);
        }
    }
    walk.circles
        .sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    walk.circles
}

/// The arrow within `circle` without which the largest circle is smallest, and how many files that one has.
pub(super) fn keystone<'a>(
    graph: &Graph<'a>,
    circle: &[&'a str],
) -> Option<(&'a str, &'a str, usize)> {
    let within: Graph<'a> = circle
        .iter()
        .map(|file| {
            let targets = graph[file].iter().copied();
            (*file, targets.filter(|to| circle.contains(to)).collect())
        })
        .collect();
    let arrows = within
        .iter()
        .flat_map(|(from, to)| to.iter().map(|to| (*from, *to)));
    let without = arrows.map(|(from, to)| {
        let mut rest = within.clone();
        if let Some(targets) = rest.get_mut(from) {
            targets.remove(to);
        }
        (from, to, circles(&rest).first().map_or(1, Vec::len))
    });
    without.min_by_key(|(_, _, len)| *len)
}

impl<'a> Walk<'_, 'a> {
    fn visit(&mut self, file: &'a str) -> usize {
        let number = self.met.len();
        self.met.insert(file, number);
        let depth = self.stack.len();
        self.stack.push(file);
        let mut earliest = number;
        for next in self.graph.get(file).into_iter().flatten().copied() {
            let seen = match self.met.get(next) {
                None => self.visit(next),
                Some(at) if self.stack.contains(&next) => *at,
                Some(_) => continue,
            };
            earliest = earliest.min(seen);
        }
        if earliest == number {
            let mut circle = self.stack.split_off(depth);
            if circle.len() > 1 {
                circle.sort_unstable();
                self.circles.push(circle);
            }
            return usize::MAX;
        }
        earliest
    }
}
