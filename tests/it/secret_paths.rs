//! Every path on which text leaves the program (commands, panes, waits, hooks, agents, loops and
//! recordings): no secret leaks, whatever text surrounds or interrupts it.

use std::fs;
use std::path::Path;

use crate::bench::{LETTERS, letters};
use crate::cli::{Running, assert_code, on, program, refused, run, text};
use crate::support::TmuxServer;

fn github(seed: u64) -> String {
    format!("gh{}_{}", "p", letters(seed, 36, LETTERS))
}

/// A script that prints secrets in every way, and the secrets. It ends with the line `the end`.
fn script() -> (String, Vec<String>) {
    let url = github(1);
    let (name, coloured, overwritten) = (letters(2, 30, LETTERS), github(3), github(4));
    let (broken, framed, escaped) = (github(5), github(6), letters(7, 40, LETTERS));
    let (head, tail) = coloured.split_at(15);
    let (first, rest) = broken.split_at(20);
    let (left, right) = framed.split_at(22);
    let lines = [
        format!("https://{url}:x-oauth-basic@github.com/a/b\\n"),
        format!(
            "\\033[34;1m\"auth_token\"\\033[0m\\033[1;39m:\\033[0m \\033[0;32m\"{name}\"\\033[0m\\n"
        ),
        format!("is \\033[31m{head}\\033[1m{tail}\\033[0m\\n"),
        format!(
            "token is {overwritten}\\rall is well                                                  \\n"
        ),
        format!("curl -H x:{first}\\\\\\n    {rest} y\\n"),
        format!("│ {left} │\\n│ {right} │\\n"),
        format!("{{\"name\": \"API_KEY\",\\n  \"value\": \"{escaped}\"}}\\n"),
    ];
    let (keys, more) = private_keys();
    let mut secrets = vec![url, name, coloured, overwritten, broken, framed, escaped];
    secrets.extend(more);
    let text = [&lines.concat(), &*keys, "the end\\n"].concat();
    (format!("printf '{}'", text.replace('\'', "'\\''")), secrets)
}

/// Returns private keys in the forms in which tools print them, and their lines.
fn private_keys() -> (String, Vec<String>) {
    let kind = ["PRIV", "ATE KEY"].concat();
    let line: Vec<String> = (0..8).map(|n| letters(40 + n, 64, LETTERS)).collect();
    let text = [
        format!(
            "12:-----BEGIN RSA {kind}-----\\n13:{}\\n14:{}\\n",
            line[0], line[1]
        ),
        format!("15:-----END RSA {kind}-----\\n"),
        format!(
            "---- BEGIN SSH2 ENCRYPTED {kind} ----\\nComment: \"mine\"\\n{}\\n",
            line[2]
        ),
        format!("{}\\n---- END SSH2 ENCRYPTED {kind} ----\\n", line[3]),
        format!(
            "Private-Lines: 2\\n{}\\n{}\\nPrivate-MAC: 00\\n",
            line[4], line[5]
        ),
        format!("{{\"kty\": \"EC\", \"d\": \"{}\"}}\\n", line[6]),
        format!("{{\"kty\":\"oct\",\"k\":\"{}\"}}\\n", line[7]),
    ];
    (text.concat(), line)
}

/// Panics if the bytes contain twelve consecutive bytes of a secret.
#[track_caller]
fn check(what: &str, secrets: &[String], bytes: &[u8]) {
    for secret in secrets {
        for part in secret.as_bytes().windows(12) {
            assert!(
                !bytes.windows(12).any(|window| window == part),
                "{what} shows {:?} of {secret:?}:\n{}",
                String::from_utf8_lossy(part),
                String::from_utf8_lossy(bytes)
            );
        }
    }
}

#[track_caller]
fn check_files(secrets: &[String], directory: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        check("a name", secrets, path.as_os_str().as_encoded_bytes());
        if path.is_dir() {
            count += check_files(secrets, &path);
        } else if let Ok(bytes) = fs::read(&path) {
            count += 1;
            check(&path.display().to_string(), secrets, &bytes);
        }
    }
    count
}

/// Checks the files of a run, its printed log, and its exports.
#[track_caller]
fn check_run(secrets: &[String], data: &Path, id: &str, expected: &str) {
    assert!(check_files(secrets, data) > 1);
    for view in [
        &["log", id][..],
        &["log", id, "--json"],
        &["replay", id, "--speed", "1000000"],
        &["export", id, "--format", "text"],
        &["export", id, "--format", "cast"],
    ] {
        let output = run(view, data);
        assert_code(&output, 0);
        check(&view.join(" "), secrets, &output.stdout);
    }
    let logged = text(&run(&["log", id], data).stdout);
    assert!(logged.contains(expected), "{logged}");
}

