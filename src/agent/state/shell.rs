//! Whether a shell has the terminal, or a program that shows files: then no agent is there (pure).

use std::ops::Range;

use regex::Regex;
use rustc_hash::FxHashSet;

use super::rule_screen::RuleScreen;

/// How shells and readers of files are known.
#[derive(Clone, Debug)]
pub(super) struct ShellRules {
    /// Programs that are shells.
    pub programs: FxHashSet<String>,
    /// Programs that show files.
    pub readers: FxHashSet<String>,
    /// A row that is a prompt, with nothing typed yet.
    pub prompt: Regex,
    /// A row that is a prompt, and what was typed.
    pub command: Regex,
}

impl ShellRules {
    /// A program's name without its path. A shell of a login begins with a hyphen.
    pub fn name(program: &str) -> &str {
        let name = program.rsplit('/').next().unwrap_or_default();
        name.trim_start_matches('-')
    }

    /// The program says that no agent is there. A shell says so only beside its prompt: an agent
    /// that a script has started runs under the name of the shell.
    pub fn has_terminal(&self, program: &str, page: &RuleScreen<'_>) -> bool {
        let name = Self::name(program);
        self.readers.contains(name)
            || (self.programs.contains(name) && self.prompt_row(page).is_some())
    }

    /// Below an agent's input stands a shell's prompt: the agent has ended.
    pub fn follows(&self, input: Option<&Range<usize>>, page: &RuleScreen<'_>) -> bool {
        let end = input.map_or(0, |rows| rows.end);
        let has_prompt = self.prompt_row(page).is_some_and(|row| row >= end);
        let mut below = end..page.all().end;
        has_prompt || (input.is_some() && below.any(|row| self.command.is_match(page.row(row))))
    }

    /// The row of the cursor, when it is a prompt.
    fn prompt_row(&self, page: &RuleScreen<'_>) -> Option<usize> {
        let mut row = page.cursor();
        row.find(|row| self.prompt.is_match(page.row(*row)) && !page.is_framed(*row))
    }
}
