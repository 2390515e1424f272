//! The configuration: a file and variables that give options their values, and the commands that show and check them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cli::{Running, assert_code, text};
use crate::observer::Home;
use crate::support::{CEILING, wait_for};

/// A file of the first version that has one: what it says stays valid.
const OLD: &str = r#"
servers = ["work", "/tmp/play"]
agents = ["~/tasks", "more"]
allow_input = true
redact = "redact.toml"
redact_env = ["*_TOKEN"]
redact_env_file = [".env"]
sync = "always"
rotate_size = "1MiB"
rotate_age = "none"
keep_size = "2GiB"
keep_age = "30d"
keep_runs = 100
"#;

fn path(home: &Home) -> PathBuf {
    home.directory().join(".config/td-observe/config.toml")
}

fn write(home: &Home, content: &str) {
    fs::create_dir_all(path(home).parent().unwrap()).unwrap();
    fs::write(path(home), content).unwrap();
}

/// Writes the files that [`OLD`] and the file of `config init` name.
fn write_rules(home: &Home) {
    let directory = path(home).parent().unwrap().to_owned();
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir_all(home.directory().join("project")).unwrap();
    for file in [
        directory.join("redact.toml"),
        directory.join(".env"),
        home.directory().join("project/.env"),
    ] {
        fs::write(file, "").unwrap();
    }
}

/// Returns the program in this home, with its configuration.
fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env("XDG_CONFIG_HOME", home.directory().join(".config"));
    command
}

#[track_caller]
fn run(home: &Home, args: &[&str]) -> Output {
    Running::start(command(home, args)).end()
}

/// Returns the lines of standard error, without the name of the program and the path of the file.
fn complaints(home: &Home, output: &Output) -> Vec<String> {
    let file = format!("td-observe: {}:", path(home).display());
    let errors = text(&output.stderr);
    errors.lines().map(|line| line.replace(&file, "")).collect()
}

