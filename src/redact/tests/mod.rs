//! Keys of every kind, generated at run time so that secret scanners find none in this file.

mod corpus;
mod panes;

use proptest::prelude::*;
use proptest::sample::select;

use super::edges::LEAK_BYTES;

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

/// Each kind of secret is found, whole and in pieces; text that only resembles it is kept.
mod kinds {
    use proptest::prelude::*;

    use super::{ALNUM, FORMS, assert_redacted, case, make, pieces};
    use crate::redact::{Rules, TerminalStream};

    #[test]
    fn every_kind_is_found_and_named() {
        let rules = Rules::builtin();
        for form in FORMS {
            let dice: Vec<u16> = (0..200).map(|n: u16| n.wrapping_mul(7919) >> 3).collect();
            let case = make(form, &dice, 3, "it is ", " there");
            let shown = rules.text(&case.text);
            let marker = format!("[redacted:{}]", case.kind);
            assert_eq!(shown, case.text.replace(&case.key, &marker), "{case:?}")
        }
    }

    #[test]
    fn text_that_is_no_secret_stays() {
        let rules = Rules::builtin();
        for text in [
            "max_tokens=100000",
            "token: 5",
            "tokens: 1234567890123",
            "\"token\":\"I'll do it\"",
            "Password: ",
            "password for user at host:",
            "Enter password: ",
            "password=$DB_PASSWORD",
            "password=${DB_PASSWORD}",
            "connect(password=password)",
            "connect(password=db_password, user=user)",
            "connect(password=args.secret)",
            "password: ***********",
            "password = <password>",
            "password: string;",
            "password: Option<String>,",
            "password=os.environ['DB_PASSWORD']",
            "fn password(&self) -> &str",
            "\"password\": \"your_password_here\"",
            "\"password\": \"changeme\"",
            "API_KEY=YOUR_API_KEY",
            "API_KEY=$(cat key.txt)",
            "SECRET=/run/secrets/db1",
            "secret: process.env.SECRET2,",
            "TOKEN=https://example.com/token1",
            "token = self.next_token2",
            "pub const WRONG_PASSWORD: WIN32_ERROR = 1323u32;",
            "or1_token: node.or1_token,",
            "task-based-scheduling-of-large-things",
            "disk-usage-of-the-machine-1234567890123456789012",
            "risk-ABCDEFGHIJKLMNOPQRSTUVWXYZ123456",
            "sk-learn and scikit",
            "AKIA is a prefix",
            "XAKIAABCDEFGHIJKLMNOP",
            "https://host:8080/path",
            "https://user@host/path",
            "http://localhost:3000/a@b",
            "ssh://git@host:22/repo",
            "Authorization: Bearer $TOKEN",
            "Authorization: Bearer <token>",
            "the bearer of bad news",
            "a ghp_ prefix",
            "----- BEGIN of the log -----",
            "-----BEGIN CERTIFICATE-----\nMIIBszCCARygAwIBAgIBADANBgkqhkiG9w0BAQUFADAS\n",
            "--password-file /etc/x1234567",
            "--token-limit 123456789012",
            "use --password to set the password",
            "def unix_getpass(prompt='Password: ', stream=None):",
            "from .oauth2 import OAuth2PasswordBearer as OAuth2PasswordBearer, x",
            "check_private_key_bytes: x25519_check_private_key_bytes,",
            "    colon2_token: node.colon2_token,",
            "let raw_private_key: Curve25519SeedBin<'_> = private_key;",
            "arguments to pass to the fortran77 compiler.",
            "proxy_url=\"socks5h://<username>:<password>@proxy-host\"",
            "--secret=projects/my-project/secrets/my-secret/versions/1 x",
            "[--password=PASS‐",
            "const password = await read.password('Password:', creds.password)",
            "filename|uri] [-keypass arg] [-digest name]",
            "\"pass\": \"\\033[102;30mpass\\033[0m\",",
            "askPassSetInConfig: config?.core?.askpass !== undefined,",
        ] {
            assert_eq!(rules.text(text), text);
            assert_eq!(rules.text(&format!("{text}\n")), format!("{text}\n"));
        }
    }

