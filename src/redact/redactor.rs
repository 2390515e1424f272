//! Events: each text of each event is read with what its stream had before (pure).

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::Rules;
use super::line::{After, take};
use super::pane::Pane;
use super::scan::{End, Set};
use super::stream::{Past, Scratch};
use crate::event::{ExecutionId, PaneId, Style, Styles, TdEvent};

/// Executions whose streams are remembered, at some 300 bytes each: more than run at once anywhere;
/// an engine that never says which have ended stays small.
const EXECUTIONS_MAX: usize = 4_096;
/// Panes of one execution: a tmux session with more is not made by hand.
const PANES_MAX: usize = 256;
/// Streams of one execution that are not panes: iterations follow each other, so few are enough.
const STREAMS_MAX: usize = 16;

/// Takes secrets out of events, one after the other, in the order of their streams.
///
/// ```
/// use td_observe::TdEvent;
/// use td_observe::redact::{Redactor, Rules};
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
    executions: Vec<Execution>,
    /// Where in `executions` each is.
    numbers: FxHashMap<ExecutionId, usize>,
    /// Where the one of the last event is, or was.
    last: usize,
    scratch: Scratch,
    /// Counts events that have streams: who was used last.
    turn: u64,
}

#[derive(Clone, Debug)]
struct Execution {
    id: ExecutionId,
    streams: Vec<Stream>,
    /// Few: found sooner by looking at each than by a hash.
    panes: Vec<(PaneId, Pane)>,
    used: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Tokens(u32),
    Stdout,
    Stderr,
    Other,
    Check { is_stderr: bool },
}

#[derive(Clone, Debug)]
struct Stream {
    name: Name,
    past: Past,
    /// Of streams that come line by line.
    after: Option<After>,
    used: u64,
}

impl Execution {
    fn new(id: ExecutionId) -> Self {
        Self {
            id,
            streams: Vec::new(),
            panes: Vec::new(),
            used: 0,
        }
    }
}

impl Redactor {
    /// A redactor that has seen nothing yet.
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

