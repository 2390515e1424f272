//! Keys that an observed program prints: no stored or printed output contains twelve bytes of a key.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;

use super::{LogFile, assert_wrong_usage};
use crate::bench::{LETTERS, letters};
use crate::cli::{ECHO, Running, assert_code, on, program, run, text};
use crate::support::TmuxServer;

/// The number of consecutive bytes of a key that count as leaked.
const GIVEN_AWAY: usize = 12;

/// Returns a key of each kind, with the name of the kind.
fn keys() -> Vec<(&'static str, String)> {
    let some = |seed, count| letters(seed, count, LETTERS);
    vec![
        (
            "anthropic-key",
            format!("sk-{}-api03-{}AA", "ant", some(1, 93)),
        ),
        ("openai-key", format!("sk-{}-{}", "proj", some(2, 74))),
        (
            "aws-key-id",
            format!("AK{}{}", "IA", letters(3, 16, &LETTERS[..26])),
        ),
        ("github-token", format!("gh{}_{}", "p", some(4, 36))),
        ("gitlab-token", format!("gl{}-{}", "pat", some(5, 20))),
        ("slack-token", format!("xo{}-{}", "xb", some(6, 48))),
        ("google-key", format!("AI{}{}", "za", some(7, 35))),
    ]
}

/// Returns a private key in the form of a file.
fn private_key() -> String {
    let dashes = "-----";
    let mut text = format!("{dashes}BEGIN OPENSSH {} KEY{dashes}\n", "PRIVATE");
    for line in 0..6 {
        text.push_str(&letters(50 + line, 70, LETTERS));
        text.push('\n');
    }
    text + &format!("{dashes}END OPENSSH {} KEY{dashes}\n", "PRIVATE")
}

/// The secrets that must not be found.
struct Hidden(HashSet<Vec<u8>>);

impl Hidden {
    fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let windows = secrets
            .into_iter()
            .flat_map(|secret| secret.as_bytes().windows(GIVEN_AWAY));
        Self(windows.map(<[u8]>::to_vec).collect())
    }

    /// Returns the secrets that these bytes leak.
    fn found_in(&self, bytes: &[u8]) -> Vec<String> {
        let found = bytes
            .windows(GIVEN_AWAY)
            .filter(|window| self.0.contains(*window));
        found
            .map(|window| String::from_utf8_lossy(window).into_owned())
            .collect()
    }

    #[track_caller]
    fn check(&self, what: &str, bytes: &[u8]) {
        let found = self.found_in(bytes);
        assert!(
            found.is_empty(),
            "{what} has {found:?}:\n{}",
            String::from_utf8_lossy(bytes)
        );
    }

    /// Searches all files below a directory, decompressed, and all names.
    #[track_caller]
    fn check_all(&self, directory: &Path) -> usize {
        let mut count = 0;
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            self.check("a name", path.as_os_str().as_encoded_bytes());
            if path.is_dir() {
                count += self.check_all(&path);
            } else {
                count += 1;
                let file = LogFile::read(path);
                self.check(&file.path.display().to_string(), &file.bytes);
            }
        }
        count
    }
}

/// Returns a pane's program that prints keys in every way, step by step, and the secrets in its
/// output.
fn program_of(server: &TmuxServer, name: &str) -> (String, Vec<String>) {
    let mut secrets: Vec<String> = keys().into_iter().map(|(_, key)| key).collect();
    let mut script = String::from("echo ready; tmux wait-for begin-NAME\n");
    for (kind, key) in keys() {
        script.push_str(&format!("echo 'there is {key} of the kind {kind}'\n"));
    }
    // In two writes, of which the first is observed before the second; cut at several positions.
    for (number, cut) in [3, 9, 20, 40].into_iter().enumerate() {
        let key = format!(
            "sk-{}-api03-{}",
            "ant",
            letters(20 + number as u64, 90, LETTERS)
        );
        let (first, second) = key.split_at(cut);
        script.push_str(&format!(
            "printf 'half {number} {first}'; tmux wait-for go-NAME-{number}; printf '{second}\\n'\n"
        ));
        secrets.push(key);
    }
    let password = letters(40, 24, LETTERS);
    script.push_str(&format!("echo 'password={password}'\n"));
    secrets.push(password);
    let bearer = letters(41, 60, LETTERS);
    script.push_str(&format!("echo 'Authorization: Bearer {bearer}'\n"));
    secrets.push(bearer);
    let pem = private_key();
    let file = server.directory().join(format!("{name}.pem"));
    fs::write(&file, &pem).unwrap();
    script.push_str(&format!("cat '{}'\n", file.display()));
    secrets.extend(
        pem.lines()
            .filter(|line| !line.contains("---"))
            .map(str::to_owned),
    );
    let shown = format!("gh{}_{}", "s", letters(42, 36, LETTERS));
    script.push_str(&format!(
        "printf '\\033[?1049h\\033[Hother screen {shown} there'; tmux wait-for back-NAME; printf '\\033[?1049l'\n"
    ));
    secrets.push(shown);
    script.push_str("echo 'the end of NAME'; exec cat\n");
    let path = server.directory().join(name);
    fs::write(&path, script.replace("NAME", name)).unwrap();
    (format!("exec sh '{}'", path.display()), secrets)
}

