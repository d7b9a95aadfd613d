//! The files of a crate as modules, and which file each path in them leads to.
//!
//! Re-exports are looked through: a path ends in the file that has the item. So a `mod.rs` that declares and re-exports its
//! children has no arrow to them. Methods and macros are not followed.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{Token, split_tests, tokens};

/// Names of modules from the crate's root.
type Path = Vec<String>;

/// A re-export of a re-export of ...: longer chains are circles.
const REEXPORTS_MAX: u32 = 8;

#[derive(Default)]
struct Module {
    /// Where it lies, from `src` on.
    file: String,
    tokens: Vec<Token>,
    /// Names that its `use` declarations bring, with the paths they stand for.
    imports: BTreeMap<String, Path>,
    /// Those that others see too.
    reexports: BTreeMap<String, Path>,
}

/// A crate, read.
pub(super) struct Modules(BTreeMap<Path, Module>);

/// One `use` declaration, spread out.
struct Import {
    name: String,
    path: Path,
}

impl Modules {
    /// `files` are names below `src` with their texts.
    pub(super) fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Modules {
        let mut read = Vec::new();
        let mut folders = BTreeMap::new();
        let mut of_tests = BTreeSet::new();
        for (file, text) in files {
            let all = tokens(text);
            let (kept, test_modules) = split_tests(&all);
            let path = path_of(file);
            for module in test_modules {
                of_tests.insert([path.clone(), vec![module]].concat());
            }
            for (folder, name) in renamed(&kept) {
                let plain = [path.clone(), vec![folder]].concat();
                folders.insert(plain, [path.clone(), vec![name]].concat());
            }
            read.push((file, path, kept));
        }
        let is_of_tests = |path: &Path| of_tests.iter().any(|test| path.starts_with(test));
        let mut modules = BTreeMap::new();
        for (file, mut path, tokens) in read {
            if is_of_tests(&path) {
                continue;
            }
            for (folder, name) in &folders {
                if path.starts_with(folder) {
                    path.splice(..folder.len(), name.iter().cloned());
                }
            }
            let module = Module {
                file: file.to_owned(),
                tokens,
                ..Module::default()
            };
            modules.insert(path, module);
        }
        let mut modules = Modules(modules);
        modules.read_imports();
        modules
    }

    fn read_imports(&mut self) {
        let paths: Vec<Path> = self.0.keys().cloned().collect();
        for path in paths {
            let (mut imports, mut reexports) = (BTreeMap::new(), BTreeMap::new());
            for (tree, is_seen) in uses(&self.0[&path].tokens) {
                for Import { name, path: target } in spread(tree, &[]) {
                    let Some(target) = self.absolute(&path, &target, &BTreeMap::new()) else {
                        continue;
                    };
                    if is_seen {
                        reexports.insert(name.clone(), target.clone());
                    }
                    imports.insert(name, target);
                }
            }
            let module = self.0.get_mut(&path).expect("one of these");
            (module.imports, module.reexports) = (imports, reexports);
        }
    }

    /// From each file to the files it names.
    pub(super) fn arrows(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let arrows = self.0.iter().map(|(path, module)| {
            let mut targets = BTreeSet::new();
            let own = module.imports.iter();
            let own = own.filter(|(name, _)| !module.reexports.contains_key(*name));
            // A module that is imported is no arrow: the paths that begin with it are.
            let items = own
                .map(|(_, target)| target)
                .filter(|target| !self.is_module(target));
            targets.extend(items.map(|target| self.file_of(target, 0)));
            for named in paths(&module.tokens) {
                if let Some(target) = self.absolute(path, &named, &module.imports) {
                    targets.insert(self.file_of(&target, 0));
                }
            }
            targets.remove(module.file.as_str());
            (module.file.as_str(), targets)
        });
        arrows.collect()
    }

    /// The module at the top of the crate that a file belongs to.
    pub(super) fn rooms(&self) -> BTreeMap<&str, &str> {
        let rooms = self.0.iter().map(|(path, module)| {
            let file = module.file.as_str();
            let root = file.strip_suffix(".rs").unwrap_or(file);
            (file, path.first().map_or(root, String::as_str))
        });
        rooms.collect()
    }

    fn is_module(&self, path: &[String]) -> bool {
        self.0.contains_key(path)
    }

