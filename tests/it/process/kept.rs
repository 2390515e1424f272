//! The history of commands: listed, printed, replayed and exported under the program's name.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::program::command;
use crate::cli::{Running, assert_code, run, text};

#[test]
fn a_run_is_found_by_the_programs_name() {
    let data = tempfile::tempdir().unwrap();
    let program = data.path().join("build-it");
    let script = "#!/bin/sh\necho first\necho problem >&2\nprintf '\\033[31mred\\033[m\\n'\nprintf last\nexit $1\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = program.to_str().unwrap();
    for code in ["0", "3"] {
        let output = Running::start(command(&["-q", "--", path, code], data.path())).end();
        assert_code(&output, code.parse().unwrap());
    }
    let output = |args: &[&str]| {
        let output = run(args, data.path());
        assert_code(&output, 0);
        assert!(output.stderr.is_empty(), "{output:#?}");
        text(&output.stdout)
    };
    let table = output(&["runs"]);
    for part in ["build-it@", "process", "completed", "failed"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let listed = output(&["runs", "--json"]);
    let runs: Vec<serde_json::Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(runs.len(), 2, "{listed}");
    for (state, code) in [("completed", 0), ("failed", 3)] {
        let run = runs.iter().find(|run| run["state"] == state).unwrap();
        assert_eq!(run["exit_status"], code, "{listed}");
        assert_eq!(run["label"], "build-it", "{listed}");
        let metadata = fs::read(format!("{}/metadata.json", run["path"].as_str().unwrap()));
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.unwrap()).unwrap();
        assert_eq!(metadata["extra"]["command"], format!("{path} {code}"));
        assert_eq!(metadata["kind"], "process");
    }

    // The name selects the latest run.
    for shown in [
        output(&["log", "build-it"]),
        output(&["replay", "build-it", "--speed", "20"]),
    ] {
        for part in [
            "first\n",
            "[stderr] problem\n",
            "red\n",
            "last\n",
            "exit code 3",
        ] {
            assert!(shown.contains(part), "{part:?}: {shown}");
        }
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    let exported = output(&["export", "build-it", "--format", "text"]);
    for line in ["first", "red", "last"] {
        assert!(exported.lines().any(|other| other == line), "{exported}");
    }
    assert!(exported.contains("problem"), "{exported}");
    let cast = output(&["export", "build-it", "--format", "cast"]);
    assert!(cast.lines().count() > 3 && cast.contains("first"), "{cast}");
    let json = output(&["log", "build-it", "--json", "--type", "ExecutionOutput"]);
    let texts = json.lines().map(|line| super::program::event(line));
    assert_eq!(
        super::text_of(&texts.collect::<Vec<_>>(), "stdout"),
        "first\n\u{1b}[31mred\u{1b}[m\nlast"
    );
    let found = output(&["log", "build-it", "--grep", "problem"]);
    assert!(
        found.contains("[stderr] problem") && !found.contains("first"),
        "{found}"
    );
}

#[test]
fn a_run_is_followed_while_it_runs() {
    let data = tempfile::tempdir().unwrap();
    let go = data.path().join("go");
    let script = format!(
        "echo first; while [ ! -e '{}' ]; do sleep 0.02; done; echo second",
        go.display()
    );
    let args = ["--execution-id", "job", "--json", "--", "sh", "-c", &script];
    let mut running = super::program::Arriving::start(command(&args, data.path()));
    running.until(r#""text":"first"#);
    let mut following = Running::start(crate::cli::program(
        &["log", "job", "--follow"],
        data.path(),
    ));
    following.wait_for("first");
    assert!(text(&run(&["runs"], data.path()).stdout).contains("running"));
    fs::write(go, "").unwrap();
    following.wait_for("second");
    assert_code(&running.end().0, 0);
    assert_code(&following.end(), 0);
}

#[test]
fn secrets_are_not_stored_and_not_in_events() {
    let data = tempfile::tempdir().unwrap();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let script = format!("echo token {secret}; echo {secret} >&2");
    let output = super::program::script(&["--json"], &script, data.path());
    assert_code(&output, 0);
    assert!(!text(&output.stdout).contains(&secret), "{output:#?}");
    let found = std::process::Command::new("grep")
        .args(["-r", "-l", &secret])
        .arg(data.path())
        .output();
    assert_eq!(text(&found.unwrap().stdout), "");
}

/// The first half of a password that the command breaks at the end of a line is printed before the second one.
#[test]
fn a_broken_password_is_redacted_wherever_the_output_is_cut() {
    let data = tempfile::tempdir().unwrap();
    let gate = data.path().join("gate");
    let (one, two) = (["Xk29", "fQ7b"].concat(), ["vT4m", "Pz81"].concat());
    let begin = format!("connecting to the database at {}://app:", "postgres");
    let script = format!(
        "mkfifo {gate}; echo '{begin}{one}'; read go < {gate}; echo '  {two}@db/main'",
        gate = gate.display()
    );
    let args = ["--json", "--", "sh", "-c", &script];
    let mut running = crate::cli::Running::start(command(&args, data.path()));
    running.wait_for(&format!("\"text\":\"{begin}"));
    std::fs::write(&gate, "go\n").unwrap();
    let output = running.end();
    assert_code(&output, 0);
    let events = text(&output.stdout);
    let texts: Vec<&str> = events
        .lines()
        .filter(|line| line.contains("ExecutionOutput"))
        .collect();
    assert_eq!(texts.len(), 2, "{events}");
    assert!(
        texts
            .iter()
            .all(|text| text.contains("[redacted:url-password]")),
        "{events}"
    );
    assert!(texts[1].contains("@db/main"), "{events}");
}