    /// Executions remembered, and the most panes and streams that one of them has.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize, usize) {
        let panes = self.executions.iter().map(|one| one.panes.len()).max();
        let streams = self.executions.iter().map(|one| one.streams.len()).max();
        (
            self.executions.len(),
            panes.unwrap_or(0),
            streams.unwrap_or(0),
        )
    }

    /// Takes secrets out of the event; whether there were any.
    pub fn event(&mut self, event: &mut TdEvent) -> bool {
        if self.rules.0.rules.is_empty() {
            return false;
        }
        match event {
            TdEvent::TokenReceived {
                execution_id,
                iteration,
                token,
                // Those of an agent in a pane are whole messages.
                pane: None,
            } => self.piece(execution_id, Name::Tokens(*iteration), token),
            TdEvent::ExecutionOutput {
                execution_id,
                stream,
                text,
            } => {
                let name = match stream.as_str() {
                    "stdout" => Name::Stdout,
                    "stderr" => Name::Stderr,
                    _ => Name::Other,
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
                self.line(execution_id, Name::Check { is_stderr }, line)
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
                let found = put(chunk, pane.settled(set, *first_line, chunk, scratch));
                let reason_found = reason.as_mut().is_some_and(|reason| self.text(reason));
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
                let found = put(text, pane.revised(set, *line, text, scratch));
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
            other => {
                self.note(other);
                let mut found = false;
                other.for_each_text(&mut |text| found |= self.text(text));
                found
            }
        }
    }

    /// Styles of text that `was_changed` are of no text any more, and those that hold a secret, or
    /// are none, must not be seen: all of the event go. Whether there was a secret.
    fn styles(&mut self, styles: &mut Styles, was_changed: bool) -> bool {
        if styles.is_empty() {
            return false;
        }
        let is_sound = styles.as_slice().iter().all(Style::is_valid);
        let found = styles
            .sgrs_mut()
            .fold(false, |found, sgr| found | self.text(sgr));
        if was_changed || found || !is_sound {
            styles.clear();
        }
        found
    }

    /// Forgets what is known of an execution that has ended.
    pub fn forget(&mut self, execution_id: &str) {
        let Some(index) = self.numbers.remove(execution_id) else {
            return;
        };
        self.executions.swap_remove(index);
        if let Some(moved) = self.executions.get(index) {
            self.numbers.insert(moved.id.clone(), index);
        }
    }

    /// What an event without a stream says about streams.
    fn note(&mut self, event: &TdEvent) {
        match event {
            TdEvent::PaneOpened {
                execution_id,
                pane,
                width,
                ..
            }
            | TdEvent::PaneResized {
                execution_id,
                pane,
                width,
                ..
            } => self.pane(execution_id, pane).0.width = Some(*width),
            TdEvent::PaneClosed {
                execution_id, pane, ..
            } => {
                let (execution, ..) = self.execution(execution_id);
                execution.panes.retain(|(id, _)| id != pane);
            }
            TdEvent::SessionEnded { execution_id, .. } => {
                self.execution(execution_id).0.panes.clear();
            }
            _ => {}
        }
    }

    fn text(&self, text: &mut String) -> bool {
        let masked = match self.rules.text(text) {
            Cow::Owned(masked) => Some(masked),
            Cow::Borrowed(_) => None,
        };
        put(text, masked)
    }

    fn piece(&mut self, id: &ExecutionId, name: Name, text: &mut String) -> bool {
        let (stream, set, scratch) = self.stream(id, name);
        put(text, stream.past.push(set, text, End::Cut, scratch))
    }

    fn line(&mut self, id: &ExecutionId, name: Name, line: &mut String) -> bool {
        let (stream, set, scratch) = self.stream(id, name);
        if stream.after.is_none() && set.finder.find(line.as_bytes(), 0).is_none() {
            return false;
        }
        let (found, after) = take(set, stream.after.as_ref(), line, End::Done, None, scratch);
        stream.after = after;
        put(line, found)
    }

    fn execution(&mut self, id: &ExecutionId) -> (&mut Execution, &Set, &mut Scratch) {
        self.turn += 1;
        // Events of one execution come in runs.
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
                self.executions.push(Execution::new(id.clone()));
                self.executions.len() - 1
            }
        };
        self.last = index;
        let execution = &mut self.executions[index];
        execution.used = self.turn;
        (execution, &self.rules.0, &mut self.scratch)
    }

    /// Half of the executions at once: looking for the oldest each time would cost each time.
    fn forget_half(&mut self) {
        let mut used: Vec<u64> = self.executions.iter().map(|one| one.used).collect();
        let middle = used.len() / 2;
        let middle = *used.select_nth_unstable(middle).1;
        self.executions.retain(|one| one.used > middle);
        let numbered = self.executions.iter().enumerate();
        self.numbers = numbered.map(|(at, one)| (one.id.clone(), at)).collect();
    }

    fn pane(&mut self, id: &ExecutionId, pane: &PaneId) -> (&mut Pane, &Set, &mut Scratch) {
        let turn = self.turn + 1;
        let (execution, set, scratch) = self.execution(id);
        let panes = &mut execution.panes;
        let index = match panes.iter().position(|(id, _)| id == pane) {
            Some(index) => index,
            None => {
                if panes.len() >= PANES_MAX
                    && let Some(oldest) = panes.iter().map(|(_, one)| one.used).min()
                {
                    panes.retain(|(_, one)| one.used > oldest);
                }
                panes.push((pane.clone(), Pane::default()));
                panes.len() - 1
            }
        };
        let pane = &mut panes[index].1;
        pane.used = turn;
        (pane, set, scratch)
    }

    fn stream(&mut self, id: &ExecutionId, name: Name) -> (&mut Stream, &Set, &mut Scratch) {
        let turn = self.turn + 1;
        let (execution, set, scratch) = self.execution(id);
        let streams = &mut execution.streams;
        let index = match streams.iter().position(|stream| stream.name == name) {
            Some(index) => index,
            None => {
                if streams.len() >= STREAMS_MAX
                    && let Some(oldest) = streams.iter().map(|one| one.used).min()
                {
                    streams.retain(|one| one.used > oldest);
                }
                streams.push(Stream {
                    name,
                    past: Past::default(),
                    after: None,
                    used: turn,
                });
                streams.len() - 1
            }
        };
        let stream = &mut streams[index];
        stream.used = turn;
        (stream, set, scratch)
    }
}

/// Puts the masked text in the text's place, if there is one.
fn put(text: &mut String, masked: Option<String>) -> bool {
    match masked {
        Some(masked) => {
            *text = masked;
            true
        }
        None => false,
    }
}
