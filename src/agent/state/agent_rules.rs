//! Applies the rules of one agent to a screen (pure).

use std::borrow::Cow;
use std::ops::Range;

use super::super::decoration::{LineKind, bare_line};
use super::super::one_line;
use super::dialogue::{DialogueRules, ReadDialogue};
use super::says::SaysRules;
use super::screen::{InputBox, InputFrame, RuleScreen, ShellRules, inner, plain};
use crate::event::{AgentState, Dialogue, StateEvidence};
use crate::text::first_chars;
use regex::Regex;
use serde::Deserialize;

/// A state that a screen shows, and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedState {
    /// The agent whose rule matched.
    pub agent: String,
    /// The state.
    pub state: AgentState,
    /// The id of the rule.
    pub rule: String,
    /// The row that the rule matched, trimmed; at most 200 characters.
    pub line: String,
    /// True if the state is inferred from the screen; false if the screen states it.
    pub inferred: bool,
    /// The question of a dialogue in one line, if the screen shows it.
    pub asks: Option<String>,
    /// The dialogue in full, if the agent's rules describe it.
    pub dialogue: Option<Dialogue>,
    /// True unless the dialogue is a menu, in which letters are keys and Enter takes the selected choice.
    pub takes_text: bool,
    /// The number of shells that run in the background, as the screen says.
    pub shells: u32,
    /// What the agent says or does, in one line, if its rules describe how it draws that: its tool, or its last sentence.
    pub says: Option<String>,
    /// How many rows the cursor is below the last text: 0 in the row of a question that is open.
    pub(crate) rows_below: usize,
    /// True if the rules for agents without rules of their own have read it.
    pub(crate) is_general: bool,
}

impl DetectedState {
    /// Returns the evidence in one line, as it appears in events.
    #[must_use]
    pub fn evidence(&self) -> String {
        let evidence = if self.inferred {
            StateEvidence::Inferred
        } else {
            StateEvidence::Confirmed
        };
        format!("{} {} ({evidence}): {}", self.agent, self.rule, self.line)
    }
}

/// The number of last rows that are searched for the number of shells: an input box, what stands beside it, and a few
/// rows of typed text.
const SHELLS_ROWS_MAX: usize = 12;

/// The maximum number of characters of the matched row in a report.
pub(super) const LINE_CHARS_MAX: usize = 200;

#[derive(Clone, Debug)]
pub(super) struct AgentRules {
    pub name: String,
    /// These rules are for agents that have none of their own, and need no signature.
    pub is_general: bool,
    /// These rules are tried after all others and need no signature.
    pub is_fallback: bool,
    pub input: Option<InputBox>,
    pub message: Option<Regex>,
    /// Matches the text that the agent prints when it exits.
    pub exit_text: Option<Regex>,
    /// Matches decoration around the agent's answers, besides lines and edges: its keys, model and
    /// directory.
    pub decoration: Option<Regex>,
    /// Matches the row that says how many shells run in the background; its group is the number.
    pub shells: Option<Regex>,
    pub signs: Vec<Signature>,
    pub rules: Vec<StateRule>,
    /// The queries for the question of a dialogue; the first match counts.
    pub asks: Vec<RowQuery>,
    pub dialogue: Option<DialogueRules>,
    /// How the agent draws what it says and does.
    pub says: Option<SaysRules>,
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
    pub needs: Option<Need>,
    pub inferred: bool,
}

/// What must be known of a program before a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Need {
    /// It fills the screen, or is an agent.
    FullScreen,
    /// It is an agent.
    Agent,
}

impl StateRule {
    /// Returns what the agent says in the row of its status, if the pattern has a group for it.
    fn says(&self, line: &str) -> Option<String> {
        let said = self.query.pattern.captures(line)?.name("says")?;
        Some(one_line(said.as_str()))
    }
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
    /// Rules for agents that have none of their own.
    General,
    /// Rules that apply if nothing else matches.
    Fallback,
}

/// A screen prepared for one agent's rules.
pub(super) struct Candidate<'p, 'a> {
    agent: &'p AgentRules,
    view: ScreenView<'p, 'a>,
    is_empty: bool,
    /// The process of this agent was found, or the program has shown that it is an agent.
    is_running: bool,
    /// The dialogue, for rules that describe a list of choices.
    listed: Option<ReadDialogue>,
}