#[test]
fn the_output_of_commands_is_redacted() {
    let (script, secrets) = script();
    for more in [&[][..], &["--json"], &["--pty"]] {
        let data = tempfile::tempdir().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &script).unwrap();
        let mut args = vec!["run", "--execution-id", "it"];
        args.extend(more);
        args.extend(["--", "sh", file.path().to_str().unwrap()]);
        let output = run(&args, data.path());
        assert_code(&output, 0);
        if more.contains(&"--json") {
            check(&format!("stdout {more:?}"), &secrets, &output.stdout);
            check(&format!("stderr {more:?}"), &secrets, &output.stderr);
        } else {
            // Without a terminal, the command's outputs are forwarded unchanged.
            let plain = std::process::Command::new("sh").arg(file.path()).output();
            let plain = plain.unwrap();
            let passed = [output.stdout, output.stderr].concat();
            let is_pty = more.contains(&"--pty");
            assert!(is_pty || passed == [plain.stdout, plain.stderr].concat());
            assert!(!passed.windows(9).any(|part| part == b"[redacted"));
        }
        check_run(&secrets, data.path(), "it", "the end");
    }
}

#[test]
fn panes_are_redacted_polled_and_streamed_and_in_raw_recordings() {
    let (script, secrets) = script();
    for more in [
        &["--source", "poll"][..],
        &["--source", "stream"],
        &["--raw"],
    ] {
        let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
        let path = server.directory().join("script");
        fs::write(&path, format!("tmux wait-for go; {script}; exec cat")).unwrap();
        server.new_session("job", 120, 40, &format!("sh '{}'", path.display()));
        let socket = server.socket().display().to_string();
        let args = [&["watch", "--interval", "50ms"][..], more].concat();
        let mut watch = Running::start(program(&on(&socket, &args), data.path()));
        watch.wait_for("job");
        server.tmux(&["wait-for", "-S", "go"]);
        watch.wait_for("the end");
        watch.signal(rustix::process::Signal::INT);
        let output = watch.end();
        check(&format!("stdout {more:?}"), &secrets, &output.stdout);
        check_run(&secrets, data.path(), "job", "the end");
    }
}

#[test]
fn waits_and_hooks_are_redacted() {
    let (script, mut secrets) = script();
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let named = github(20);
    let path = server.directory().join("script");
    let matched = github(21);
    fs::write(
        &path,
        format!(
            "tmux wait-for go; {script}; \
             (while sleep 0.1; do echo 'found {matched} here'; done) & tmux wait-for stop; kill $!"
        ),
    )
    .unwrap();
    secrets.extend([named.clone(), matched]);
    let session = format!("job-{named}");
    server.new_session(&session, 120, 40, &format!("sh '{}'", path.display()));
    let socket = server.socket().display().to_string();
    let input = data.path().join("hook-input");
    let environment = data.path().join("hook-environment");
    let hook = format!(
        "env > '{}'; cat > '{}'",
        environment.display(),
        input.display()
    );
    let hooked = on(
        &socket,
        &["watch", &session, "--interval", "50ms", "--on-end", &hook],
    );
    let mut watch = Running::start(program(&hooked, data.path()));
    watch.wait_for("job-");
    let waited = on(
        &socket,
        &[
            "wait",
            &session,
            "--text",
            "found ",
            "--json",
            "--timeout",
            "30s",
        ],
    );
    let plain = on(
        &socket,
        &["wait", &session, "--text", "found ", "--timeout", "30s"],
    );
    server.tmux(&["wait-for", "-S", "go"]);
    // The pane prints the line until the end, so both waits see it whenever they begin.
    let wait = Running::start(program(&waited, data.path()));
    let other = Running::start(program(&plain, data.path()));
    for output in [wait.end(), other.end()] {
        assert_code(&output, 0);
        check("wait", &secrets, &output.stdout);
        assert!(
            text(&output.stdout).contains("found [redacted:github-token] here"),
            "{output:#?}"
        );
    }
    server.tmux(&["wait-for", "-S", "stop"]);
    let output = watch.end();
    check("watch", &secrets, &output.stdout);
    for path in [input, environment] {
        let bytes = fs::read(&path).unwrap();
        assert!(
            text(&bytes).contains("[redacted:github-token]"),
            "{}",
            text(&bytes)
        );
        check(&path.display().to_string(), &secrets, &bytes);
    }
}

/// Returns the output of a script.
fn printed(script: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .output()
        .unwrap();
    text(&output.stdout)
}

