//! Login modules, as Kafka writes them and as nobody does.

use proptest::prelude::*;

use super::*;

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";

fn read(text: &str) -> Entry {
    parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// The password of a user, where the option is written so.
fn value(written: &str) -> Vec<u8> {
    let entry = read(&format!("{PLAIN} required user_a={written};"));
    entry.users["a"].expose().clone()
}

#[test]
fn the_example_of_kafka_s_documentation_is_read() {
    let entry = read(&format!(
        "{PLAIN} required\n    username=\"admin\"\n    password=\"admin-secret\"\n    user_admin=\"admin-secret\"\n    user_alice=\"alice-secret\";"
    ));
    assert_eq!(entry.module, Module::Plain);
    assert_eq!(entry.username.as_deref(), Some("admin"));
    assert!(
        entry
            .password
            .is_some_and(|password| password.is(b"admin-secret"))
    );
    assert!(!entry.is_token);
    let names: Vec<&str> = entry.users.keys().map(String::as_str).collect();
    assert_eq!(names, ["admin", "alice"]);
    assert!(entry.users["alice"].is(b"alice-secret"));
}

#[test]
fn a_token_is_one_of_scram() {
    let text = "required username='id' password=\"aG1hYw==\" tokenauth=TRUE user_x=y;";
    let scram = read(&format!("{SCRAM} {text}"));
    assert_eq!((scram.module, scram.is_token), (Module::Scram, true));
    assert!(scram.users.is_empty());
    let plain = read(&format!("{PLAIN} {text}"));
    assert!(!plain.is_token && plain.users.contains_key("x"));
    assert!(!read(&format!("{SCRAM} optional tokenauth=no;")).is_token);
}

#[test]
fn quotations_and_escapes_are_java_s() {
    for (written, meant) in [
        ("secret", "secret"),
        ("\"secret\"", "secret"),
        ("'sec\"ret'", "sec\"ret"),
        (r#""a\"b\\c\'d""#, "a\"b\\c'd"),
        (r#""\a\b\f\n\r\t\v\x""#, "\x07\x08\x0c\n\r\t\x0bx"),
        (r#""\0\7\101\1011\377\400\8""#, "\0\x07AA1ÿ\u{20}08"),
        ("\"a b;c=d//e\"", "a b;c=d//e"),
        ("\"\"", ""),
        ("pässwört", "pässwört"),
        ("\"日本\"", "日本"),
        ("日本", "日本"),
        ("a-b.c:d\\e", "a-b.c:d\\e"),
        ("/* one */ a // two", "a"),
    ] {
        assert_eq!(
            String::from_utf8_lossy(&value(&format!("{written}\n"))),
            meant,
            "{written}"
        );
    }
    let entry = read(&format!(
        "// first\n{PLAIN} REQUIRED user_a=1 user_a=2 other=3;"
    ));
    assert!(entry.users["a"].is(b"2"), "the later one counts");
}

#[test]
fn what_is_wrong_is_told_without_a_word_of_the_text() {
    let value = |number| format!("has no value for option {number}: write it as name=\"value\"");
    let quotation = "has a quotation that does not end";
    let semicolon = "does not end with a semicolon";
    let cases = [
        ("", "names no login module"),
        (" /* x */ // y", "names no login module"),
        (
            "MODULE",
            "says nothing after the login module: required is needed",
        ),
        (
            "MODULE;",
            "says nothing after the login module: required is needed",
        ),
        (
            "MODULE hidden a=b;",
            "has another word after the login module than required, requisite, sufficient or optional",
        ),
        ("MODULE required", semicolon),
        ("MODULE required a=hidden", semicolon),
        ("MODULE required a", semicolon),
        ("MODULE required a=\"hidden", quotation),
        ("MODULE required a=\"hid\nden\";", quotation),
        ("MODULE required a=\"hidden\\", quotation),
        ("MODULE required =hidden;", "has no name for option 1"),
        ("MODULE required a=b hidden;", &value(2)),
        ("MODULE required a=;", &value(1)),
        ("MODULE required a==hidden;", &value(1)),
        ("MODULE required a=", &value(1)),
        ("MODULE required a hidden=b;", &value(1)),
        (
            "=",
            "has a sign that belongs to no word: quote the value that it is in",
        ),
        (
            "MODULE required a=\u{85}hidden;",
            "has a sign that belongs to no word: quote the value that it is in",
        ),
        (
            "MODULE required a=b; MODULE required a=hidden;",
            "has more than one login module, and one is allowed",
        ),
        (
            "MODULE required a=b; hidden",
            "has more than one login module, and one is allowed",
        ),
    ];
    for (text, told) in cases {
        let why = parse(&text.replace("MODULE", PLAIN)).map(|_| ()).err();
        let why = why.map(|why| why.to_string());
        assert_eq!(why.as_deref(), Some(told), "{text}");
        assert!(!told.contains("hidden"));
    }
    let other = parse("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;");
    let told = other.map(|_| ()).err().map(|why| why.to_string());
    let words = format!(
        "names the login module com.sun.security.auth.module.Krb5LoginModule, which is not built in: {PLAIN} and {SCRAM} are"
    );
    assert_eq!(told, Some(words));
}

#[test]
fn every_beginning_of_a_text_is_refused() {
    let text = format!("{PLAIN} required username=\"a\" user_ü='\\101\\\\';");
    for (at, _) in text.char_indices() {
        assert!(parse(&text[..at]).is_err(), "{at}");
    }
    assert!(parse(&text).is_ok());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z;=\"'\\\\/*\n\u{80}-\u{a0}\u{3b1} 0-9]{0,40}") {
        let _ = parse(&format!("{PLAIN} required {text}"));
        let _ = parse(&text);
    }

    #[test]
    fn any_password_comes_back_from_its_quotation(password in "\\PC{0,20}") {
        let written = password.replace('\\', "\\\\").replace('"', "\\\"");
        prop_assert_eq!(value(&format!("\"{written}\"")), password.into_bytes());
    }
}
