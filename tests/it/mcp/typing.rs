//! What is typed by MCP: never an answer to a question that the client has not named.

use serde_json::json;

use super::client::Client;
use crate::observer::Home;
use crate::support::CEILING;
use crate::support::wait_for;
use crate::typing::{Answer, race_all};

/// A program that asks a question, stores the answer, and asks the next one.
const ASKS: &str = r#"n=1; while :; do printf 'Delete build-%s? [y/N] ' $n; IFS= read -r a; echo "$n $a" >>answers; n=$((n + 1)); done"#;

#[test]
fn a_question_takes_only_what_names_it() {
    let home = Home::new();
    let program = format!("cd {} && {ASKS}", home.directory().display());
    let pane = home.server.new_session("asks", 80, 20, &program);
    let mut client = Client::connected(&home, &["--allow-input"]);
    let question = |client: &mut Client, number: usize| {
        let shown = client.tool("wait_for", json!({"pane": "asks", "state": ["waiting"]}));
        assert_eq!(shown["outcome"], "found");
        let asks = shown["question"]["asks"].as_str().unwrap();
        assert!(asks.contains(&format!("build-{number}")), "{shown}");
        shown["question"]["id"].as_str().unwrap().to_owned()
    };
    let first = question(&mut client, 1);
    for (tool, input) in [
        ("send_input", json!({"pane": "asks", "text": "y"})),
        (
            "send_input",
            json!({"pane": "asks", "keys": ["y", "Enter"]}),
        ),
        (
            "send_input",
            json!({"pane": "asks", "text": "y", "answers": "gone"}),
        ),
        (
            "send_and_wait",
            json!({"pane": "asks", "text": "y", "contains": "build-2"}),
        ),
        (
            "send_and_wait",
            json!({"pane": "asks", "text": "y", "answers": "gone", "idle_ms": 100}),
        ),
    ] {
        let refused = client.refused(tool, input);
        assert_eq!(refused["typed"], false, "{refused}");
        assert_eq!(refused["question"]["id"], first.as_str(), "{refused}");
        // What the program shows is quoted in its own field only.
        for ours in ["reason", "advice"] {
            let text = refused[ours].as_str().unwrap();
            assert!(!text.contains("build-1"), "{refused}");
        }
    }
    assert!(!home.directory().join("answers").exists());
    let answered = client.tool(
        "send_and_wait",
        json!({"pane": pane, "text": "n", "answers": first, "contains": "build-2"}),
    );
    assert_eq!(answered["outcome"], "found");
    let second = question(&mut client, 2);
    assert_ne!(first, second);
    let old = client.refused(
        "send_input",
        json!({"pane": pane, "text": "y", "answers": first}),
    );
    assert_eq!(old["question"]["id"], second.as_str());
    let answers = std::fs::read_to_string(home.directory().join("answers")).unwrap();
    assert_eq!(answers, "1 n\n");
    assert_eq!(client.end().status.code(), Some(0));
}

#[test]
fn what_may_not_be_typed_is_refused_with_the_way_to_allow_it() {
    let home = Home::new();
    home.server.new_session("build", 80, 20, "exec cat");
    home.server.new_session("other", 80, 20, "exec cat");
    let mut client = Client::connected(&home, &[]);
    let text = json!({"pane": "build", "text": "make"});
    let refused = client.refused("send_input", text.clone());
    assert!(
        refused["advice"]
            .as_str()
            .unwrap()
            .contains("--allow-input")
    );
    drop(client);
    let mut client = Client::connected(&home, &["--allow-input", "--only", "build"]);
    assert_eq!(client.tool("send_input", text)["typed"], true);
    let refused = client.refused("send_input", json!({"pane": "other", "text": "make"}));
    assert!(refused["advice"].as_str().unwrap().contains("--only"));
}

#[test]
fn the_clients_own_pane_takes_nothing() {
    let home = Home::new();
    let own = home.server.new_session("own", 80, 20, "exec cat");
    home.server.new_session("other", 80, 20, "exec cat");
    let socket = home.server.socket().display().to_string();
    let mut command = home.command(&["mcp", "--allow-input"]);
    command
        .env("TMUX", format!("{socket},1,0"))
        .env("TMUX_PANE", &own);
    let mut client = Client::of(command);
    client.connect(super::official::Era::PerRequest);
    let rows = client.tool("list_panes", json!({}));
    let rows = rows["panes"].as_array().unwrap();
    let is_own = |row: &&serde_json::Value| row["is_you"] == true;
    let owns: Vec<_> = rows.iter().filter(is_own).collect();
    assert_eq!(owns.len(), 1, "{rows:?}");
    assert_eq!(owns[0]["name"], "own");
    let refused = client.refused("send_input", json!({"pane": own, "text": "x"}));
    assert!(refused["reason"].as_str().unwrap().contains("you run in"));
    let sent = client.tool("send_input", json!({"pane": "other", "text": "x"}));
    assert_eq!(sent["typed"], true);
}

#[test]
fn several_lines_are_one_paste() {
    let home = Home::new();
    let stored = home.directory().join("stored");
    let program = format!(
        "printf '\\033[?2004hready\\n'; stty raw; head -c 20 >{}; stty sane; echo stored; exec cat",
        stored.display()
    );
    let pane = home.server.new_session("pastes", 80, 20, &program);
    home.server.wait_for_text(&pane, "ready");
    let mut client = Client::connected(&home, &["--allow-input"]);
    client.tool("send_input", json!({"pane": pane, "text": "one\ntwo"}));
    wait_for("the paste", CEILING, || {
        let text = std::fs::read_to_string(&stored).unwrap_or_default();
        if text == "\u{1b}[200~one\rtwo\u{1b}[201~\r" {
            Ok(())
        } else {
            Err(text)
        }
    });
}

/// `TD_TYPING_RACES` sets the number of races.
#[test]
fn no_answer_of_a_model_reaches_another_question() {
    let home = Home::new();
    home.server.new_session("keep", 80, 20, "exec cat");
    home.start();
    let answers = (0..4).map(|_| {
        let mut client = Client::connected(&home, &["--allow-input"]);
        let answer: Answer = Box::new(move |pane, text, id| {
            let input = json!({"pane": pane, "text": text, "answers": id});
            let call = client.call("send_input", input);
            let result = client.result(call);
            let content = &result["structuredContent"];
            match (
                content["typed"].as_bool(),
                content["question"]["id"].as_str(),
            ) {
                (Some(true), _) => Ok(true),
                // A program that has stopped to read is no longer there to answer.
                (Some(false), _) => Ok(false),
                _ => Err(result.to_string()),
            }
        });
        answer
    });
    race_all(&home, answers.collect(), 60);
}