#[test]
fn the_messages_of_agents_are_redacted() {
    let (script, secrets) = script();
    let shown = printed(&script);
    let message = |kind: &str, text: &str| {
        let item = serde_json::json!({"id": "1", "type": kind, "text": text});
        let line = serde_json::json!({"type": "item.completed", "item": item});
        format!("{line}\n")
    };
    let begun = "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n";
    let failed = serde_json::json!({"type": "turn.failed", "error": {"message": shown}});
    let done = "{\"type\":\"turn.completed\",\"usage\":{}}\n";
    let temp = tempfile::tempdir().unwrap();
    let (good, bad) = (temp.path().join("a.jsonl"), temp.path().join("b.jsonl"));
    let thought = message("reasoning", &shown);
    fs::write(
        &good,
        [begun, &thought, &message("agent_message", &shown), done].concat(),
    )
    .unwrap();
    fs::write(&bad, format!("{begun}{failed}\n")).unwrap();
    for (path, code, more) in [
        (&good, 0, &[][..]),
        (&good, 0, &["--json"]),
        (&bad, 1, &[]),
        (&bad, 1, &["--json"]),
    ] {
        let data = tempfile::tempdir().unwrap();
        let fast = [
            "agents",
            "--poll",
            "20ms",
            "--stable",
            "300ms",
            "--execution-id",
            "it",
        ];
        let args = [&fast[..], &[path.to_str().unwrap()], more].concat();
        let output = run(&args, data.path());
        assert_code(&output, code);
        check(&format!("stdout {more:?}"), &secrets, &output.stdout);
        check(&format!("stderr {more:?}"), &secrets, &output.stderr);
        assert!(text(&output.stdout).contains("[redacted:"), "{output:?}");
        check_run(&secrets, data.path(), "it", "[redacted:");
    }
}

#[test]
fn the_agents_and_checks_of_a_loop_are_redacted() {
    let (script, secrets) = script();
    let file = tempfile::NamedTempFile::new().unwrap();
    // The check fails once, so that its output is part of the next prompt.
    fs::write(
        file.path(),
        format!("{script}; {script} >&2; test \"$1\" != check || mv first second 2>/dev/null || exit 0; test \"$1\" != check"),
    )
    .unwrap();
    for more in [&[][..], &["--json"]] {
        let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(work.path().join("first"), "").unwrap();
        let agent = format!("sh '{}' agent", file.path().display());
        let checked = format!("sh '{}' check", file.path().display());
        let args = [
            &["loop", "--execution-id", "it", "--task", "x"][..],
            &["--agent", &agent, "--check", &checked],
            more,
        ]
        .concat();
        let mut command = program(&args, data.path());
        command.current_dir(work.path());
        let output = Running::start(command).end();
        assert_code(&output, 0);
        check(&format!("stdout {more:?}"), &secrets, &output.stdout);
        check(&format!("stderr {more:?}"), &secrets, &output.stderr);
        assert!(text(&output.stdout).contains("[redacted:"), "{output:?}");
        check_run(&secrets, data.path(), "it", "the end");
    }
}

#[test]
fn known_values_are_redacted_in_every_form() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("env");
    fs::write(&file, "# mine\nPLAIN='blue elephant walks'\nPIN=12\n").unwrap();
    let script = "printf '%s\\n' \"$HOUSE_TOKEN\" 'a blue elephant walks' 'q=blue%20elephant%20walks'; \
                  printf 'me:blue elephant walks' | base64; printf %s 'blue elephant walks' | base64; echo the end";
    let printing = tempfile::NamedTempFile::new().unwrap();
    fs::write(printing.path(), script).unwrap();
    let mut command = program(
        &[
            "run",
            "--json",
            "--execution-id",
            "it",
            "--redact-env",
            "*_TOKEN",
            "--redact-env-file",
            file.to_str().unwrap(),
            "--",
            "sh",
            printing.path().to_str().unwrap(),
        ],
        data.path(),
    );
    command.env("HOUSE_TOKEN", "seven quiet rivers");
    let output = Running::start(command).end();
    assert_code(&output, 0);
    let printed = text(&output.stdout);
    assert_eq!(printed.matches("[redacted:plain]").count(), 4, "{printed}");
    assert_eq!(
        printed.matches("[redacted:house-token]").count(),
        1,
        "{printed}"
    );
    assert!(
        !printed.contains("elephant") && !printed.contains("quiet"),
        "{printed}"
    );
    let warned = text(&output.stderr);
    assert!(
        warned.contains("too short") && warned.contains("PIN"),
        "{warned}"
    );
    let logged = text(&run(&["log", "it"], data.path()).stdout);
    assert!(
        !logged.contains("elephant") && !logged.contains("quiet"),
        "{logged}"
    );
    let missing = run(
        &["run", "--redact-env-file", "/nowhere/env", "--", "true"],
        data.path(),
    );
    assert_code(&missing, 125);
}

#[test]
fn an_execution_id_with_a_secret_is_refused() {
    let (data, key) = (tempfile::tempdir().unwrap(), github(30));
    for args in [
        &["run", "--execution-id", &key, "--", "true"][..],
        &["agents", "--execution-id", &key],
        &[
            "loop",
            "--execution-id",
            &key,
            "--task",
            "x",
            "--agent",
            "true",
            "--check",
            "true",
        ],
    ] {
        let output = run(args, data.path());
        assert_code(&output, refused(args));
        assert!(
            text(&output.stderr).contains("--execution-id"),
            "{output:#?}"
        );
        check("stderr", std::slice::from_ref(&key), &output.stderr);
    }
    check_files(&[key], data.path());
}
