//! Agents that no rules know: a dialogue on their screen waits for its user, whatever the program's name, and a choice is
//! made with the keys of any menu.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{assert_code, text};
use crate::observer::{Home, post};

/// Draws what the key of the user asks for: `l` a list without numbers, `n` one with numbers, of which a digit selects,
/// `b` a row of buttons, `w` work, and each other key a screen that shows no state. In a list, arrows and Enter choose.
const PROGRAM: &str = r#"
import os, sys, tty
tty.setraw(0)
labels = ["Allow once", "Always allow", "Deny"]
def show(rows):
    os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join(rows)).encode())
def box(rows):
    return ["╭" + "─" * 50 + "╮"] + ["│ " + row.ljust(48) + " │" for row in rows] + ["╰" + "─" * 50 + "╯"]
def menu(numbers):
    chosen = 0
    while True:
        rows = ["The agent wants to run a command:", "", "  $ touch made.txt", ""]
        for n, label in enumerate(labels):
            number = f"{n + 1}. " if numbers else ""
            rows.append(("❯ " if n == chosen else "  ") + number + label)
        foot = ["", "↑↓ navigate · Enter select · Esc cancel"]
        show(rows + foot if full else box(rows + foot))
        key = os.read(0, 16)
        while key:
            if key.startswith(b"\x1b[") or key.startswith(b"\x1bO"):
                chosen = max(0, min(2, chosen + {b"A": -1, b"B": 1}.get(key[2:3], 0)))
                key = key[3:]
            elif numbers and key[:1] in b"123":
                chosen, key = int(key[:1]) - 1, key[1:]
            elif key[:1] == b"\r":
                return show(["chose <" + labels[chosen] + ">", "", "( O)> "])
            else:
                key = key[1:]
def buttons():
    rows = ["Do you want to run this command?", "", "  $ touch made.txt", "", "[y] Yes   [n] No   [a] Always"]
    show(rows if full else box(rows))
    while True:
        key = os.read(0, 1).decode()
        if key in "yna":
            return show(["pressed <" + key + ">", "", "( O)> "])
full = len(sys.argv) > 1
if full:
    os.write(1, b"\x1b[?1049h")
show(["ready", "", "( O)> "])
while True:
    key = os.read(0, 1)
    if key == b"l":
        menu(False)
    elif key == b"n":
        menu(True)
    elif key == b"b":
        buttons()
    elif key == b"w":
        show(["I look at it.", "", "⠙ Herding cats… (12s • esc to interrupt)"])
    elif key == b"q":
        break
    else:
        show(["nothing <" + key.decode() + ">", "", "( O)> "])
"#;

/// Starts the program under a name in a pane.
fn start(home: &Home, name: &str, argument: &str) -> String {
    let python = "import os, sys; print(os.path.realpath(sys.executable))";
    let python = Command::new("python3").args(["-c", python]).output();
    let python = text(&python.unwrap().stdout).trim().to_owned();
    let (file, program) = (home.directory().join(name), home.directory().join("draws"));
    symlink(python, &file).unwrap();
    fs::write(&program, PROGRAM).unwrap();
    let command = format!("exec {} {} {argument}", file.display(), program.display());
    let pane = home.server.new_session(name, 90, 20, &command);
    home.server.wait_for_text(&pane, "ready");
    pane
}

fn press(home: &Home, pane: &str, key: &str) {
    home.server.tmux(&["send-keys", "-t", pane, key]);
}

/// Answers the open question of a row.
#[track_caller]
fn answer(home: &Home, row: &Value, answer: &str) {
    let id = row["question_id"].as_str().unwrap();
    let pane = row["pane"].as_str().unwrap().replace('%', "%25");
    let path = format!("/api/v1/panes/{pane}/input");
    let body = json!({"text": answer, "answers": id}).to_string();
    let (status, problem) = post(&home.socket(), &path, &body);
    assert_eq!(status, 200, "{problem}");
}

