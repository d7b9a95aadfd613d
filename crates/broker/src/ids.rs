//! Ids that this broker gives: of the cluster, of its incarnations, of topics, members, moves and telemetry clients.
//!
//! Random, and none of them begins with a hyphen as text, as Kafka's do not either: a command line would take it for an option.

use env::Env;
use wire::Uuid;

pub(crate) fn random_uuid(env: &Env) -> Uuid {
    let mut bytes = [0; 16];
    env.rng.fill(&mut bytes);
    without_hyphen(Uuid(bytes))
}

fn without_hyphen(mut id: Uuid) -> Uuid {
    /// Of the 64 digits of the text, which stand for six bits each.
    const HYPHEN: u8 = 62;
    if id.0[0] >> 2 == HYPHEN {
        id.0[0] &= 0x7f;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_begins_with_a_hyphen() {
        for first in 0..=u8::MAX {
            let id = Uuid([first; 16]);
            let text = without_hyphen(id).to_string();
            assert!(!text.starts_with('-'), "{text}");
            assert_eq!(without_hyphen(id) != id, id.to_string().starts_with('-'));
        }
    }
}
