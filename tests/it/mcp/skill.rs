//! The skill file teaches what the program accepts.

use std::process::Command;

use crate::cli::{PROGRAM, text};

const SKILL: &str = include_str!("../../../src/cli/skill.md");

#[test]
fn the_skill_names_options_that_there_are() {
    let commands: Vec<&str> = SKILL
        .lines()
        .filter_map(|line| line.strip_prefix("    td-observe "))
        .map(|line| line.split("  #").next().unwrap_or(line).trim())
        .collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        // Options are read from left to right: a wrong one is refused before the help is printed.
        let shell = format!("exec {PROGRAM} {command} --help");
        let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
        assert!(
            output.status.success(),
            "{command}: {}",
            text(&output.stderr)
        );
    }
}
