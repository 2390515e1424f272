//! Texts with generated secrets: `{a36}` becomes 36 random characters.

/// Returns the filled template and its parts. The same seed gives the same text.
///
/// A part is a letter and a length: `a` letters and digits, `w` also `_` and `-`, `b` and `A` Base64, `h`
/// hexadecimal, `u` capitals and digits, `n` lower case and digits, `l` lower case, `d` digits, `B` Base32.
/// `{U}` is a UUID. `{P}` is the word that scanners search for in private keys.
pub(super) fn fill(template: &str, seed: u64) -> (String, Vec<String>) {
    let (mut text, mut parts) = (String::new(), Vec::new());
    let mut rest = template;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        let end = rest[at..].find('}').map_or(rest.len(), |end| at + end);
        let inner = &rest[at + 1..end];
        let (kind, length) = inner.split_at(1.min(inner.len()));
        match (kind, length.parse::<usize>()) {
            ("P", _) => text.push_str("PRIVATE"),
            ("U", _) => {
                let groups = [8, 4, 4, 4, 12].map(|length| random("h", length, &mut state));
                parts.push(groups.join("-"));
                text.push_str(&groups.join("-"));
            }
            (kind, Ok(length)) => {
                let part = random(kind, length, &mut state);
                text.push_str(&part);
                parts.push(part);
            }
            _ => text.push_str(&rest[at..=end]),
        }
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    (text.replace("\\n", "\n"), parts)
}

fn random(kind: &str, length: usize, state: &mut u64) -> String {
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    const DIGITS: &str = "0123456789";
    let more = match kind {
        "w" => "_-",
        "b" | "A" => "+/",
        _ => "",
    };
    let letters = match kind {
        "h" => [&LOWER[..6], DIGITS].concat(),
        "u" => [UPPER, DIGITS].concat(),
        "n" => [LOWER, DIGITS].concat(),
        "l" => LOWER.to_owned(),
        "d" => DIGITS.to_owned(),
        "B" => [UPPER, "234567"].concat(),
        _ => [UPPER, LOWER, DIGITS].concat(),
    };
    let mut out = String::new();
    for at in 0..length {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let die = (*state >> 33) as usize;
        // Keys begin and end with letters and digits.
        let edge = at == 0 || at + 1 == length;
        let count = letters.len() + if edge { 0 } else { more.len() };
        let at = die % count;
        let c = letters
            .as_bytes()
            .get(at)
            .or_else(|| more.as_bytes().get(at - letters.len()));
        out.extend(c.map(|c| char::from(*c)));
    }
    out
}