impl AgentRules {
    /// Returns the screen and the confidence, if the screen belongs to this agent. `is_running`: its process was found.
    pub fn match_screen<'p, 'a>(
        &'p self,
        screen: &'p RuleScreen<'a>,
        shell: Option<&ShellRules>,
        is_running: bool,
    ) -> Option<(Confidence, Candidate<'p, 'a>)> {
        let input = self.input.as_ref().and_then(|input| input.find(screen));
        let has_edge = (self.input.as_ref()).is_some_and(|input| input.frame.has_upper_edge());
        let start = input.clone().map_or(0, |rows| rows.start);
        // The upper edge belongs to the box, not to the rows above it.
        let above = start.saturating_sub(usize::from(has_edge));
        // An agent that prints lines has no box while it works.
        let is_printer =
            (self.input.as_ref()).is_some_and(|box_of| box_of.frame == InputFrame::Ruled);
        let above = match input {
            None if is_printer => screen.all().end,
            _ => above,
        };
        let hints = self.input.as_ref().and_then(|input| input.hints.as_ref());
        let is_empty = match (&self.input, &input) {
            (Some(known), Some(rows)) => known.is_empty(screen, rows.clone()),
            _ => false,
        };
        let lists = self.dialogue.as_ref().filter(|rules| rules.list.is_some());
        let listed = lists.and_then(|rules| rules.read(screen, is_running || screen.is_full));
        let candidate = Candidate {
            agent: self,
            view: ScreenView {
                screen,
                has_boxes: (self.input.as_ref())
                    .is_some_and(|input| input.frame == InputFrame::Bar),
                message: self.message.as_ref(),
                above: screen.above(above, hints),
                input,
                only_unframed: self.is_fallback,
                dialogue: listed.as_ref().map(|read| read.from),
            },
            is_empty,
            is_running,
            listed,
        };
        if self.is_fallback {
            return Some((Confidence::Fallback, candidate));
        }
        if self.is_general {
            return (!candidate.has_exited(shell)).then_some((Confidence::General, candidate));
        }
        let is_shown = |sign: &Signature| {
            candidate.holds(sign.input) && sign.query.find(&candidate.view).is_some()
        };
        let shows = |weak: bool| {
            let mut signs = self.signs.iter().filter(|sign| sign.is_weak == weak);
            signs.any(is_shown)
        };
        let confidence = if shows(false) {
            Confidence::Strong
        } else if shows(true) || is_running && is_printer {
            // What identifies an agent that prints lines may have scrolled off.
            Confidence::Weak
        } else {
            return None;
        };
        (!candidate.has_exited(shell)).then_some((confidence, candidate))
    }
}

/// What a screen shows of the dialogue in which its agent waits.
#[derive(Debug)]
struct FoundDialogue {
    /// Its first row.
    from: usize,
    /// No more stands below its choices than belongs to it: keys, and the rows below an input box.
    is_last: bool,
    takes_text: bool,
    dialogue: Option<Dialogue>,
}

/// The maximum number of rows with text below the choices of a dialogue. More are a file or a log that quotes it.
const BELOW_CHOICES_MAX: usize = 6;

/// Returns a row without the spinner or the sign before its words.
fn without_signs(row: &str) -> &str {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '[' | '(' | '"' | '\'' | '/');
    row.find(is_word)
        .and_then(|start| row.get(start..))
        .unwrap_or(row)
}

impl Candidate<'_, '_> {
    /// Returns the name of the agent.
    pub fn name(&self) -> &str {
        &self.agent.name
    }