    /// The value is in the next line, and the text is cut anywhere.
    #[test]
    fn a_value_in_the_next_line_is_found_however_the_text_is_cut() {
        let key: String = ALNUM.chars().cycle().step_by(23).take(24).collect();
        for text in [
            format!("  - name: DB_PASSWORD\n    value: {key}\n"),
            format!("<key>API_KEY</key>\n\t<string>{key}</string>\n"),
            format!("{{\n  \"name\": \"AUTH_TOKEN\",\n  \"value\": \"{key}\"\n}}\n"),
        ] {
            for first in 0..text.len() {
                for second in [first + 1, first + 4, first + 9] {
                    let second = second.min(text.len());
                    let mut stream = TerminalStream::new(Rules::builtin());
                    let pieces = [&text[..first], &text[first..second], &text[second..]];
                    let shown: String = pieces
                        .iter()
                        .map(|piece| stream.push(piece).into_owned())
                        .collect();
                    let leak = (key.as_bytes().windows(12))
                        .any(|part| shown.contains(std::str::from_utf8(part).unwrap_or_default()));
                    assert!(!leak, "{first} {second}: {shown}");
                }
            }
        }
    }

    #[test]
    fn an_assigned_password_may_be_a_plain_word() {
        let rules = Rules::builtin();
        for text in [
            "password=correcthorse",
            "PASSWD=LetMeIn",
            "?password=letmein&x=1",
        ] {
            assert!(rules.text(text).contains("=[redacted:password]"), "{text}");
        }
    }

    #[test]
    fn a_private_key_is_redacted_to_its_end() {
        let rules = Rules::builtin();
        let line = &ALNUM[..60];
        let (begin, end) = ("-----BEGIN RSA PRIVATE", "-----END RSA PRIVATE KEY-----");
        for (newline, prefix) in [
            ("\n", ""),
            ("\r\n", ""),
            ("\\n", ""),
            ("\n", "  │ "),
            ("\n", "12 "),
            (" ", ""),
        ] {
            let body: Vec<String> = [line, line, &line[..30]]
                .iter()
                .map(|line| format!("{prefix}{line}"))
                .collect();
            let body = body.join(newline);
            let text = format!("see {begin} KEY-----{newline}{body}{newline}{prefix}{end} and on");
            let shown = rules.text(&text);
            assert!(!shown.contains(&line[..12]), "{shown}");
            assert!(shown.starts_with("see -----BEGIN RSA"), "{shown}");
            assert!(
                shown.ends_with("-----END RSA PRIVATE KEY----- and on"),
                "{shown}"
            );
            assert_eq!(shown.matches('\n').count(), text.matches('\n').count());
            assert_eq!(rules.text(&shown), shown);
        }
        // A block with headers, a block without an end, and text about a block.
        let text = format!(
            "{begin} KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,{line}\n\n{line}\n$ ls {line}"
        );
        let shown = rules.text(&text);
        assert_eq!(shown.matches(&line[..12]).count(), 1, "{shown}");
        assert!(shown.ends_with(line), "{shown}");
        let text = format!("if text.contains(\"{begin} KEY-----\") {{ return }} // and more");
        assert_eq!(rules.text(&text), text);
    }

