//! Where the password of a user comes from (chance, a file, or the terminal, which does not show it), and the file that keeps it.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use env::Env;
use security::Secret;
use security::login::scram::{NONCE_RANDOM_BYTES, nonce};
use zeroize::Zeroizing;

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

/// A file that `--command-config` and Kafka's tools log in with, beside its place until the cluster has taken the password.
pub(crate) struct Properties {
    path: PathBuf,
    written: PathBuf,
}

impl Properties {
    /// Only the user of this process may read it. Takes the place of nothing but an earlier file of the same user.
    #[allow(clippy::disallowed_methods)] // a file of the user
    pub(crate) fn write(
        path: &Path,
        user: &str,
        password: &Secret<Vec<u8>>,
    ) -> Result<Properties, Failure> {
        if !may_replace(path, user) {
            let failure = Failure::new(format!(
                "{} is there already, and is not what {user} logs in with",
                path.display()
            ));
            return Err(failure.hint("name another file, or remove this one first"));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let written = PathBuf::from(name);
        let password = str::from_utf8(password.expose())
            .map_err(|_| Failure::new("a password that is not UTF-8 fits in no properties file"))?;
        let text = Zeroizing::new(format!(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n\
             sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username={} password={};\n",
            *quoted(user),
            *quoted(password),
        ));
        let mut options = std::fs::OpenOptions::new();
        let at = written.display().to_string();
        let failed = |error| Failure::new(format!("cannot write {at}: {error}"));
        // Never a file that somebody else has there.
        let file = options.write(true).create_new(true).mode(0o600);
        let mut file = file.open(&written).map_err(failed)?;
        let properties = Properties {
            path: path.to_owned(),
            written,
        };
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(properties)
    }

    /// Puts the file in its place.
    #[allow(clippy::disallowed_methods)] // a file of the user
    pub(crate) fn keep(self) -> Result<PathBuf, Failure> {
        let moved = std::fs::rename(&self.written, &self.path);
        moved.map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", self.path.display())).hint(
                "the user has the password already: give it another one with esker user passwd",
            )
        })?;
        Ok(self.path.clone())
    }
}

impl Drop for Properties {
    #[allow(clippy::disallowed_methods)] // a file of the user
    fn drop(&mut self) {
        // It is not there any more once it is in its place.
        let _ = std::fs::remove_file(&self.written);
    }
}

/// True if nothing is there, or the file of the same user: its earlier password is of no use any more.
#[allow(clippy::disallowed_methods)] // a file of the user
fn may_replace(path: &Path, user: &str) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return true;
    };
    let is_own = |text: String| text.contains(&format!(" username={} ", *quoted(user)));
    found.is_file() && std::fs::read_to_string(path).is_ok_and(is_own)
}

/// A value as JAAS writes it, within a line of a properties file, which reads backslashes first.
fn quoted(text: &str) -> Zeroizing<String> {
    let mut quoted = Zeroizing::new(String::with_capacity(4 * text.len() + 2));
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str(r#"\\""#),
            '\\' => quoted.push_str(r"\\\\"),
            ' '..='~' => quoted.push(letter),
            // Java reads these files as Latin-1.
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    quoted.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted
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
    #[allow(clippy::disallowed_methods)] // a file of the user
    fn a_kept_password_is_read_again_as_it_was() {
        let path = std::env::temp_dir().join(format!("esker-password-{}", std::process::id()));
        let password = Secret::new(r#"a "b" \c\ é;'"#.as_bytes().to_vec());
        let kept = Properties::write(&path, r#"al"ice\"#, &password).and_then(Properties::keep);
        let kept = kept.unwrap_or_else(|why| panic!("{why}"));
        let text = std::fs::read_to_string(&kept).expect("written");
        std::fs::remove_file(&kept).expect("it is there");
        let pairs = config::properties(&text).expect("properties");
        let jaas = pairs.iter().find(|(name, _)| name == "sasl.jaas.config");
        let (_, jaas) = jaas.expect("it says who logs in");
        let entry = security::jaas::parse(jaas).expect("a login module");
        assert_eq!(entry.username.as_deref(), Some(r#"al"ice\"#));
        assert!(entry.password.expect("it has one").is(password.expose()));
        assert!(text.is_ascii());
    }

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