    /// The path from the root that `named` stands for inside `module`; nothing for a path into another crate.
    fn absolute(
        &self,
        module: &[String],
        named: &[String],
        imports: &BTreeMap<String, Path>,
    ) -> Option<Path> {
        let (first, rest) = named.split_first()?;
        let base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module.split_last()?.1.to_vec(),
            name => {
                let child = [module, &[name.to_owned()]].concat();
                match imports.get(name) {
                    _ if self.is_module(&child) => child,
                    Some(target) => target.clone(),
                    None => return None,
                }
            }
        };
        let mut path = base;
        for name in rest {
            match name.as_str() {
                "super" => drop(path.pop()),
                "self" => {}
                _ => path.push(name.clone()),
            }
        }
        Some(path)
    }

    /// The file that has the item, through re-exports.
    fn file_of(&self, path: &[String], depth: u32) -> &str {
        let known = (0..=path.len())
            .rev()
            .find(|len| self.is_module(&path[..*len]));
        let known = known.unwrap_or_default();
        let Some(module) = self.0.get(&path[..known]) else {
            return "";
        };
        let through = path.get(known).and_then(|name| module.reexports.get(name));
        match through {
            Some(target) if depth < REEXPORTS_MAX => {
                let further = [target, &path[known + 1..]].concat();
                self.file_of(&further, depth + 1)
            }
            _ => &module.file,
        }
    }
}

fn path_of(file: &str) -> Path {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" => Vec::new(),
        _ => stem.split('/').map(str::to_owned).collect(),
    }
}

/// Folders whose module has another name: `#[path = "folder/mod.rs"] mod name;`.
fn renamed(tokens: &[Token]) -> Vec<(String, String)> {
    let renamed = tokens.windows(8).filter_map(|window| match window {
        [
            Token::Sign('['),
            attribute,
            Token::Sign('='),
            Token::Text(file),
            Token::Sign(']'),
            declares,
            Token::Word(name),
            Token::Sign(';'),
        ] if attribute.is("path") && declares.is("mod") => {
            let folder = file.strip_suffix("/mod.rs").or(file.strip_suffix(".rs"))?;
            Some((folder.to_owned(), name.clone()))
        }
        _ => None,
    });
    renamed.collect()
}

/// The trees of the `use` declarations, and whether others see what they bring.
fn uses(tokens: &[Token]) -> Vec<(&[Token], bool)> {
    let starts = (0..tokens.len()).filter(|at| is_use(tokens, *at));
    let trees = starts.map(|at| {
        let tree = &tokens[at + 1..];
        let end = tree.iter().position(|token| *token == Token::Sign(';'));
        let before = &tokens[..at];
        let is_seen = match before.last() {
            Some(Token::Sign(')')) => {
                let open = before.iter().rposition(|token| *token == Token::Sign('('));
                open.is_some_and(|open| 0 < open && before[open - 1].is("pub"))
            }
            Some(token) => token.is("pub"),
            None => false,
        };
        (&tree[..end.unwrap_or(tree.len())], is_seen)
    });
    trees.collect()
}

/// `use<..>` of a type is no declaration.
fn is_use(tokens: &[Token], at: usize) -> bool {
    tokens[at].is("use") && tokens.get(at + 1) != Some(&Token::Sign('<'))
}

/// The paths of a tree with the names they are brought as. A glob brings no names.
fn spread(tree: &[Token], prefix: &[String]) -> Vec<Import> {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match &tree[at] {
            Token::Word(word) if word == "as" => {
                let name = match tree.get(at + 1) {
                    Some(Token::Word(name)) => name.clone(),
                    _ => "_".to_owned(),
                };
                return vec![Import { name, path }];
            }
            Token::Word(word) => path.push(word.clone()),
            Token::Sign('{') => {
                let inner = &tree[at + 1..tree.len() - 1];
                let branches = split_at_commas(inner).into_iter();
                return branches.flat_map(|branch| spread(branch, &path)).collect();
            }
            Token::Sign('*') => return Vec::new(),
            _ => {}
        }
        at += 1;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let name = path.last().cloned();
    name.map(|name| Import { name, path }).into_iter().collect()
}

fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0usize;
    let parts = tokens.split(|token| {
        match token {
            Token::Sign('{') => depth += 1,
            Token::Sign('}') => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == Token::Sign(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Paths of two words and more outside of `use` declarations.
fn paths(tokens: &[Token]) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_use(tokens, at) {
            let end = tokens[at..]
                .iter()
                .position(|token| *token == Token::Sign(';'));
            at += end.unwrap_or(tokens.len() - at) + 1;
            continue;
        }
        let Token::Word(first) = &tokens[at] else {
            at += 1;
            continue;
        };
        let mut path = vec![first.clone()];
        at += 1;
        while let (Some(Token::Path), Some(Token::Word(next))) =
            (tokens.get(at), tokens.get(at + 1))
        {
            path.push(next.clone());
            at += 2;
        }
        if path.len() > 1 {
            found.insert(path);
        }
    }
    found
}
