//! Applies the rules of one agent to a screen (pure).

use regex::Regex;
use serde::Deserialize;

use super::input_box::InputBox;
use super::query::{RowQuery, ScreenView};
use super::rule_screen::{RuleScreen, inner};
use super::shell::ShellRules;
use super::{AgentState, DetectedState};
use crate::agent::one_line;
use crate::text::first_chars;

/// The maximum number of characters of the matched row in a report.
pub(super) const LINE_CHARS_MAX: usize = 200;

#[derive(Clone, Debug)]
pub(super) struct AgentRules {
    pub name: String,
    /// These rules are tried after all others and need no signature.
    pub is_fallback: bool,
    pub input: Option<InputBox>,
    pub message: Option<Regex>,
    /// Matches the text that the agent prints when it exits.
    pub exit_text: Option<Regex>,
    /// Matches decoration around the agent's answers, besides lines and edges: its keys, model and
    /// directory.
    pub decoration: Option<Regex>,
    pub signs: Vec<Signature>,
    pub rules: Vec<StateRule>,
    /// The queries for the question of a dialogue; the first match counts.
    pub asks: Vec<RowQuery>,
    pub shell: Option<ShellRules>,
}

/// A feature that identifies the agent's screen.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub query: RowQuery,
    pub input: Option<InputCondition>,
    pub is_weak: bool,
}

#[derive(Clone, Debug)]
pub(super) struct StateRule {
    pub id: String,
    pub state: AgentState,
    pub query: RowQuery,
    pub input: Option<InputCondition>,
    pub inferred: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputCondition {
    Empty,
    Shown,
    Absent,
}

/// The confidence that a screen belongs to an agent. A weak match is a feature that other agents
/// share, and is tried later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    Strong,
    Weak,
    /// Rules that apply if nothing else matches.
    Fallback,
}

/// A screen prepared for one agent's rules.
pub(super) struct Candidate<'p, 'a> {
    agent: &'p AgentRules,
    view: ScreenView<'p, 'a>,
    is_empty: bool,
}

/// The number of last rows that are searched for the exit text if no input box is shown.
const EXIT_TEXT_ROWS: usize = 12;

impl AgentRules {
    /// Returns the screen and the confidence, if the screen belongs to this agent.
    pub fn match_screen<'p, 'a>(
        &'p self,
        screen: &'p RuleScreen<'a>,
        shell: Option<&ShellRules>,
    ) -> Option<(Confidence, Candidate<'p, 'a>)> {
        let input = self.input.as_ref().and_then(|input| input.find(screen));
        let has_edge = (self.input.as_ref()).is_some_and(|input| input.frame.has_upper_edge());
        let start = input.clone().map_or(0, |rows| rows.start);
        // The upper edge belongs to the box, not to the rows above it.
        let above = start.saturating_sub(usize::from(has_edge));
        let hints = self.input.as_ref().and_then(|input| input.hints.as_ref());
        let is_empty = match (&self.input, &input) {
            (Some(known), Some(rows)) => known.is_empty(screen, rows.clone()),
            _ => false,
        };
        let candidate = Candidate {
            agent: self,
            view: ScreenView {
                screen,
                message: self.message.as_ref(),
                above: screen.above(above, hints),
                input,
                only_unframed: self.is_fallback,
            },
            is_empty,
        };
        if self.is_fallback {
            return Some((Confidence::Fallback, candidate));
        }
        let is_shown = |sign: &Signature| {
            candidate.holds(sign.input) && sign.query.find(&candidate.view).is_some()
        };
        let shows = |weak: bool| {
            let mut signs = self.signs.iter().filter(|sign| sign.is_weak == weak);
            signs.any(is_shown)
        };
        let confidence = match shows(false) {
            true => Confidence::Strong,
            false if shows(true) => Confidence::Weak,
            false => return None,
        };
        (!candidate.has_exited(shell)).then_some((confidence, candidate))
    }
}

impl Candidate<'_, '_> {
    pub fn detect(&self) -> Option<DetectedState> {
        self.agent.rules.iter().find_map(|rule| {
            if !self.holds(rule.input) {
                return None;
            }
            let line = rule.query.find(&self.view)?;
            Some(DetectedState {
                agent: self.agent.name.clone(),
                state: rule.state,
                rule: rule.id.clone(),
                line: first_chars(inner(line), LINE_CHARS_MAX).to_owned(),
                inferred: rule.inferred,
                asks: match rule.state {
                    AgentState::Waiting => self.asks(),
                    _ => None,
                },
            })
        })
    }

    fn asks(&self) -> Option<String> {
        self.agent.asks.iter().find_map(|query| {
            let line = query.find(&self.view)?;
            let question = query.pattern.captures(line)?.get(1)?;
            Some(one_line(question.as_str())).filter(|question| !question.is_empty())
        })
    }

    /// Returns the index of the row below the input box.
    pub fn foot(&self) -> Option<usize> {
        self.view.input.as_ref().map(|rows| rows.end)
    }

    fn holds(&self, condition: Option<InputCondition>) -> bool {
        match condition {
            None => true,
            Some(InputCondition::Empty) => self.is_empty,
            Some(InputCondition::Shown) => self.view.input.is_some(),
            Some(InputCondition::Absent) => self.view.input.is_none(),
        }
    }

    /// Returns true if the agent has exited although its box is still on the screen.
    fn has_exited(&self, shell: Option<&ShellRules>) -> bool {
        let (screen, input) = (self.view.screen, self.view.input.as_ref());
        let rows = match input {
            Some(input) => input.end..screen.all().end,
            None => screen.last_of(screen.all(), EXIT_TEXT_ROWS),
        };
        let shows_exit =
            |exit_text: &Regex| rows.clone().any(|row| exit_text.is_match(screen.row(row)));
        self.agent.exit_text.as_ref().is_some_and(shows_exit)
            || shell.is_some_and(|shell| shell.follows(input, screen))
    }
}
