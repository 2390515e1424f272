//! The MD5 digest of a path, by which Kimi names the directory of its sessions (pure).

/// The amounts by which a round of 64 operations rotates; each row repeats four times.
const ROTATIONS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// Returns the digest in hexadecimal digits.
pub(super) fn md5_hex(text: &[u8]) -> String {
    let mut message = text.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((text.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut digest = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476_u32];
    for block in message.chunks_exact(64) {
        let mut words = [0_u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let [mut a, mut b, mut c, mut d] = digest;
        for at in 0..64 {
            let (mixed, word) = match at / 16 {
                0 => (b & c | !b & d, at),
                1 => (d & b | !d & c, 5 * at + 1),
                2 => (b ^ c ^ d, 3 * at + 5),
                _ => (c ^ (b | !d), 7 * at),
            };
            let sine = ((at as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a
                .wrapping_add(mixed)
                .wrapping_add(sine)
                .wrapping_add(words[word % 16]);
            let rotated = sum.rotate_left(ROTATIONS[at / 16][at % 4]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
        }
        for (part, more) in digest.iter_mut().zip([a, b, c, d]) {
            *part = part.wrapping_add(more);
        }
    }
    digest
        .iter()
        .map(|part| format!("{:08x}", part.swap_bytes()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_of_rfc_1321() {
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5_hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let digits = "1234567890".repeat(8);
        assert_eq!(
            md5_hex(digits.as_bytes()),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
        for length in [55, 56, 63, 64, 119, 120] {
            assert_eq!(md5_hex(&vec![b'a'; length]).len(), 32, "{length}");
        }
    }
}
