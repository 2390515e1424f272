//! Redacts events, each text with the state of its stream or pane (pure).
//!
//! tmux joins the rows that it wrapped itself. A program that breaks its lines at the pane's edge leaves a
//! line that nearly fills the pane, and the rest of the secret in the next line, after an indentation or a
//! frame. Lines are therefore scanned one by one, each with the state of the previous line.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unicode_width::UnicodeWidthStr;

use super::edges::{LEAK_BYTES, TextEnd, unite};
use super::rule::Rule;
use super::rules::{Rules, Scratch, StreamState};
use super::scan::{Continuation, RuleSet, redact_spans};
use super::terminal::{TerminalStream, if_redacted};
use super::value::ValueCheck;
use crate::event::{
    ExecutionId, OutputStream, PaneId, ScreenRow, Style, Styles, TdEvent, line_ends_in, lines_in,
};

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
    executions: FxHashMap<ExecutionId, ExecutionStreams>,
    scratch: Scratch,
    /// Counts events with streams, to find the least recently used streams.
    turn: u64,
}

#[derive(Clone, Debug, Default)]
struct ExecutionStreams {
    streams: Recent<StreamName, TextState>,
    panes: Recent<PaneId, PaneState>,
    used: u64,
}

/// Values by key, each with the turn of its last use. A linear search in a few is faster than hashing.
type Recent<K, V> = Vec<(K, u64, V)>;

/// Returns the value of a key. If it is new, the least recently used one beyond `max` is forgotten.
fn recent<'a, K: Clone + PartialEq, V>(
    values: &'a mut Recent<K, V>,
    key: &K,
    (turn, max): (u64, usize),
    new: impl FnOnce() -> V,
) -> &'a mut V {
    let index = match values.iter().position(|(known, ..)| known == key) {
        Some(index) => index,
        None => {
            if values.len() >= max
                && let Some(oldest) = values.iter().map(|(_, used, _)| *used).min()
            {
                values.retain(|(_, used, _)| *used > oldest);
            }
            values.push((key.clone(), turn, new()));
            values.len() - 1
        }
    };
    let (_, used, value) = &mut values[index];
    *used = turn;
    value
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
            executions: FxHashMap::default(),
            scratch: Scratch::default(),
            turn: 0,
        }
    }

    /// Reads the built-in rules now rather than with the first event.
    pub fn prepare(&self) {
        self.rules.set();
    }

    /// Returns the number of executions, and the maximum numbers of panes and streams per execution.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize, usize) {
        let states = self.executions.values();
        let panes = states.clone().map(|state| state.panes.len()).max();
        let streams = states.map(|state| state.streams.len()).max();
        (
            self.executions.len(),
            panes.unwrap_or(0),
            streams.unwrap_or(0),
        )
    }

    #[cfg(test)]
    pub(super) fn remembered_lines(&self, execution_id: &str) -> usize {
        let state = self.executions.get(execution_id);
        let panes = state.into_iter().flat_map(|state| &state.panes);
        panes.map(|(.., pane)| pane.remembered_lines()).sum()
    }

    /// Redacts an event; returns true if it contained secrets.
    pub fn event(&mut self, event: &mut TdEvent) -> bool {
        if self.rules.set().rules.is_empty() {
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
                links,
                ..
            } => {
                let (pane, set, scratch) = self.pane(execution_id, pane);
                let found = replace(chunk, pane.settled(set, *first_line, chunk, scratch));
                let mut reason_found = false;
                if let Some(reason) = reason {
                    reason.visit_unknown(&mut |text| reason_found = self.text(text));
                }
                clear_styles(styles, found);
                if found {
                    links.clear();
                }
                let mut link_found = false;
                links.for_each_url(&mut |url| link_found |= self.text(url));
                found | reason_found | link_found
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
                clear_styles(styles, found);
                found
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
                let (set, scratch) = (self.rules.set(), &mut self.scratch);
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
                execution.panes.retain(|(id, ..)| id != pane);
            }
            TdEvent::SessionEnded { execution_id, .. } => {
                self.execution(execution_id).0.panes.clear();
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
        let (before, end) = (stream.after.as_ref(), TextEnd::Complete);
        let (found, after) = redact_line(set, before, line, end, None, scratch);
        stream.after = after;
        let found = replace(line, found);
        // Colours within a secret, or between its name and its value.
        found | (memchr::memchr(0x1b, line.as_bytes()).is_some() && self.text(line))
    }

    fn execution(&mut self, id: &ExecutionId) -> (&mut ExecutionStreams, &Rules, &mut Scratch) {
        self.turn += 1;
        if self.executions.len() >= EXECUTIONS_MAX && !self.executions.contains_key(id) {
            // Half at once, which is cheaper than finding the oldest one each time.
            let mut used: Vec<u64> = self.executions.values().map(|state| state.used).collect();
            let middle = used.len() / 2;
            let middle = *used.select_nth_unstable(middle).1;
            self.executions.retain(|_, state| state.used > middle);
        }
        let execution = self.executions.entry(id.clone()).or_default();
        execution.used = self.turn;
        (execution, &self.rules, &mut self.scratch)
    }

    fn pane(
        &mut self,
        id: &ExecutionId,
        pane: &PaneId,
    ) -> (&mut PaneState, &RuleSet, &mut Scratch) {
        let turn = self.turn + 1;
        let (execution, rules, scratch) = self.execution(id);
        let bounds = (turn, PANES_MAX);
        let pane = recent(&mut execution.panes, pane, bounds, PaneState::default);
        (pane, rules.set(), scratch)
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
        let stream = recent(&mut execution.streams, &name, (turn, STREAMS_MAX), new);
        (stream, rules.set(), scratch)
    }
}

