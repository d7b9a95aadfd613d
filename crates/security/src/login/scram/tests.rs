//! Both ends of SCRAM, by the vectors of RFC 5802 and RFC 7677.

use super::messages::{ClientFinal, ClientFirst};
use super::*;

const RANDOM: [u8; NONCE_RANDOM_BYTES] = *b"abcdefghijklmnopqrstuvwxyz";
const SALT: &[u8] = b"0123456789abcdefghijklmnop";

fn fakes() -> Fakes {
    Fakes::new([7; 32])
}

fn password(hash: Hash, text: &str) -> Password {
    Password::new(hash, Secret::new(text.as_bytes().to_vec()))
}

/// The verdicts of both ends.
fn login(
    hash: Hash,
    credential: Option<Credential>,
    text: &str,
) -> (Result<String, Refusal>, Option<Verifying>) {
    let (first, client) = Client::begin("alice", &RANDOM);
    let server = begin(hash, first.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(server.name(), "alice");
    let (answer, waiting) = server.answer(credential, &fakes(), &RANDOM);
    let proved = client.prove(answer.as_bytes(), &mut password(hash, text));
    let (proof, verifying) = proved.unwrap_or_else(|why| panic!("{why}"));
    (waiting.end(proof.as_bytes()), Some(verifying))
}

/// The example of RFC 7677.
#[test]
fn the_example_of_the_standard_is_spoken_by_both_ends() {
    let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    let server_first = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    let proof = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    let signature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    let first = ClientFirst::new("user", "rOprNGfwEbeRWgbNEkqO".to_owned());
    assert_eq!(first.text(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let server = begin(Hash::Sha256, first.text().as_bytes()).unwrap_or_else(|why| panic!("{why}"));
    let client = Client { first };
    let proved = client.prove(
        server_first.as_bytes(),
        &mut password(Hash::Sha256, "pencil"),
    );
    let (said, verifying) = proved.unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(said, proof);
    assert_eq!(verifying.end(signature.as_bytes()), Ok(()));

    let salt = [
        0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa,
        0x81,
    ];
    let credential = Credential::new(Hash::Sha256, b"pencil", salt.to_vec(), 4096);
    let (_, mut waiting) = server.answer(Some(credential), &fakes(), &RANDOM);
    (waiting.nonce, waiting.server_first) = (nonce.to_owned(), server_first);
    assert_eq!(waiting.end(proof.as_bytes()), Ok(signature.to_owned()));
}

#[test]
fn who_knows_the_password_is_let_in_and_nobody_else() {
    for hash in Hash::ALL {
        let credential = Credential::new(hash, b"secret", SALT.to_vec(), 4096);
        let (said, verifying) = login(hash, Some(credential.clone()), "secret");
        let said = said.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(verifying.expect("it waits").end(said.as_bytes()), Ok(()));
        assert_eq!(
            login(hash, Some(credential.clone()), "Secret").0,
            Err(Refusal::Proof)
        );
        assert_eq!(login(hash, None, "secret").0, Err(Refusal::Unknown));
        assert!(
            credential.is_of(b"secret") && !credential.is_of(b"secre") && !credential.is_of(b"")
        );
        let few = Credential::new(hash, b"secret", SALT.to_vec(), 4095);
        assert_eq!(login(hash, Some(few), "secret").0, Err(Refusal::Iterations));
    }
    let other = Credential::new(Hash::Sha512, b"secret", SALT.to_vec(), 4096);
    assert_eq!(
        login(Hash::Sha256, Some(other), "secret").0,
        Err(Refusal::Unknown)
    );
}

#[test]
fn who_does_not_exist_looks_like_who_does() {
    let answer = |hash: Hash, name: &str, credential| {
        let (first, _) = Client::begin(name, &RANDOM);
        let server = begin(hash, first.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
        server.answer(credential, &fakes(), &RANDOM).0
    };
    let first = |name: &str| answer(Hash::Sha256, name, None);
    assert_eq!(first("bob"), first("bob"));
    assert_ne!(first("bob"), first("carol"));
    // A user has a salt for each mechanism, and so has nobody.
    assert_ne!(first("bob"), answer(Hash::Sha512, "bob", None));
    // A client sees the form of the salt and the rounds beside its own nonce.
    let form = |answer: &str| {
        let (head, salt) = answer.split_once(",s=").expect("a salt");
        let (salt, rounds) = salt.split_once(",i=").expect("rounds");
        let salt = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, salt);
        let salt = salt.expect("base64");
        let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'z');
        let is_number = salt.iter().all(is_digit) && salt[0] != b'0' && salt.len() <= 26;
        assert!(is_number, "{salt:?}");
        (head.to_owned(), rounds.to_owned())
    };
    let credential = Credential::new(Hash::Sha256, b"x", salt(&RANDOM), 4096);
    for number in 0..100 {
        let name = format!("user-{number}");
        let real = answer(Hash::Sha256, &name, Some(credential.clone()));
        assert_eq!(form(&real), form(&first(&name)));
    }
}

/// As `new BigInteger(bits).toString(36)` has them.
#[test]
fn a_salt_is_a_number_to_base_36() {
    let of = |digits: &[u8]| {
        let mut random = [0; NONCE_RANDOM_BYTES];
        random[NONCE_RANDOM_BYTES - digits.len()..].copy_from_slice(digits);
        String::from_utf8(salt(&random)).expect("letters")
    };
    for (digits, expected) in [
        (&[][..], "0"),
        (&[7], "7"),
        (&[1, 3], "z"),
        (&[1, 4], "10"),
        (&[1 | 0xe0, 4], "10"),
        (&[31, 31, 31, 31], "mh33"),
        (&[31; 26], "1omfro7zwmumr3umxudzyj6scf"),
    ] {
        assert_eq!(of(digits), expected, "{digits:?}");
    }
}

#[test]
fn names_with_signs_of_the_messages_travel_unhurt() {
    for name in ["a=b,c", "=2C", "ü", "=", ","] {
        let (message, _) = Client::begin(name, &RANDOM);
        let server = begin(Hash::Sha256, message.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(server.name(), name);
    }
}

#[test]
fn first_messages_that_are_none_are_refused() {
    let refusal = |message: &[u8]| begin(Hash::Sha256, message).err();
    let is_none = Some(Refusal::Malformed(Malformed::ClientFirst));
    for message in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=",
        "n,,n=a",
        "n,,n=a,r=",
        "n,,n=,r=x",
        "n,,r=x,n=a",
        "y,,n=a,r=x",
        "n,b,n=a,r=x",
        "n,a=,n=a,r=x",
        "n,,n=a=b,r=x",
        "n,,n=a=2c,r=x",
        "n,,n=a,r=x,",
        "n,,n=a,r=x,1=b",
        "n,,n=a,r=x y",
        "n,,n=a,r=ü",
        "x,,n=a,r=x",
        "n,,n=a\0,r=x",
    ] {
        assert_eq!(refusal(message.as_bytes()), is_none, "{message:?}");
    }
    assert_eq!(
        refusal(b"p=tls-unique,,n=a,r=x"),
        Some(Refusal::Malformed(Malformed::Binding))
    );
    assert_eq!(
        refusal(b"n,,m=x,n=a,r=x"),
        Some(Refusal::Malformed(Malformed::Mandatory))
    );
    assert_eq!(
        refusal(b"n,,n=\xff,r=x"),
        Some(Refusal::Malformed(Malformed::Text))
    );
    assert_eq!(refusal(b"n,a=bob,n=alice,r=x"), Some(Refusal::Another));
    assert_eq!(refusal(b"n,a=alice,n=alice,r=x"), None);
    let token =
        begin(Hash::Sha256, b"n,,n=id,r=x,tokenauth=true").unwrap_or_else(|why| panic!("{why}"));
    assert!(token.is_of_token());
}

#[test]
fn proofs_that_are_not_of_this_login_are_refused() {
    let hash = Hash::Sha256;
    let credential = Credential::new(hash, b"secret", SALT.to_vec(), 4096);
    let (first, client) = Client::begin("alice", &RANDOM);
    let server = begin(hash, first.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
    let (answer, waiting) = server.answer(Some(credential), &fakes(), &RANDOM);
    let proved = client.prove(answer.as_bytes(), &mut password(hash, "secret"));
    let (proof, _) = proved.unwrap_or_else(|why| panic!("{why}"));
    assert!(waiting.end(proof.as_bytes()).is_ok());
    let end = |message: &str| waiting.end(message.as_bytes()).err();
    let is_none = Some(Refusal::Malformed(Malformed::ClientFinal));
    for at in 0..proof.len() {
        assert!(end(&proof[..at]).is_some(), "{at}");
    }
    let (front, back) = proof.rsplit_once(",p=").expect("it has a proof");
    assert_eq!(end(front), is_none);
    assert_eq!(end(&format!("{front},p=!{back}")), is_none);
    assert_eq!(end(&format!("{front},p=")), Some(Refusal::Proof));
    assert_eq!(
        end(&format!("{front},p=AAAA")),
        Some(Refusal::Proof),
        "a short proof"
    );
    assert_eq!(
        end(&proof.replace("c=biws", "c=eSws")),
        Some(Refusal::Binding)
    );
    assert_eq!(end(&proof.replace("r=", "r=x")), Some(Refusal::Nonce));
    let own = format!("c=biws,r={},p={back}", nonce(&RANDOM));
    assert_eq!(end(&own), Some(Refusal::Nonce), "the client's half alone");
}

/// Without the comparison of nonces a client could sign what it likes, such as the nonce of a login that somebody has listened to
/// (CVE-2024-56128).
#[test]
fn a_proof_over_another_nonce_is_refused_whoever_makes_it() {
    let hash = Hash::Sha256;
    let credential = Credential::new(hash, b"secret", SALT.to_vec(), 4096);
    let first = ClientFirst::new("alice", nonce(&RANDOM));
    let server = begin(hash, first.text().as_bytes()).unwrap_or_else(|why| panic!("{why}"));
    let (answer, waiting) = server.answer(Some(credential.clone()), &fakes(), &[9; 26]);
    let end = |nonce: &str| {
        let without_proof = ClientFinal::without_proof(&first.gs2_header, nonce);
        let auth = auth_message(&first.bare, &answer, &without_proof);
        let signature = hash.hmac(credential.stored_key.expose(), auth.as_bytes());
        let salted = hash.salted(b"secret", SALT, 4096);
        let proof = xor(hash.client_key(&salted).expose(), &signature);
        let message = ClientFinal::text(&without_proof, &proof);
        waiting.end(message.as_bytes()).map(|_| ())
    };
    let whole = waiting.nonce.clone();
    assert_eq!(end(&whole), Ok(()));
    let (client, server) = whole.split_at(NONCE_RANDOM_BYTES);
    let other = format!("{client}{}", "x".repeat(server.len()));
    for nonce in [client, server, &whole[..whole.len() - 1], &other, "x"] {
        assert_eq!(end(nonce), Err(Refusal::Nonce), "{nonce}");
    }
    let longer = format!("{whole}x");
    assert_eq!(end(&longer), Err(Refusal::Nonce));
}

#[test]
fn a_client_goes_on_with_no_server_that_does_not_know_the_password() {
    let prove = |answer: &str| {
        let (_, client) = Client::begin("alice", &RANDOM);
        client
            .prove(answer.as_bytes(), &mut password(Hash::Sha512, "secret"))
            .map(|(_, verifying)| verifying)
    };
    let own = nonce(&RANDOM);
    let why = |answer: &str| prove(answer).err();
    assert_eq!(
        why(&format!("r={own},s=AAAA,i=4096")),
        Some(ClientError::Nonce),
        "nothing of the server"
    );
    assert_eq!(why("r=another,s=AAAA,i=4096"), Some(ClientError::Nonce));
    for iterations in [1, 4095, 16_385, 1_000_000_000] {
        let answer = format!("r={own}x,s=AAAA,i={iterations}");
        assert_eq!(why(&answer), Some(ClientError::Iterations(iterations)));
    }
    let is_none = Some(ClientError::Malformed(Malformed::ServerFirst));
    for answer in ["", "r=", "x", "v=AAAA"] {
        assert_eq!(why(answer), is_none, "{answer:?}");
    }
    for end in [
        "s=AAAA,i=0",
        "s=AAAA,i=-1",
        "s=AAAA,i=+4096",
        "s=AAAA",
        "s=!,i=4096",
        "i=4096,s=AAAA",
    ] {
        assert_eq!(why(&format!("r={own}x,{end}")), is_none, "{end}");
    }
    let refused = ClientError::Refused("unknown-user".to_owned());
    assert_eq!(why("e=unknown-user"), Some(refused.clone()));

    let verify = |last: &str| {
        let verifying =
            prove(&format!("r={own}x,s=AAAA,i=4096")).unwrap_or_else(|why| panic!("{why}"));
        verifying.end(last.as_bytes())
    };
    assert_eq!(verify("v=AAAA"), Err(ClientError::Signature));
    assert_eq!(verify("v="), Err(ClientError::Signature));
    assert_eq!(verify("e=unknown-user"), Err(refused));
    assert_eq!(
        verify("x"),
        Err(ClientError::Malformed(Malformed::ServerFinal))
    );
    assert_eq!(
        verify("v=!"),
        Err(ClientError::Malformed(Malformed::ServerFinal))
    );
}