    pub fn detect(&self) -> Option<DetectedState> {
        self.agent.rules.iter().find_map(|rule| {
            let has_need = match rule.needs {
                None => true,
                Some(Need::FullScreen) => self.is_running || self.view.screen.is_full,
                Some(Need::Agent) => self.is_running,
            };
            if !has_need || !self.holds(rule.input) {
                return None;
            }
            let line = rule.query.find(&self.view)?;
            let is_failure = matches!(rule.state, AgentState::Error | AgentState::Limited);
            // The words of a failure may be beside the row that shows its end.
            let words = is_failure
                .then(|| rule.query.find_also(&self.view))
                .flatten();
            let line = if is_failure {
                without_signs(words.as_deref().unwrap_or(line))
            } else {
                line
            };
            let asked = (rule.state == AgentState::Waiting).then(|| self.dialogue());
            // A choice above the dialogue is quoted.
            let choice = self.agent.dialogue.as_ref();
            let choice = choice.and_then(|rules| rules.choice.as_ref());
            let is_choice = choice.is_some_and(|choice| choice.is_match(line));
            let is_quoted = |asked: &FoundDialogue| {
                is_choice && rule.query.find_from(&self.view, asked.from).is_none()
            };
            if (asked.as_ref()).is_some_and(|asked| !asked.is_last || is_quoted(asked)) {
                return None;
            }
            Some(DetectedState {
                agent: self.agent.name.clone(),
                state: rule.state,
                rule: rule.id.clone(),
                line: first_chars(inner(line), LINE_CHARS_MAX).to_owned(),
                inferred: rule.inferred,
                takes_text: asked.as_ref().is_none_or(|found| found.takes_text),
                asks: asked.as_ref().and_then(|found| self.asks(found.from)),
                dialogue: asked.and_then(|found| found.dialogue),
                shells: self.shells(),
                says: rule
                    .says(line)
                    .or_else(|| self.says(rule.state == AgentState::Done)),
                rows_below: self.view.screen.rows_below(),
                is_general: self.agent.is_general,
            })
        })
    }

    /// Returns what the agent says or does, or has said in a turn that `is_over`: the end of the rows above its input box,
    /// without its status.
    fn says(&self, is_over: bool) -> Option<String> {
        let (rules, message) = (self.agent.says.as_ref()?, self.view.message?);
        let screen = self.view.screen;
        let rows = screen.last_of(0..self.view.above, LINES_MAX);
        let rows = rows.map(|row| match screen.row(row) {
            row if self.agent.row_kind(row) == RowKind::Decoration => "",
            row => row,
        });
        let rows: Vec<&str> = rows.collect();
        let is_status = |row: &str| self.agent.row_kind(row) == RowKind::Status;
        rules.read(&rows, is_over, |row| message.is_match(row), is_status)
    }

    /// Returns the number of shells that run in the background. Agents say it beside their input box.
    fn shells(&self) -> u32 {
        let screen = self.view.screen;
        let count = |pattern: &Regex| {
            let mut rows = screen.last_of(screen.all(), SHELLS_ROWS_MAX);
            rows.find_map(|row| {
                pattern
                    .captures(screen.row(row))?
                    .get(1)?
                    .as_str()
                    .parse()
                    .ok()
            })
        };
        self.agent.shells.as_ref().and_then(count).unwrap_or(0)
    }

    /// Returns the question in the rows from `from` on: those above belong to the conversation.
    fn asks(&self, from: usize) -> Option<String> {
        self.agent.asks.iter().find_map(|query| {
            let row = query.find_row(&self.view, from)?;
            let question = query
                .pattern
                .captures(query.text(&self.view, row))?
                .get(1)?;
            // The row above may name the tool.
            let above = self.view.screen.before(row).unwrap_or_default();
            let tool = query.under.as_ref().and_then(|under| under.captures(above));
            let tool = tool.as_ref().and_then(|tool| tool.get(1));
            let words = tool
                .into_iter()
                .chain([question])
                .map(|words| words.as_str());
            let question = one_line(&words.collect::<Vec<_>>().join(" "));
            Some(question).filter(|question| !question.is_empty())
        })
    }

    fn dialogue(&self) -> FoundDialogue {
        let rules = self.agent.dialogue.as_ref();
        let listed = self.listed.clone();
        let read = rules.and_then(|rules| {
            Some((
                rules,
                listed.or_else(|| rules.read(self.view.screen, false))?,
            ))
        });
        match read {
            Some((rules, read)) => FoundDialogue {
                from: read.from,
                is_last: read.below <= BELOW_CHOICES_MAX,
                takes_text: read.takes_text || rules.takes_text(&read.dialogue),
                dialogue: Some(read.dialogue),
            },
            None => FoundDialogue {
                from: 0,
                is_last: true,
                takes_text: true,
                dialogue: None,
            },
        }
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
            // The number of last rows that are searched for the exit text if no input box is shown.
            None => screen.last_of(screen.all(), 12),
        };
        let shows_exit =
            |exit_text: &Regex| rows.clone().any(|row| exit_text.is_match(screen.row(row)));
        self.agent.exit_text.as_ref().is_some_and(shows_exit)
            || shell.is_some_and(|shell| shell.follows(input, screen))
    }
}

