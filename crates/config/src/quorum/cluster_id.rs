//! The id that earlier versions made of the voters of a cluster: 16 bytes in 22 characters, as Kafka writes ids.
//!
//! New clusters have a random one. Must never change: by this one a directory of then is known to be of these voters. It is FNV-1a of 128 bits over the voters `id@host:port` in the
//! order of their ids, hosts in lower case, separated by commas; the first bit is 0, so that no id looks like a flag (`-...`).

use super::Voter;

const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
/// The alphabet of base64 in URLs.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(super) fn of(voters: &[Voter]) -> String {
    let mut voters: Vec<&Voter> = voters.iter().collect();
    voters.sort_by_key(|voter| voter.id);
    let voters: Vec<String> = voters
        .iter()
        .map(|voter| format!("{}@{}", voter.id, voter.address().to_ascii_lowercase()))
        .collect();
    let hash = hash(voters.join(",").as_bytes());
    base64(hash & (u128::MAX >> 1))
}

fn hash(bytes: &[u8]) -> u128 {
    let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET_BASIS, step)
}

/// 21 letters of six bits each, and one of the last two.
fn base64(bits: u128) -> String {
    let letter = |bits: u128| char::from(LETTERS[(bits & 63) as usize]);
    let whole = (0..21).map(|at| letter(bits >> (122 - 6 * at)));
    whole.chain([letter(bits << 4)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_of_128_bits() {
        assert_eq!(hash(b""), OFFSET_BASIS);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn sixteen_bytes_are_22_letters() {
        assert_eq!(base64(0), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(base64(1), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(base64(u128::MAX), "_____________________w");
    }
}