/// Drives one program through all that it shows.
fn drive(name: &str, argument: &str) {
    let home = Home::new();
    let pane = start(&home, name, argument);
    home.start_with(&["--allow-input"]);
    home.wait_for_row(name, |row| row["pane"] == pane.as_str());
    assert_code(&home.run(&["status", "--check"]), 0);

    press(&home, &pane, "l");
    let waits = |row: &Value| row["state"] == "waiting" && row["dialogue"].is_object();
    let row = home.wait_for_row(name, waits);
    assert_eq!(row["agent"], name);
    assert_eq!(row["attention"], "needs_you");
    assert_eq!(row["asks"], "touch made.txt");
    let labels: Vec<&str> = row["dialogue"]["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| choice["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["Allow once", "Always allow", "Deny"]);
    assert_code(&home.run(&["status", "--check"]), 4);
    answer(&home, &row, "Deny");
    home.server.wait_for_text(&pane, "chose <Deny>");
    let row = home.wait_for_row(name, |row| row["state"] == "unknown");
    assert_eq!(row["agent"], name);

    press(&home, &pane, "w");
    home.wait_for_row(name, |row| row["state"] == "working");
    press(&home, &pane, "x");
    home.wait_for_row(name, |row| row["state"] == "unknown");

    press(&home, &pane, "n");
    let row = home.wait_for_row(name, waits);
    let choices = &row["dialogue"]["choices"];
    assert_eq!(
        (&choices[1]["key"], &choices[0]["selected"]),
        (&json!("2"), &json!(true))
    );
    answer(&home, &row, "2");
    home.server.wait_for_text(&pane, "chose <Always allow>");
    home.wait_for_row(name, |row| row["state"] == "unknown");

    press(&home, &pane, "b");
    let row = home.wait_for_row(name, waits);
    assert_eq!(row["dialogue"]["choices"][1]["key"], "n");
    answer(&home, &row, "n");
    home.server.wait_for_text(&pane, "pressed <n>");
    home.wait_for_row(name, |row| row["state"] == "unknown");
}

#[test]
fn an_agent_without_rules_that_fills_the_screen_waits() {
    drive("goose", "full");
}

#[test]
fn an_agent_without_rules_that_frames_its_dialogue_waits() {
    drive("goose", "");
}

#[test]
fn a_program_of_any_name_that_fills_the_screen_waits() {
    drive("frobnicate", "full");
}

#[test]
fn a_program_of_any_name_that_frames_its_dialogue_waits() {
    drive("frobnicate", "");
}

/// Draws the dialogue of Claude Code as a program does of which no process is known here: behind `ssh`, in a container. At
/// each line of its input it draws the next screen.
const ELSEWHERE: &str = r#"
stty -echo
dialogue() { clear; printf '%s\n' \
  '╭──────────────────────────────────────────────────╮' \
  '│ Bash command                                     │' \
  '│                                                  │' \
  '│   touch made.txt                                 │' \
  '│                                                  │' \
  '│ Do you want to proceed?                          │' \
  '│ ❯ 1. Yes                                         │' \
  '│   2. No                                          │' \
  '╰──────────────────────────────────────────────────╯'; }
dialogue; read key
# It scrolls, and draws the dialogue again at once.
clear; dialogue; echo; read key
clear; echo working on; exec sleep 1000
"#;

#[test]
fn a_dialogue_that_an_agent_elsewhere_has_taken_from_its_screen_waits_no_longer() {
    let home = Home::new();
    let script = home.directory().join("elsewhere.sh");
    fs::write(&script, ELSEWHERE).unwrap();
    let command = format!("exec sh {}", script.display());
    let pane = home.server.new_session("remote", 90, 20, &command);
    home.server.wait_for_text(&pane, "2. No");
    home.start();
    let row = home.wait_for_row("remote", |row| row["state"] == "waiting");
    assert_eq!([&row["agent"], &row["asks"]], ["claude", "touch made.txt"]);
    assert_code(&home.run(&["status", "--check"]), 4);
    home.server.types(&pane, "");
    home.server.types(&pane, "");
    home.server.wait_for_text(&pane, "working on");
    let row = home.wait_for_row("remote", |row| row["state"] == "unknown");
    assert_eq!(row["agent"], "claude");
    assert_code(&home.run(&["status", "--check"]), 0);
    let log = home.run(&["log", "--json", "--type", "AgentState", "remote"]);
    let states: Vec<String> = text(&log.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"]["state"].to_string())
        .collect();
    assert_eq!(
        states,
        [r#""waiting""#, r#""unknown""#],
        "{}",
        text(&log.stderr)
    );
}
