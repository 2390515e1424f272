//! Redacts events, each text with the state of its stream (pure).

use rustc_hash::FxHashMap;

use super::line::{LineState, redact_line};
use super::pane::PaneState;
use super::rules::Rules;
use super::scan::RuleSet;
use super::span::TextEnd;
use super::stream::Scratch;
use super::terminal::TerminalStream;
use super::whole::if_redacted;
use crate::event::{ExecutionId, OutputStream, PaneId, ScreenRow, Style, Styles, TdEvent};

/// Maximum number of remembered executions, at some 300 bytes each: more than run at the same time anywhere.
/// Bounds memory for a caller that never reports their end.
const EXECUTIONS_MAX: usize = 4_096;
/// Maximum number of remembered panes per execution; manually created sessions have fewer.
const PANES_MAX: usize = 256;
/// Maximum number of other streams per execution. Iterations follow one another, so few suffice.
const STREAMS_MAX: usize = 16;

/// Redacts events in the order of their streams.
///
/// ```
/// use td_observe::TdEvent;
/// use td_observe::internals::redact::Redactor;
/// use td_observe::redact::Rules;
/// let mut redactor = Redactor::new(Rules::builtin());
/// let mut event = TdEvent::Warning {
///     execution_id: "demo".into(),
///     context: "config".into(),
///     message: format!("password={}", "tr0ub4dor"),
/// };
/// assert!(redactor.event(&mut event));
/// assert!(matches!(event, TdEvent::Warning { message, .. } if message == "password=[redacted:password]"));
/// ```
#[derive(Clone, Debug)]
pub struct Redactor {
    rules: Rules,
    executions: Vec<ExecutionStreams>,
    /// The index of each execution in `executions`.
    numbers: FxHashMap<ExecutionId, usize>,
    /// The index of the last event's execution, if it still exists.
    last: usize,
    scratch: Scratch,
    /// Counts events with streams, to find the least recently used streams.
    turn: u64,
}

#[derive(Clone, Debug)]
struct ExecutionStreams {
    id: ExecutionId,
    streams: Recent<StreamName, TextState>,
    panes: Recent<PaneId, PaneState>,
    used: u64,
}

/// Values by key, each with the turn of its last use. A linear search in a few is faster than hashing.
#[derive(Clone, Debug)]
struct Recent<K, V>(Vec<(K, u64, V)>);

impl<K: Clone + PartialEq, V> Recent<K, V> {
    /// Returns the value of a key. If it is new, the least recently used one beyond `max` is forgotten.
    fn get(&mut self, key: &K, turn: u64, max: usize, new: impl FnOnce() -> V) -> &mut V {
        let index = match self.0.iter().position(|(known, ..)| known == key) {
            Some(index) => index,
            None => {
                if self.0.len() >= max
                    && let Some(oldest) = self.0.iter().map(|(_, used, _)| *used).min()
                {
                    self.0.retain(|(_, used, _)| *used > oldest);
                }
                self.0.push((key.clone(), turn, new()));
                self.0.len() - 1
            }
        };
        let (_, used, value) = &mut self.0[index];
        *used = turn;
        value
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamName {
    Tokens(u32),
    Stdout,
    Stderr,
    Other,
    Validation { is_stderr: bool },
}

#[derive(Clone, Debug)]
struct TextState {
    state: TerminalStream,
    /// The state of streams that arrive line by line.
    after: Option<LineState>,
}

impl Redactor {
    /// Creates a redactor.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            executions: Vec::new(),
            numbers: FxHashMap::default(),
            last: 0,
            scratch: Scratch::default(),
            turn: 0,
        }
    }

