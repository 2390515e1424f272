//! Encodes an execution's id as a directory name: a single safe path component, unique per id (pure).

// Only the program has patterns of names.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

use std::fmt::Write;

/// The longest name that Linux file systems accept.
const NAME_BYTES_MAX: usize = 255;
/// Precedes the hash of a shortened name. It never occurs in an escape, so a shortened name never equals the
/// name of another id.
const HASH_MARK: &str = "%~";
/// The name of the empty id. No escape is a single `%`.
const EMPTY: &str = "%";

/// Returns the directory name of an execution.
///
/// Unsafe or unreadable characters (`/`, `%`, control and invisible characters, a leading dot) become percent
/// escapes. A name that is too long is cut and ends with a hash.
///
/// ```
/// use td_observe::internals::history::encode_name;
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
        // The mark and 64 bits in hexadecimal fit after it.
        if name.len() <= NAME_BYTES_MAX - HASH_MARK.len() - 16 {
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

/// Returns the id that a directory name encodes; `None` for shortened names and names that are not encoded
/// ids.
///
/// ```
/// use td_observe::internals::history::decode_name;
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
    // Another spelling of an id is not a valid name.
    (encode_name(&id) == name).then_some(id)
}

/// Returns `true` for a character that needs no escape: it is not a separator, and terminals display it
/// unchanged.
fn is_plain(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    !(c.is_control() || invisible || matches!(c, '/' | '\\' | '%'))
}

/// FNV-1a, implemented here because the standard library's hash may change between versions, and names on
/// disk and cursors must not.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns true if a name is a pattern.
pub(crate) fn is_glob(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Returns true if the whole name matches the pattern.
pub(crate) fn glob_matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // The positions after the last star and in the name, from which matching is retried.
    let mut star = None;
    loop {
        let (mut pattern_after, mut name_after) = (pattern.clone(), name.clone());
        let (wanted, found) = (pattern_after.next(), name_after.next());
        match (wanted, found) {
            (Some('*'), _) => star = Some((pattern_after.clone(), name.clone())),
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => name = name_after,
            _ => {
                // The star matches one more character.
                let Some((after_star, tried)) = &mut star else {
                    return false;
                };
                if tried.next().is_none() {
                    return false;
                }
                (pattern_after, name) = (after_star.clone(), tried.clone());
            }
        }
        pattern = pattern_after;
    }
}

#[cfg(test)]
mod tests {
    mod name {
        use proptest::prelude::*;

        use super::super::*;

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
        fn long_ids_are_shortened_and_stay_distinct() {
            let name = encode_name(&"界".repeat(200));
            let other = encode_name(&format!("{}!", "界".repeat(200)));
            assert!(name.len() <= NAME_BYTES_MAX && other.len() <= NAME_BYTES_MAX);
            assert_ne!(name, other);
            assert_eq!(decode_name(&name), None);
            // This hash is part of names on disk and must never change.
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
            fn a_name_is_safe_and_round_trips(id in any::<String>()) {
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

    mod glob {
        use proptest::prelude::*;

        use super::super::*;

        #[test]
        fn stars_and_question_marks_make_a_pattern() {
            for (pattern, name, is_match) in [
                ("agent-*", "agent-1", true),
                ("agent-*", "agent-", true),
                ("agent-*", "my-agent-1", false),
                ("*.+", "a.+", true),
                ("*.+", "a.b", false),
                ("job-?", "job-1", true),
                ("job-?", "job-10", false),
                ("*", "a\nb", true),
                ("*", "", true),
                ("?", "", false),
                ("*ab*ab", "abcabab", true),
            ] {
                assert_eq!(glob_matches(pattern, name), is_match, "{pattern} {name}");
            }
            assert!(!is_glob("build@17") && is_glob("build@1?"));
        }

        proptest! {
            #[test]
            fn a_pattern_matches_as_its_regex_does(pattern in "[ab*?]{0,8}", name in "[abü]{0,10}") {
                let regex: String = pattern
                    .chars()
                    .map(|c| match c {
                        '*' => ".*".to_owned(),
                        '?' => ".".to_owned(),
                        c => c.to_string(),
                    })
                    .collect();
                let regex = regex::Regex::new(&format!("^{regex}$")).unwrap();
                prop_assert_eq!(glob_matches(&pattern, &name), regex.is_match(&name));
            }
        }
    }
}
