//! Letters: checks if they follow one another as in words and names, or as in a random key (pure).
//!
//! The frequencies of letter pairs distinguish the two, whatever the key's format: one in 20,000 random texts
//! of sixteen letters and digits passes as a name. Simple rules about capitals and digits would accept one in
//! a thousand.

use std::sync::LazyLock;

/// The surprise of each letter (column) after another one (row), in half bits; `a` means 0. Counted in the
/// words of Rust, Python and JavaScript sources and of man pages.
const PAIRS: [&[u8; 26]; 26] = [
    b"rjhiqoksktngjhtjsgiflnpoms",
    b"gmkmhnoqgmqfmnhntiimhpsrkt",
    b"gplogoqhjuijnpfnrjlgkorsov",
    b"hnojdmmqfqrknohnrjimjoqqnu",
    b"joigllmrnsqjkgolnfgipmojou",
    b"homkhhnsesshnmgnsiikjtqsmv",
    b"jplpeqlihvsjlijnrhiliqqsqr",
    b"fqpmersrguqmlpgovjmiktoumq",
    b"klijkkjuruqjjehkskihrktnvl",
    b"hnmmenqpinmnmognqpgnhpjpoo",
    b"jnmkdmlpgqqlmllmtnhjlpmpow",
    b"gookfmprfsphopgntpjjkoruju",
    b"fknnepqshvpmkohgrpjmjrstpu",
    b"iqihhkgpjtmmpliosohflmrspt",
    b"mmijqlmsmqmiiekitgjjiljprt",
    b"gqnngppljuohophjufkhjprslv",
    b"nonllnmpoorilnnolkjoblkqpq",
    b"gpllenmtgwmmklhnskiilnqslu",
    b"jqjofpnjgummnojipoifiporls",
    b"hqlofnrifvrlnpimvhikkrppjr",
    b"kikljlmvjushifniughgrtuouu",
    b"folocmpqftrmmnjmuomnrvsosu",
    b"fommgpqhftolnhgnrhjmpsoqws",
    b"iphlgkqmhssllnlfomlenppmmr",
    b"kllnjnlqjttijhjeqlghpplrno",
    b"gqlncpqnhrrnopioqpmoorprmm",
];

/// Half bits per character of random text, with letters of both cases and of one case.
const RANDOM: (i32, i32) = (12, 10);

/// Half bits by which a name of [`NAME_BYTES`] or more must be likelier than random text.
const MARGIN: i32 = 20;

/// Half bits by which random text must be likelier than a name; few names reach this.
const UNWORDED: i32 = 10;

/// Length from which a name needs the full margin. Shorter names need less, and names of more than 16 bytes a
/// little more.
const NAME_BYTES: usize = 12;

/// Number of bytes that are examined; the rest of a longer text does not change the result.
const JUDGED_BYTES: usize = 48;

/// Words that occur in names of secrets. They are less surprising, because values often repeat the name that
/// they are assigned to.
static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "password passphrase passwd secret private public token auth session client access generate \
     credential account refresh config certificate encrypt decrypt signature user node next server \
     string value check bytes type name test base64 seed socks key api aws colon pwd pass"
        .split(' ')
        .collect()
});

/// The surprise of one of these words.
const WORD: i32 = 14;

/// Returns true if the letters may form words and names.
pub(super) fn is_worded(value: &[u8]) -> bool {
    let length = value.len().min(JUDGED_BYTES) as i32;
    let margin = if value.len() < NAME_BYTES {
        MARGIN * length / NAME_BYTES as i32
    } else {
        MARGIN.max(length * 3 / 2)
    };
    surprise(value) < -margin
}

/// Returns true if the letters are at least as likely in a random key as in words.
pub(super) fn is_doubtful(value: &[u8]) -> bool {
    surprise(value) >= 0
}

/// Returns true if the letters are likelier in a random key, by a margin that few words reach.
pub(super) fn is_unworded(value: &[u8]) -> bool {
    surprise(value) > UNWORDED
}

