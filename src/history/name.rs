//! An execution's id as the name of its directory: one safe path component, one id a name (pure).

use std::fmt::Write;

/// What Linux file systems take as one name.
const NAME_BYTES_MAX: usize = 255;
/// Stands before the hash of a name that was cut; no escape looks like it, so that a cut name is
/// never the name of another id.
const HASH_MARK: &str = "%~";
/// The mark and 64 bits in hexadecimal.
const HASH_BYTES: usize = HASH_MARK.len() + 16;
/// The name of the empty id; no escape is a `%` alone.
const EMPTY: &str = "%";

/// The directory name of an execution.
///
/// What is unsafe or unreadable in a name (`/`, `%`, control and invisible characters, a leading
/// dot) is written as percent escapes; a name that is too long is cut and ends with a hash.
///
/// ```
/// use td_observe::history::encode_name;
/// assert_eq!(encode_name("build@1768989600"), "build@1768989600");
/// assert_eq!(encode_name("../etc"), "%2E.%2Fetc");
/// ```
pub fn encode_name(id: &str) -> String {
    if id.is_empty() {
        return EMPTY.to_owned();
    }
    let mut name = String::with_capacity(id.len().min(NAME_BYTES_MAX));
    let mut cut = 0;
    for (at, c) in id.char_indices() {
        if is_plain(c) && !(at == 0 && c == '.') {
            name.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(name, "%{byte:02X}");
            }
        }
        if name.len() <= NAME_BYTES_MAX - HASH_BYTES {
            cut = name.len();
        }
        if name.len() > NAME_BYTES_MAX {
            name.truncate(cut);
            let _ = write!(name, "{HASH_MARK}{:016x}", fnv1a(id.as_bytes()));
            break;
        }
    }
    name
}

/// The id that a directory is named after; `None` for a name that was cut, or is none of ours.
///
/// ```
/// use td_observe::history::decode_name;
/// assert_eq!(decode_name("%2E.%2Fetc").as_deref(), Some("../etc"));
/// ```
pub fn decode_name(name: &str) -> Option<String> {
    if name == EMPTY {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = tail;
    }
    let id = String::from_utf8(bytes).ok()?;
    // Other spellings of an id are none of ours.
    (encode_name(&id) == name).then_some(id)
}

/// Whether a character stands for itself: it is no separator, and a terminal shows it as it is.
fn is_plain(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    !(c.is_control() || invisible || matches!(c, '/' | '\\' | '%'))
}

/// FNV-1a: written by hand because the standard library's hash may differ between versions, and
/// names on disk must not.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cases() {
        for (id, name) in [
            ("", "%"),
            (".", "%2E"),
            ("..", "%2E."),
            ("...", "%2E.."),
            ("a.b", "a.b"),
            ("/", "%2F"),
            ("a/../b", "a%2F..%2Fb"),
            ("a\0b\nc\x1b", "a%00b%0Ac%1B"),
            ("100%", "100%25"),
            ("%2F", "%252F"),
            ("back\\slash", "back%5Cslash"),
            ("建置 job@17:30", "建置 job@17:30"),
            ("\u{202e}txt", "%E2%80%AEtxt"),
        ] {
            assert_eq!(encode_name(id), name);
            assert_eq!(decode_name(name).as_deref(), Some(id));
        }
    }

    #[test]
    fn long_ids_are_cut_and_told_apart() {
        let one = encode_name(&"界".repeat(200));
        let other = encode_name(&format!("{}!", "界".repeat(200)));
        assert!(one.len() <= NAME_BYTES_MAX && other.len() <= NAME_BYTES_MAX);
        assert_ne!(one, other);
        assert_eq!(decode_name(&one), None);
        // Names on disk: this must never change.
        assert_eq!(&encode_name(&"x".repeat(256))[237..], "%~295fa478294e7725");
        assert_eq!(encode_name(&"x".repeat(255)).len(), 255);
    }

    #[test]
    fn foreign_names_are_not_decoded() {
        for name in ["%2f", "%41", ".", "%", "%zz", "%E2%80", "a%", "%+1"] {
            if name != EMPTY {
                assert_eq!(decode_name(name), None, "{name}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_name_is_safe_and_leads_back(id in any::<String>()) {
            let name = encode_name(&id);
            prop_assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX);
            prop_assert!(!name.contains(['/', '\0']) && !name.starts_with('.'));
            if !name.contains(HASH_MARK) {
                prop_assert_eq!(decode_name(&name), Some(id));
            }
        }

        #[test]
        fn two_ids_have_two_names(a in "[.%/2EFa~\u{e9}\0]{0,120}", b in "[.%/2EFa~\u{e9}\0]{0,120}") {
            prop_assert_eq!(encode_name(&a) == encode_name(&b), a == b);
        }
    }
}
