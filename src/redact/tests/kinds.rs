//! Each kind of secret is found, whole and in pieces; text that only resembles it is kept.

use proptest::prelude::*;

use super::super::{Rules, TerminalStream};
use super::{ALNUM, FORMS, assert_redacted, case, make, pieces};

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