/// Replaces the text by the redacted text, if any.
fn replace(text: &mut String, redacted: Option<String>) -> bool {
    redacted.map(|redacted| *text = redacted).is_some()
}

/// Maximum number of remembered lines of a pane whose height is unknown or larger: more lines than a key or a
/// screen has.
const LINES_MAX: usize = 512;

/// The state of a pane between two events.
#[derive(Clone, Debug, Default)]
pub(super) struct PaneState {
    pub(super) width: Option<u32>,
    /// The greatest height so far.
    height: Option<u32>,
    /// The states that lines leave for the next line, by line number.
    lines: BTreeMap<i64, LineState>,
    /// The states of rows of the alternate screen.
    rows: BTreeMap<i64, LineState>,
}

impl PaneState {
    /// Records the size of the pane.
    pub(super) fn resized(&mut self, width: u32, height: u32) {
        self.width = Some(width);
        self.height = self.height.max(Some(height));
    }

    #[cfg(test)]
    pub(super) fn remembered_lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the maximum number of remembered lines.
    fn lines_max(&self) -> usize {
        // Number of remembered lines above the screen. Only lines of the screen are revised.
        let of_screen = self.height.map(|height| height as usize + 64);
        of_screen.unwrap_or(LINES_MAX).min(LINES_MAX)
    }

    /// Redacts settled lines; returns the redacted chunk if it differs.
    pub(super) fn settled(
        &mut self,
        set: &RuleSet,
        first_line: i64,
        chunk: &str,
        scratch: &mut Scratch,
    ) -> Option<String> {
        if !set.finder.finds(chunk.as_bytes(), 0) && self.is_plain(first_line, chunk) {
            return None;
        }
        let mut out = String::new();
        // The end of the text that is already in `out`.
        let mut done = 0;
        let mut at = 0;
        for (index, line) in (0..).zip(chunk.split_inclusive('\n')) {
            let number = first_line.saturating_add(index);
            let text = line.strip_suffix('\n').unwrap_or(line);
            if let Some(redacted) = self.line(set, number, text, TextEnd::Complete, scratch) {
                out.push_str(&chunk[done..at]);
                out.push_str(&redacted);
                done = at + text.len();
            }
            at += line.len();
        }
        (done > 0 || !out.is_empty()).then(|| {
            out.push_str(&chunk[done..]);
            out
        })
    }

    /// Returns true if no remembered line affects these lines, so that without keywords they need no scan.
    fn is_plain(&self, first_line: i64, chunk: &str) -> bool {
        if !self.lines.is_empty() {
            let last = first_line.saturating_add(line_ends_in(chunk));
            let mut known = self
                .lines
                .range(first_line.saturating_sub(1)..=last.max(first_line));
            if known.next().is_some() {
                return false;
            }
        }
        chunk.len() < full_columns_min(self.width)
            || !lines_in(chunk).any(|line| nearly_full(line, self.width))
    }

    /// Redacts a line, which may still grow if its end is cut; returns the redacted text if it differs.
    pub(super) fn line(
        &mut self,
        set: &RuleSet,
        number: i64,
        text: &str,
        end: TextEnd,
        scratch: &mut Scratch,
    ) -> Option<String> {
        let known = (self.lines_max(), &mut self.lines);
        redact_numbered(set, known, number, text, end, self.width, scratch)
    }

