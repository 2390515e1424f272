//! What an agent says while it writes a message, which its transcript has only as a whole.

use std::fs;

use super::Home;
use crate::cli::{assert_code, text};

/// Draws the screen of an agent that works; what it says is a line of the input.
const AGENT: &str = r#"
import sys
line = "\u2500" * 40
def draw(words):
    said = ["", "\u25cf " + words] if words else []
    rows = ["\u276f tidy up. Do it well", *said, "", "\u2736 Musing\u2026 (3s \u00b7 \u2193 3 tokens)", "", line, "\u276f ", line,
            "  \u23f8 manual mode on \u00b7 esc to interrupt"]
    sys.stdout.write("\x1b[2J\x1b[H" + "\n".join(rows))
    sys.stdout.flush()
draw("")
for words in sys.stdin:
    draw(words.strip())
"#;

/// Draws the screen of opencode, which keeps no transcript.
const OPENCODE: &str = r#"
import sys
def draw(words):
    said = ["     " + words, ""] if words else []
    rows = ["", "  \u2503", "  \u2503  tidy up. Do it well", "  \u2503", "", *said, "     \u25a3  Build \u00b7 Mock", "",
            "  \u2503", "  \u2503", "  \u2503  Build \u00b7 Mock Mock", "  \u2579" + "\u2580" * 76,
            "   \u2b1d\u2b1d\u25a0  esc interrupt   ctrl+p commands"]
    sys.stdout.write("\x1b[?1049h\x1b[2J\x1b[H" + "\r\n".join(rows))
    sys.stdout.flush()
draw("")
for words in sys.stdin:
    draw(words.strip())
"#;

#[test]
fn the_last_line_of_an_agent_without_a_transcript_is_what_its_screen_shows_too() {
    let home = Home::new();
    // An agent is found by the name of its script.
    let script = home.directory().join("opencode.py");
    fs::write(&script, OPENCODE).unwrap();
    let agent = format!("stty -echo; exec python3 {}", script.display());
    home.server.new_session("agent", 80, 24, &agent);
    home.start();
    let row = home.wait_for_row("agent", |row| row["state"] == "working");
    assert_eq!(
        (&row["agent"], &row["last_line"]),
        (&"opencode".into(), &"".into())
    );
    for (words, expected) in [
        ("I look at", "I look at"),
        ("I look at it. Then I", "Then I"),
    ] {
        home.server.types("agent", words);
        home.wait_for_row("agent", |row| row["last_line"] == expected);
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn the_last_line_is_what_an_agent_says_and_never_the_prompt() {
    let home = Home::new();
    let script = home.directory().join("agent.py");
    fs::write(&script, AGENT).unwrap();
    let program = format!("stty -echo; exec python3 {}", script.display());
    home.server.new_session("agent", 80, 24, &program);
    home.start();
    let row = home.wait_for_row("agent", |row| row["state"] == "working");
    assert_eq!(row["agent"], "claude");
    assert_eq!(
        row["last_line"], "",
        "neither the prompt nor the rows of its screen"
    );
    for (words, expected) in [
        ("I look at", "I look at"),
        ("I look at it. Then I", "Then I"),
        ("I look at it. Then I tidy up.", "Then I tidy up."),
    ] {
        home.server.types("agent", words);
        home.wait_for_row("agent", |row| row["last_line"] == expected);
    }
    let log = home.run(&["log", "--type", "AgentActivity", "--json"]);
    assert_code(&log, 0);
    assert_eq!(text(&log.stdout).lines().count(), 3);
    assert_code(&home.run(&["stop"]), 0);
}
