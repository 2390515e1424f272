//! Panes in the API: their current screens, and input if it is allowed.

use serde_json::{Value, json};

use super::{Home, Reply, post, reply};
use crate::cli::{assert_code, text};
use crate::support::TmuxServer;

#[track_caller]
fn screen(home: &Home, pane: &str) -> Reply {
    let path = format!("/api/v1/panes/{}/screen", pane.replace('%', "%25"));
    reply(&home.socket(), &format!("GET {path} HTTP/1.1\r\n\r\n"))
}

#[track_caller]
fn input(home: &Home, pane: &str, body: &str) -> Reply {
    let path = format!("/api/v1/panes/{}/input", pane.replace('%', "%25"));
    post(&home.socket(), &path, body)
}

/// Returns the texts of a screen's rows.
fn rows(screen: &Value) -> Vec<&str> {
    let rows = screen["rows"].as_array().unwrap().iter();
    rows.map(|row| row["text"].as_str().unwrap()).collect()
}

#[test]
fn a_screen_has_its_colours_and_no_secret() {
    let home = Home::new();
    // Assembled here, so that this file contains no key. It wraps over two rows of 50 columns.
    let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
    let program = format!(
        "printf '\\033]2;my title\\033\\\\one \\033[1;31mred\\033[0m two\\n\\033[44mbar  \\033[0m\\n{}{key} after\\nready '; exec cat",
        ".".repeat(30)
    );
    let pane = home.server.new_session("build", 50, 10, &program);
    home.server.wait_for_text(&pane, "ready");
    home.start();
    let (status, shown) = screen(&home, &pane);
    assert_eq!(status, 200, "{shown}");
    assert_eq!(
        (&shown["pane"], &shown["title"]),
        (&json!(pane), &json!("my title"))
    );
    assert_eq!(
        (&shown["width"], &shown["height"]),
        (&json!(50), &json!(10))
    );
    assert_eq!(shown["alternate"], false);
    assert_eq!(shown["cursor"], json!({"x": 6, "y": 4}));
    let rows = rows(&shown);
    assert_eq!(rows.len(), 10);
    assert_eq!(
        (rows[0], rows[1], rows[4]),
        ("one red two", "bar  ", "ready")
    );
    let styles = shown["styles"].as_array().unwrap();
    assert!(styles.contains(&json!([0, 4, 7, "1;31"])), "{shown}");
    assert!(styles.contains(&json!([1, 0, 5, "44"])), "{shown}");
    assert!(
        rows[2].contains("redacted") && rows[3].ends_with(" after"),
        "{shown}"
    );
    for at in 0..key.len() - 12 {
        assert!(!rows.concat().contains(&key[at..at + 12]), "{shown}");
    }
    // By its names, and as the alternate screen.
    for name in ["build", "build:0", "build:0.0"] {
        assert_eq!(screen(&home, name).1["rows"], shown["rows"], "{name}");
    }
    let full = home
        .server
        .new_session("full", 40, 6, "printf '\\033[?1049hfull screen'; exec cat");
    home.server.wait_for_text(&full, "full screen");
    assert_eq!(screen(&home, "full").1["alternate"], true);
    for (pane, status) in [("%99", 404), ("nowhere", 404), ("build:7", 404)] {
        let (answered, problem) = screen(&home, pane);
        assert_eq!(answered, status, "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains(pane),
            "{problem}"
        );
    }
    let raw = reply(
        &home.socket(),
        "GET /api/v1/panes/%12/screen HTTP/1.1\r\n\r\n",
    );
    assert_eq!(raw.0, 400);
    assert!(
        raw.1["detail"].as_str().unwrap().contains("%253"),
        "{}",
        raw.1
    );
}

#[test]
fn a_pane_is_searched_on_all_servers() {
    let home = Home::new();
    let other = TmuxServer::new();
    let here = home
        .server
        .new_session("here", 40, 5, "echo this one; exec cat");
    let other_pane = other.new_session("there", 40, 5, "echo that one; exec cat");
    let second = other.new_session("second", 40, 5, "echo the second; exec cat");
    assert_eq!(here, other_pane);
    home.server.wait_for_text(&here, "this one");
    other.wait_for_text(&other_pane, "that one");
    other.wait_for_text(&second, "the second");
    let sockets = [home.server.socket(), other.socket()].map(|path| path.display().to_string());
    assert_code(
        &home.run(&["start", "-S", &sockets[0], "-S", &sockets[1]]),
        0,
    );
    assert_eq!(rows(&screen(&home, "there").1)[0], "that one");
    assert_eq!(rows(&screen(&home, &second).1)[0], "the second");
    let (status, problem) = screen(&home, &here);
    assert_eq!(status, 409, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        sockets.iter().all(|socket| detail.contains(socket)),
        "{detail}"
    );
    for (socket, shown) in [(&sockets[0], "this one"), (&sockets[1], "that one")] {
        let path = format!("/api/v1/panes/%25{}/screen?socket={socket}", &here[1..]);
        let (status, screen) = reply(&home.socket(), &format!("GET {path} HTTP/1.1\r\n\r\n"));
        assert_eq!((status, rows(&screen)[0]), (200, shown));
    }
    let none = reply(
        &home.socket(),
        "GET /api/v1/panes/here/screen?socket=/nowhere HTTP/1.1\r\n\r\n",
    );
    assert_eq!(none.0, 404);
    // A server that has ended is skipped.
    other.tmux(&["kill-server"]);
    assert_eq!(rows(&screen(&home, &here).1)[0], "this one");
}