    /// Redacts changed rows of the alternate screen; returns true if one contained a secret.
    pub(super) fn screen(
        &mut self,
        set: &RuleSet,
        width: u32,
        rows: &mut [ScreenRow],
        scratch: &mut Scratch,
    ) -> bool {
        if self.width != Some(width) {
            self.rows.clear();
            self.width = Some(width);
        }
        // From top to bottom, because a row needs the state of the row above it.
        let mut order: Vec<usize> = Vec::new();
        if !rows.is_sorted_by_key(|row| row.row) {
            order.extend(0..rows.len());
            order.sort_by_key(|&index| rows[index].row);
        }
        let mut found = false;
        for index in 0..rows.len() {
            let row = &mut rows[order.get(index).copied().unwrap_or(index)];
            let number = i64::from(row.row);
            let (known, end) = ((LINES_MAX, &mut self.rows), TextEnd::Cut);
            if let Some(redacted) =
                redact_numbered(set, known, number, &row.text, end, self.width, scratch)
            {
                row.text = redacted;
                found = true;
            }
        }
        found
    }
}

/// Redacts one line with the state of the previous line, and remembers its own state.
fn redact_numbered(
    set: &RuleSet,
    (lines_max, known): (usize, &mut BTreeMap<i64, LineState>),
    number: i64,
    text: &str,
    end: TextEnd,
    width: Option<u32>,
    scratch: &mut Scratch,
) -> Option<String> {
    let before = number.checked_sub(1).and_then(|before| known.get(&before));
    if before.is_none() && !set.finder.finds(text.as_bytes(), 0) && !nearly_full(text, width) {
        known.remove(&number);
        return None;
    }
    let (found, after) = redact_line(set, before, text, end, width, scratch);
    match after {
        Some(after) => {
            known.insert(number, after);
            while known.len() > lines_max {
                known.pop_first();
            }
        }
        None => {
            known.remove(&number);
        }
    }
    found
}

/// The state that a line leaves for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineState {
    /// The line was broken at the pane's edge, or a block continues.
    Continues(StreamState),
    /// The line ended with a secret of this rule; the next line may begin with its rest.
    EndsWithSecret(u16),
}

/// Returns the minimum number of columns of a line that may have been broken at the edge of a pane with this
/// width. If the width is unknown, no line is long enough.
pub(super) fn full_columns_min(width: Option<u32>) -> usize {
    width.map_or(usize::MAX, |width| {
        let width = width as usize;
        // Maximum number of free columns at the pane's edge after a broken line: a frame, and a margin on both
        // sides. In a narrow pane, the limit is a quarter of its width.
        width - 12.min(width / 4)
    })
}

/// Returns true if the line may have been broken at the edge of a pane with this width.
///
/// A longer line was wrapped by tmux. It may also continue if it fills its last row: when a program switches
/// to the alternate screen, tmux forgets that the last row of the history is wrapped, and the rest of the
/// line becomes a line of its own.
pub(super) fn nearly_full(line: &str, width: Option<u32>) -> bool {
    let columns_min = full_columns_min(width);
    // A character never has more columns than bytes.
    line.len() >= columns_min
        && width.is_some_and(|width| {
            let (columns, width) = (line.width(), width as usize);
            (columns_min..=width).contains(&columns)
                || (columns > width && columns.checked_rem(width) == Some(0))
        })
}

