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