#[test]
fn input_is_refused_unless_it_is_allowed() {
    let home = Home::new();
    let pane = home.server.new_session("sh", 60, 10, "PS1='$ ' exec sh");
    home.server.wait_for_text(&pane, "$");
    home.start();
    let wait = r#"{"target":"sh","send":"echo no","text":"no"}"#;
    for (path, body) in [
        ("/api/v1/panes/sh/input", r#"{"text":"echo no"}"#),
        ("/api/v1/wait", wait),
    ] {
        let (status, problem) = post(&home.socket(), path, body);
        assert_eq!(status, 403, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("td-observe start --allow-input"),
            "{detail}"
        );
    }
    assert!(!home.server.screen(&pane).contains("echo"));
    // A start that requires more than the running observer allows is refused with a reason.
    let refused = home.run(&["start", "--allow-input"]);
    assert_code(&refused, 1);
    assert!(
        text(&refused.stderr).contains("td-observe stop"),
        "{refused:?}"
    );
    assert_code(&home.run(&["stop"]), 0);
    home.start_with(&["--allow-input"]);
    assert_code(&home.run(&["start", "--allow-input"]), 0);
    let unit = home.run(&["service", "show", "--allow-input"]);
    assert!(text(&unit.stdout).contains(" --allow-input"), "{unit:?}");
}

#[test]
fn allowed_input_is_typed() {
    let home = Home::new();
    let pane = home.server.new_session("sh", 60, 12, "PS1='$ ' exec sh");
    home.server.wait_for_text(&pane, "$");
    home.start_with(&["--allow-input"]);
    assert_eq!(
        input(&home, &pane, r#"{"text":"echo a$((1 + 1))b"}"#),
        (200, json!({"pane": pane}))
    );
    home.server.wait_for_text(&pane, "a2b");
    assert_eq!(
        input(&home, "sh", r#"{"text":"echo c$((1 + 1))d","enter":false}"#).0,
        200
    );
    home.server.wait_for_text(&pane, "echo c$((1 + 1))d");
    assert!(!home.server.screen(&pane).contains("c2d"));
    assert_eq!(
        input(
            &home,
            "sh",
            r#"{"keys":["BSpace","e",";","Space","Enter"]}"#
        )
        .0,
        200
    );
    home.server.wait_for_text(&pane, "c2e");
    for (body, why) in [
        ("", "JSON object"),
        ("[\"a\"]", "JSON object"),
        ("{", "EOF"),
        ("{}", "give text"),
        (r#"{"text":"a","keys":["Up"]}"#, "give text"),
        (r#"{"keys":["Entr"]}"#, "Entr"),
        (r#"{"text":"x","more":1}"#, "more"),
        (r#"{"text":"a\u0000b"}"#, "zero byte"),
        (r#"{"text":["a"]}"#, "string"),
    ] {
        let (status, problem) = input(&home, "sh", body);
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            status == 400 && detail.contains(why) && !detail.contains('\n'),
            "{body}: {problem}"
        );
    }
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(70_000));
    assert_eq!(input(&home, "sh", &long).0, 413);
    let chunked = "POST /api/v1/panes/sh/input HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(reply(&home.socket(), chunked).0, 501);
    assert_eq!(input(&home, "%77", r#"{"text":"a"}"#).0, 404);
    home.server.tmux(&["copy-mode", "-t", &pane]);
    let (status, problem) = input(&home, "sh", r#"{"keys":["q"]}"#);
    assert_eq!(status, 409);
    assert!(
        problem["detail"].as_str().unwrap().contains("copy mode"),
        "{problem}"
    );
}

#[test]
fn each_path_names_its_methods() {
    let home = Home::new();
    home.server.new_session("build", 40, 5, "exec cat");
    home.start();
    for (path, allow, wrong) in [
        (
            "/api/v1/board",
            "GET, HEAD",
            &["POST", "OPTIONS", "DELETE"][..],
        ),
        (
            "/api/v1/panes/build/screen",
            "GET, HEAD",
            &["POST", "OPTIONS", "PUT"],
        ),
        (
            "/api/v1/panes/build/input",
            "POST",
            &["GET", "HEAD", "OPTIONS"],
        ),
        ("/api/v1/wait", "POST", &["GET", "HEAD", "OPTIONS"]),
    ] {
        for method in wrong {
            let answer =
                super::request(&home.socket(), &format!("{method} {path} HTTP/1.1\r\n\r\n"));
            assert!(
                answer.starts_with("HTTP/1.1 405 "),
                "{method} {path}: {answer}"
            );
            assert!(
                answer.contains(&format!("\r\nAllow: {allow}\r\n")),
                "{answer}"
            );
            assert_eq!(answer.ends_with("\r\n\r\n"), *method == "HEAD", "{answer}");
        }
    }
    let head = super::request(
        &home.socket(),
        "HEAD /api/v1/panes/build/screen HTTP/1.1\r\n\r\n",
    );
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}
