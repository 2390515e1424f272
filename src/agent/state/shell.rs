//! Recognises terminals that belong to a shell or a file viewer instead of an agent (pure).

use std::ops::Range;

use regex::Regex;
use rustc_hash::FxHashSet;

use super::rule_screen::RuleScreen;
use crate::agent::program_name;

/// The features of shells and file viewers.
#[derive(Clone, Debug)]
pub(super) struct ShellRules {
    pub programs: FxHashSet<String>,
    /// Programs that display files.
    pub readers: FxHashSet<String>,
    /// Matches a prompt with nothing typed.
    pub prompt: Regex,
    /// Matches a prompt with a typed command.
    pub command: Regex,
}

impl ShellRules {
    /// Returns true if the program excludes an agent. A shell must also show its prompt, because an
    /// agent that a script starts runs under the name of the shell.
    pub fn has_terminal(&self, program: &str, screen: &RuleScreen<'_>) -> bool {
        let name = program_name(program);
        self.readers.contains(name)
            || (self.programs.contains(name) && self.prompt_row(screen).is_some())
    }

    /// Returns true if the prompt of a shell follows the input box, so that the agent has exited.
    pub fn follows(&self, input: Option<&Range<usize>>, screen: &RuleScreen<'_>) -> bool {
        let end = input.map_or(0, |rows| rows.end);
        let has_prompt = self.prompt_row(screen).is_some_and(|row| row >= end);
        let mut below = end..screen.all().end;
        has_prompt || (input.is_some() && below.any(|row| self.command.is_match(screen.row(row))))
    }

    /// Returns the row of the cursor if it is a prompt.
    fn prompt_row(&self, screen: &RuleScreen<'_>) -> Option<usize> {
        let mut row = screen.cursor();
        row.find(|row| self.prompt.is_match(screen.row(*row)) && !screen.is_framed(*row))
    }
}
