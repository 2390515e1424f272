//! The kinds of rows on agents' screens, as the programs draw them.

use crate::agent::{RowKind, StateRules};

const TEXT: &[(&str, &str)] = &[
    ("claude", "❯ SCN:bash fix the failing test"),
    ("claude", "● Bash(touch made-by-agent.txt && ls)"),
    ("claude", "  ⎿  Waiting…"),
    ("claude", " Do you want to proceed?"),
    ("claude", " ❯ 1. Yes"),
    ("claude", "   4. No"),
    ("claude", "  [Output Complete]"),
    ("claude", "✻ Cogitated for 11s · done 4:05 PM"),
    (
        "claude",
        "  there are several files ; second , they look fine . All is well with them .",
    ),
    ("claude", "  - a list ─ with a dash"),
    ("claude", "  │ name │ size │"),
    (
        "codex",
        "  Paragraph 8: I will now describe what I have found in this directory",
    ),
    ("codex", "• Ran cargo test"),
    ("codex", "  └ test result: ok. 12 passed"),
    ("codex", "  Worked for 20s • 16:05"),
    ("codex", "› fix the lost row"),
    ("gemini", "✦ I will create a file."),
    ("gemini", " > SCN:bash fix the failing test"),
    (
        "gemini",
        "│ ? Shell  touch made-by-agent.txt && ls                  │",
    ),
    (
        "gemini",
        "│ Allow execution of [Shell]?                             │",
    ),
    (
        "gemini",
        "│ ● 1. Allow once                                         │",
    ),
    ("aider", "Repo-map: using 1024 tokens, auto refresh"),
    (
        "aider",
        "Would you like to see what's new in this version? (Y)es/(N)o [Yes]: ",
    ),
    ("aider", "> fix the lost row"),
    ("nobody", "────────────────────────"),
    ("nobody", ""),
];

const STATUS: &[(&str, &str)] = &[
    (
        "claude",
        "✻ Herding… (12s · ↓ 300 tokens · esc to interrupt)",
    ),
    ("codex", "• Working (1m 03s • esc to interrupt)"),
    (
        "gemini",
        " ⠼ Reading the Parser (esc to cancel, 1m 12s)     ? for shortcuts",
    ),
    ("aider", "░█        Waiting for gpt-4.1"),
];

const DECORATION: &[(&str, &str)] = &[
    ("claude", ""),
    (
        "claude",
        "────────────────────────────────────────────────────────────",
    ),
    (
        "claude",
        "──────────────────────────────────────────────── ultracode ─",
    ),
    ("claude", "╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌"),
    ("claude", "❯ "),
    ("claude", "  ⏸ manual mode on · ? for shortcuts"),
    ("claude", "  ⏵⏵ accept edits on (shift+tab to cycle)"),
    ("claude", " Esc to cancel · Tab to amend"),
    ("claude", "│                    │"),
    ("codex", "› Ask Codex to do anything"),
    (
        "codex",
        "  mock-model default · /tmp/td-view-lab/work-codex",
    ),
    (
        "codex",
        "  ← for agents · ? for shortcuts                      ⚠ 2 warnings · f2 to view",
    ),
    ("codex", "╭─────────────────────────────────────────────╮"),
    ("gemini", "▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄"),
    ("gemini", " >   Type your message or @path/to/file"),
    (
        "gemini",
        "                                                                ? for shortcuts",
    ),
    ("gemini", " Shift+Tab to accept edits"),
    (
        "gemini",
        " workspace (/directory)                       sandbox                    /model",
    ),
    (
        "gemini",
        " /tmp/td-view-lab/work-gemini                 no sandbox                   Auto",
    ),
    (
        "gemini",
        "│ ╰──────────────────────────────────────────────────────╯ │",
    ),
    (
        "aider",
        "────────────────────────────────────────────────────────────",
    ),
    ("aider", "> "),
];

#[test]
fn text_is_distinguished_from_progress_and_decoration() {
    let rules = StateRules::builtin();
    let kinds = [
        (RowKind::Text, TEXT),
        (RowKind::Status, STATUS),
        (RowKind::Decoration, DECORATION),
    ];
    for (kind, rows) in kinds {
        for (agent, row) in rows {
            assert_eq!(rules.row_kind(agent, row), kind, "{agent}: {row:?}");
        }
    }
}