// Classifies one row of an agent's screen: text, progress, or decoration (pure).

/// The kind of a row of an agent's screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// The agent's answers and questions, tool output, and typed input.
    Text,
    /// Continuously changing progress, such as a spinner or a clock.
    Status,
    /// Lines, box edges, an empty input box, keys and names at the foot, and blank rows.
    Decoration,
}

impl AgentRules {
    /// Returns the kind of a row. Neighbouring rows have no influence, so that a text row is
    /// recognised at any position.
    pub fn row_kind(&self, row: &str) -> RowKind {
        let row = plain(row);
        let row = row.trim_end();
        match bare_line(row).kind {
            LineKind::Blank | LineKind::Rule => return RowKind::Decoration,
            LineKind::Input | LineKind::Bullet | LineKind::Text => {}
        }
        // Any row of a screen can show that an agent works, such as typed text.
        let is_status = |rule: &StateRule| {
            rule.state == AgentState::Working && rule.query.region != Region::Screen
        };
        let mut working = self.rules.iter().filter(|rule| is_status(rule));
        if working.any(|rule| rule.query.pattern.is_match(row)) {
            return RowKind::Status;
        }
        let is_foot = self.decoration.as_ref();
        let is_foot = is_foot.is_some_and(|decoration| decoration.is_match(row));
        if is_foot || is_edge(row) || self.is_empty_input(row) {
            RowKind::Decoration
        } else {
            RowKind::Text
        }
    }

    fn is_empty_input(&self, row: &str) -> bool {
        let inner = row.trim_matches(|c: char| c == '│' || c.is_whitespace());
        self.input.as_ref().is_some_and(|input| {
            // Any row could be input in a box with a bar.
            input.frame != InputFrame::Bar
                && input.prompt.is_match(inner)
                && input.empty.is_match(inner)
        })
    }
}

/// Returns true if a row is the upper or lower edge of a box with a title.
fn is_edge(row: &str) -> bool {
    let row = row.trim_start();
    let row = row.strip_prefix(['╭', '╰', '┌', '└']).unwrap_or(row);
    // The minimum number of line characters at the beginning of a box's edge. An edge may hold a
    // title, and a list item may begin with a few dashes.
    row.chars().take_while(|c| *c == '─').count() >= 10
}

// Searches the regions of a screen that rules refer to (pure).

/// The maximum number of rows in a region.
pub(super) const LINES_MAX: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Region {
    Input,
    AboveInput,
    BelowInput,
    LastMessage,
    Bottom,
    Dialogue,
    Cursor,
    Screen,
}

impl Region {
    /// Returns true if the position of the region depends on the input box.
    pub fn needs_input(self) -> bool {
        use Region::{AboveInput, BelowInput, Input, LastMessage};
        matches!(self, Input | AboveInput | BelowInput | LastMessage)
    }

    /// Returns true if the rule sets the number of rows in the region.
    pub fn has_lines(self) -> bool {
        use Region::{AboveInput, BelowInput, Bottom};
        matches!(self, AboveInput | BelowInput | Bottom)
    }
}

/// A pattern and the region to search.
#[derive(Clone, Debug)]
pub(super) struct RowQuery {
    pub region: Region,
    pub lines: usize,
    pub pattern: Regex,
    /// A pattern that another row of the region must match.
    pub also: Option<Regex>,
    /// A pattern that the nearest non-blank row above must match.
    pub under: Option<Regex>,
    /// True if the highest matching row counts; false if the lowest one does.
    pub is_first: bool,
}

/// A screen as it appears to the rules of one agent.
pub(super) struct ScreenView<'p, 'a> {
    pub screen: &'p RuleScreen<'a>,
    /// The first row of the dialogue, for rules that describe a list of choices.
    pub dialogue: Option<usize>,
    pub message: Option<&'p Regex>,
    pub input: Option<Range<usize>>,
    /// The end of the rows above the input box.
    pub above: usize,
    /// True if the agent draws texts in boxes with a bar on the left.
    pub has_boxes: bool,
    /// True if a row within a frame does not count as the row of the cursor.
    pub only_unframed: bool,
}