/// Runs the program's steps in a session, each after the previous one was observed.
#[track_caller]
fn steps(server: &TmuxServer, watch: &mut Running, name: &str) {
    let go = |channel: &str| server.tmux(&["wait-for", "-S", channel]);
    go(&format!("begin-{name}"));
    for number in 0..4 {
        watch.wait_for(&format!("\"half {number} "));
        go(&format!("go-{name}-{number}"));
    }
    watch.wait_for("\"other screen ");
    go(&format!("back-{name}"));
    watch.wait_for(&format!("the end of {name}"));
}

#[track_caller]
fn start(server: &TmuxServer, data: &Path, more: &[&str]) -> Running {
    let socket = server.socket().display().to_string();
    let args = [
        "watch",
        "--json",
        "--interval",
        "50ms",
        "--rotate-size",
        "1k",
    ];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    let mut watch = Running::start(program(&on(&socket, &args), data));
    watch.wait_for("\"SessionStarted\"");
    watch
}

#[track_caller]
fn stop(watch: Running) -> Output {
    watch.signal(Signal::INT);
    let output = watch.end();
    assert_code(&output, 0);
    output
}

/// Watches a pane of this width that prints keys in every way.
#[track_caller]
fn assert_redacted(width: u32) {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (command, secrets) = program_of(&server, "job");
    let pane = server.new_session("job", width, 24, &command);
    server.wait_for_text(&pane, "ready");
    let mut watch = start(&server, data.path(), &[]);
    steps(&server, &mut watch, "job");
    let output = stop(watch);
    let hidden = Hidden::new(secrets.iter().map(String::as_str));
    hidden.check("stdout", &output.stdout);
    hidden.check("stderr", &output.stderr);
    let files = hidden.check_all(data.path());
    assert!(files > 5, "it was to rotate: {files}");
    // The output was complete and contains all kinds of secrets.
    let printed = text(&output.stdout);
    let kinds = keys().into_iter().map(|(kind, _)| kind);
    for kind in kinds.chain(["password", "authorization", "private-key"]) {
        assert!(
            printed.contains(&format!("[redacted:{kind}]")),
            "{kind}: {printed}"
        );
    }
    for view in [
        &["log", "job"][..],
        &["log", "job", "--json"],
        &["replay", "job", "--speed", "1000000"],
        &["export", "job", "--format", "text"],
        &["export", "job", "--format", "cast"],
    ] {
        let output = run(view, data.path());
        assert_code(&output, 0);
        assert!(text(&output.stdout).contains("the end of job"), "{view:?}");
        hidden.check(&view.join(" "), &output.stdout);
    }
}

#[test]
fn secrets_in_a_wide_pane_are_redacted() {
    assert_redacted(200);
}

#[test]
fn wrapped_secrets_in_a_narrow_pane_are_redacted() {
    assert_redacted(30);
}

#[test]
fn the_baseline_is_redacted() {
    for width in [30, 200] {
        let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
        let path = server.directory().join("keys");
        let lines: Vec<String> = keys()
            .iter()
            .map(|(kind, key)| format!("{kind} {key}\n"))
            .collect();
        fs::write(&path, lines.concat()).unwrap();
        let pane = server.new_session(
            "job",
            width,
            40,
            &format!("cat '{}'; echo ready; exec cat", path.display()),
        );
        server.wait_for_text(&pane, "ready");
        let socket = server.socket().display().to_string();
        let args = ["watch", "--lines", "40", "--interval", "50ms"];
        let mut watch = Running::start(program(&on(&socket, &args), data.path()));
        watch.wait_for("ready");
        let output = stop(watch);
        let keys = keys();
        let hidden = Hidden::new(keys.iter().map(|(_, key)| key.as_str()));
        hidden.check(&format!("a console {width} wide"), &output.stdout);
        hidden.check_all(data.path());
    }
}