#[test]
fn a_file_is_begun_shown_and_checked() {
    let home = Home::new();
    let file = path(&home).display().to_string();
    assert_eq!(
        text(&run(&home, &["config", "path"]).stdout),
        format!("{file}\n")
    );
    let check = run(&home, &["config", "check"]);
    assert_code(&check, 0);
    assert!(
        text(&check.stdout).contains("there is no such file"),
        "{check:?}"
    );
    let known = text(&run(&home, &["config", "check", "--json"]).stdout);
    let known: Value = serde_json::from_str(&known).unwrap();
    assert_eq!(known, serde_json::json!({"path": file, "exists": false}));
    assert_code(&run(&home, &["config", "init"]), 0);
    let mode = fs::metadata(path(&home)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_code(&run(&home, &["config", "check"]), 0);
    assert_code(&run(&home, &["config", "init"]), 2);
    let defaults = text(&run(&home, &["config", "show"]).stdout);

    // With each of its lines that gives a value, the file is valid, too.
    write_rules(&home);
    let begun = fs::read_to_string(path(&home)).unwrap();
    // Rules and channels of notifications have a test of their own.
    let begun = begun.split("# Notifications.").next().unwrap();
    let is_value = |line: &&str| line.starts_with("# ") && line.contains(" = ");
    let values: Vec<&str> = begun
        .lines()
        .filter(is_value)
        .map(|line| &line[2..])
        .collect();
    assert_eq!(values.len(), defaults.lines().count(), "{begun}");
    write(&home, &values.join("\n"));
    let check = run(&home, &["config", "check"]);
    assert_code(&check, 0);
    // What is shown is a file that says the same.
    let shown = text(&run(&home, &["config", "show"]).stdout);
    write(&home, &shown);
    assert_eq!(text(&run(&home, &["config", "show"]).stdout), shown);
    assert_ne!(shown, defaults);
}

#[test]
fn an_older_file_stays_valid_and_each_value_has_its_origin() {
    let home = Home::new();
    write_rules(&home);
    write(&home, OLD);
    let mut show = command(&home, &["config", "show", "--json"]);
    show.env("TD_KEEP_RUNS", "7")
        .env("TD_STATE", "waiting")
        .env("TD_SOURCE", "screen");
    let output = Running::start(show).end();
    assert_code(&output, 0);
    let lines = text(&output.stdout);
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(rows.len(), 12, "{rows:?}");
    assert_eq!(
        of("servers")["value"],
        serde_json::json!(["work", "/tmp/play"])
    );
    let in_home = |name: &str| home.directory().join(name).display().to_string();
    let agents = [in_home("tasks"), in_home(".config/td-observe/more")];
    assert_eq!(of("agents")["value"], serde_json::json!(agents));
    assert_eq!(
        (&of("allow_input")["value"], &of("allow_input")["line"]),
        (&true.into(), &4.into())
    );
    assert_eq!(of("keep_age")["origin"], path(&home).display().to_string());
    assert_eq!(
        (&of("keep_runs")["value"], &of("keep_runs")["origin"]),
        (&7.into(), &"TD_KEEP_RUNS".into())
    );
}

#[test]
fn each_problem_has_its_line_its_column_and_a_hint_and_nothing_begins() {
    let home = Home::new();
    for (content, expected) in [
        (
            "serverz = []",
            "1:1: there is no key \"serverz\"; did you mean servers?",
        ),
        (
            "\n[zebra]",
            "2:2: there is no key \"zebra\"; there are: servers, agents",
        ),
        (
            "allow_input = \"yes\"",
            "1:15: allow_input: a value of type string does not fit: write true or false",
        ),
        (
            "servers = [\"ü\", 3]",
            "1:17: servers: a value of type integer",
        ),
        (
            "servers = 1",
            "1:11: servers: a value of type integer does not fit: write a list of texts",
        ),
        (
            "keep_age = \"30 dayz\"",
            "1:12: keep_age: \"30 dayz\" does not fit: write a time as 200ms",
        ),
        (
            "keep_runs = -3",
            "1:13: keep_runs: \"-3\" does not fit: write a whole number",
        ),
        (
            "sync = \"often\"",
            "1:8: sync: \"often\" does not fit: use none, interval or always",
        ),
        ("redact = \"\"", "1:10: redact: it is empty"),
        (
            "servers = [\"a\\u0000\"]",
            "1:11: servers: it contains a NUL",
        ),
        ("agents = [\n", "1:11: unclosed array"),
        ("keep_age = \"1d\"\nkeep_age = \"2d\"", "2:1: duplicate key"),
    ] {
        write(&home, content);
        let check = run(&home, &["config", "check"]);
        assert_code(&check, 2);
        let found = complaints(&home, &check);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(expected), "{content}: {found:?}");
        for args in [&["start"][..], &["run", "true"]] {
            let refused = run(&home, args);
            assert_code(&refused, crate::cli::refused(args));
            assert_eq!(complaints(&home, &refused), found, "{args:?}");
        }
    }
    assert!(!home.data().join("observer.json").exists());
    write(&home, "keep_age = 1.5\nx = 1\ny = 2\n");
    let check = run(&home, &["config", "check"]);
    assert_eq!(complaints(&home, &check).len(), 3);
    let first = complaints(&home, &run(&home, &["start"]));
    assert!(
        first[0].ends_with("and 2 more: td-observe config check lists all"),
        "{first:?}"
    );
    // Commands that use none of it are not concerned.
    assert_code(&run(&home, &["runs"]), 0);
}

