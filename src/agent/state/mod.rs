//! Detects an agent's state from its screen (pure). The rules are data, one file for each agent.
//!
//! Agents quote screens: their own sources, other agents' answers, even this file. Therefore, a
//! rule searches only regions that the agent's program alone writes to: the input box, the rows
//! directly above and below it, and the foot of the screen. `done` requires a screen that shows the
//! end of a turn; an empty input box means `idle`.

use std::sync::{Arc, LazyLock};

use super::program::{is_interpreter, program_name};
use crate::error::{Error, Result};
use crate::event::AgentState;
use crate::text::first_chars;
pub use agent_rules::DetectedState;
pub(crate) use agent_rules::RowKind;
use agent_rules::{AgentRules, Candidate, Confidence, LINE_CHARS_MAX};
pub(crate) use dialogue::{asks_the_same, is_same_dialogue};
use rule_file::read;
pub use screen::AgentScreen;
use screen::{RuleScreen, ShellRules};

mod agent_rules;
mod dialogue;
mod rule_file;
mod says;
mod screen;

#[cfg(test)]
mod tests;

// Detects states with the rules of all agents, built in or supplied by the user (pure).

/// The built-in rules and the names of their agents, in the order in which they are tried. An agent that draws in several
/// ways has several files, one after the other; the first describes its rows.
const BUILTIN: &[(&str, &str)] = &[
    ("claude", include_str!("rules/claude.toml")),
    ("claude", include_str!("rules/claude-plain.toml")),
    ("claude", include_str!("rules/claude-agents.toml")),
    ("codex", include_str!("rules/codex.toml")),
    ("codex", include_str!("rules/codex-agents.toml")),
    ("gemini", include_str!("rules/gemini.toml")),
    ("qwen", include_str!("rules/qwen.toml")),
    ("copilot", include_str!("rules/copilot.toml")),
    ("kilo", include_str!("rules/kilo.toml")),
    ("opencode", include_str!("rules/opencode.toml")),
    ("cline", include_str!("rules/cline.toml")),
    ("vibe", include_str!("rules/vibe.toml")),
    ("kimi", include_str!("rules/kimi.toml")),
    ("cn", include_str!("rules/cn.toml")),
    ("aider", include_str!("rules/aider.toml")),
    ("pi", include_str!("rules/pi.toml")),
    ("agy", include_str!("rules/agy.toml")),
    ("cursor", include_str!("rules/cursor.toml")),
    ("general", include_str!("rules/general.toml")),
    ("shell", include_str!("rules/shell.toml")),
];

/// The maximum number of agents, because each is tried on each capture.
const AGENTS_MAX: usize = 100;

/// The rules that detect agents' states on screens. Cheap to clone.
///
/// ```
/// use td_observe::event::AgentState;
/// use td_observe::agent::{AgentScreen, StateRules};
/// let rows = [
///     "❯ fix the test",
///     "",
///     "✻ Herding… (12s · ↓ 300 tokens · esc to interrupt)",
///     "",
///     "────────────────────────",
///     "❯ ",
///     "────────────────────────",
///     "  ? for shortcuts",
/// ];
/// let detected = StateRules::builtin().detect(&AgentScreen::of(&rows)).unwrap();
/// assert_eq!((detected.agent.as_str(), detected.state), ("claude", AgentState::Working));
/// assert!(!detected.inferred);
/// ```
#[derive(Clone, Debug)]
pub struct StateRules(Arc<Vec<AgentRules>>);

