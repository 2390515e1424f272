//! The rules of one agent, and what they say of a screen (pure).

use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use super::query::{RowQuery, ScreenView};
use super::rule_screen::{InputFrame, RuleScreen, beside_bar, inner};
use super::shell::ShellRules;
use super::{AgentState, DetectedState};
use crate::agent::one_line;

/// Of the row that matched so many characters are shown.
const LINE_CHARS_MAX: usize = 200;

/// The rules of one agent.
#[derive(Clone, Debug)]
pub(super) struct AgentRules {
    pub name: String,
    /// It is tried after all others, and needs no signs.
    pub is_fallback: bool,
    pub input: Option<InputBox>,
    pub message: Option<Regex>,
    /// What it writes when it ends.
    pub left: Option<Regex>,
    /// What it draws around its answers, beside lines and edges: its keys, its model, its directory.
    pub decoration: Option<Regex>,
    pub signs: Vec<Signature>,
    pub rules: Vec<StateRule>,
    /// Where its dialogues show what they ask about; the first that is there counts.
    pub asks: Vec<RowQuery>,
    pub shell: Option<ShellRules>,
}

/// Its input box.
#[derive(Clone, Debug)]
pub(super) struct InputBox {
    pub frame: InputFrame,
    pub prompt: Regex,
    pub empty: Regex,
    /// Rows at most that stand below it, and what each of them looks like.
    pub below: usize,
    pub foot: Regex,
    /// Rows right above it that belong to it, and not to what was said.
    pub hints: Option<Regex>,
}

/// How its screen is known.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub look: RowQuery,
    pub input: Option<InputCondition>,
    pub is_weak: bool,
}

#[derive(Clone, Debug)]
pub(super) struct StateRule {
    pub id: String,
    pub state: AgentState,
    pub look: RowQuery,
    pub input: Option<InputCondition>,
    pub inferred: bool,
}

/// What the input box must be besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputCondition {
    Empty,
    Shown,
    Absent,
}

/// How sure it is that a screen is an agent's: what is known by a sign that others may show too is
/// asked later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    Strong,
    Weak,
    /// It is what is left.
    Fallback,
}

/// A screen, and what one agent's rules know of it before they are asked.
pub(super) struct Candidate<'p, 'a> {
    agent: &'p AgentRules,
    sight: ScreenView<'p, 'a>,
    is_empty: bool,
}

/// Rows after an agent's end in which its farewell stands.
const FAREWELL_LINES: usize = 12;

impl AgentRules {
    /// A screen that is this agent's, and how sure that is.
    pub fn match_screen<'p, 'a>(
        &'p self,
        page: &'p RuleScreen<'a>,
        shell: Option<&ShellRules>,
    ) -> Option<(Confidence, Candidate<'p, 'a>)> {
        let input = self.input.as_ref().and_then(|input| page.input(input));
        let has_edge = (self.input.as_ref()).is_some_and(|input| input.frame.has_upper_edge());
        let start = input.clone().map_or(0, |rows| rows.start);
        // Its upper edge is no row above it.
        let above = start.saturating_sub(usize::from(has_edge));
        let hints = self.input.as_ref().and_then(|input| input.hints.as_ref());
        let is_empty = match (&self.input, &input) {
            (Some(known), Some(rows)) => known.is_empty(page, rows.clone()),
            _ => false,
        };
        let case = Candidate {
            agent: self,
            sight: ScreenView {
                page,
                message: self.message.as_ref(),
                above: page.above(above, hints),
                input,
                only_unframed: self.is_fallback,
            },
            is_empty,
        };
        if self.is_fallback {
            return Some((Confidence::Fallback, case));
        }
        let is_shown =
            |sign: &Signature| case.holds(sign.input) && sign.look.find(&case.sight).is_some();
        let shows = |weak: bool| {
            let mut signs = self.signs.iter().filter(|sign| sign.is_weak == weak);
            signs.any(is_shown)
        };
        let match_screen = match shows(false) {
            true => Confidence::Strong,
            false if shows(true) => Confidence::Weak,
            false => return None,
        };
        (!case.has_left(shell)).then_some((match_screen, case))
    }
}

impl Candidate<'_, '_> {
    /// What the screen says.
    pub fn detect(&self) -> Option<DetectedState> {
        self.agent.rules.iter().find_map(|rule| {
            if !self.holds(rule.input) {
                return None;
            }
            let line = rule.look.find(&self.sight)?;
            Some(DetectedState {
                agent: self.agent.name.clone(),
                state: rule.state,
                rule: rule.id.clone(),
                line: inner(line).chars().take(LINE_CHARS_MAX).collect(),
                inferred: rule.inferred,
                asks: match rule.state {
                    AgentState::Waiting => self.asks(),
                    _ => None,
                },
            })
        })
    }

    /// What a dialogue asks about.
    fn asks(&self) -> Option<String> {
        self.agent.asks.iter().find_map(|look| {
            let line = look.find(&self.sight)?;
            let asked = look.pattern.captures(line)?.get(1)?;
            Some(one_line(asked.as_str())).filter(|asked| !asked.is_empty())
        })
    }

    /// Where its input ends.
    pub fn foot(&self) -> Option<usize> {
        self.sight.input.as_ref().map(|rows| rows.end)
    }

    fn holds(&self, condition: Option<InputCondition>) -> bool {
        match condition {
            None => true,
            Some(InputCondition::Empty) => self.is_empty,
            Some(InputCondition::Shown) => self.sight.input.is_some(),
            Some(InputCondition::Absent) => self.sight.input.is_none(),
        }
    }

    /// Its box still stands there, but it has ended.
    fn has_left(&self, shell: Option<&ShellRules>) -> bool {
        let (page, input) = (self.sight.page, self.sight.input.as_ref());
        let rows = match input {
            Some(input) => input.end..page.all().end,
            None => page.last_of(page.all(), FAREWELL_LINES),
        };
        let said = |left: &Regex| rows.clone().any(|row| left.is_match(page.row(row)));
        self.agent.left.as_ref().is_some_and(said)
            || shell.is_some_and(|shell| shell.follows(input, page))
    }
}

impl InputBox {
    /// Every row of it reads as if nothing was typed.
    fn is_empty(&self, page: &RuleScreen<'_>, mut rows: Range<usize>) -> bool {
        let text = |row: usize| match self.frame {
            InputFrame::Bar => beside_bar(page.row(row)),
            InputFrame::Lines | InputFrame::Open | InputFrame::Ruled => inner(page.row(row)),
        };
        // Between the line across and the prompt stands what is talked about.
        let typed = |row: usize| self.frame != InputFrame::Ruled || self.prompt.is_match(text(row));
        rows.all(|row| text(row).is_empty() || !typed(row) || self.empty.is_match(text(row)))
    }
}
