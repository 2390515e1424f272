//! Recorded and composed screens of opencode.

use std::time::{Duration, Instant};

use super::super::row::RowPart;
use super::super::*;
use super::short;
use crate::agent::KnownAgent;

/// Returns the events of opencode's screens, one short line per event.
fn read_opencode(screens: &[&str]) -> Vec<String> {
    let program = AgentProgram::Known(KnownAgent::Opencode);
    let (mut reader, mut events) = (ScreenReader::new(&program), Vec::new());
    let mut now = Instant::now();
    for screen in screens {
        let rows: Vec<&str> = screen.lines().collect();
        reader.update(&rows, 60, now, &mut events);
        now += Duration::from_secs(1);
        reader.handle_timeout(now, &mut events);
    }
    short(&events)
}

const NARROW_START: &str = include_str!("../screens/opencode_narrow_start.txt");
const NARROW_PROMPT: &str = include_str!("../screens/opencode_narrow_prompt.txt");
const NARROW_ERROR_BELOW_NOTICE: &str = include_str!("../screens/opencode_narrow_notice.txt");
const NARROW_ERROR: &str = include_str!("../screens/opencode_narrow_error.txt");

#[test]
fn the_first_prompt_of_a_narrow_pane_is_reported() {
    let typed = NARROW_START.replace(
        "Ask anything… \"What is the tech stack of this",
        "SCN:e400 e",
    );
    let typed = typed.replace("  ┃  project?\"\n", "  ┃\n");
    assert_eq!(
        read_opencode(&[NARROW_START, &typed, NARROW_PROMPT]),
        ["prompt SCN:e400 e"]
    );
    // The prompt was not captured while it was typed.
    assert_eq!(
        read_opencode(&[NARROW_START, NARROW_PROMPT]),
        ["prompt SCN:e400 e"]
    );
}

#[test]
fn a_notice_over_boxes_of_a_narrow_pane_does_not_hide_an_error() {
    assert_eq!(
        read_opencode(&[
            NARROW_START,
            NARROW_PROMPT,
            NARROW_ERROR_BELOW_NOTICE,
            NARROW_ERROR
        ]),
        [
            "prompt SCN:e400 e",
            "failed Your credit balance is too low to access the Anthropic API."
        ]
    );
}

#[test]
fn output_of_a_reported_tool_is_not_an_error() {
    let conversation = |rows: &str, foot: &str| {
        let bar = "  ┃\n";
        let edge = "▀".repeat(56);
        format!(
            "\n{bar}  ┃  go on\n{bar}\n{rows}\n{bar}{bar}{bar}  ┃  Build · Mock Mock\n  ╹{edge}\n   {foot}\n"
        )
    };
    let works = "■■■⬝⬝⬝⬝⬝  esc interrupt  ctrl+p commands";
    let begun = conversation("", works);
    // The second of two tools still waits, without a box.
    let first_works = conversation(
        "     ⠋ touch a\n\n     $ touch b\n\n     ▣  Build · Mock\n",
        works,
    );
    let boxed = |name: &str| format!("  ┃\n  ┃  $ touch {name}\n  ┃\n  ┃  (no output)\n  ┃\n");
    let both = format!(
        "{}\n{}\n     ▣  Build · Mock · 3.2s\n",
        boxed("a"),
        boxed("b")
    );
    let ended = conversation(&both, "/work  ctrl+p commands");
    assert_eq!(
        read_opencode(&[NARROW_START, &begun, &first_works, &ended]),
        [
            "prompt go on",
            "tool bash touch a",
            "ended bash (no output)",
            "tool bash touch b",
            "ended bash (no output)",
            "turn Build · Mock · 3.2s: ",
        ]
    );
}

#[test]
fn late_output_of_a_reported_tool_is_not_an_error() {
    let layout = Layout::of(&AgentProgram::Known(KnownAgent::Opencode));
    let (mut writer, mut events) = (ConversationWriter::default(), Vec::new());
    let mut prompt = ConversationRow::new("go on", RowPart::Boxed, true);
    prompt.is_head = true;
    let tool = ConversationRow::new("$ touch a", RowPart::Tool, true);
    let output = ConversationRow::new("(no output)", RowPart::Boxed, true);
    for row in [&prompt, &tool, &output] {
        writer.add_row(row, &layout, &mut events);
    }
    writer.end_turn(&mut events);
    assert_eq!(
        short(&events),
        ["prompt go on", "tool bash touch a", "ended bash "]
    );
}