impl StateRules {
    /// Returns the built-in rules.
    #[must_use]
    pub fn builtin() -> Self {
        static ALL: LazyLock<StateRules> = LazyLock::new(|| {
            let agents = BUILTIN
                .iter()
                .map(|(_, text)| read(text, StateRules::builtin_text));
            let agents: Result<Vec<AgentRules>> = agents.collect();
            #[expect(
                clippy::expect_used,
                reason = "the texts are fixed, and a test reads them"
            )]
            StateRules(Arc::new(agents.expect("the built-in rules are good")))
        });
        ALL.clone()
    }

    /// Adds the rules of an agent, in the format of `rules/claude.toml`. They replace existing
    /// rules of the same agent; rules of a new agent are tried first.
    ///
    /// # Errors
    /// `is_invalid_input()` for invalid TOML and for unusable rules, with the reason.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        Ok(self.with_toml_of(text)?.0)
    }

    /// Adds the rules of an agent; also returns the name of the agent.
    pub(crate) fn with_toml_of(&self, text: &str) -> Result<(Self, String)> {
        let agent = read(text, Self::builtin_text)?;
        let name = agent.name.clone();
        let mut agents = Vec::clone(&self.0);
        let replaced = agents.iter().position(|known| known.name == name);
        agents.retain(|known| known.name != name);
        agents.insert(replaced.unwrap_or(0), agent);
        if agents.len() > AGENTS_MAX {
            return Err(Error::invalid(format!("more than {AGENTS_MAX} agents")));
        }
        agents.sort_by_key(|agent| agent.is_fallback);
        Ok((Self(Arc::new(agents)), name))
    }

    /// Returns the agents that have rules, in the order in which they are tried.
    #[cfg(feature = "cli")]
    pub(crate) fn agents(&self) -> impl Iterator<Item = &str> {
        let agents = self.0.chunk_by(|a, b| a.name == b.name);
        agents.filter_map(|looks| Some(looks.first()?.name.as_str()))
    }

    /// Returns the TOML text of an agent's built-in rules.
    pub(crate) fn builtin_text(agent: &str) -> Option<&'static str> {
        let known = BUILTIN.iter().find(|(name, _)| *name == agent);
        known.map(|(_, text)| *text)
    }

    /// Returns the kind of a row of this agent's screen; `Text` if the agent has no rules.
    pub(crate) fn row_kind(&self, agent: &str, row: &str) -> RowKind {
        let known = self.0.iter().find(|known| known.name == agent);
        known.map_or(RowKind::Text, |known| known.row_kind(row))
    }

    /// Returns the number of rows of this agent's screen above its input box; of all rows if it shows none.
    pub(crate) fn rows_above_input(&self, agent: &str, rows: &[&str]) -> usize {
        let known = self.0.iter().find(|known| known.name == agent);
        let input = known.and_then(|known| known.input.as_ref());
        let screen = RuleScreen::new(&AgentScreen::of(rows));
        let input = input.and_then(|input| input.find(&screen));
        input.map_or(rows.len(), |typed| typed.start)
    }

    /// Returns false if this agent's screen does not show the agent's input box, where a text could be typed.
    #[cfg(feature = "cli")]
    pub(crate) fn shows_input(&self, agent: &str, rows: &[&str]) -> bool {
        let known = self.0.iter().find(|known| known.name == agent);
        let input = known.and_then(|known| known.input.as_ref());
        input.is_none_or(|input| {
            input
                .find(&RuleScreen::new(&AgentScreen::of(rows)))
                .is_some()
        })
    }

    /// Infers from the program that a shell runs that it works, or that a pager waits, for a screen that shows no state.
    /// Returns `None` if the program is itself a shell.
    pub(crate) fn detect_program(&self, program: &str) -> Option<DetectedState> {
        let agent = self.shell()?;
        let (shell, name) = (agent.shell.as_ref()?, program_name(program));
        let is_work = !name.is_empty() && !shell.programs.contains(name);
        is_work.then(|| DetectedState {
            state: if shell.pagers.contains(name) {
                AgentState::Waiting
            } else {
                AgentState::Working
            },
            ..inferred_work(&agent.name, "program", name)
        })
    }

    /// Returns true if a row is the prompt of a shell, with nothing typed.
    pub(crate) fn is_prompt(&self, row: &str) -> bool {
        let shell = self.shell().and_then(|agent| agent.shell.as_ref());
        shell.is_some_and(|shell| shell.prompt.is_match(row.trim_end()))
    }

    /// Returns true if a row is the prompt of a shell with a command behind it. While a shell reads commands, each form
    /// of a prompt counts; elsewhere, only those that are hardly text, such as `me@host:~$ make`.
    pub(crate) fn is_typed(&self, row: &str, reads_commands: bool) -> bool {
        let shell = self.shell().and_then(|agent| agent.shell.as_ref());
        shell.is_some_and(|shell| {
            let row = first_chars(row, LINE_CHARS_MAX);
            let mut blanks = row.match_indices(' ');
            shell.command.is_match(row)
                || reads_commands && blanks.any(|(at, _)| shell.prompt.is_match(&row[..at]))
        })
    }

    /// Returns the rules for shells.
    fn shell(&self) -> Option<&AgentRules> {
        self.0.iter().find(|agent| agent.shell.is_some())
    }

    /// Returns true if there are rules of this name.
    #[cfg(feature = "cli")]
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.0.iter().any(|agent| agent.name == name)
    }

    /// Returns true if a state is that of an agent rather than of any program.
    pub(crate) fn is_agents(&self, shown: &DetectedState) -> bool {
        let known = self.0.iter().find(|agent| agent.name == shown.agent);
        shown.is_general || known.is_some_and(|agent| !agent.is_fallback)
    }

    /// Returns the state of an agent of which the screen shows no state any more: of one without rules of its own, and of
    /// one that has waited and is known by its screen alone (`has_program` is false). Nobody can answer what has gone.
    pub(crate) fn unknown_after(
        &self,
        before: &DetectedState,
        has_program: bool,
    ) -> Option<DetectedState> {
        let has_asked = before.state == AgentState::Waiting && self.is_agents(before);
        let unknown = inferred_work(&before.agent, "nothing", "");
        (before.is_general || has_asked && !has_program).then_some(DetectedState {
            state: AgentState::Unknown,
            is_general: before.is_general,
            ..unknown
        })
    }

    /// Returns the state on a screen to which no agent can belong.
    pub(crate) fn detect_without_agents(&self, screen: &AgentScreen<'_>) -> Option<DetectedState> {
        let screen = RuleScreen::new(screen);
        let mut rules = self.0.iter().filter(|agent| agent.is_fallback);
        rules.find_map(|agent| agent.match_screen(&screen, None, false)?.1.detect())
    }

    /// Infers a shell's state from what is in the foreground after the end of its agent, for a screen that
    /// shows no state: another program works, or the shell reads commands.
    pub(crate) fn after_agent(&self, program: &str, is_shell: bool) -> Option<DetectedState> {
        let work = inferred_work(&self.shell()?.name, "program", program);
        Some(DetectedState {
            state: if is_shell {
                AgentState::Idle
            } else {
                AgentState::Working
            },
            ..work
        })
    }

    /// Infers that the question of a script was answered, for a screen that shows no state: the row
    /// of the cursor no longer begins with the question, or the user has ended its line. While a shell runs a script, it
    /// shows neither a prompt nor another program.
    pub(crate) fn detect_answered(
        &self,
        before: &DetectedState,
        screen: &AgentScreen<'_>,
    ) -> Option<DetectedState> {
        let agent = self.shell()?;
        if before.state != AgentState::Waiting || before.agent != agent.name {
            return None;
        }
        let screen = RuleScreen::new(screen);
        let row = screen.cursor().next().map_or("", |row| screen.row(row));
        let row = row.trim();
        let is_open = |asks: &String| row.starts_with(asks.trim_end_matches('…'));
        let is_ended = screen.rows_below() > before.rows_below;
        let is_answered = is_ended || !before.asks.as_ref().is_some_and(is_open);
        is_answered.then(|| DetectedState {
            rows_below: screen.rows_below(),
            ..inferred_work(&agent.name, ANSWERED, row)
        })
    }

    /// Returns true if a screen shows the question of a script that the user has answered with Enter alone, and nothing
    /// since. A script may also end the line of its question itself, and then the line was ended from the first.
    pub(crate) fn is_answered(&self, before: &DetectedState, shown: &DetectedState) -> bool {
        let is_scripts = self.shell().is_some_and(|agent| agent.name == shown.agent);
        let is_over = match before.state {
            AgentState::Waiting => {
                before.asks == shown.asks && shown.rows_below > before.rows_below
            }
            _ => {
                before.rule == ANSWERED
                    && before.line == shown.line
                    && shown.rows_below >= before.rows_below
            }
        };
        is_scripts && shown.state == AgentState::Waiting && is_over
    }

    /// Returns the state that a screen shows; `None` if no rule matches.
    #[must_use]
    pub fn detect(&self, screen: &AgentScreen<'_>) -> Option<DetectedState> {
        self.detect_running(None, screen)
    }

    /// Returns the state that a screen shows, as [`StateRules::detect`] does, where the process of this agent was found,
    /// or where the program has shown before that it is this agent.
    pub(crate) fn detect_running(
        &self,
        running: Option<&str>,
        screen: &AgentScreen<'_>,
    ) -> Option<DetectedState> {
        let screen_rows = RuleScreen::new(screen);
        let shell = self.0.iter().find_map(|agent| agent.shell.as_ref());
        let has_terminal = |shell: &ShellRules| {
            (screen.program).is_some_and(|program| shell.has_terminal(program, &screen_rows))
        };
        let shows_file = |shell: &ShellRules| running.is_none() && shell.shows_file(&screen_rows);
        let only_fallback = shell.is_some_and(|shell| has_terminal(shell) || shows_file(shell));
        // What looks like a question is a row of the file.
        let only_shows = |shell: &ShellRules| {
            shell.only_shows(screen.program) || running.is_none() && shell.has_heading(&screen_rows)
        };
        let asks_nothing = shell.is_some_and(only_shows);
        let agents = self.0.iter();
        let agents = agents.filter(|agent| agent.is_fallback || !only_fallback);
        let has_rules = |name: &str| self.0.iter().any(|agent| agent.name == name);
        let needs_general = running.is_none_or(|name| !has_rules(name));
        let agents = agents.filter(|agent| !agent.is_general || needs_general);
        let matches = agents.filter_map(|agent| {
            let is_running = match running {
                Some(name) => name == agent.name || agent.is_general,
                None => false,
            };
            agent.match_screen(&screen_rows, shell, is_running)
        });
        let mut matches: Vec<(Confidence, Candidate<'_, '_>)> = matches.collect();
        // The agent that runs comes first. Of two strong matches, the agent with the lower input box started later.
        matches.sort_by_key(|(confidence, candidate)| {
            let is_other = running.is_some_and(|name| name != candidate.name());
            (is_other, *confidence, std::cmp::Reverse(candidate.foot()))
        });
        let is_known = matches
            .first()
            .is_some_and(|(first, _)| *first == Confidence::Strong);
        let mut matches = matches.iter();
        let detected = matches.find_map(|(confidence, candidate)| {
            let is_foreign = is_known && *confidence == Confidence::General;
            let is_quoted =
                |found: &DetectedState| asks_nothing && found.state == AgentState::Waiting;
            let detected = candidate.detect();
            detected.filter(|found| !is_foreign && !is_quoted(found))
        })?;
        if !detected.is_general {
            return Some(detected);
        }
        let agent = running.unwrap_or_else(|| self.agent_of(screen.program));
        Some(DetectedState {
            agent: agent.to_owned(),
            ..detected
        })
    }

    /// Returns the name of an agent without rules of its own that runs as this program.
    pub(crate) fn agent_of<'p>(&self, program: Option<&'p str>) -> &'p str {
        let shell = self.shell().and_then(|agent| agent.shell.as_ref());
        let is_own = |name: &&str| {
            let is_shell = shell.is_some_and(|shell| shell.programs.contains(*name));
            !name.is_empty() && !is_shell && !is_interpreter(name)
        };
        program.map(program_name).filter(is_own).unwrap_or(UNNAMED)
    }
}

/// The name of an agent of which neither the process nor the program is known.
pub(crate) const UNNAMED: &str = "agent";

/// The rule by which a question of a script was answered.
const ANSWERED: &str = "answered";

/// Returns the state of a shell whose program or screen row shows that it works.
fn inferred_work(agent: &str, rule: &str, line: &str) -> DetectedState {
    DetectedState {
        agent: agent.to_owned(),
        state: AgentState::Working,
        rule: rule.to_owned(),
        line: first_chars(line, LINE_CHARS_MAX).to_owned(),
        inferred: true,
        asks: None,
        dialogue: None,
        takes_text: true,
        shells: 0,
        says: None,
        rows_below: 0,
        is_general: false,
    }
}
