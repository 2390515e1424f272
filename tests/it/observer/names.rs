//! The names of rows: as their owner would say them, and no two alike.

use std::fs;
use std::path::Path;

use super::Home;
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, wait_for};

/// Returns the first column of the board.
#[track_caller]
fn shown(home: &Home) -> Vec<String> {
    let status = home.run(&["status"]);
    assert_code(&status, 0);
    let lines = text(&status.stdout);
    let mut lines = lines.lines();
    let width = lines.next().unwrap().find("AGENT").unwrap();
    let is_row = |line: &&str| !line.contains(" quiet");
    let names = lines.filter(is_row);
    let name = |line: &str| line.chars().take(width).collect::<String>();
    let mut names: Vec<String> = names.map(|line| name(line).trim().to_owned()).collect();
    names.sort();
    names
}

#[track_caller]
fn wait_for_names(home: &Home, expected: &[&str]) {
    wait_for("the names of the rows", CEILING, || {
        let names = shown(home);
        (names == expected).then_some(()).ok_or(names)
    });
}

fn repository(path: &Path, branch: &str) {
    fs::create_dir_all(path.join(".git")).unwrap();
    fs::create_dir_all(path.join("src")).unwrap();
    fs::write(
        path.join(".git/HEAD"),
        format!("ref: refs/heads/{branch}\n"),
    )
    .unwrap();
}

