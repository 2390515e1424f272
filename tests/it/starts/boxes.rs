//! Agents behind a sandbox or a login: the process in the pane's foreground is another one, and the screen decides.

use std::process::Command;

use serde_json::Value;

use super::agent;
use crate::observer::Home;
use crate::states;

/// Returns the commands that start a program behind something else, as far as they work here, each with its name.
fn boxes(home: &Home) -> Vec<(&'static str, String)> {
    let forms = [
        ("unshare", "unshare -p -f --mount-proc".to_owned()),
        ("unshare", "unshare -r -p -f --mount-proc".to_owned()),
        (
            "bwrap",
            "bwrap --bind / / --dev-bind /dev /dev --proc /proc --unshare-pid".to_owned(),
        ),
        ("ssh", ssh(home)),
    ];
    let mut boxes: Vec<(&str, String)> = Vec::new();
    let mut problems = Vec::new();
    for (name, form) in forms {
        if boxes.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let mut shell = Command::new("sh");
        let tried = shell.args(["-c", &format!("{form} true")]).output();
        let tried = tried.unwrap();
        if tried.status.success() {
            boxes.push((name, form));
        } else {
            let error = String::from_utf8_lossy(&tried.stderr).into_owned();
            problems.push((name, error));
        }
    }
    for (name, problem) in problems {
        if !boxes.iter().any(|(known, _)| *known == name) {
            eprintln!("SKIPPED, NOT TESTED: {name}: {}", problem.trim());
        }
    }
    boxes
}

/// Returns the command that logs in to this machine, at a server of its own that listens on no port.
fn ssh(home: &Home) -> String {
    let key = |name: &str| {
        let file = home.directory().join(name);
        let make = ["-q", "-t", "ed25519", "-N", "", "-f"];
        // Without ssh, the command that is returned fails.
        let _ = Command::new("ssh-keygen").args(make).arg(&file).status();
        file.display().to_string()
    };
    let (host, own) = (key("host"), key("own"));
    let config = home.directory().join("sshd_config");
    let lines = format!(
        "HostKey {host}\nAuthorizedKeysFile {own}.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
    );
    std::fs::write(&config, lines).unwrap();
    // A server that root starts needs this directory, which a machine has once its own server has run.
    let _ = std::fs::create_dir("/run/sshd");
    format!(
        "ssh -F none -tt -i {own} -o BatchMode=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -o \"ProxyCommand=/usr/sbin/sshd -i -f {}\" \"$(id -un)@box\"",
        config.display()
    )
}

#[test]
fn behind_a_sandbox_or_a_login_the_screen_decides() {
    let home = Home::new();
    agent(&home, "claude");
    let script = home.directory().join("agent.sh").display().to_string();
    let boxes = boxes(&home);
    home.server.new_session("keep", 80, 24, "exec cat");
    // As the pane's own program, and as a job of a shell.
    let mut sessions = Vec::new();
    for (name, form) in &boxes {
        let own = format!("exec {form} bash {script}");
        home.server.new_session(name, 80, 24, &own);
        let job = format!("{name}-job");
        let pane = home.server.shell(&job);
        home.server.types(&pane, &format!("{form} bash {script}"));
        sessions.extend([(*name).to_owned(), job]);
    }
    home.start();
    for session in &sessions {
        let target = format!("={session}:");
        home.server.wait_for_text(&target, "(0)");
        let shows = |state: &'static str| {
            move |row: &Value| row["agent"] == "claude" && row["state"] == state
        };
        home.wait_for_row(session, shows("idle"));
        for state in ["working", "waiting", "done"] {
            states::set_state(&home.server, &target, state);
            let row = home.wait_for_row(session, shows(state));
            assert_eq!(row["evidence"], "inferred", "{row}");
            if state == "waiting" {
                assert_eq!(row["asks"], "rm -rf build", "{row}");
                let choices = row["dialogue"]["choices"].as_array();
                assert_eq!(choices.map(Vec::len), Some(2), "{row}");
            }
        }
    }
}
