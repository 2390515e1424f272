//! Randomness: checks if bytes look random, or decode to a known format (pure).

/// Bytes of a value that are examined. The rest does not change the result, and the limit prevents hostile
/// input from being scanned repeatedly.
pub(super) const CHECKED_BYTES: usize = 128;

/// Returns true if the letters change case more often than in words.
pub(super) fn has_mixed_case(value: &[u8]) -> bool {
    transitions(value) * 5 >= value.len() * 2
}

pub(super) fn has_letter_and_digit(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_digit) && value.iter().any(u8::is_ascii_alphabetic)
}

/// Returns true if the value has few distinct characters, a long run of one, or the word `example`.
pub(super) fn is_repeated(value: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in value {
        seen[usize::from(*byte)] = true;
    }
    let distinct = seen.iter().filter(|is| **is).count();
    // A quarter of the value, because random text may also repeat a character six times.
    let longest = value
        .chunk_by(|byte, next| byte == next)
        .filter(|run| run[0] != b'A')
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0);
    let repeats = longest >= 6 && longest * 4 >= value.len();
    distinct < 5 || repeats || holds(&value.to_ascii_lowercase(), "example")
}

pub(super) fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    }
}

/// Returns the number of changes between lower case, upper case and digits in the longest part without marks.
pub(super) fn transitions(value: &[u8]) -> usize {
    let part = longest_part(value);
    part.windows(2)
        .filter(|two| class(two[0]) != class(two[1]))
        .count()
}

pub(super) fn longest_part(value: &[u8]) -> &[u8] {
    value
        .split(|b| !b.is_ascii_alphanumeric())
        .max_by_key(|part| part.len())
        .unwrap_or_default()
}

/// Returns true if the value cannot be explained by words and numbers.
pub(super) fn is_random(value: &[u8]) -> bool {
    let part = longest_part(value);
    let digits = part.iter().filter(|b| b.is_ascii_digit()).count();
    let lower = part.iter().any(u8::is_ascii_lowercase);
    let upper = part.iter().any(u8::is_ascii_uppercase);
    let changes_min = if lower && upper {
        part.len() * 2 / 5
    } else {
        part.len() / 5
    };
    part.len() >= 8
        && digits > 0
        && (lower || upper)
        && transitions(part) >= changes_min.max(3)
        && !is_repeated(part)
}

/// Returns true for letters in an order that no language has: mixed case, or too few vowels.
pub(super) fn has_unusual_letters(value: &[u8]) -> bool {
    let part = longest_part(value);
    if part.len() < 16 || !part.iter().all(u8::is_ascii_alphabetic) {
        return false;
    }
    let vowels = part.iter().filter(|b| b"aeiouyAEIOUY".contains(b)).count();
    vowels * 6 < part.len() || (transitions(part) * 5 >= part.len() * 2 && vowels * 4 < part.len())
}

/// Returns true if the text is Base64 of `user:password`.
pub(super) fn decodes_to_a_pair(value: &[u8]) -> bool {
    let (mut bits, mut count, mut colon) = (0_u32, 0, None);
    let mut length = 0;
    for byte in value.iter().take_while(|b| **b != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            let [.., decoded] = (bits >> count).to_be_bytes();
            if !(0x20..0x7f).contains(&decoded) && decoded < 0x80 {
                return false;
            }
            if decoded == b':' && colon.is_none() {
                colon = Some(length);
            }
            length += 1;
        }
    }
    colon.is_some_and(|at| length > at + 3)
}

pub(super) fn holds(text: &[u8], part: &str) -> bool {
    memchr::memmem::find(text, part.as_bytes()).is_some()
}
