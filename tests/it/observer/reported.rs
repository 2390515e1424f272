//! What programs say of themselves through their terminal: reports of their status (OSC 7501) and notifications.

use serde_json::Value;

use super::Home;
use crate::cli::assert_code;
use crate::support::{CEILING, wait_for};

/// Prints each line of its input, with its escapes read.
const PRINTER: &str =
    r#"exec bash -c 'stty -echo; echo ready; while IFS= read -r line; do printf "$line"; done'"#;

/// `Deploy to production?` and `Or to staging?` in Base64.
const DEPLOY: &str = "RGVwbG95IHRvIHByb2R1Y3Rpb24/";
const STAGING: &str = "T3IgdG8gc3RhZ2luZz8=";

/// Starts a session, and an observer that reads the bytes of its pane.
fn streamed(home: &Home, command: &str) {
    let pane = home.server.new_session("work", 80, 24, command);
    home.start();
    wait_for("the pipe", CEILING, || {
        let piped = home
            .server
            .tmux(&["display", "-p", "-t", &pane, "#{pane_pipe}"]);
        if piped.trim() == "1" {
            Ok(())
        } else {
            Err(piped)
        }
    });
}

/// Returns a report, as a line for [`PRINTER`].
fn report(pairs: &str) -> String {
    format!(r"\033]7501;{pairs}\033\\")
}

/// Returns it within tmux's passthrough.
fn passed(pairs: &str) -> String {
    format!(r"\033Ptmux;\033\033]7501;{pairs}\007\033\\")
}

fn is_in(state: &str) -> impl Fn(&Value) -> bool {
    let state = state.to_owned();
    move |row| row["state"] == *state
}

