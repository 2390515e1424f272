//! All agents' rules: the built-in ones, and those that a user puts in their place (pure).

use std::sync::{Arc, LazyLock};

use super::agent_rules::{AgentRules, Candidate, Confidence};
use super::row::RowKind;
use super::rule_file::read;
use super::rule_screen::RuleScreen;
use super::shell::ShellRules;
use super::{AgentScreen, AgentState, DetectedState};
use crate::error::{Error, Result};

/// The built-in rules, in the order in which they are tried.
const BUILTIN: &[&str] = &[
    include_str!("rules/claude.toml"),
    include_str!("rules/codex.toml"),
    include_str!("rules/gemini.toml"),
    include_str!("rules/qwen.toml"),
    include_str!("rules/copilot.toml"),
    include_str!("rules/opencode.toml"),
    include_str!("rules/aider.toml"),
    include_str!("rules/shell.toml"),
];

/// Agents at most: each is tried on each look.
const AGENTS_MAX: usize = 100;

/// How agents' screens are read. Cheap to clone.
///
/// ```
/// use td_observe::agent::{AgentScreen, AgentState, StateRules};
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
    /// The rules that come with this library.
    #[must_use]
    pub fn builtin() -> Self {
        static ALL: LazyLock<StateRules> = LazyLock::new(|| {
            let agents: Result<Vec<AgentRules>> = BUILTIN.iter().map(|text| read(text)).collect();
            #[expect(
                clippy::expect_used,
                reason = "the texts are fixed, and a test reads them"
            )]
            StateRules(Arc::new(agents.expect("the built-in rules are good")))
        });
        ALL.clone()
    }

    /// Adds the rules of an agent, written as in `rules/claude.toml`. They stand in the place of
    /// those of the same agent; rules of a new agent are tried first.
    ///
    /// # Errors
    /// `is_invalid_input()` for text that is no such TOML, and for rules that cannot be used: which,
    /// and why.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        Ok(self.with_toml_of(text)?.0)
    }

    /// The same, and whose rules they are.
    pub(crate) fn with_toml_of(&self, text: &str) -> Result<(Self, String)> {
        let agent = read(text)?;
        let name = agent.name.clone();
        let mut agents = Vec::clone(&self.0);
        match agents.iter_mut().find(|known| known.name == agent.name) {
            Some(known) => *known = agent,
            None => agents.insert(0, agent),
        }
        if agents.len() > AGENTS_MAX {
            return Err(Error::invalid(format!("more than {AGENTS_MAX} agents")));
        }
        agents.sort_by_key(|agent| agent.is_fallback);
        Ok((Self(Arc::new(agents)), name))
    }

    /// The agents whose screens can be read, in the order in which they are tried.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|agent| agent.name.as_str())
    }

    /// The rules of an agent that come with this library, as they are written.
    #[must_use]
    pub fn builtin_text(agent: &str) -> Option<&'static str> {
        let named = Self::builtin();
        let index = named.agents().position(|name| name == agent)?;
        BUILTIN.get(index).copied()
    }

    /// What a row of this agent's screen is to a reader. All rows of an agent that has no rules are
    /// text.
    ///
    /// ```
    /// use td_observe::agent::{RowKind, StateRules};
    /// let rules = StateRules::builtin();
    /// let kind = |row| rules.row_kind("claude", row);
    /// assert_eq!(kind("● All twelve tests pass."), RowKind::Text);
    /// assert_eq!(kind("✻ Herding… (12s · esc to interrupt)"), RowKind::Status);
    /// assert_eq!(kind("  ? for shortcuts"), RowKind::Decoration);
    /// ```
    #[must_use]
    pub fn row_kind(&self, agent: &str, row: &str) -> RowKind {
        let known = self.0.iter().find(|known| known.name == agent);
        known.map_or(RowKind::Text, |known| known.row_kind(row))
    }

    /// What follows for a shell from the program that it runs, where its screen says nothing: it
    /// works. `None` where that is a shell.
    #[must_use]
    pub fn detect_program(&self, program: &str) -> Option<DetectedState> {
        let agent = self.0.iter().find(|agent| agent.shell.is_some())?;
        let (shell, name) = (agent.shell.as_ref()?, ShellRules::name(program));
        let is_work = !name.is_empty() && !shell.programs.contains(name);
        is_work.then(|| DetectedState {
            agent: agent.name.clone(),
            state: AgentState::Working,
            rule: "program".to_owned(),
            line: name.chars().take(200).collect(),
            inferred: true,
            asks: None,
        })
    }

    /// What a screen says. `None` where no rule knows.
    #[must_use]
    pub fn detect(&self, screen: &AgentScreen<'_>) -> Option<DetectedState> {
        let page = RuleScreen::new(screen);
        let shell = self.0.iter().find_map(|agent| agent.shell.as_ref());
        let is_nobodys =
            |shell: &ShellRules| (screen.program).is_some_and(|it| shell.has_terminal(it, &page));
        let only_fallback = shell.is_some_and(is_nobodys);
        let agents = self.0.iter();
        let agents = agents.filter(|agent| agent.is_fallback || !only_fallback);
        let claims = agents.filter_map(|agent| agent.match_screen(&page, shell));
        let mut claims: Vec<(Confidence, Candidate<'_, '_>)> = claims.collect();
        // Of two that know it by good signs, the one whose input lies lower came later.
        claims.sort_by_key(|(match_screen, case)| (*match_screen, std::cmp::Reverse(case.foot())));
        claims.iter().find_map(|(_, case)| case.detect())
    }
}
