//! Reads an agent's state from its pane's title (pure).
//!
//! Measured in November 2026:
//!
//! - Gemini CLI 0.61 writes `✦  Working… (DIR)`, `◇  Ready (DIR)` and `✋  Action Required (DIR)`.
//! - Codex 0.169 shows a braille spinner before its directory while it works, and
//!   `[ ! ] Action Required | DIR`, alternating with `[ . ]`, while it waits.
//! - Qwen Code 0.24 writes `◐` while it works and `✳` while it waits, before `Qwen - DIR`.
//! - Claude Code's title does not change.

use super::decoration::is_spinner;
use super::{AgentState, KnownAgent};

/// Returns the state that a title shows; `None` for any other title.
pub(crate) fn state_of_title(agent: KnownAgent, title: &str) -> Option<AgentState> {
    let title = title.trim();
    let first = title.chars().next()?;
    let (asks, works, rests) = match agent {
        KnownAgent::Gemini => (first == '✋', first == '✦' || first == '⏲', first == '◇'),
        KnownAgent::Codex => {
            let asks = title.starts_with("[ ! ]") || title.starts_with("[ . ]");
            (asks, is_spinner(first), true)
        }
        KnownAgent::Qwen => {
            let marked = title.contains("Qwen - ");
            let is_mark = |marks: &[char]| marked && marks.contains(&first);
            (
                is_mark(&['✳', '✋']),
                is_mark(&['◐', '◓', '◑', '◒']),
                title.starts_with("Qwen - "),
            )
        }
        KnownAgent::Claude | KnownAgent::Opencode | KnownAgent::Aider | KnownAgent::Copilot => {
            return None;
        }
    };
    match () {
        () if asks => Some(AgentState::Waiting),
        () if works => Some(AgentState::Working),
        () if rests => Some(AgentState::Idle),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn titles_of_real_agents_show_their_states() {
        use AgentState::{Idle, Waiting, Working};
        use KnownAgent::{Claude, Codex, Gemini, Qwen};
        for (agent, title, expected) in [
            (Gemini, "✦  Working… (work)       ", Some(Working)),
            (Gemini, "◇  Ready (work)   ", Some(Idle)),
            (Gemini, "✋  Action Required (work)", Some(Waiting)),
            (Gemini, "vm", None),
            (Codex, "⠙ work", Some(Working)),
            (Codex, "work", Some(Idle)),
            (Codex, "[ ! ] Action Required | work", Some(Waiting)),
            (Codex, "[ . ] Action Required | work", Some(Waiting)),
            (Qwen, "◐\u{fe0e} Qwen - work", Some(Working)),
            (Qwen, "✳\u{fe0e} Qwen - work", Some(Waiting)),
            (Qwen, "Qwen - work", Some(Idle)),
            (Qwen, "vm", None),
            (Claude, "✳ Claude Code", None),
            (Codex, "", None),
        ] {
            assert_eq!(state_of_title(agent, title), expected, "{title}");
        }
    }

    proptest! {
        #[test]
        fn any_title_is_accepted(title in ".{0,40}") {
            for agent in KnownAgent::ALL {
                let _ = state_of_title(agent, &title);
            }
        }
    }
}
