//! Where the password of a user comes from: chance, a file, or the terminal, which does not show it.

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::process::Command;

use env::Env;
use security::Secret;
use security::login::scram::{NONCE_RANDOM_BYTES, nonce};

use crate::failure::Failure;

/// Longer ones are hardly passwords: some other file was named.
const BYTES_MAX: usize = 1024;

/// One of 130 bits.
pub(crate) fn made(env: &Env) -> Secret<Vec<u8>> {
    let mut random = [0; NONCE_RANDOM_BYTES];
    env.rng.fill(&mut random);
    Secret::new(nonce(&random).into_bytes())
}

/// The first line of a file.
#[allow(clippy::disallowed_methods)] // a file of the user, such as a descriptor of the shell
pub(crate) fn read(path: &Path) -> Result<Secret<Vec<u8>>, Failure> {
    let name = path.display();
    let file = std::fs::File::open(path)
        .map_err(|error| Failure::new(format!("cannot open {name}: {error}")))?;
    line(io::BufReader::new(file)).map_err(|why| Failure::new(format!("{name}: {why}")))
}

/// The same line, typed twice.
pub(crate) fn ask() -> Result<Secret<Vec<u8>>, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("--ask needs a terminal")
            .hint("read the password from a file: --password-file /dev/stdin"));
    }
    let hidden = |words: &str| {
        let _hidden = HiddenTyping::begin()
            .map_err(|error| Failure::new(format!("cannot hide what is typed: {error}")))?;
        env::tell!("{words}");
        line(io::stdin().lock()).map_err(Failure::new)
    };
    let password = hidden("password:")?;
    if !password.is(hidden("the same again:")?.expose()) {
        return Err(Failure::new("these are two passwords; nothing was changed"));
    }
    Ok(password)
}

/// While this lives, the terminal does not show what is typed, but for the end of a line.
struct HiddenTyping;

impl HiddenTyping {
    fn begin() -> io::Result<HiddenTyping> {
        stty(&["-echo", "echonl"])?;
        Ok(HiddenTyping)
    }
}

impl Drop for HiddenTyping {
    fn drop(&mut self) {
        // A terminal that has gone shows nothing.
        let _ = stty(&["echo", "-echonl"]);
    }
}

/// Changes the terminal at standard input, as a shell does.
fn stty(how: &[&str]) -> io::Result<()> {
    let status = Command::new("stty").args(how).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other("stty failed"))
    }
}

fn line(reader: impl BufRead) -> Result<Secret<Vec<u8>>, String> {
    let mut line = Vec::with_capacity(BYTES_MAX + 2);
    let limit = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX) + 2;
    let read = io::Read::take(reader, limit).read_until(b'\n', &mut line);
    let line = Secret::new(line);
    read.map_err(|error| error.to_string())?;
    match without_end(line.expose()) {
        [] => Err("the first line is empty, and no password".to_owned()),
        password if BYTES_MAX < password.len() => {
            Err(format!("the first line is longer than {BYTES_MAX} bytes"))
        }
        password => Ok(Secret::new(password.to_vec())),
    }
}

/// A line without what ends it. Blanks count: they may be part of a password.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_password_with_its_blanks() {
        for (text, password) in [
            ("secret", "secret"),
            ("secret\n", "secret"),
            ("secret\r\nmore", "secret"),
            (" se cret \n", " se cret "),
        ] {
            let read = line(text.as_bytes()).map(|read| read.expose().clone());
            assert_eq!(read, Ok(password.as_bytes().to_vec()), "{text:?}");
        }
        let longest = "x".repeat(BYTES_MAX);
        assert!(line(longest.as_bytes()).is_ok());
        for text in ["", "\n", "\r\nx", &format!("{longest}x")] {
            assert!(line(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn passwords_that_are_made_differ() {
        let env = Env::real();
        let (one, other) = (made(&env), made(&env));
        assert_eq!(one.expose().len(), NONCE_RANDOM_BYTES);
        assert!(!one.is(other.expose()));
    }
}
