//! Where nodes show a secret: in the lines they wrote, in the metadata log and its snapshots, and beside these in the data directory.
//!
//! Records of clients are not looked at: what users write there is their own business.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

const METADATA: &str = "__cluster_metadata-0";
/// Files that hold a secret because somebody put it there.
const KEPT: [&str; 2] = ["cluster.secret", "password"];

/// The places below `root`, and among the command lines of all processes, that show one of the secrets.
#[must_use]
pub fn leaks(root: &Path, secrets: &[&str]) -> Vec<String> {
    let forms: Vec<Vec<u8>> = secrets.iter().flat_map(|secret| forms(secret)).collect();
    let shows = |content: &[u8]| forms.iter().any(|form| contains(content, form));
    let files = files(root).into_iter().chain(command_lines());
    files
        .filter(|path| fs::read(path).is_ok_and(|content| shows(&content)))
        .map(|path| format!("a secret is in {}", path.display()))
        .collect()
}

/// A secret as it is, and as a dump or a header would have it.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let raw = secret.as_bytes();
    let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![raw.to_vec(), hex.into_bytes()];
    // Base64 has three looks, by the place where the text begins. Its ends depend on what stands beside.
    for skipped in 0..3 {
        let padded: Vec<u8> = std::iter::repeat_n(0, skipped)
            .chain(raw.iter().copied())
            .collect();
        let look = BASE64.encode(padded).into_bytes();
        let begin = if skipped == 0 { 0 } else { 4 };
        all.push(look[begin..look.len() - 4].to_vec());
    }
    all
}

fn contains(content: &[u8], form: &[u8]) -> bool {
    content.windows(form.len()).any(|window| window == form)
}

/// Lines, settings and metadata; no partition of clients.
fn files(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && (name == METADATA || !is_partition(&name)) => {
                directories.push(entry.path());
            }
            Ok(kind) if kind.is_file() && !KEPT.contains(&&*name) => files.push(entry.path()),
            _ => {}
        }
    }
    files.extend(
        directories
            .iter()
            .flat_map(|directory| self::files(directory)),
    );
    files
}

/// `topic-7` is one, and so is a directory of a test's node, unless it holds no log of its own.
fn is_partition(name: &str) -> bool {
    let number = name.rsplit_once('-').map(|(_, number)| number);
    !name.starts_with("node-")
        && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn command_lines() -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = std::process::id().to_string();
    processes
        .filter(|process| {
            let name = process.file_name();
            let name = name.to_string_lossy();
            name.bytes().all(|byte| byte.is_ascii_digit()) && *name != *own
        })
        .map(|process| process.path().join("cmdline"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "open-sesame-7";

    #[test]
    fn a_secret_is_found_in_each_form_and_place_but_where_it_belongs() {
        let root = std::env::temp_dir().join(format!("esker-leaks-{}", std::process::id()));
        let inside = root.join("node-1").join(METADATA);
        let records = root.join("node-1").join("orders-0");
        fs::create_dir_all(&inside).expect("a directory");
        fs::create_dir_all(&records).expect("a directory");
        let put = |path: PathBuf, content: &[u8]| fs::write(path, content).expect("a file");
        put(root.join("cluster.secret"), SECRET.as_bytes());
        put(records.join("0.log"), SECRET.as_bytes());
        put(root.join("node-1.log"), b"INFO nothing to see");
        assert_eq!(leaks(&root, &[SECRET]), Vec::<String>::new());
        let encoded = |text: &str| BASE64.encode(text).into_bytes();
        for content in [
            format!("password={SECRET}").into_bytes(),
            encoded(&format!("{SECRET}, and so on")),
            encoded(&format!("n{SECRET}, and so on")),
            encoded(&format!("n={SECRET}, and so on")),
            b"6f70656e2d736573616d652d37".to_vec(),
        ] {
            put(inside.join("0.log"), &content);
            assert_eq!(leaks(&root, &[SECRET]).len(), 1, "{content:?}");
        }
        fs::remove_dir_all(&root).expect("it is ours");
    }
}