    /// Returns the number of executions, and the maximum numbers of panes and streams per execution.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize, usize) {
        let states = self.executions.iter();
        let panes = states.clone().map(|state| state.panes.0.len()).max();
        let streams = states.map(|state| state.streams.0.len()).max();
        (
            self.executions.len(),
            panes.unwrap_or(0),
            streams.unwrap_or(0),
        )
    }

    #[cfg(test)]
    pub(super) fn remembered_lines(&self, execution_id: &str) -> usize {
        let states = self.executions.iter();
        let states = states.filter(|state| *state.id == *execution_id);
        let panes = states.flat_map(|state| &state.panes.0);
        panes.map(|(.., pane)| pane.remembered_lines()).sum()
    }

    /// Redacts an event; returns true if it contained secrets.
    pub fn event(&mut self, event: &mut TdEvent) -> bool {
        if self.rules.0.rules.is_empty() {
            return false;
        }
        match event {
            TdEvent::TokenReceived {
                execution_id,
                iteration,
                token,
                // Tokens of an agent in a pane are complete messages.
                pane: None,
            } => self.piece(execution_id, StreamName::Tokens(*iteration), token),
            TdEvent::ExecutionOutput {
                execution_id,
                stream,
                text,
            } => {
                let name = match stream.known() {
                    Some(OutputStream::Stdout) => StreamName::Stdout,
                    Some(OutputStream::Stderr) => StreamName::Stderr,
                    None => StreamName::Other,
                };
                self.piece(execution_id, name, text)
            }
            TdEvent::ValidationOutput {
                execution_id,
                line,
                is_stderr,
                ..
            } => {
                let is_stderr = *is_stderr;
                self.line(execution_id, StreamName::Validation { is_stderr }, line)
            }
            TdEvent::OutputUpdate {
                execution_id,
                pane,
                first_line,
                chunk,
                reason,
                styles,
                ..
            } => {
                let (pane, set, scratch) = self.pane(execution_id, pane);
                let found = replace(chunk, pane.settled(set, *first_line, chunk, scratch));
                let mut reason_found = false;
                if let Some(reason) = reason {
                    reason.visit_unknown(&mut |text| reason_found = self.text(text));
                }
                found | reason_found | self.styles(styles, found)
            }
            TdEvent::OutputRevised {
                execution_id,
                pane,
                line,
                text,
                styles,
            } => {
                let (pane, set, scratch) = self.pane(execution_id, pane);
                let found = replace(text, pane.line(set, *line, text, TextEnd::Cut, scratch));
                found | self.styles(styles, found)
            }
            TdEvent::ScreenUpdate {
                execution_id,
                pane,
                width,
                rows,
                ..
            } => {
                let (pane, set, scratch) = self.pane(execution_id, pane);
                pane.screen(set, *width, rows, scratch)
            }
            // The event contains all rows, so nothing from the previous screen continues in them.
            TdEvent::ScreenSnapshot { width, rows, .. } => {
                let (set, scratch) = (&self.rules.0, &mut self.scratch);
                let found = PaneState::default().screen(set, *width, rows, scratch);
                found | self.as_one_text(rows)
            }
            other => {
                self.update_streams(other);
                let mut found = false;
                other.for_each_text(&mut |text| found |= self.text(text));
                found
            }
        }
    }

    /// Clears the styles if their text `was_changed`, or if one contains a secret or is invalid; returns true
    /// if one contained a secret.
    fn styles(&mut self, styles: &mut Styles, was_changed: bool) -> bool {
        if styles.is_empty() {
            return false;
        }
        let is_valid = styles.as_slice().iter().all(Style::is_valid);
        let found = styles
            .sgrs_mut()
            .fold(false, |found, sgr| found | self.text(sgr));
        if was_changed || found || !is_valid {
            styles.clear();
        }
        found
    }

    /// Updates the streams that a life-cycle event affects.
    fn update_streams(&mut self, event: &TdEvent) {
        match event {
            TdEvent::PaneOpened {
                execution_id,
                pane,
                width,
                height,
                ..
            }
            | TdEvent::PaneResized {
                execution_id,
                pane,
                width,
                height,
                ..
            } => self.pane(execution_id, pane).0.resized(*width, *height),
            TdEvent::PaneClosed {
                execution_id, pane, ..
            } => {
                let (execution, ..) = self.execution(execution_id);
                execution.panes.0.retain(|(id, ..)| id != pane);
            }
            TdEvent::SessionEnded { execution_id, .. } => {
                self.execution(execution_id).0.panes.0.clear();
            }
            _ => {}
        }
    }

    /// Redacts rows as one text, so that secrets broken by a frame or a backslash are found.
    fn as_one_text(&self, rows: &mut [ScreenRow]) -> bool {
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        let mut text = texts.join("\n");
        if !self.text(&mut text) {
            return false;
        }
        // A row that is missing from the result was part of the secret.
        let mut redacted = text.split('\n');
        for row in rows {
            redacted
                .next()
                .unwrap_or_default()
                .clone_into(&mut row.text);
        }
        true
    }

    fn text(&self, text: &mut String) -> bool {
        let redacted = if_redacted(self.rules.text(text));
        replace(text, redacted)
    }

    fn piece(&mut self, id: &ExecutionId, name: StreamName, text: &mut String) -> bool {
        let (stream, ..) = self.stream(id, name);
        let redacted = if_redacted(stream.state.push(text));
        replace(text, redacted)
    }

    fn line(&mut self, id: &ExecutionId, name: StreamName, line: &mut String) -> bool {
        let (stream, set, scratch) = self.stream(id, name);
        if stream.after.is_none() && !set.finder.finds(line.as_bytes(), 0) {
            return false;
        }
        let (found, after) = redact_line(
            set,
            stream.after.as_ref(),
            line,
            TextEnd::Complete,
            None,
            scratch,
        );
        stream.after = after;
        let found = replace(line, found);
        // Colours within a secret, or between its name and its value.
        found | (memchr::memchr(0x1b, line.as_bytes()).is_some() && self.text(line))
    }

    fn execution(&mut self, id: &ExecutionId) -> (&mut ExecutionStreams, &Rules, &mut Scratch) {
        self.turn += 1;
        // Consecutive events often belong to the same execution.
        let last = self.executions.get(self.last);
        let index = match last.is_some_and(|last| last.id == *id) {
            true => Some(self.last),
            false => self.numbers.get(id).copied(),
        };
        let index = match index {
            Some(index) => index,
            None => {
                if self.executions.len() >= EXECUTIONS_MAX {
                    self.forget_half();
                }
                self.numbers.insert(id.clone(), self.executions.len());
                self.executions.push(ExecutionStreams {
                    id: id.clone(),
                    streams: Recent(Vec::new()),
                    panes: Recent(Vec::new()),
                    used: 0,
                });
                self.executions.len() - 1
            }
        };
        self.last = index;
        let execution = &mut self.executions[index];
        execution.used = self.turn;
        (execution, &self.rules, &mut self.scratch)
    }

    /// Removes half of the executions at once, which is cheaper than finding the oldest one each time.
    fn forget_half(&mut self) {
        let mut used: Vec<u64> = self.executions.iter().map(|state| state.used).collect();
        let middle = used.len() / 2;
        let middle = *used.select_nth_unstable(middle).1;
        self.executions.retain(|state| state.used > middle);
        let numbered = self.executions.iter().enumerate();
        self.numbers = numbered.map(|(at, state)| (state.id.clone(), at)).collect();
    }

    fn pane(
        &mut self,
        id: &ExecutionId,
        pane: &PaneId,
    ) -> (&mut PaneState, &RuleSet, &mut Scratch) {
        let turn = self.turn + 1;
        let (execution, rules, scratch) = self.execution(id);
        let panes = &mut execution.panes;
        let pane = panes.get(pane, turn, PANES_MAX, PaneState::default);
        (pane, &rules.0, scratch)
    }

    fn stream(
        &mut self,
        id: &ExecutionId,
        name: StreamName,
    ) -> (&mut TextState, &RuleSet, &mut Scratch) {
        let turn = self.turn + 1;
        let (execution, rules, scratch) = self.execution(id);
        let new = || TextState {
            state: TerminalStream::new(rules.clone()),
            after: None,
        };
        let stream = execution.streams.get(&name, turn, STREAMS_MAX, new);
        (stream, &rules.0, scratch)
    }
}

/// Replaces the text by the redacted text, if any.
fn replace(text: &mut String, redacted: Option<String>) -> bool {
    redacted.map(|redacted| *text = redacted).is_some()
}
