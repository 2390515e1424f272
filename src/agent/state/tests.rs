//! Screens as agents draw them, and the rules that detect their states.

use std::time::Duration;

use super::*;

mod odd;
mod own;
mod rows;
mod screens;
use crate::event::Cursor;

const RULE: &str = "────────────────────────────────────────";

fn detect(screen: &str) -> Option<DetectedState> {
    let rows: Vec<&str> = screen.lines().collect();
    StateRules::builtin().detect(&AgentScreen::of(&rows))
}

/// Returns `agent state`, with a `?` if the state is inferred.
fn detected_name(screen: &str) -> String {
    detect(screen).map_or("none".to_owned(), |detected| {
        let mark = if detected.inferred { "?" } else { "" };
        format!("{} {}{mark}", detected.agent, detected.state)
    })
}

fn claude(above: &str, input: &str, foot: &str) -> String {
    format!("{above}\n\n{RULE}\n{input}\n{RULE}\n{foot}\n")
}

#[test]
fn claude_is_read() {
    let keys = "  ? for shortcuts";
    let modes = "  ⏵⏵ accept edits on (shift+tab to cycle) · esc to interrupt";
    for (screen, expected) in [
        (claude("⏺ It is.", "❯ ", keys), "claude idle"),
        (claude("⏺ It is.", "❯ but", keys), "claude idle?"),
        (claude("⏺ It is.\n\n✻ Baked for 1m 3s", "❯", keys), "claude done"),
        (claude("✻ Baked for 3s", "❯ and", keys), "claude idle?"),
        (claude("✻ Baked for 3s\n\n❯ and", "❯", keys), "claude idle"),
        (claude("✻ Baked for 3s · 1 shell still running", "❯", keys), "claude idle"),
        (claude("✽ Herding… (3s · thinking)\n  ⎿  ☐ one\n     ☐ two", "❯ ", keys), "claude working"),
        (claude("⏺ It is.", "❯ ", modes), "claude working"),
        (claude("⏺ It is.\n\n✢ Herding…", "❯ ", keys), "claude working?"),
        (claude("⏺ It reads\n\n  ✽ Herding… (3s · esc to interrupt)", "❯ ", keys), "claude idle"),
        (claude("⏺ It asks\n  ❯ 1. Yes\n  Esc to cancel · Tab to amend", "❯ ", keys), "claude idle"),
        (claude("❯ go\n  ⎿  API Error: 500 overloaded", "❯ ", keys), "claude error"),
        (claude("  ⎿  API Error: 500\n\n⏺ It is.", "❯ ", keys), "claude idle"),
        (claude("⏺ A\n  ⎿  5-hour limit reached ∙ resets 3pm", "❯ ", keys), "claude limited"),
        (claude("⏺ A\n  ⎿  Interrupted · What now?\n\n✻ Baked for 3s", "❯ ", keys), "claude idle"),
        (format!("⏺ Bash(ls)\n{RULE}\n Bash command\n\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend"), "claude waiting"),
        ("╭────────╮\n│ Do you want to proceed?  │\n│ ❯ 1. Yes      │\n│   2. No, and tell Claude what to do differently (esc) │\n╰────────╯".to_owned(), "claude waiting"),
    ] {
        assert_eq!(detected_name(&screen), expected, "{screen}");
    }
}

#[test]
fn codex_is_read() {
    let foot = "\n\n  gpt-5 default · 98% left · ~/a";
    for (above, input, expected) in [
        ("• It is.", "› Ask Codex to do anything", "codex idle?"),
        (
            "• Working (1m 03s • esc to interrupt)",
            "› Ask Codex to do anything",
            "codex working",
        ),
        (
            "• It shows\n  • Working (3s • esc to interrupt)",
            "›",
            "codex idle?",
        ),
        (
            "■ You've hit your usage limit. Try again at 3pm.",
            "›",
            "codex limited",
        ),
        (
            "■ stream disconnected before completion",
            "›",
            "codex error",
        ),
        (
            "■ Conversation interrupted - tell the model",
            "›",
            "codex idle",
        ),
        (
            "─ Worked for 1m 3s ────────\n\n• It is.",
            "›",
            "codex idle?",
        ),
    ] {
        assert_eq!(
            detected_name(&format!("{above}\n\n{input}{foot}")),
            expected,
            "{above}"
        );
    }
    let asks = "  Would you like to run the following command?\n\n  $ ls\n\n› 1. Yes, proceed (y)\n  2. No, and tell Codex what to do differently (esc)\n\n  Press enter to confirm or esc to cancel";
    assert_eq!(detected_name(asks), "codex waiting");
    let trust = "> You are in /a\n\n  Do you trust the contents of this directory?\n\n› 1. Yes, continue\n  2. No, quit\n\n  Press enter to continue";
    assert_eq!(detected_name(trust), "codex waiting");
}

