//! States of agents' screens, compared with a list that was written by reading each screen.
//!
//! The captures are beside the repository. Many are excerpts of a screen without its input box, and show
//! no state. `TD_BLESS=1` rewrites the list (then read its new lines).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use td_observe::agent::{AgentScreen, StateRules};
use td_observe::event::AgentState;

use crate::recordings::{files_below, recordings};
use crate::stream_recordings;

const LIST: &str = include_str!("agent_states.txt");

/// Returns each capture with its agent, state, rule, and whether the state is confirmed or
/// inferred.
fn detected() -> Option<BTreeMap<String, String>> {
    let root = recordings()?.join("pane-captures");
    if !root.is_dir() {
        eprintln!("NOT TESTED: no captures in {}", root.display());
        return None;
    }
    let paths = files_below(&root);
    let rules = StateRules::builtin();
    let row = |path: &PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let rows: Vec<&str> = text.lines().collect();
        let state_line = match rules.detect(&AgentScreen::of(&rows)) {
            Some(detected) => {
                let how = ["confirmed", "inferred"][usize::from(detected.inferred)];
                format!(
                    "{}\t{}\t{}\t{how}",
                    detected.agent, detected.state, detected.rule
                )
            }
            None => "-\t-\t-\t-".to_owned(),
        };
        (name.to_owned(), state_line)
    };
    Some(paths.iter().map(row).collect())
}

#[test]
fn captures_have_their_listed_states() {
    let Some(detected) = detected() else { return };
    if std::env::var_os("TD_BLESS").is_some() {
        let comments = LIST.lines().filter(|line| line.starts_with('#'));
        let lines = detected
            .iter()
            .map(|(name, state_line)| format!("{name}\t{state_line}"));
        let text: Vec<String> = comments.map(str::to_owned).chain(lines).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/agent_states.txt");
        fs::write(path, text.join("\n") + "\n").unwrap();
        return;
    }
    let listed = LIST.lines().filter(|line| !line.starts_with('#'));
    let listed = listed.filter_map(|line| line.split_once('\t'));
    let listed: BTreeMap<&str, &str> = listed.collect();
    // New captures fail here until they are read and listed.
    for (name, state_line) in &detected {
        let expected = listed.get(name.as_str()).copied();
        // A false `done` is the one error that is worse than no state.
        let is_done = |state_line: &str| state_line.split('\t').nth(1) == Some("done");
        assert!(
            !is_done(state_line) || expected.is_some_and(is_done),
            "{name} is taken for done"
        );
        assert_eq!(Some(state_line.as_str()), expected, "{name}");
    }
}

/// The number of screens of a recording without times.
const SCREENS: usize = 40;

/// Returns what a recording shows: one screen a second, or evenly spaced screens if it has no times.
fn screens(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_string_lossy();
    if !name.ends_with(".cast") {
        let text = fs::read(path).unwrap();
        let (width, height, bytes) = match stream_recordings::read(path) {
            Some(recording) => recording,
            None if name.ends_with(".pipe.log") => {
                let text = String::from_utf8_lossy(&text).replace('\n', "\r\n");
                (100, 30, text.into_bytes())
            }
            None => return Vec::new(),
        };
        let step = bytes.len().div_ceil(SCREENS).max(1);
        let mut terminal = avt::Terminal::new(width as usize, height as usize).unwrap();
        let shown = bytes.chunks(step).map(|bytes| {
            terminal.feed(&*String::from_utf8_lossy(bytes));
            text_of(&terminal)
        });
        return shown.collect();
    }
    let Some((width, height, _)) = stream_recordings::read(path) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    let is_relative = text.contains("\"version\":3") || text.contains("\"version\": 3");
    let mut terminal = avt::Terminal::new(width as usize, height as usize).unwrap();
    let (mut shown, mut now, mut next) = (Vec::new(), 0.0, 1.0);
    for line in text.lines().skip(1) {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        let at = event.get(0).and_then(serde_json::Value::as_f64);
        let at = at.unwrap_or_default();
        now = if is_relative { now + at } else { at };
        while next <= now && shown.len() < 1_000 {
            shown.push(text_of(&terminal));
            next += 1.0;
        }
        if event.get(1).is_some_and(|kind| kind == "o") {
            terminal.feed(
                event
                    .get(2)
                    .and_then(|text| text.as_str())
                    .unwrap_or_default(),
            );
        }
    }
    shown.push(text_of(&terminal));
    shown
}

fn text_of(terminal: &avt::Terminal) -> String {
    terminal.screen().text().join("\n")
}

/// Builds, shells and full-screen programs are no agents. A pager waits for its reader.
#[test]
fn other_programs_neither_wait_nor_are_done() {
    let Some(root) = recordings() else { return };
    let rules = StateRules::builtin();
    let (mut count, mut wrong) = (0, Vec::new());
    for directory in ["asciicast", "pty-recordings", "build-logs"] {
        for path in files_below(&root.join(directory)) {
            for screen in screens(&path) {
                count += 1;
                let rows: Vec<&str> = screen.lines().collect();
                for is_full in [false, true] {
                    let shown = AgentScreen {
                        is_full,
                        ..AgentScreen::of(&rows)
                    };
                    let Some(detected) = rules.detect(&shown) else {
                        continue;
                    };
                    let is_wrong = matches!(detected.state, AgentState::Waiting | AgentState::Done);
                    if is_wrong && detected.rule != "pager" {
                        wrong.push(format!(
                            "{}: {}\n{screen}",
                            path.display(),
                            detected.evidence()
                        ));
                    }
                }
            }
        }
    }
    eprintln!("{count} screens of other programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "{count} screens");
}
