//! What users do with the rows of other hosts: they answer questions, look into panes, and dismiss rows.

use rustix::process::Signal;
use serde_json::Value;

use super::fifty::FiftyHosts;
use crate::cli::text;
use crate::observer::Home;
use crate::serve::Served;
use crate::support::{CEILING, wait_for};
use crate::tui::{ASKS, Stage};

/// Starts one host whose observer lets clients type, with a session that asks.
fn asking() -> Option<(FiftyHosts, String)> {
    let hosts = FiftyHosts::start(1)?;
    let home = &hosts.hosts[0].1;
    home.run(&["stop"]);
    let pane = home.server.new_session("asks", 80, 24, ASKS);
    home.start_with(&["--allow-input"]);
    Some((hosts, pane))
}

fn shows(home: &Home, pane: &str, words: &str) {
    wait_for(words, CEILING, || {
        let screen = home.server.screen(pane);
        screen.contains(words).then_some(()).ok_or(screen)
    });
}

#[test]
fn a_question_of_a_host_is_answered_from_the_terminal_ui_which_jumps_into_its_tmux() {
    let Some((hosts, pane)) = asking() else {
        return;
    };
    let home = &hosts.hosts[0].1;
    let mut stage = Stage::new();
    let ssh = format!("TD_SSH_COMMAND='{}'", hosts.ssh_command());
    stage.run((120, 30), &ssh, "tui --allow-input --host h01");
    stage.shows("h01/asks");
    stage.shows("Continue?");
    stage.keys(&["r"]);
    stage.shows("to h01/asks");
    stage.types("y");
    stage.keys(&["Enter"]);
    shows(home, &pane, "got y");
    stage.keys(&["Escape"]);
    // The row is still the selected one. The client of the host's tmux has its status line.
    stage.keys(&["Enter"]);
    stage.until("the host's tmux", |screen| screen.contains("[asks]"));
    stage.keys(&["C-b", "d"]);
    stage.shows("h01/asks");
    stage.keys(&["q"]);
    // The client of tmux has said that it was detached.
    stage.shows("code=0\nover");
    stage.is_as_before();
}

#[test]
fn a_question_of_a_host_is_answered_through_the_page_if_both_let_it() {
    let Some((hosts, pane)) = asking() else {
        return;
    };
    let (home, local) = (&hosts.hosts[0].1, &hosts.local);
    let served = |more: &[&str]| {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--host", "h01"], more].concat();
        Served::of(local, hosts.command(&args))
    };
    let waiting = |page: &Served| {
        wait_for("the question", CEILING, || {
            let board = page.ask("GET /api/v1/board", "").json();
            let rows = board.as_array().unwrap().clone();
            let found = rows.into_iter().find(|row| row["state"] == "waiting");
            found.ok_or(board)
        })
    };
    let answer = |page: &Served, row: &Value| {
        let path = format!(
            "POST /api/v1/panes/%25{}/input?socket={}",
            row["pane"].as_str().unwrap().trim_start_matches('%'),
            row["server"].as_str().unwrap()
        );
        let body = format!(r#"{{"text":"y","answers":{}}}"#, row["question_id"]);
        page.ask(&path, &body)
    };
    let page = served(&[]);
    let row = waiting(&page);
    assert_eq!(row["host"], "h01");
    assert_eq!(answer(&page, &row).status, 403);
    page.end(Signal::TERM);
    let page = served(&["--allow-input"]);
    let row = waiting(&page);
    let lines = format!(
        "GET /page/lines?row={}",
        row["id"].as_str().unwrap().replace('%', "%25")
    );
    let lines = page.ask(&lines, "");
    assert_eq!(lines.status, 200, "{lines:?}");
    let mut old = row.clone();
    old["question_id"] = "0123456789ab".into();
    assert_eq!(answer(&page, &old).status, 409);
    let answered = answer(&page, &row);
    assert_eq!(answered.status, 200, "{answered:?}");
    shows(home, &pane, "got y");
    page.end(Signal::TERM);
}

#[test]
fn a_row_of_a_host_is_dismissed_and_waited_for() {
    let Some((hosts, pane)) = asking() else {
        return;
    };
    let home = &hosts.hosts[0].1;
    let status = |args: &[&str]| {
        let args = [&["status", "--host", "h01"], args].concat();
        let output = hosts.command(&args).output().unwrap();
        (output.status.code().unwrap(), text(&output.stdout))
    };
    wait_for("a question", CEILING, || {
        let (code, shown) = status(&["--check"]);
        (code == 4).then_some(()).ok_or(shown)
    });
    assert_eq!(status(&["--ack", "h01/asks"]).0, 0);
    assert_eq!(status(&["--check"]).0, 0);
    let wait = |args: &[&str]| {
        let args = [&["wait", "--host", "h01", "--timeout", "30s"], args].concat();
        hosts.command(&args).output().unwrap()
    };
    let board = status(&["h01/asks", "--json"]).1;
    let row: Value = serde_json::from_str(&board).unwrap();
    let id = row["question_id"].as_str().unwrap();
    let answered = wait(&["asks", "--send", "n", "--answers", id, "--text", "got n"]);
    assert_eq!(text(&answered.stdout), "got n\n", "{answered:?}");
    shows(home, &pane, "got n");
    // A part of a session is for the tmux of the host.
    let silent = wait(&["h01/asks:0.0", "--idle", "1s"]);
    assert_eq!(silent.status.code(), Some(0), "{silent:?}");
    let missing = wait(&["nothing", "--exit"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        text(&missing.stderr).contains("there is no row"),
        "{missing:?}"
    );
}