#[test]
fn hosts_are_read_checked_and_shown_with_their_origin() {
    let home = Home::new();
    let file = "\
[hosts]
names = [\"local\", \"build-1\", \"ann@build.example.org\"]

[hosts.build-1]
command = \"~/bin/td-observe\"

[hosts.\"build.example.org\"]
command = \"/opt/td/td-observe\"
";
    write(&home, file);
    assert_code(&run(&home, &["config", "check"]), 0);
    // What is shown is a file that says the same.
    let shown = text(&run(&home, &["config", "show"]).stdout);
    assert!(shown.ends_with(&format!("\n{file}")), "{shown}");
    let one = text(&run(&home, &["config", "show", "hosts.build-1"]).stdout);
    assert_eq!(one, "\n[hosts.build-1]\ncommand = \"~/bin/td-observe\"\n");
    let origin = text(&run(&home, &["config", "show", "hosts", "--origin"]).stdout);
    let place = format!("# {}:2", path(&home).display());
    assert!(origin.lines().nth(2).unwrap().ends_with(&place), "{origin}");
    // The variable takes precedence, but not over the programs.
    let mut show = command(&home, &["config", "show", "hosts", "--json"]);
    show.env("TD_HOSTS", "a:local:b.c");
    let lines = text(&Running::start(show).end().stdout);
    let rows = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let rows: Vec<Value> = rows.collect();
    let found = rows.iter().find(|row| row["key"] == "hosts").unwrap();
    let expected = serde_json::json!({
        "key": "hosts", "value": {"names": ["a", "local", "b.c"]}, "origin": "TD_HOSTS", "line": null,
    });
    assert_eq!(found, &expected);
    assert_eq!(rows.len(), 3, "{lines}");
    let mut wrong = command(&home, &["config", "check"]);
    wrong.env("TD_HOSTS", "a:-oProxyCommand=b");
    let wrong = text(&Running::start(wrong).end().stderr);
    assert_eq!(
        wrong,
        "td-observe: TD_HOSTS: \"-oProxyCommand=b\": a host cannot begin with '-'\n"
    );
}

#[test]
fn the_commented_hosts_are_valid() {
    let home = Home::new();
    assert_code(&run(&home, &["config", "init"]), 0);
    let begun = fs::read_to_string(path(&home)).unwrap();
    let (_, hosts) = begun.split_once("# [hosts]").unwrap();
    write(&home, &format!("[hosts]{}", hosts.replace("\n# ", "\n")));
    assert_code(&run(&home, &["config", "check"]), 0);
    let shown = text(&run(&home, &["config", "show"]).stdout);
    let expected = "
[hosts]
names = [\"local\", \"build-1\", \"build.example.org\"]

[hosts.build-1]
command = \"/opt/td/td-observe\"
";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn a_shell_completes_the_hosts_of_the_configuration_and_of_ssh() {
    let home = Home::new();
    write(
        &home,
        "[hosts]\nnames = [\"local\", \"b\"]\n[hosts.d]\ncommand = \"x\"\n",
    );
    fs::create_dir(home.directory().join(".ssh")).unwrap();
    let ssh = "Host *\n  User ann\n host=b c.d \"e\" !f g-?\nHostName h\nMatch host i\n";
    fs::write(home.directory().join(".ssh/config"), ssh).unwrap();
    let mut complete = command(&home, &["--", "td-observe", "status", "--host", ""]);
    complete.env("TD_OBSERVE_COMPLETE", "fish");
    let offered = text(&complete.output().unwrap().stdout);
    assert_eq!(
        offered.lines().collect::<Vec<_>>(),
        ["local", "d", "b", "c.d", "e"]
    );
}

#[test]
fn a_status_line_and_another_host_are_answered_whatever_the_file_says() {
    let home = Home::new();
    write(&home, "[hosts]\nnames = [\"-a\"]\n");
    for args in [&["status"][..], &["log"], &["report"]] {
        let refused = run(&home, args);
        assert_code(&refused, 2);
        assert!(
            text(&refused.stderr).contains(":2:10: hosts.names"),
            "{refused:?}"
        );
    }
    let line = run(&home, &["status", "--format", "{total}"]);
    assert_eq!(
        (line.status.code(), text(&line.stdout)),
        (Some(0), "0\n".to_owned())
    );
    assert_code(&run(&home, &["status", "--print-socket"]), 3);
    // A host of the standing set is not even looked for.
    write(&home, "[hosts]\nnames = [\"nowhere\"]\n");
    let mut status = command(&home, &["status", "--format", "{total}"]);
    status.env("TD_SSH_COMMAND", "touch ssh-was-started");
    assert_eq!(text(&Running::start(status).end().stdout), "0\n");
    let mut status = command(&home, &["status", "--json"]);
    status.env("TD_SSH_COMMAND", "false");
    let shown = text(&Running::start(status).end().stdout);
    assert!(shown.contains("\"unreachable\""), "{shown}");
}

#[test]
fn each_problem_of_the_hosts_has_its_line_and_its_column() {
    let home = Home::new();
    for (content, expected) in [
        ("hosts = [\"a\"]", "1:1: hosts: write [hosts], and below it"),
        (
            "[hosts]\nnames = \"a\"",
            "2:9: hosts.names: a value of type string does not fit: write a list of texts",
        ),
        (
            "[hosts]\nnames = [\"a\", \"-oProxyCommand=touch x\"]",
            "2:15: hosts.names: \"-oProxyCommand=touch x\": a host cannot begin with '-'",
        ),
        (
            "[hosts]\nnames = [\"a:22\"]",
            "2:10: hosts.names: \"a:22\": a host is a name of ~/.ssh/config, or",
        ),
        (
            "[hosts]\nnamse = []",
            "2:1: hosts has no key \"namse\"; did you mean names?; the program",
        ),
        (
            "[hosts.a]\ncommnad = \"x\"\ncommand = \"x\"",
            "2:1: hosts.a: a host has no key \"commnad\"; did you mean command?",
        ),
        (
            "[hosts.\"a.b\"]",
            "1:8: hosts.\"a.b\": command is missing: write command = \"/opt",
        ),
        (
            "[hosts.\"$(touch x)\"]\ncommand = \"x\"",
            "1:8: hosts: a host is a name of ~/.ssh/config",
        ),
        (
            "[hosts.local]\ncommand = \"x\"",
            "1:8: hosts.local: this host runs this program itself",
        ),
        (
            "[hosts.a]\ncommand = \"\"",
            "2:11: hosts.a: command: it is empty",
        ),
        (
            "[hosts.a]\ncommand = \"x\\n\"",
            "2:11: hosts.a: command: it contains a control character",
        ),
    ] {
        write(&home, content);
        let check = run(&home, &["config", "check"]);
        assert_code(&check, 2);
        let found = complaints(&home, &check);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(expected), "{content}: {found:?}");
    }
}

#[test]
fn a_file_that_is_missing_or_that_others_can_write_is_refused() {
    let home = Home::new();
    let missing = run(&home, &["start", "--config", "/nowhere/x.toml"]);
    assert_code(&missing, 2);
    assert!(
        text(&missing.stderr).contains("there is no such file"),
        "{missing:?}"
    );
    let mut by_variable = command(&home, &["run", "true"]);
    by_variable.env("TD_CONFIG", "/nowhere/x.toml");
    let missing = Running::start(by_variable).end();
    assert!(
        text(&missing.stderr).contains("TD_CONFIG: \"/nowhere/x.toml\""),
        "{missing:?}"
    );
    write(&home, OLD);
    fs::set_permissions(path(&home), fs::Permissions::from_mode(0o666)).unwrap();
    let refused = run(&home, &["config", "show"]);
    assert_code(&refused, 2);
    assert!(
        text(&refused.stderr).contains("other users can write"),
        "{refused:?}"
    );
    fs::remove_file(path(&home)).unwrap();
    let mut wrong = command(&home, &["config", "check"]);
    wrong.env("TD_ALLOW_INPUT", "maybe");
    let wrong = Running::start(wrong).end();
    assert_code(&wrong, 2);
    let expected = "td-observe: TD_ALLOW_INPUT: \"maybe\" is neither true nor false\n";
    assert_eq!(text(&wrong.stderr), expected);
    // What is refused may be a secret in the wrong place.
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    write(&home, &format!("keep_age = \"{secret}\"\n{secret} = 1\n"));
    let check = run(&home, &["config", "check"]);
    let errors = text(&check.stderr);
    assert!(
        errors.lines().count() == 2 && !errors.contains(&secret),
        "{errors}"
    );
}

#[test]
fn an_observer_takes_its_options_from_the_file_and_the_command_line_takes_precedence() {
    let home = Home::new();
    home.server.new_session("work", 80, 24, "exec cat");
    let socket = home.server.socket().display().to_string();
    write(
        &home,
        &format!("servers = [\"{socket}\"]\nallow_input = true\nkeep_age = \"30d\"\n"),
    );
    assert_code(&run(&home, &["start", "--keep-age", "3d"]), 0);
    let known = home.announcement();
    assert_eq!(known["servers"], serde_json::json!([socket]));
    assert_eq!(known["allow_input"], true);
    let kept = known["options"]["--keep-age"].as_str().unwrap();
    assert!(kept.contains("259200"), "{kept}");
    home.wait_for_row("work", |row| row["state"].is_string());
    let status = run(&home, &["status"]);
    assert!(!text(&status.stderr).contains("newer"), "{status:?}");
    wait_for("a status that names the newer file", CEILING, || {
        write(&home, &format!("servers = [\"{socket}\"]\n"));
        let errors = text(&run(&home, &["status"]).stderr);
        if errors.contains("config.toml is newer than the observer") {
            Ok(())
        } else {
            Err(errors)
        }
    });
}

#[test]
fn files_that_are_missing_are_reported_and_what_a_terminal_obeys_is_escaped() {
    let home = Home::new();
    for key in ["redact = \"nope.toml\"", "redact_env_file = [\"nope.env\"]"] {
        write(&home, key);
        let check = run(&home, &["config", "check"]);
        assert_code(&check, 2);
        assert!(
            text(&check.stderr).contains("there is no such file"),
            "{check:?}"
        );
    }
    write(
        &home,
        "agents = [\"~\", \"a\\u009b31m\\u007f\\u202e\\\"\"]\n",
    );
    let shown = text(&run(&home, &["config", "show"]).stdout);
    let directory = home.directory().display().to_string();
    assert!(
        shown.contains(&format!("agents = [\"{directory}/\", ")),
        "{shown}"
    );
    let is_unsafe = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!shown.contains(is_unsafe), "{shown:?}");
    write(&home, &shown);
    assert_eq!(text(&run(&home, &["config", "show"]).stdout), shown);
    let below_file = format!("{}/x.toml", path(&home).display());
    let refused = run(&home, &["config", "init", "--config", &below_file]);
    assert_code(&refused, 1);
    assert!(
        !text(&refused.stderr).contains("exists already"),
        "{refused:?}"
    );
}

#[test]
fn rules_for_secrets_in_the_file_count_in_each_run() {
    let home = Home::new();
    write(&home, "redact_env = [\"DEPLOY_*\"]\n");
    let mut job = command(&home, &["--json", "run", "sh", "-c", "echo $DEPLOY_KEY"]);
    job.env("DEPLOY_KEY", "correct-horse-battery");
    let output = Running::start(job).end();
    assert_code(&output, 0);
    let events = text(&output.stdout);
    assert!(
        events.contains("[redacted") && !events.contains("battery"),
        "{events}"
    );
}

#[test]
fn a_service_names_its_configuration_and_none_of_its_values() {
    let home = Home::new();
    write(&home, OLD);
    let config = path(&home).display().to_string();
    let unit = text(&run(&home, &["service", "show", "--config", &config]).stdout);
    let start = unit
        .lines()
        .find(|line| line.starts_with("ExecStart="))
        .unwrap();
    assert!(
        start.ends_with(&format!(" start --foreground --config \"{config}\"")),
        "{start}"
    );
}