#[test]
fn gemini_opencode_and_aider_are_read() {
    let gemini = |above: &str| {
        format!(
            "{above}\n\n╭──────╮\n│ >   Type your message or @path/to/file │\n╰──────╯\n ~/a   no sandbox (see /docs)   gemini-2.5-pro (99% context left)"
        )
    };
    let opencode = |above: &str, foot: &str| {
        format!(
            "{above}\n\n  ┃\n  ┃\n  ┃  Build  Claude Sonnet 4 Anthropic\n  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀\n   {foot}"
        )
    };
    for (screen, expected) in [
        (gemini("✦ It is."), "gemini idle"),
        (gemini("⠏ Thinking about it (esc to cancel, 3s)"), "gemini working"),
        (gemini("✕ [API Error: You exceeded your current quota]"), "gemini limited"),
        (gemini("✕ [API Error: 500]"), "gemini error"),
        ("╭────╮\n│ ?  Shell ls │\n│ Allow execution of: 'ls'?  │\n│ ● 1. Yes, allow once │\n│   2. No (esc) │\n╰────╯\n⠏ Waiting for user confirmation...".into(), "gemini waiting"),
        (opencode("     It is.\n\n     ▣  Build · claude-sonnet-4 · 3.2s", "ctrl+t variants  tab agents  ctrl+p commands"), "opencode done"),
        (opencode("     It is.\n\n     ▣  Build · claude-sonnet-4", "■■■⬝⬝⬝  esc interrupt      ctrl+p commands"), "opencode working"),
        (opencode("     ▣  Build · claude-sonnet-4 · interrupted", "ctrl+p commands"), "opencode idle"),
        ("  ┃  △ Permission required\n  ┃  # ls\n  ┃\n  ┃  Allow once   Allow always   Reject   enter confirm".into(), "opencode waiting"),
        (format!("Aider v0.81.1\nRepo-map: using 4096 tokens\n{RULE}\n> "), "aider idle"),
        (format!("> hi\n\nHello.\n\nTokens: 8.6k sent, 59 received. Cost: $0.03 message, $0.03 session.\n{RULE}\n> "), "aider done"),
        (format!("Tokens: 8.6k sent, 59 received.\n{RULE}\n> /add a\nAdded a\n{RULE}\n> "), "aider idle"),
        ("Tokens: 8.8k sent, 91 received.\na.rs\nAdd file to the chat? (Y)es/(N)o/(D)on't ask again [Yes]:".into(), "aider waiting"),
    ] {
        assert_eq!(detected_name(&screen), expected, "{screen}");
    }
}

#[test]
fn the_shell_is_the_fallback() {
    for (screen, expected) in [
        ("$ ls\nme@host:~/a$ ", "shell idle?"),
        ("[sudo] password for me: ", "shell waiting?"),
        ("Remove it? [y/N] ", "shell waiting?"),
        ("Remove it? [y/N] y\nremoved", "none"),
        ("cost is 3$", "none"),
        ("", "none"),
    ] {
        assert_eq!(detected_name(screen), expected, "{screen}");
    }
    for (screen, asks) in [
        ("Remove it? [y/N] ", Some("Remove it? [y/N]")),
        (
            "a\n[sudo] password for me: ",
            Some("[sudo] password for me:"),
        ),
        ("(END)", None),
    ] {
        let detected = detect(screen).unwrap();
        assert_eq!(detected.asks.as_deref(), asks, "{screen}");
    }
    let rows = ["me@host:~$ ", "the rest of another program"];
    let detected = StateRules::builtin().detect(&AgentScreen {
        cursor: Some(Cursor { x: 11, y: 0 }),
        ..AgentScreen::of(&rows)
    });
    assert_eq!(
        detected.map(|detected| detected.state),
        Some(AgentState::Idle)
    );
}

#[test]
fn a_persistent_change_is_reported_once() {
    let detected = |state| {
        let mut detected = detect("Go on? [y/n]:").unwrap();
        detected.state = state;
        Some(detected)
    };
    let (working, idle) = (detected(AgentState::Working), detected(AgentState::Idle));
    let mut tracker = StateDebouncer::new(Duration::from_millis(500));
    let mut reported = Vec::new();
    for (at, detected) in [
        (0, &working),
        (500, &working),
        (600, &idle),
        (700, &working),
        (1_000, &idle),
        (1_100, &None),
        (1_600, &idle),
        (1_700, &working),
        (2_000, &idle),
        (2_499, &idle),
        (2_500, &idle),
        (9_000, &idle),
    ] {
        let change = tracker.update(detected.clone(), Duration::from_millis(at));
        reported.extend(change.map(|change| (at, change.state)));
    }
    let expected = [(500, AgentState::Working), (2_500, AgentState::Idle)];
    assert_eq!(reported, expected);
    assert_eq!(tracker.deadline(), None);
    assert_eq!(tracker.current(), idle.as_ref());
    let _ = tracker.update(working, Duration::from_secs(10));
    assert_eq!(tracker.deadline(), Some(Duration::from_millis(10_500)));
}