    #[test]
    fn user_rules_are_added_and_invalid_ones_are_named() {
        let more = |text: &str| Rules::builtin().with_toml(text);
        let good = "[[rule]]\nid = \"acme\"\nkeywords = [\"acme_\"]\nlead = 'acme_'\nbody = '[0-9a-f]'\nmin = 16\n";
        let rules = more(good).unwrap();
        assert_eq!(rules.text("acme_0123456789abcdef."), "[redacted:acme].");
        assert_eq!(Rules::none().with_toml("").unwrap().text("x"), "x");
        for (from, to, expected) in [
            ("id = \"acme\"", "id = \"Acme!\"", "lower-case letters"),
            ("'acme_'", "'acme_+'", "unlimited"),
            (
                "'acme_'",
                "'acme_(live|production)_'",
                "truncated text would show",
            ),
            ("'acme_'", "'acme_('", "lead"),
            ("'[0-9a-f]'", "'[0-9a-f]+'", "character class"),
            ("'[0-9a-f]'", "'[^x]'", "character class"),
            ("[\"acme_\"]", "[]", "keywords"),
            ("min = 16", "min = 3", "at least 12 bytes"),
            ("min = 16", "min = 16\nuntil = 'a'", "until"),
            ("min = 16", "min = 16\nmaximum = 3", "invalid rules"),
        ] {
            let error = more(&good.replace(from, to)).unwrap_err();
            let message = format!("{error:?}");
            assert!(
                error.is_invalid_input() && message.contains(expected),
                "{to}: {message}"
            );
            assert!(
                message.contains("acme")
                    || expected == "invalid rules"
                    || expected == "lower-case letters",
                "{message}"
            );
        }
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        let rules = Rules::builtin();
        for part in [
            "sk-",
            "password=",
            "token=",
            "a",
            "://a:",
            "secret=\"",
            "AKIA",
            "Bearer ",
            "-----BEGIN PRIVATE KEY-----",
            "password=[",
            "[redacted:",
            "[redacted:password]=",
            "ghp_",
            "1token=$",
        ] {
            let text = part.repeat(1_000_000 / part.len());
            let mut stream = TerminalStream::new(rules.clone());
            // A quadratic scan would take minutes.
            assert!(rules.text(&text).len() <= text.len());
            assert!(stream.push(&text).len() <= text.len());
            assert!(stream.kept() < 512, "{part}: {}", stream.kept());
        }
    }

    proptest! {
        #[test]
        fn a_whole_key_is_redacted(case in case(|_| true)) {
            let rules = Rules::builtin();
            let shown = rules.text(&case.text);
            assert_redacted(&case, &shown);
            prop_assert!(shown.starts_with(&case.text[..case.at]), "{case:?} {shown}");
            prop_assert_eq!(rules.text(&shown), &*shown);
            // Every prefix of the text, as in a growing line.
            for end in 0..=case.text.len() {
                if case.text.is_char_boundary(end) {
                    assert_redacted(&case, &rules.text(&case.text[..end]));
                }
            }
        }

        #[test]
        fn a_key_is_redacted_in_a_stream(case in case(|_| true), cuts in proptest::collection::vec(any::<u16>(), 0..40)) {
            let mut stream = TerminalStream::new(Rules::builtin());
            let mut again = TerminalStream::new(Rules::builtin());
            let mut shown = String::new();
            for piece in pieces(&case.text, &cuts) {
                let masked = stream.push(piece).into_owned();
                prop_assert_eq!(&*again.push(&masked), &masked);
                shown.push_str(&masked);
            }
            assert_redacted(&case, &shown);
            prop_assert_eq!(Rules::builtin().text(&shown), &*shown);
        }

        #[test]
        fn a_key_is_redacted_byte_by_byte(case in case(|_| true)) {
            let mut stream = TerminalStream::new(Rules::builtin());
            let shown: String = case.text.split_inclusive(|_| true).map(|c| stream.push(c).into_owned()).collect();
            assert_redacted(&case, &shown);
        }

        #[test]
        fn any_text_is_redacted_once(parts in proptest::collection::vec(
            prop_oneof![
                "\\PC{0,6}",
                "[a-zA-Z0-9 \n=:\"'@/_.-]{0,24}",
                proptest::sample::select(vec![
                    "password=", "\"token\": \"", "sk-ant-", "sk-", "AKIA", "://u:", "@", "[redacted:secret]", "[redacted:",
                    "-----BEGIN PRIVATE KEY-----", "-----END", "Bearer ", "xoxb-", "\n", "\\n", "secret_key=", "--token ",
                ]).prop_map(str::to_owned),
            ], 0..12), cuts in proptest::collection::vec(any::<u16>(), 0..8)) {
            let text = parts.concat();
            let rules = Rules::builtin();
            let shown = rules.text(&text);
            prop_assert_eq!(rules.text(&shown), &*shown, "{:?}", text);
            prop_assert_eq!(shown.matches('\n').count(), text.matches('\n').count());
            let mut stream = TerminalStream::new(rules.clone());
            for piece in pieces(&text, &cuts) {
                let masked = stream.push(piece);
                prop_assert_eq!(masked.matches('\n').count(), piece.matches('\n').count());
            }
            prop_assert!(stream.kept() < 512);
        }

        #[test]
        fn text_without_keywords_is_unchanged(text in "[b-df-jl-mqu-wyz0-9 .,;\n]{0,300}", cuts in proptest::collection::vec(any::<u16>(), 0..8)) {
            prop_assert!(matches!(Rules::builtin().text(&text), std::borrow::Cow::Borrowed(same) if same == text));
            let mut stream = TerminalStream::new(Rules::builtin());
            for piece in pieces(&text, &cuts) {
                prop_assert_eq!(stream.push(piece), piece);
            }
        }
    }
}