impl RowQuery {
    /// Returns the lowest matching row of the region, or the highest if `is_first`, in the form
    /// that the pattern matches.
    pub fn find<'p>(&self, view: &ScreenView<'p, '_>) -> Option<&'p str> {
        self.find_from(view, 0)
    }

    /// Returns the lowest row of the region that the pattern for another row matches.
    fn find_also<'p>(&self, view: &ScreenView<'p, '_>) -> Option<Cow<'p, str>> {
        let (also, rows) = (self.also.as_ref()?, view.rows(self.region, self.lines)?);
        let mut lines = rows.rev().map(|row| view.whole(row));
        lines.find(|line| also.is_match(line))
    }

    /// Searches the rows of the region from `from` on.
    fn find_from<'p>(&self, view: &ScreenView<'p, '_>, from: usize) -> Option<&'p str> {
        self.find_row(view, from).map(|row| self.text(view, row))
    }

    /// Returns a row in the form that the pattern matches.
    fn text<'p>(&self, view: &ScreenView<'p, '_>, row: usize) -> &'p str {
        let screen = view.screen;
        match self.region {
            Region::Input => inner(screen.row(row)),
            Region::Cursor => screen.cursor_line(),
            _ => screen.row(row),
        }
    }

    /// Returns the row that [`RowQuery::find_from`] finds.
    fn find_row(&self, view: &ScreenView<'_, '_>, from: usize) -> Option<usize> {
        let rows = view.rows(self.region, self.lines)?;
        let rows = rows.start.max(from)..rows.end;
        let screen = view.screen;
        let is_under = |row: usize| {
            let matches = |under: &Regex| screen.before(row).is_some_and(|row| under.is_match(row));
            self.under.as_ref().is_none_or(matches)
        };
        let is_match = |row: &usize| self.pattern.is_match(self.text(view, *row)) && is_under(*row);
        let found = if self.is_first {
            rows.clone().find(is_match)
        } else {
            rows.clone().rfind(is_match)
        }?;
        let is_also = |also: &Regex, row: usize| {
            also.is_match(self.text(view, row)) || view.has_boxes && also.is_match(&view.whole(row))
        };
        let has = |also: &Regex| rows.clone().any(|row| is_also(also, row));
        self.also.as_ref().is_none_or(has).then_some(found)
    }
}

impl<'p> ScreenView<'p, '_> {
    /// Returns a row or, within a box with a bar, the whole text of the box, which a narrow pane breaks.
    fn whole(&self, row: usize) -> Cow<'p, str> {
        let screen = self.screen;
        match self.has_boxes.then(|| screen.boxed(row)).flatten() {
            Some(rows) => {
                let rows = rows.map(|row| inner(screen.row(row)));
                let text: Vec<&str> = rows.filter(|row| !row.is_empty()).collect();
                Cow::Owned(format!("┃ {}", text.join(" ")))
            }
            None => Cow::Borrowed(screen.row(row)),
        }
    }

    fn rows(&self, region: Region, lines: usize) -> Option<Range<usize>> {
        let screen = self.screen;
        Some(match (region, &self.input) {
            (Region::Screen, _) => screen.all(),
            (Region::Cursor, _) => {
                let row = screen.cursor();
                if self.only_unframed && screen.is_framed(row.start) {
                    return None;
                } else {
                    row
                }
            }
            (Region::Bottom, _) => screen.last_of(screen.all(), lines),
            (Region::Dialogue, _) => self.dialogue?..screen.all().end,
            (_, None) => return None,
            (Region::Input, Some(input)) => input.clone(),
            (Region::BelowInput, Some(input)) => {
                screen.first_of(input.end..screen.all().end, lines)
            }
            (Region::AboveInput, Some(_)) => screen.last_of(0..self.above, lines),
            (Region::LastMessage, Some(_)) => {
                let rows = screen.last_of(0..self.above, LINES_MAX);
                let begins_message = |row: &usize| {
                    let message = self.message;
                    message.is_some_and(|message| message.is_match(screen.row(*row)))
                };
                // If no beginning is visible, the message began above these rows.
                rows.clone().rfind(begins_message).unwrap_or(rows.start)..rows.end
            }
        })
    }
}