#[test]
fn panes_that_share_a_session_have_names_of_their_owner_and_each_is_found_by_its_name() {
    let home = Home::new();
    let at = |name: &str| home.directory().join(name).display().to_string();
    let (api, web) = (at("api"), at("web"));
    repository(Path::new(&api), "main");
    repository(Path::new(&web), "fix/login");
    let tmux = |args: &[&str]| home.server.tmux(args);
    tmux(&["new-session", "-d", "-s", "docs", "-c", &web, "exec cat"]);
    tmux(&["new-session", "-d", "-s", "work", "-c", &api, "exec cat"]);
    tmux(&["new-window", "-t", "=work:", "-c", &web, "exec cat"]);
    tmux(&[
        "new-window",
        "-t",
        "=work:",
        "-n",
        "tests",
        "-c",
        &api,
        "exec cat",
    ]);
    tmux(&[
        "new-window",
        "-t",
        "=work:",
        "-c",
        &format!("{api}/src"),
        "exec cat",
    ]);
    tmux(&[
        "new-window",
        "-t",
        "=work:",
        "-c",
        &format!("{api}/src"),
        "exec cat",
    ]);
    home.start();
    let names = [
        "docs",
        "work:api (main)",
        "work:api/src (main) %4",
        "work:api/src (main) %5",
        "work:tests",
        "work:web (fix/login)",
    ];
    wait_for_names(&home, &names);
    let mut narrow = home.command(&["status"]);
    narrow.env("COLUMNS", "70");
    let narrow = text(&Running::start(narrow).end().stdout);
    for name in ["docs ", "tests ", "web (fix/login) ", "api/src (mai… %4 "] {
        let mut lines = narrow.lines();
        assert!(lines.any(|line| line.starts_with(name)), "{name}: {narrow}");
    }
    for (name, pane) in [
        ("work:web (fix/login)", "%2"),
        ("work:tests", "%3"),
        ("%5", "%5"),
        // As a narrow table shows them.
        ("web (fix/login)", "%2"),
        ("api/src (mai… %4", "%4"),
    ] {
        let status = home.run(&["status", "--json", name]);
        let row: serde_json::Value = serde_json::from_str(&text(&status.stdout)).unwrap();
        assert_eq!(row["pane"], pane, "{name}");
    }
    tmux(&["send-keys", "-t", "%2", "hello", "Enter"]);
    let found = home.run(&[
        "wait",
        "-S",
        &home.server.socket().display().to_string(),
        "work:web (fix/login)",
        "--text",
        "hello",
        "--include-existing",
        "--timeout",
        "30s",
    ]);
    assert_code(&found, 0);
    // The user names a window, and takes the name back.
    tmux(&["rename-window", "-t", "=work:1", "frontend"]);
    let mut names = names;
    names[5] = "work:frontend";
    names.sort_unstable();
    wait_for_names(&home, &names);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn an_agent_in_a_shared_session_is_named_by_its_title() {
    let home = Home::new();
    let tmux = |args: &[&str]| home.server.tmux(args);
    let directory = home.directory().join("web").display().to_string();
    repository(Path::new(&directory), "main");
    let title = |spinner: char| format!("\x1b]2;{spinner} Fix the login\x07");
    let run = format!("printf '{}'; exec bash -c 'exec -a goose cat'", title('⠋'));
    tmux(&[
        "new-session",
        "-d",
        "-s",
        "work",
        "-c",
        &directory,
        "exec cat",
    ]);
    home.start();
    wait_for_names(&home, &["work"]);
    tmux(&["split-window", "-t", "=work:", "-c", &directory, &run]);
    wait_for_names(&home, &["work:Fix the login", "work:web (main)"]);
    tmux(&["send-keys", "-t", "%1", "-l", &title('⠙')]);
    tmux(&["send-keys", "-t", "%1", "Enter", "there", "Enter"]);
    home.server.wait_for_text("%1", "there");
    let log = home.run(&["log", "--type", "RowRenamed", "--json"]);
    let lines = text(&log.stdout);
    let titles = lines.lines().filter(|line| line.contains("Fix the login"));
    assert_eq!(titles.count(), 1, "a spinner is no other name: {lines}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn an_ended_row_and_a_live_one_of_the_same_session_name_differ() {
    let home = Home::new();
    home.server.new_session("keep", 80, 24, "exec cat");
    let pane = home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    home.wait_for_row("build", |row| row["state"] == "running");
    home.server.tmux(&["kill-pane", "-t", &pane]);
    home.wait_for_row("build", |row| row["state"] == "exited");
    home.server.new_session("build", 80, 24, "exec cat");
    wait_for_names(&home, &["build", &format!("build {pane}"), "keep"]);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn an_agents_file_is_named_by_its_project_and_its_first_prompt() {
    let home = Home::new();
    home.server.new_session("keep", 80, 24, "exec cat");
    let files = home.directory().join("files");
    fs::create_dir(&files).unwrap();
    let user = r#"{"type":"user","uuid":"1","cwd":"/home/u/api","sessionId":"s","message":{"role":"user","content":"Fix the login"}}"#;
    let id = "0d1e2f3a-1111-4222-8333-abcdefabcdef";
    fs::write(files.join(format!("{id}.jsonl")), format!("{user}\n")).unwrap();
    home.start_with(&["--agents", &files.display().to_string()]);
    wait_for_names(&home, &["api: Fix the login", "keep"]);
    let status = home.run(&["status", "--json", "api: Fix the login"]);
    let row: serde_json::Value = serde_json::from_str(&text(&status.stdout)).unwrap();
    assert_eq!(row["name"], id, "{row}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn the_conversation_of_an_agent_is_exported_as_markdown() {
    let home = Home::new();
    let stream = concat!(
        r#"{"type":"system","subtype":"init","session_id":"s","tools":[],"model":"m"}"#,
        "\n",
        r#"{"type":"assistant","message":{"id":"1","role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"cargo test"}}]},"session_id":"s"}"#,
        "\n",
        r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"all passed"}]},"session_id":"s"}"#,
        "\n",
        r#"{"type":"assistant","message":{"id":"2","role":"assistant","content":[{"type":"text","text":"It is **done**."}]},"session_id":"s"}"#,
        "\n",
        r#"{"type":"result","subtype":"success","is_error":false,"result":"It is **done**.","session_id":"s"}"#,
        "\n"
    );
    let file = home.directory().join("stream");
    fs::write(&file, stream).unwrap();
    let command = ["cat", &file.display().to_string()].join(" ");
    let run = [
        "run",
        "--as",
        "claude",
        "--execution-id",
        "fix",
        "--",
        "sh",
        "-c",
        &command,
    ];
    assert_code(&home.run(&run), 0);
    let markdown = home.run(&["export", "fix", "--format", "md"]);
    assert_code(&markdown, 0);
    let expected = "\nI look.\n\n- **Bash**: `cargo test`\n\n      all passed\n\nIt is **done**.\n";
    let markdown = text(&markdown.stdout);
    assert!(
        markdown.starts_with("# ") && markdown.ends_with(expected),
        "{markdown}"
    );
    let plain = ["run", "--execution-id", "plain", "--", "echo", "text"];
    assert_code(&home.run(&plain), 0);
    assert_code(&home.run(&["export", "plain", "--format", "md"]), 2);
}
