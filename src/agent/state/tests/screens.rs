//! Complete screens of each agent in each state, modelled on the output of its program.
//!
//! The screens are in `screens/`, one file for each agent, whose head names the sources of the
//! layouts; the texts are invented. A line `=== NAME = AGENT STATE` precedes each screen, followed
//! by `: QUESTION` if a dialogue shows one. A name that begins with a version marks a screen that
//! was captured from that version of the program and shortened.

use super::{detect, detected_name};

const FILES: &[&str] = &[
    include_str!("screens/claude.txt"),
    include_str!("screens/codex.txt"),
    include_str!("screens/gemini.txt"),
    include_str!("screens/qwen.txt"),
    include_str!("screens/copilot.txt"),
    include_str!("screens/opencode.txt"),
    include_str!("screens/aider.txt"),
    include_str!("screens/nobody.txt"),
];

/// Returns each screen with its name and its expected state.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let cases = FILES.iter().flat_map(|file| file.split("=== ").skip(1));
    cases.map(|case| {
        let (head, screen) = case.split_once('\n').unwrap();
        let (name, detected_name) = head.split_once(" = ").unwrap();
        (name, detected_name, screen)
    })
}

/// Returns the screens of agents that work or wait.
pub(super) fn busy() -> Vec<&'static str> {
    let is_busy = |detected_name: &str| {
        detected_name.contains("working") || detected_name.contains("waiting")
    };
    let busy = all().filter(|(_, detected_name, _)| is_busy(detected_name));
    busy.map(|(_, _, screen)| screen).collect()
}

#[test]
fn screens_are_read() {
    for (name, expected, screen) in all() {
        let asks = detect(screen).and_then(|detected| detected.asks);
        let asks = asks.map_or(String::new(), |asks| format!(": {asks}"));
        let found = format!("{}{asks}", detected_name(screen));
        assert_eq!(found, expected, "{name}\n{screen}");
        // A capture of a taller pane has blank rows at the bottom, and trailing blanks in all rows.
        let blank = " ".repeat(7);
        let wide: String = screen
            .lines()
            .map(|row| format!("{row}{blank}\n"))
            .collect();
        let tall = format!("{wide}{}", format!("{blank}\n").repeat(9));
        assert_eq!(detect(&tall), detect(screen), "{name}, tall");
    }
}