#[test]
fn a_program_that_reports_its_status_moves_its_row() {
    let home = Home::new();
    streamed(&home, PRINTER);
    let says = |text: &str| home.server.types("work", text);
    let waits = |state: &str| home.wait_for_row("work", is_in(state));

    says(&report("state=working:app=deploy:progress=40"));
    let row = home.wait_for_row("work", |row| row["progress"] == 40 && is_in("working")(row));
    assert_eq!(
        [
            &row["state"],
            &row["source"],
            &row["agent"],
            &row["evidence"]
        ],
        ["working", "report", "deploy", "confirmed"]
    );
    says(&report(&format!(
        "state=blocked:kind=permission:app=deploy:msg={DEPLOY}"
    )));
    let row = waits("waiting");
    assert_eq!(row["asks"], "Deploy to production?");
    assert_eq!(row["attention"], "needs_you");
    let question = row["question_id"].clone();
    says(&passed(&format!("state=blocked:app=deploy:msg={STAGING}")));
    let row = home.wait_for_row("work", |row| row["asks"] == "Or to staging?");
    assert_ne!(row["question_id"], question, "another question");

    // A child needs its user, too.
    says(&report("state=working:app=deploy"));
    waits("working");
    says(&report(&format!(
        "state=blocked:id=test/unit:progress=7:msg={DEPLOY}"
    )));
    let row = home.wait_for_row("work", |row| !row["children"].is_null());
    assert_eq!(
        [&row["state"], &row["asks"]],
        ["waiting", "Deploy to production?"]
    );
    assert_eq!(
        row["children"],
        serde_json::json!([
            {"id": "test/unit", "state": "waiting", "asks": "Deploy to production?", "progress": 7}
        ])
    );
    says(&report("state=clear:id=test"));
    let row = waits("working");
    assert_eq!(row["source"], "report");
    home.wait_for_row("work", |row| row["children"].is_null());
    says(&report(&format!("state=error:app=deploy:msg={DEPLOY}")));
    let row = waits("error");
    assert_eq!(row["asks"], "Deploy to production?");
    says(&report("state=clear"));
    home.wait_for_row("work", |row| row["source"] != "report");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_prompt_ends_the_work_that_was_reported_and_no_result() {
    let home = Home::new();
    streamed(&home, PRINTER);
    let says = |text: &str| home.server.types("work", text);
    says(&report("state=blocked"));
    home.wait_for_row("work", is_in("waiting"));
    says(r"\033]133;A\007");
    home.wait_for_row("work", |row| row["source"] != "report");
    says(&(report("state=done") + r"\033]133;A\007"));
    let row = home.wait_for_row("work", is_in("done"));
    assert_eq!(row["source"], "report");
    says(&(report("state=working") + r"\033c"));
    home.wait_for_row("work", |row| row["source"] != "report");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn the_report_of_a_job_ends_with_it() {
    let home = Home::new();
    streamed(
        &home,
        "exec env -i PATH=\"$PATH\" PS1='me@host:~$ ' bash --norc --noprofile -i",
    );
    home.server.wait_for_text("work", "me@host");
    let script = home.directory().join("deploy");
    let asks = format!(
        "#!/bin/sh\nprintf '{}'\nread answer\nprintf '{}'\nread answer\n",
        report("state=blocked"),
        report("state=done")
    );
    std::fs::write(&script, asks).unwrap();
    home.server
        .types("work", &format!("sh {}", script.display()));
    home.wait_for_row("work", is_in("waiting"));
    home.server.tmux(&["send-keys", "-t", "work", "C-c"]);
    home.wait_for_row("work", is_in("idle"));
    home.server
        .types("work", &format!("sh {}", script.display()));
    home.wait_for_row("work", is_in("waiting"));
    home.server.types("work", "yes");
    home.wait_for_row("work", is_in("done"));
    home.server.types("work", "yes");
    home.server.types("work", "sleep 100");
    // The result of a program that has ended stands until the next one.
    home.wait_for_row("work", is_in("working"));
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn the_line_of_the_guide_says_that_a_script_needs_its_user() {
    let guide = include_str!("../../../src/guide/agents.md");
    let mut lines = guide.lines();
    let line = lines
        .find(|line| line.starts_with(r"printf '\033]7501;"))
        .unwrap();
    let home = Home::new();
    streamed(
        &home,
        "exec env -i PATH=\"$PATH\" PS1='me@host:~$ ' bash --norc --noprofile -i",
    );
    home.server.wait_for_text("work", "me@host");
    home.server.types("work", line);
    let row = home.wait_for_row("work", is_in("waiting"));
    assert_eq!(row["asks"], "Deploy to production?");
    let status = home.run(&["status", "--check"]);
    assert_code(&status, 4);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn hostile_reports_harm_nothing() {
    let home = Home::new();
    let script = home.directory().join("hostile.py");
    let program = r#"
import base64, sys
def say(pairs): sys.stdout.buffer.write(b"\x1b]7501;" + pairs + b"\x1b\\")
say(b"state=working:app=hostile")
say(b"state=blocked:msg=" + b"A" * 2733)
say(b"state=blocked:x=" + b"A" * 4096)
say(b"state=blocked:msg=*not*base64*:msg=A")
say(b"state=blocked:msg=/w==")
say(b"state=blocked:id=a//b")
say(b"state=blocked:aaaaaaaaaaaaaaaaaaaaaaa=1")
say(b"state=sleeping")
for id in range(10000):
    say(b"state=working:id=%d:progress=101:title=%s" % (id, base64.b64encode(b"x" * 192)))
say(b"state=clear:id=0")
say(b"state=error:id=x:msg=" + base64.b64encode(b"a\x1b[31mb\nc\x00"))
sys.stdout.flush()
sys.stdin.readline()
say(b"state=blocked:msg=" + base64.b64encode("Gr\u00fc\u00dfe?".encode()))
sys.stdout.flush()
sys.stdin.readline()
"#;
    std::fs::write(&script, program).unwrap();
    let command = format!("stty -echo; read -r go; exec python3 {}", script.display());
    streamed(&home, &command);
    home.server.types("work", "go");
    let row = home.wait_for_row("work", |row| {
        let children = row["children"].as_array().map(Vec::as_slice);
        children.is_some_and(|children| children.iter().any(|child| child["id"] == "x"))
    });
    assert_eq!([&row["state"], &row["agent"]], ["working", "hostile"]);
    let children = row["children"].as_array().unwrap();
    assert_eq!(children.len(), 255, "256 records, with the program's own");
    let last = children.iter().find(|child| child["id"] == "x").unwrap();
    assert_eq!(last["asks"], "a [31mb c");
    assert!(children.iter().all(|child| child["progress"].is_null()));
    home.server.types("work", "go");
    let row = home.wait_for_row("work", is_in("waiting"));
    assert_eq!(row["asks"], "Grüße?");
    assert_code(&home.run(&["stop"]), 0);
}