/// Events: streams by execution and name; every text in every event type.
mod events {
    use proptest::prelude::*;

    use super::{Case, assert_redacted, case, pieces};
    use crate::event::{Envelope, EventKind, IterationOutcome, OutputStream, TdEvent};
    use crate::redact::{Redactor, Rules};

    fn redactor() -> Redactor {
        Redactor::new(Rules::builtin())
    }

    /// Returns all texts of an event.
    fn texts_of(event: &TdEvent) -> String {
        let mut all = String::new();
        event.clone().for_each_text(&mut |text| {
            all.push_str(text);
            all.push('\n');
        });
        all
    }

    fn token(iteration: u32, token: &str) -> TdEvent {
        TdEvent::TokenReceived {
            execution_id: "e".into(),
            iteration,
            token: token.into(),
            pane: None,
        }
    }

    fn output(stream: &str, text: &str) -> TdEvent {
        TdEvent::ExecutionOutput {
            execution_id: "e".into(),
            stream: stream.into(),
            text: text.into(),
        }
    }

    fn key() -> Case {
        let dice: Vec<u16> = (0..200).map(|n: u16| n.wrapping_mul(7919) >> 3).collect();
        super::make(&super::FORMS[0], &dice, 7, "", "")
    }

    #[test]
    fn every_text_of_every_type_is_redacted() {
        let secret = key();
        let mut seen = 0;
        for kind in EventKind::ALL {
            // Every field is a text at first; for fields of other types, the error names the type.
            let mut fields = serde_json::Map::new();
            fields.insert("type".into(), kind.as_str().into());
            fields.insert("execution_id".into(), "e".into());
            let event = loop {
                match serde_json::from_value::<TdEvent>(fields.clone().into()) {
                    Ok(event) => break event,
                    Err(error) => {
                        let error = error.to_string();
                        let field = error
                            .split('`')
                            .nth(1)
                            .expect("it names the field")
                            .to_owned();
                        let value = match field.as_str() {
                            "pane" => "%1".into(),
                            "outcome" => serde_json::json!({"LlmError": {"error": secret.text}}),
                            "panes" => serde_json::json!(["%1"]),
                            "cursor" => serde_json::json!({"x": 0, "y": 0}),
                            "rows" => serde_json::json!([{"row": 0, "text": secret.text}]),
                            "children" => serde_json::json!([{
                                "id": secret.text, "state": "idle", "title": secret.text, "asks": secret.text
                            }]),
                            _ => secret.text.as_str().into(),
                        };
                        let good = |value: &serde_json::Value| {
                            let mut fields = fields.clone();
                            fields.insert(field.clone(), value.clone());
                            let read = serde_json::from_value::<TdEvent>(fields.into());
                            read.is_ok()
                                || read.is_err_and(|error| {
                                    error.to_string().starts_with("missing field")
                                })
                        };
                        let values = [value, 1.into(), true.into()];
                        let value = values
                            .iter()
                            .find(|value| good(value))
                            .expect("some value is good");
                        fields.insert(field, value.clone());
                    }
                }
            };
            let mut masked = event.clone();
            let found = redactor().event(&mut masked);
            assert_eq!(found, texts_of(&event) != texts_of(&masked), "{event:?}");
            // The name of the stream is not a text.
            if let TdEvent::ExecutionOutput { stream, .. } = &mut masked {
                *stream = OutputStream::Stdout.into();
            }
            assert_redacted(&secret, &format!("{masked:?}"));
            seen += usize::from(found);
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn unknown_events_and_outcomes_are_redacted_except_ids() {
        let secret = key();
        let line = format!(
            r#"{{"seq":1,"ts":"2026-01-21T10:00:01Z","event":{{"type":"New","execution_id":"{0}","a":[{{"b":"x {0}"}}],"n":1}}}}"#,
            secret.key
        );
        let mut event = serde_json::from_str::<Envelope>(&line).unwrap().event;
        assert!(redactor().event(&mut event));
        assert_eq!(event.execution_id(), secret.key);
        assert_redacted(&secret, &texts_of(&event));
        let mut event = TdEvent::IterationCompleted {
            execution_id: "e".into(),
            iteration: 1,
            outcome: IterationOutcome::ToolError {
                tool: "curl".into(),
                error: secret.text.clone(),
            },
        };
        assert!(redactor().event(&mut event));
        assert_redacted(&secret, &format!("{event:?}"));
    }

    #[test]
    fn streams_do_not_mix() {
        let secret = key();
        let (one, two) = secret.text.split_at(10);
        let mut redactor = redactor();
        redactor.event(&mut token(1, one));
        // Each iteration is a separate stream, so the rest of a key does not continue there.
        for mut other in [token(2, two), output("stdout", two), output("stderr", two)] {
            let same = other.clone();
            assert!(!redactor.event(&mut other));
            assert_eq!(other, same);
        }
        let mut rest = token(1, two);
        assert!(redactor.event(&mut rest));
        assert_eq!(rest, token(1, "[redacted:anthropic-key]"));
    }

    #[test]
    fn the_remembered_state_is_bounded() {
        let mut redactor = redactor();
        for number in 0..20_000 {
            let id = format!("e{number}");
            redactor.event(&mut TdEvent::TokenReceived {
                execution_id: id.as_str().into(),
                iteration: 1,
                token: "password=".into(),
                pane: None,
            });
            redactor.event(&mut token(number, "password="));
            redactor.event(&mut TdEvent::PaneOpened {
                execution_id: "e".into(),
                pane: id.as_str().into(),
                width: 80,
                height: 24,
                command: "sh".into(),
                is_new: None,
            });
        }
        let (executions, panes, streams) = redactor.remembered();
        assert!(executions <= 4_096 && panes <= 256 && streams <= 16);
    }

    proptest! {
        #[test]
        fn a_key_is_redacted_in_tokens_and_outputs(case in case(|_| true), cuts in proptest::collection::vec(any::<u16>(), 0..30)) {
            let mut redactor = redactor();
            let mut shown = [String::new(), String::new(), String::new()];
            for piece in pieces(&case.text, &cuts) {
                let events = [token(1, piece), output("stdout", piece), output("stderr", piece)];
                for (shown, mut event) in shown.iter_mut().zip(events) {
                    redactor.event(&mut event);
                    match event {
                        TdEvent::TokenReceived { token: text, .. } | TdEvent::ExecutionOutput { text, .. } => shown.push_str(&text),
                        _ => unreachable!(),
                    }
                }
            }
            for shown in shown {
                assert_redacted(&case, &shown);
            }
        }
    }
}

mod broken_addresses {
    use crate::redact::{Rules, TerminalStream};

    /// A program that breaks its lines itself cuts the password of an address in two: in a stream, as in a pane.
    #[test]
    fn the_password_of_an_address_may_be_in_two_lines() {
        let long = format!("connecting to {}://app:", "postgres");
        let (one, two) = ("Xk29fQ7b", "vT4mPz81");
        let redact = |pieces: &[&str]| {
            let mut stream = TerminalStream::new(Rules::builtin());
            let pieces = pieces.iter().map(|piece| stream.push(piece).into_owned());
            pieces.collect::<String>()
        };
        let text = format!("{}{long}{one}\n  {two}@db/main\n", " ".repeat(10));
        let redacted = redact(&[&text]);
        assert!(
            !redacted.contains(one) && !redacted.contains(two),
            "{redacted}"
        );
        assert!(redacted.ends_with("@db/main\n"), "{redacted}");
        let redacted = redact(&[&text.replace('\n', "\r\n")]);
        assert!(
            !redacted.contains(one) && !redacted.contains(two),
            "{redacted}"
        );
        // Wherever the text is cut, a part that would reveal it is not shown.
        let (one, two) = ("Xk29fQ7bLm3Tz8Rw", "vT4mPz81Ns6Yd0Hq");
        let text = format!("{}{long}{one}\n  {two}@db/main\n", " ".repeat(10));
        for at in 0..text.len() {
            let (first, rest) = text.split_at(at);
            let redacted = redact(&[first, rest]);
            for part in [one, two] {
                let is_shown = |twelve: &[u8]| redacted.contains(str::from_utf8(twelve).unwrap());
                assert!(
                    !part.as_bytes().windows(12).any(is_shown),
                    "cut at {at}: {redacted}"
                );
            }
        }
        // Each line in a piece of its own is redacted as both in one.
        for text in [
            text.as_str(),
            &text.replace(one, "Xk29fQ7b").replace(two, "vT4"),
        ] {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let redacted = redact(&lines);
            assert_eq!(redacted.matches("[redacted:url-password]").count(), 2);
            assert_eq!(redacted, redact(&[text]));
        }
        // The path, the query and the fragment of an address may contain the sign, too.
        for rest in ["/@scope/pkg", "/x?mail=a@b.c", "/#a@b", ":8080/x@y", "?a@b"] {
            let address = format!("https://user:hunter2pass@reg.example{rest}");
            let expected = format!("https://user:[redacted:url-password]@reg.example{rest}");
            assert_eq!(redact(&[&address]), expected);
        }
        let slashed = redact(&["postgres://app:Xk29/fQ7b#vT4@db/main"]);
        assert_eq!(slashed, "postgres://app:[redacted:url-password]@db/main");
        for plain in [
            "Listening on the address http://localhost:8080\nuser1@example.com\n",
            "Pulling docker://node:20-alpine\nroot@host1:~#\n",
            "Pulling the image from docker://registry/of/node:latest\nme@host:~$\n",
            "Listening on the address of a://host:name1/path\nuser1@example.com\n",
            "Pulling the image from docker://library:20-alpine3.19-amd64-slim\nok\n",
            "Serving the pages of the handbook at http://localhost:8080\n",
            "Cloning into the directory from ssh://git:organisation-of-example\nok\n",
        ] {
            let text = format!("\n{plain}");
            assert_eq!(redact(&[&text]), text);
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            assert_eq!(redact(&lines), text);
        }
    }
}