#[test]
fn names_of_sessions_and_windows_are_redacted() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (first, second) = (keys()[3].1.clone(), keys()[4].1.clone());
    let hidden = Hidden::new([first.as_str(), &second]);
    server.new_session(&format!("job-{first}"), 80, 24, ECHO);
    server.tmux(&["rename-window", &second]);
    let mut watch = start(&server, data.path(), &[]);
    server.tmux(&["rename-session", &second]);
    watch.wait_for("\"SessionRenamed\"");
    server.tmux(&["send-keys", "hello", "Enter"]);
    watch.wait_for("hello");
    let output = stop(watch);
    hidden.check("stdout", &output.stdout);
    assert!(hidden.check_all(data.path()) > 2);
    let listed = run(&["runs", "--json"], data.path());
    hidden.check("runs", &listed.stdout);
    assert!(
        text(&listed.stdout).contains("[redacted:github-token]"),
        "{listed:#?}"
    );
}

#[test]
fn only_an_explicit_flag_keeps_secrets() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    server.new_session("job", 200, 24, ECHO);
    let key = keys()[0].1.clone();
    let mut watch = start(&server, data.path(), &["--no-redact"]);
    server.tmux(&["send-keys", &format!("it is {key} ."), "Enter"]);
    watch.wait_for(&format!("it is {key} ."));
    stop(watch);
    let log = run(&["log", "job"], data.path());
    assert!(
        text(&log.stdout).contains(&format!("it is {key} .")),
        "{log:#?}"
    );
}

#[test]
fn rules_of_the_user_are_added() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    server.new_session("job", 200, 24, ECHO);
    let rule = |id: &str, begin: &str| {
        format!(
            "[[rule]]\nid = \"{id}\"\nkeywords = [\"{begin}\"]\nlead = '{begin}'\nbody = '[a-z0-9]'\nmin = 8\nhide = \"all\"\n"
        )
    };
    // In the searched text and in the locations of matches.
    fs::write(data.path().join("redact.toml"), rule("house-key", "house_")).unwrap();
    let other = server.directory().join("other.toml");
    fs::write(&other, rule("garden-key", "garden_")).unwrap();
    let (house, garden) = ("house_0123456789abcdef", "garden_0123456789abcdef");
    for (more, hidden, kept, kind) in [
        (&[][..], house, garden, "house-key"),
        (
            &["--redact", other.to_str().unwrap()],
            garden,
            house,
            "garden-key",
        ),
    ] {
        let mut watch = start(&server, data.path(), more);
        // The built-in rules still apply.
        let key = keys()[3].1.clone();
        server.tmux(&[
            "send-keys",
            &format!("{kind}: {house} {garden} {key} ."),
            "Enter",
        ]);
        watch.wait_for(&format!("{kind}: "));
        let printed = text(&stop(watch).stdout);
        let line = printed
            .lines()
            .find(|line| line.contains(&format!("{kind}: ")))
            .unwrap();
        assert!(line.contains(&format!("[redacted:{kind}]")), "{line}");
        assert!(
            line.contains(kept) && !line.contains(hidden) && !line.contains(&key),
            "{line}"
        );
    }
    for text in [
        "[[rule]]\nid = 3",
        "no toml",
        "[[rule]]\nid = \"x\"\nkeywords = []\nlead = '('\nbody = 'a'\nmin = 1",
    ] {
        fs::write(&other, text).unwrap();
        let socket = server.socket().display().to_string();
        let args = on(&socket, &["watch", "--redact", other.to_str().unwrap()]);
        assert_wrong_usage(&run(&args, data.path()), "other.toml");
    }
    let socket = server.socket().display().to_string();
    let missing = on(&socket, &["watch", "--redact", "/nowhere/rules.toml"]);
    assert_wrong_usage(&run(&missing, data.path()), "/nowhere/rules.toml");
    let both = on(&socket, &["watch", "--redact", "x", "--no-redact"]);
    assert_wrong_usage(&run(&both, data.path()), "--no-redact");
    fs::write(data.path().join("redact.toml"), "no toml").unwrap();
    assert_wrong_usage(&run(&on(&socket, &["watch"]), data.path()), "redact.toml");
}
