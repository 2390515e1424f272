//! States of agents' screens, compared with a list that was written by reading each screen.
//!
//! The captures are beside the repository. Many are excerpts of a screen without its input box, and show
//! no state. `TD_BLESS=1` rewrites the list (then read its new lines).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use td_observe::agent::{AgentScreen, StateRules};

use crate::recordings::{files_below, recordings};

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
