//! The corpus: examples of every rule, and secrets in typical contexts of people and programs, with a minimum
//! detection rate.

use std::collections::BTreeMap;

use super::super::rules::FILES;
use super::super::{Rules, TerminalStream};
use template::fill;

/// Names and contexts: `name`, a tab, and a text with the placeholders `NAME` and `SECRET`. Contexts of
/// secrets that are recognized by their form have no `NAME`. `\n` is a newline, `\e` an escape, `\t` a tab.
const CONTEXTS: &str = include_str!("contexts.txt");

/// Secrets without a specific form: their names and templates.
const NAMED: &[(&str, &[&str], &[&str])] = &[
    (
        "password",
        &[
            "DB_PASSWORD",
            "password",
            "dbPassword",
            "PGPASSWORD",
            "MYSQL_ROOT_PASSWORD",
            "passwd",
            "smtp.password",
            "ADMIN_PASS",
        ],
        &["{a7}{d3}{a6}", "{l6}{d3}!", "{a5}#{a5}7", "Tr0ub4dor{d2}x"],
    ),
    (
        "key",
        &[
            "DATADOG_API_KEY",
            "api_key",
            "apiKey",
            "X-Api-Key",
            "ENCRYPTION_KEY",
            "access_key",
            "SIGNING_SECRET",
            "client-secret",
        ],
        &["{h32}", "{h40}", "{h64}", "{n32}"],
    ),
    (
        "token",
        &[
            "TWILIO_AUTH_TOKEN",
            "auth_token",
            "accessToken",
            "refresh_token",
            "X-Auth-Token",
            "clientSecret",
            "bot_token",
            "PRIVATE-TOKEN",
        ],
        &["{a24}", "{w40}", "{U}", "{a30}"],
    ),
];

/// Minimum share of secrets that must be found, in percent.
const FOUND_PERCENT_MIN: usize = 97;

struct Example {
    id: String,
    yes: String,
    no: String,
}

fn examples() -> Vec<Example> {
    let mut all = Vec::new();
    for (group, text) in FILES {
        let table: toml::Table = text.parse().unwrap();
        for rule in table
            .get("rule")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten()
        {
            let field = |name: &str| {
                let value = rule.get(name).and_then(toml::Value::as_str);
                value
                    .unwrap_or_else(|| panic!("{group}: a rule without {name}: {rule:?}"))
                    .to_owned()
            };
            all.push(Example {
                id: field("id"),
                yes: field("yes"),
                no: field("no"),
            });
        }
    }
    assert!(all.len() > 150, "{}", all.len());
    all
}

/// Returns true if no twelve consecutive bytes of the secret are shown, and a shorter secret is not shown
/// completely.
fn is_hidden(secret: &str, shown: &str) -> bool {
    let length = secret.len().min(12);
    let mut parts = secret.as_bytes().windows(length);
    parts.all(|part| memchr::memmem::find(shown.as_bytes(), part).is_none())
}

#[test]
fn every_rule_finds_its_example_and_nothing_in_the_other() {
    let rules = Rules::builtin();
    for (seed, example) in (1..).zip(examples()) {
        let (text, parts) = fill(&example.yes, seed);
        let shown = rules.text(&text);
        assert!(
            shown.contains("[redacted:"),
            "{}: {text}: {shown}",
            example.id
        );
        let secret = parts
            .iter()
            .max_by_key(|part| part.len())
            .map_or("[none]", String::as_str);
        assert!(is_hidden(secret, &shown), "{}: {text}: {shown}", example.id);
        assert_eq!(rules.text(&shown), shown, "{}", example.id);
        // Text follows on the line, because a lead at the end of a text may begin a secret.
        let (text, _) = fill(&format!("{} .", example.no), seed);
        assert_eq!(rules.text(&text), text, "{}", example.id);
    }
}