/// Redacts a line without its newline; returns the redacted text, if it differs, and the state for
/// the next line.
///
/// `end` is [`TextEnd::Cut`] for a line that may still grow.
pub(super) fn redact_line(
    set: &RuleSet,
    before: Option<&LineState>,
    line: &str,
    end: TextEnd,
    width: Option<u32>,
    scratch: &mut Scratch,
) -> (Option<String>, Option<LineState>) {
    let is_full = nearly_full(line, width);
    // The end of an XML element is not a frame.
    let stop = line
        .trim_end_matches(|c| c != '>' && is_decoration(c))
        .len();
    let mut start = 0;
    let mut state = StreamState::default();
    match before {
        None => {}
        Some(LineState::Continues(more)) => {
            state.clone_from(more);
            let skip = indent(line, stop);
            match state.open {
                // A block handles frames itself, and accepts only lines in its own format.
                Continuation::Block(..) => {}
                // The secret may have ended at the end of the line.
                Continuation::Secret(rule) => {
                    // The text consists of body bytes, or begins with more of them than may be shown.
                    let run = run(&set.rules[usize::from(rule)], &line.as_bytes()[skip..stop]);
                    if run.len() == stop - skip || run.len() >= LEAK_BYTES {
                        start = skip;
                    } else {
                        state = StreamState::default();
                    }
                }
                _ => start = skip,
            }
        }
        Some(LineState::EndsWithSecret(rule)) => {
            let skip = indent(line, stop);
            if is_likely_rest(&set.rules[usize::from(*rule)], &line.as_bytes()[skip..stop]) {
                state.open = Continuation::Secret(*rule);
                start = skip;
            }
        }
    }
    let end = if is_full { TextEnd::Cut } else { end };
    let text = &line[start..stop];
    // The newline marks the end of the line, after which a secret may continue.
    let ended = (end == TextEnd::Complete).then(|| format!("{text}\n"));
    let scanned = ended.as_deref().unwrap_or(text);
    let mut spaced = with_blank(set, &state);
    let is_rest = matches!(
        state.open,
        Continuation::Secret(_) | Continuation::Escaped(_)
    );
    let mut is_found = state.find(set, scanned, end, scratch);
    if is_rest {
        // The apparent rest of a secret may be the name of another secret.
        let rest = std::mem::take(&mut scratch.spans);
        let mut fresh = StreamState::default();
        is_found |= fresh.find(set, scanned, end, scratch);
        let fresh_open = fresh.open != Continuation::None;
        scratch.spans.extend(rest);
        unite(&mut scratch.spans);
        if fresh_open {
            state = fresh;
        }
    } else if !is_found && let Some(spaced) = &mut spaced {
        is_found = spaced.find(set, scanned, end, scratch);
        if is_found {
            std::mem::swap(&mut state, spaced);
        }
    }
    let found = is_found.then(|| {
        let text = redact_spans(set, text, &scratch.spans, false);
        [&line[..start], &text, &line[stop..]].concat()
    });
    state.is_marked = false;
    let after = match &mut state.open {
        // The added newline has ended the block's line.
        Continuation::Block(..) if ended.is_some() => Some(LineState::Continues(state)),
        Continuation::Block(_, block) => (!block.end_line()).then_some(LineState::Continues(state)),
        _ if is_full => Some(LineState::Continues(state)),
        Continuation::Secret(_) if line[..stop].ends_with('\\') => {
            Some(LineState::Continues(state))
        }
        Continuation::Secret(number) => {
            let rule = &set.rules[usize::from(*number)];
            let last = scratch.spans.last();
            // Minimum length of a secret at the end of a line that may continue in the next line.
            let is_long = last.is_some_and(|span| span.end - span.start >= 40);
            let may_continue =
                rule.max == usize::MAX && (rule.check == ValueCheck::None || is_long);
            may_continue.then_some(LineState::EndsWithSecret(*number))
        }
        Continuation::Escaped(_) => Some(LineState::Continues(state)),
        Continuation::Ended(number) => Some(LineState::EndsWithSecret(*number)),
        Continuation::None if state.is_pending => Some(LineState::Continues(state)),
        Continuation::None => None,
    };
    (found, after)
}

/// Returns the state with a blank at its end if it contains a keyword: a line that was broken between words
/// has lost its blank, or has it behind the frame.
fn with_blank(set: &RuleSet, state: &StreamState) -> Option<StreamState> {
    if !set.finder.finds(state.tail.as_bytes(), 0) {
        return None;
    }
    let mut spaced = state.clone();
    spaced.tail.push(' ');
    spaced.is_clean = false;
    Some(spaced)
}

/// Returns true for blanks, frames and bullets.
fn is_decoration(c: char) -> bool {
    c.is_whitespace() || matches!(c, '|' | '>') || !(c.is_ascii() || c.is_alphanumeric())
}

fn indent(line: &str, stop: usize) -> usize {
    stop - line[..stop].trim_start_matches(is_decoration).len()
}

fn is_likely_rest(rule: &Rule, text: &[u8]) -> bool {
    let run = run(rule, text);
    run.len() >= LEAK_BYTES
        && run.iter().any(u8::is_ascii_digit)
        && run.iter().any(u8::is_ascii_alphabetic)
}

/// Returns the body bytes of the rule at the beginning of the text.
fn run<'a>(rule: &Rule, text: &'a [u8]) -> &'a [u8] {
    let bytes = text.iter().take_while(|b| rule.body[usize::from(**b)]);
    &text[..bytes.count()]
}

/// Clears the styles if their text `was_changed`, or if one has no effect, because its parameters were not SGR.
fn clear_styles(styles: &mut Styles, was_changed: bool) {
    if was_changed || !styles.as_slice().iter().all(Style::is_valid) {
        styles.clear();
    }
}
