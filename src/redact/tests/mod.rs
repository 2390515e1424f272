//! Keys of every kind, generated at run time so that secret scanners find none in this file.

mod corpus;
mod events;
mod kinds;
mod pairs;
mod panes;
mod template;

use proptest::prelude::*;
use proptest::sample::select;

use super::rule::LEAK_BYTES;

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The form of keys of one kind, and the text around them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) kind: &'static str,
    /// Text before the key that is shown.
    before: &'static str,
    /// The beginning of the key.
    lead: &'static str,
    more: &'static str,
    min: usize,
    max: usize,
    after: &'static str,
}

const fn form(
    kind: &'static str,
    before: &'static str,
    lead: &'static str,
    more: &'static str,
    (min, max): (usize, usize),
    after: &'static str,
) -> Form {
    Form {
        kind,
        before,
        lead,
        more,
        min,
        max,
        after,
    }
}

pub(super) const FORMS: &[Form] = &[
    form("anthropic-key", "", "sk-ant-", "-_", (30, 100), ""),
    form("anthropic-key", "key: ", "sk-ant-", "-_", (30, 100), "\""),
    form("openai-key", "", "sk-proj-", "-_", (40, 120), ""),
    form("openai-key", "", "sk-svcacct-", "-_", (40, 120), ""),
    form("openai-key", "", "sk-", "", (32, 48), ""),
    form("aws-key-id", "", "AKIA", "UPPER", (16, 16), ""),
    form("aws-key-id", "", "ASIA", "UPPER", (16, 16), ""),
    form(
        "aws-secret",
        "aws_secret_access_key = ",
        "",
        "/+",
        (40, 40),
        "",
    ),
    form(
        "aws-secret",
        "\"SecretAccessKey\": \"",
        "",
        "/+",
        (40, 40),
        "\"",
    ),
    form("github-token", "", "ghp_", "", (36, 36), ""),
    form("github-token", "", "gho_", "", (36, 80), ""),
    form("github-token", "", "github_pat_", "_", (60, 82), ""),
    form("gitlab-token", "", "glpat-", "-_", (20, 30), ""),
    form("gitlab-token", "", "glrt-", "-_", (20, 30), ""),
    form("slack-token", "", "xoxb-", "-", (40, 60), ""),
    form("slack-token", "", "xapp-", "-", (40, 90), ""),
    form(
        "slack-webhook",
        "https://hooks.slack.com/services/",
        "",
        "",
        (30, 44),
        "",
    ),
    form("google-key", "", "AIza", "-_", (35, 35), ""),
    form("google-token", "", "ya29.", "-_", (50, 150), ""),
    form("google-token", "", "GOCSPX-", "-_", (28, 28), ""),
    form("huggingface-token", "", "hf_", "", (34, 34), ""),
    form("npm-token", "", "npm_", "", (36, 36), ""),
    form("stripe-key", "", "sk_live_", "", (24, 90), ""),
    form("ai-key", "", "gsk_", "", (52, 52), ""),
    form("ai-key", "", "xai-", "", (80, 80), ""),
    form(
        "authorization",
        "Authorization: Bearer ",
        "",
        "._~+/-",
        (12, 200),
        "",
    ),
    form(
        "authorization",
        "authorization: Basic ",
        "",
        "+/",
        (12, 60),
        "",
    ),
    form("authorization", "bearer ", "a7", "._-", (30, 200), ""),
    form(
        "url-password",
        "postgres://app:",
        "",
        "-_.!",
        (12, 30),
        "@db.local/main",
    ),
    form("url-password", "https://user:", "", "", (12, 30), "@host"),
    form("password", "password=", "q5", "!#", (12, 30), ""),
    form("password", "PASSWD: ", "q5", "!#", (12, 30), ""),
    form("password", "\"password\": \"", "", "! #;&", (12, 40), "\""),
    form("password", "password = '", "", "! #;&", (12, 40), "'"),
    form("password", "--password ", "q5", "", (12, 30), ""),
    form("secret", "API_KEY=", "r2", "", (14, 64), ""),
    form("secret", "export MY_SECRET=", "r2", "", (14, 64), ""),
    form("secret", "ACCESS_TOKEN: ", "r2", "", (14, 64), ""),
    form("secret", "\"apiKey\":\"", "r2", "", (14, 64), "\""),
    form("secret", "--token ", "r2", "", (14, 64), ""),
];

/// A text with a key in it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) kind: &'static str,
    pub(super) text: String,
    pub(super) key: String,
    /// The position of the key in the text.
    pub(super) at: usize,
}

/// Any key of a kind that `filter` selects, in text without newline.
pub(super) fn case(filter: fn(&Form) -> bool) -> impl Strategy<Value = Case> {
    let forms: Vec<Form> = FORMS.iter().copied().filter(filter).collect();
    (
        select(forms),
        proptest::collection::vec(any::<u16>(), 200),
        any::<u16>(),
        "([a-z é│(]{0,12}[ (])?",
        "([ ).][a-z é│]{0,12})?",
    )
        .prop_map(|(form, dice, length, left, right)| make(&form, &dice, length, &left, &right))
        // Some values form a placeholder, which is not a secret.
        .prop_filter("a placeholder", |case| {
            !case.key.to_ascii_lowercase().contains("xxxx")
        })
}

pub(super) fn make(form: &Form, dice: &[u16], length: u16, left: &str, right: &str) -> Case {
    let alphabet: Vec<u8> = match form.more {
        "UPPER" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".to_vec(),
        more => [ALNUM.as_bytes(), more.as_bytes()].concat(),
    };
    let length = form.min + usize::from(length) % (form.max - form.min + 1);
    let mut key = form.lead.to_owned();
    // Keys begin and end with letters and digits.
    for (index, die) in dice[..length].iter().enumerate() {
        let edge = index == 0 || index + 1 == length;
        let count = if edge {
            alphabet.len().min(32)
        } else {
            alphabet.len()
        };
        key.push(char::from(alphabet[usize::from(*die) % count]));
    }
    let before = [left, form.before].concat();
    Case {
        kind: form.kind,
        text: [&before, &*key, form.after, right].concat(),
        at: before.len(),
        key,
    }
}

/// Returns the text in pieces, cut at characters near the given positions.
pub(super) fn pieces<'a>(text: &'a str, cuts: &[u16]) -> Vec<&'a str> {
    let mut places: Vec<usize> = cuts
        .iter()
        .map(|cut| usize::from(*cut) % (text.len() + 1))
        .filter(|at| text.is_char_boundary(*at))
        .collect();
    places.push(text.len());
    places.sort_unstable();
    places.dedup();
    let mut from = 0;
    places
        .into_iter()
        .map(|to| &text[std::mem::replace(&mut from, to)..to])
        .collect()
}

/// Panics if the text contains twelve consecutive bytes of the key.
#[track_caller]
pub(super) fn assert_redacted(case: &Case, shown: &str) {
    for part in case.key.as_bytes().windows(LEAK_BYTES) {
        assert!(
            memchr::memmem::find(shown.as_bytes(), part).is_none(),
            "{} shows {:?} of its key:\n{case:?}\n{shown:?}",
            case.kind,
            String::from_utf8_lossy(part),
        );
    }
}