#[test]
fn names_need_values_that_are_none_of_code_or_prose() {
    let rules = Rules::builtin();
    for text in [
        "let token = self.next_token();",
        "impl From<ServerKeyExchange> for ServerKeyExchangePayload {",
        "use proc_macro2::TokenStream as TokenStream2;",
        "preshared_key_offer: Some(PresharedKeyOffer {",
        "self.password = config['password']",
        "username, password = get_auth_from_url(proxy)",
        "MovedAttribute(\"HTTPPasswordMgr\", \"urllib2\", \"urllib.request\"),",
        "`TokenReceived`, `ToolCallStarted2`, … up to `TurnCompleted`",
        "the password is base64 encoded",
        "a key is 32 bytes, a token 1024",
        "--password=${PASSWORD} --token $TOKEN",
        "cache_key: \"node-v18-linux-x64-0123abcd\"",
        "\"sessionId\":\"5f1a04e8-7c83-4977-1e20-6601f3760aa1\"",
        "integrity sha512-abcDEF0123456789abcDEF0123456789abcDEF012345==",
        "checksum = \"0a9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6b5a493827160f5e4d3c2b1\"",
        "commit 0a9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7",
        "password = changeme",
        "API_KEY=xxxxxxxxxxxxxxxxxxxx",
        "SECRET=<your-secret-here-1>",
        "max_tokens: 4096, total_tokens=128000",
        "https://[::1]:8080/path/@scope/package",
    ] {
        assert_eq!(rules.text(text), text);
        assert_eq!(rules.text(&format!("{text}\n")), format!("{text}\n"));
    }
}

#[test]
fn secrets_are_found_in_the_contexts_in_which_they_are_written() {
    let rules = Rules::builtin();
    let mut missed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut count, mut misses) = (0, 0);
    let mut judge = |context: &'static str, secret: &str, text: &str, is_streamed: bool| {
        // Redacted as a whole text, and as a stream in three pieces that ends with its line.
        let mut stream = TerminalStream::new(rules.clone());
        let (first, rest) = text.split_at(floor(text, text.len() / 3));
        let (second, third) = rest.split_at(floor(rest, rest.len() / 2));
        let streamed: String = [first, second, third, "\n"]
            .iter()
            .map(|piece| stream.push(piece).into_owned())
            .collect();
        // A marker within a secret follows text that is already shown.
        for shown in [rules.text(text).into_owned()]
            .into_iter()
            .chain(is_streamed.then_some(streamed))
        {
            count += 1;
            if !is_hidden(secret, &shown) {
                misses += 1;
                missed.entry(context).or_default().push(text.to_owned());
            }
        }
    };
    let contexts: Vec<(&str, String)> = CONTEXTS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once('\t').expect("a name, a tab and a text"))
        .map(|(name, text)| {
            (
                name,
                text.replace("\\n", "\n")
                    .replace("\\t", "\t")
                    .replace("\\e", "\x1b")
                    .replace("\\r", "\r"),
            )
        })
        .collect();
    let mut seed = 1_u64;
    for (name, context) in &contexts {
        if context.contains("NAME") {
            for (_, names, values) in NAMED {
                for (at, named) in names.iter().enumerate() {
                    seed += 1;
                    let (secret, _) = fill(values[at % values.len()], seed);
                    let text = context.replace("SECRET", &secret).replace("NAME", named);
                    judge(name, &secret, &text, true);
                }
            }
            continue;
        }
        for example in examples().iter().filter(|example| is_form(example)) {
            seed += 1;
            let (text, parts) = fill(&example.yes, seed);
            let secret = parts.iter().max_by_key(|part| part.len()).unwrap();
            let is_streamed = !example.yes.starts_with('{');
            judge(name, secret, &context.replace("SECRET", &text), is_streamed);
        }
    }
    let found = (count - misses) * 100 / count;
    assert!(count > 5_000, "{count}");
    assert!(
        found >= FOUND_PERCENT_MIN,
        "{found} % of {count}; missed: {:#?}",
        missed
            .iter()
            .map(|(name, texts)| (name, texts.len(), &texts[0]))
            .collect::<Vec<_>>()
    );
    // No context may be missed completely.
    for (name, texts) in missed {
        assert!(
            texts.len() < 24,
            "{name}: {} missed, such as {:?}",
            texts.len(),
            texts[0]
        );
    }
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Returns true for secrets that need no context.
fn is_form(example: &Example) -> bool {
    !example.yes.contains([' ', '"', '\\'])
        && !example.yes.contains("://")
        && example.yes.contains('{')
}

/// Texts with generated secrets: `{a36}` becomes 36 random characters.
mod template {
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
}