/// Returns how much less likely the text is as a name than as random text, in half bits.
fn surprise(value: &[u8]) -> i32 {
    let value = &value[..value.len().min(JUDGED_BYTES)];
    let has_upper = value.iter().any(u8::is_ascii_uppercase);
    let has_lower = value.iter().any(u8::is_ascii_lowercase);
    let random = if has_upper && has_lower {
        RANDOM.0
    } else {
        RANDOM.1
    };
    let mut total = 0;
    let mut at = 0;
    // The number of capitals so far in this part, and true if they began within a word.
    let (mut capitals, mut is_within) = (0, false);
    while let Some(&byte) = value.get(at) {
        let before = at.checked_sub(1).map_or(b' ', |at| value[at]);
        // Letters of other scripts are equally likely in both.
        if !byte.is_ascii() {
            (capitals, is_within) = (0, false);
            at += 1;
            continue;
        }
        let begins = !before.is_ascii_alphabetic()
            || (before.is_ascii_lowercase() && byte.is_ascii_uppercase());
        if let Some(word) = word_at(&value[at..]).filter(|_| begins) {
            total += WORD - random * word as i32;
            at += word;
            (capitals, is_within) = (0, false);
            continue;
        }
        let cost = match byte {
            b'a'..=b'z' | b'A'..=b'Z' if before.is_ascii_alphabetic() => {
                let pair = pair(before, byte);
                if before.is_ascii_lowercase() && byte.is_ascii_uppercase() {
                    17
                } else if (byte.is_ascii_lowercase() && capitals > 1)
                    || (byte.is_ascii_uppercase() && is_within)
                {
                    pair + 6
                } else {
                    pair
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' if before.is_ascii_digit() => 20,
            b'0'..=b'9' if before.is_ascii_alphabetic() => 16,
            b'0'..=b'9' => 10,
            _ => 9,
        };
        if byte.is_ascii_uppercase() {
            if capitals == 0 {
                is_within = before.is_ascii_lowercase();
            }
            capitals += 1;
        } else {
            (capitals, is_within) = (0, false);
        }
        total += cost - random;
        at += 1;
    }
    total
}

/// Returns the length of the known word at the beginning of the text, in one case or capitalised.
fn word_at(text: &[u8]) -> Option<usize> {
    let first = text.first()?.to_ascii_lowercase();
    let fits = |word: &&&str| {
        word.as_bytes()[0] == first
            && text.get(..word.len()).is_some_and(|part| {
                let rest = &part[1..];
                part.eq_ignore_ascii_case(word.as_bytes())
                    && (!rest.iter().any(u8::is_ascii_uppercase)
                        || !part.iter().any(u8::is_ascii_lowercase))
            })
    };
    WORDS.iter().find(fits).map(|word| word.len())
}

/// Returns the surprise of a letter after another one, ignoring case.
fn pair(first: u8, second: u8) -> i32 {
    let number = |letter: u8| usize::from(letter.to_ascii_lowercase() - b'a');
    i32::from(PAIRS[number(first)][number(second)] - b'a')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished_from_random_letters() {
        for name in [
            "next_token_of_the_page",
            "getPasswordFromUser",
            "HTTPPasswordMgr",
            "user.session2.next_token",
            "tokenizer_config",
            "ServerKeyExchange",
            "is required",
            "WIN32_ERROR_CODE",
        ] {
            assert!(
                is_worded(name.as_bytes()) && !is_unworded(name.as_bytes()),
                "{name}: {}",
                surprise(name.as_bytes())
            );
        }
        for key in [
            "q5ddhppVuhanONrYD.uwsvfwoeh",
            "q5HFJziePEiahhzN.jpc",
            "QGPWDpLNIMPbss7c",
            "xkqzvbwjhgfd",
        ] {
            assert!(
                !is_worded(key.as_bytes()),
                "{key}: {}",
                surprise(key.as_bytes())
            );
        }
    }
}
