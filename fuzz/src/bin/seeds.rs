//! Writes the golden vectors as seed inputs of the targets `frames`, `responses`, `messages` and `batch`.

use std::fs;
use std::path::Path;
use wire::{ApiKey, any};

fn main() -> std::io::Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packed = fs::read(fuzz.join("../crates/wire/tests/data/messages.zst"))?;
    let text = zstd::decode_all(&packed[..])?;
    let mut written = 0;
    for (number, line) in String::from_utf8_lossy(&text).lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [group, name, version, "random", body] = words[..] else {
            continue;
        };
        let (version, body): (i16, Vec<u8>) = (version.parse().expect("version"), hex(body));
        let index = any::ALL
            .iter()
            .position(|m| m.group == group && m.name == name)
            .expect("a known message");
        let key = |suffix| {
            ApiKey::ALL
                .into_iter()
                .find(|key| group == "messages" && name.strip_suffix(suffix) == Some(key.name()))
        };

        let mut input = (index as u16).to_be_bytes().to_vec();
        input.push(version as u8);
        save(fuzz, "messages", number, &[&input[..], &body].concat())?;
        written += 1;
        if let Some(key) = key("Request") {
            // Correlation id 0, client id "c", no tagged fields.
            let tags: &[u8] = if key.request_header_version(version) == 2 {
                &[0]
            } else {
                &[]
            };
            let header = [
                &key.key().to_be_bytes()[..],
                &version.to_be_bytes(),
                &[0, 0, 0, 0, 0, 1, b'c'],
                tags,
            ]
            .concat();
            save(fuzz, "frames", number, &[&header[..], &body].concat())?;
            written += 1;
        }
        if let Some(key) = key("Response") {
            let tags: &[u8] = if key.response_header_version(version) == 1 {
                &[0]
            } else {
                &[]
            };
            let header = [&[key.key() as u8, version as u8, 0, 0, 0, 0][..], tags].concat();
            save(fuzz, "responses", number, &[&header[..], &body].concat())?;
            written += 1;
        }
    }
    let batches = fuzz.join("../crates/wire/tests/data/records");
    for (number, entry) in fs::read_dir(batches)?.enumerate() {
        let batch = fs::read(entry?.path())?;
        // From a producer and from a log, with the checksum mended.
        for how in [2u8, 3] {
            save(
                fuzz,
                "batch",
                number * 2 + usize::from(how & 1),
                &[&[how], &batch[..]].concat(),
            )?;
            written += 1;
        }
    }
    println!("{written} seeds");
    Ok(())
}

fn save(fuzz: &Path, target: &str, number: usize, input: &[u8]) -> std::io::Result<()> {
    let dir = fuzz.join("corpus").join(target);
    fs::create_dir_all(&dir)?;
    fs::write(dir.join(format!("golden-{number}")), input)
}

fn hex(text: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    if text == "." {
        Vec::new()
    } else {
        (0..text.len()).step_by(2).map(pair).collect()
    }
}
