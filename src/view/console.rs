//! Events as lines for people: a session's label in its colour, then what happened (pure).
//!
//! One line a settled line. A line that is not settled yet (a prompt, a progress bar) is the live
//! line, which a terminal shows last and rewrites; there is at most one, the most recent. On a pipe
//! it is not shown until its pane, session or execution ends with it. A settled line that reads
//! differently afterwards comes again, marked `~`.

mod rows;

use std::collections::HashMap;

use super::clean::{are_printable, cut, push_clean};
use super::executions::{Executions, Said, live_text, push_row, push_rows};
use super::names::{Label, Names};
use super::tone::{Tone, push_styled};
use super::words::{HUNG_UP, lagged, with_status};
use crate::event::{Envelope, EventKind, PaneId, TdEvent, lines_in};
use crate::source::PIPE_CONTEXT;
use rows::Rows;

/// How the console looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// With colours.
    pub coloured: bool,
    /// Labels as wide as each other, for eyes; else without padding, for programs.
    pub aligned: bool,
    /// Comings and goings of panes, too.
    pub verbose: bool,
}

/// What stood on a pane when observation began.
#[derive(Debug)]
pub(crate) struct Standing {
    pub session: String,
    pub pane: PaneId,
    pub lines: Vec<String>,
}

/// Renders events.
#[derive(Debug, Default)]
pub(crate) struct Console {
    rows: Rows,
    names: Names,
    panes: HashMap<(String, PaneId), Pane>,
    executions: Executions,
    /// The pane whose unsettled line is the most recent; none where an execution's open line is.
    live: Option<(String, PaneId)>,
}

#[derive(Debug)]
struct Pane {
    /// The number of the first line that is not settled.
    next: i64,
    unsettled: Option<(i64, String)>,
    full_screen: bool,
}

impl Default for Pane {
    fn default() -> Self {
        Self {
            next: 1,
            unsettled: None,
            full_screen: false,
        }
    }
}

impl Console {
    pub fn new(look: Look) -> Self {
        Self {
            rows: Rows::new(look),
            ..Self::default()
        }
    }

    /// Adds a line that says how much was not shown.
    pub fn lagged(&mut self, missed: u64, out: &mut String) {
        // What comes next need not go on with these lines.
        self.break_off(out);
        let text = format!("… {}", lagged(missed));
        push_styled(out, self.rows.look.coloured, Tone::Caution.style(), &text);
        out.push('\n');
    }

    /// Adds what is left of executions: lines that were never ended.
    pub fn finish(&mut self, out: &mut String) {
        self.break_off(out);
    }

    /// Adds what stood on a pane when observation began; false when its session is not known yet.
    pub fn standing(&self, standing: &Standing, out: &mut String) -> bool {
        let Some(label) = self.names.label_of(&standing.session, &standing.pane) else {
            return false;
        };
        for line in &standing.lines {
            self.rows.row(&label, '|', Tone::Dim, line, out);
        }
        true
    }

    /// The live line, within so many columns; without a line end.
    pub fn live(&self, columns: usize) -> Option<String> {
        self.live_of_pane(columns)
            .or_else(|| self.live_of_execution(columns))
    }

    fn live_of_pane(&self, columns: usize) -> Option<String> {
        let (id, pane) = self.live.as_ref()?;
        let (_, text) = self
            .panes
            .get(&(id.clone(), pane.clone()))?
            .unsettled
            .as_ref()?;
        let label = self.names.label(id, Some(pane));
        let (mut plain, mut shown) = (String::new(), String::new());
        push_clean(&mut plain, text);
        let text = cut(
            &plain,
            columns.checked_sub(self.rows.before_columns(&label))?,
        );
        self.rows.within(&label, '|', Tone::Plain, text, &mut shown);
        Some(shown)
    }

    fn live_of_execution(&self, columns: usize) -> Option<String> {
        let live = self.executions.live()?;
        let label = self.names.label(live.execution_id(), None);
        let columns = columns.checked_sub(self.rows.before_columns(&label))?;
        let text = live_text(live, self.rows.look.coloured, columns)?;
        Some(self.rows.before(&label) + &text)
    }

    /// Takes in what an event says about sessions and panes without showing it.
    pub fn note_only(&mut self, event: &TdEvent) {
        self.names.note(event);
        match event {
            TdEvent::SessionEnded { session, .. } => {
                self.names.forget(event.execution_id(), session);
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.names.forget_pane(event.execution_id(), pane);
            }
            _ => {}
        }
    }

    /// Adds the lines of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        self.names.note(event);
        let (id, pane) = (event.execution_id(), event.pane());
        let label = self.names.label(id, pane);
        self.rows.make_room(&label);
        if self.execution(event, &label, out) {
            return;
        }
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                is_complete,
                exit_status,
                ..
            } => {
                self.lines(id, pane, *first_line, chunk, &label, out);
                if let (true, Some(status @ 1..)) = (is_complete, exit_status)
                    && *status != HUNG_UP
                {
                    self.rows.note(
                        &label,
                        Tone::Caution,
                        &format!("[exit status {status}]"),
                        out,
                    );
                }
            }
            TdEvent::OutputRevised {
                pane, line, text, ..
            } => {
                self.revised(id, pane, *line, text, &label, out);
            }
            TdEvent::OutputGap {
                pane,
                first_line,
                lost_lines,
                reason,
                ..
            } => {
                let text = match lost_lines {
                    Some(1) => format!("… 1 line lost ({reason})"),
                    Some(lost) => format!("… {lost} lines lost ({reason})"),
                    None => format!("… lines may be missing ({reason})"),
                };
                let lost = lost_lines
                    .and_then(|lost| i64::try_from(lost).ok())
                    .unwrap_or(0);
                let known = self.pane(id, pane);
                known.next = known.next.max(first_line.saturating_add(lost));
                self.rows.note(&label, Tone::Caution, &text, out);
            }
            TdEvent::ScreenUpdate { pane, .. } => {
                if !std::mem::replace(&mut self.pane(id, pane).full_screen, true) {
                    self.rows
                        .note(&label, Tone::Dim, "[full-screen program]", out);
                }
            }
            TdEvent::TurnCompleted { evidence, .. } => {
                let text = match evidence {
                    Some(evidence) => format!("[turn completed ({evidence})]"),
                    None => "[turn completed]".to_owned(),
                };
                self.rows.note(&label, Tone::Good, &text, out);
            }
            TdEvent::AgentState {
                state, evidence, ..
            } => {
                // That it works is seen by what it prints.
                let (tone, is_news) = match state.as_str() {
                    "waiting" => (Tone::Caution, true),
                    "error" | "limited" => (Tone::Alarm, true),
                    "done" => (Tone::Good, true),
                    _ => (Tone::Dim, self.rows.look.verbose),
                };
                if is_news {
                    let text = format!("[agent {state}: {evidence}]");
                    self.rows.note(&label, tone, &text, out);
                }
            }
            TdEvent::SessionStarted { session, panes, .. } => {
                let label = self.names.label_of_session(id, session);
                let panes = panes.len();
                let text = format!(
                    "[watching {panes} pane{}]",
                    if panes == 1 { "" } else { "s" }
                );
                self.rows.note(&label, Tone::Dim, &text, out);
            }
            TdEvent::SessionRenamed { from, to, .. } => {
                let label = self.names.label_of_session(id, to);
                self.rows
                    .note(&label, Tone::Dim, &format!("[was called {from}]"), out);
            }
            TdEvent::SessionEnded {
                session,
                reason,
                exit_status,
                ..
            } => {
                let label = self.names.label_of_session(id, session);
                for pane in self.names.forget(id, session) {
                    self.end_pane(id, &pane, &label, out);
                }
                let text = format!("[ended: {reason}{}]", with_status(*exit_status));
                self.rows.note(&label, Tone::Dim, &text, out);
            }
            TdEvent::PaneOpened {
                pane,
                width,
                height,
                command,
                ..
            } => {
                if self.rows.look.verbose {
                    let text = format!("[pane {pane} opened: {command}, {width}x{height}]");
                    self.rows.note(&label, Tone::Dim, &text, out);
                }
            }
            TdEvent::PaneResized {
                pane,
                width,
                height,
                ..
            } => {
                if self.rows.look.verbose {
                    let text = format!("[pane {pane} is {width}x{height} now]");
                    self.rows.note(&label, Tone::Dim, &text, out);
                }
            }
            TdEvent::PaneClosed {
                pane,
                reason,
                exit_status,
                ..
            } => {
                self.end_pane(id, pane, &label, out);
                self.names.forget_pane(id, pane);
                if self.rows.look.verbose {
                    let text = format!("[pane {pane} {reason}{}]", with_status(*exit_status));
                    self.rows.note(&label, Tone::Dim, &text, out);
                }
            }
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => {
                self.break_off(out);
                let text = format!("… events {first_seq} to {last_seq} are not in the log");
                self.rows.note(&label, Tone::Caution, &text, out);
            }
            TdEvent::PollerRestarted { source, cause, .. } => {
                let text = format!("[{source} crashed and is back: {cause}]");
                self.rows.note(&label, Tone::Alarm, &text, out);
            }
            TdEvent::Warning { context, .. }
                if context == PIPE_CONTEXT && !self.rows.look.verbose => {}
            TdEvent::Warning {
                context, message, ..
            } => {
                self.rows.note(
                    &label,
                    Tone::Caution,
                    &format!("[warning, {context}: {message}]"),
                    out,
                );
            }
            TdEvent::Error {
                context, message, ..
            } => {
                self.rows.note(
                    &label,
                    Tone::Alarm,
                    &format!("[error, {context}: {message}]"),
                    out,
                );
            }
            other if other.kind() == EventKind::LogOpened => {}
            other => self
                .rows
                .note(&label, Tone::Dim, &format!("[{}]", other.type_name()), out),
        }
    }

    /// Shows an event of an execution, a check or an agent; false for other events.
    fn execution(&mut self, event: &TdEvent, label: &Label, out: &mut String) -> bool {
        let rows = &self.rows;
        let mut before = None;
        let is_taken = self.executions.take(event, &mut |said| match said {
            Said::Started(command) => {
                rows.note(label, Tone::Dim, &format!("[running: {command}]"), out);
            }
            Said::CheckStarted(command) => {
                rows.note(label, Tone::Dim, &format!("[checking: {command}]"), out);
            }
            Said::Line(line) => {
                // Once for the thousands of lines that an event may have.
                let before = before.get_or_insert_with(|| rows.before(label));
                push_row(out, before, line, rows.look.coloured);
            }
            Said::Plain { stream, lines } => {
                push_rows(out, &rows.before(label), stream, lines, rows.look.coloured);
            }
            Said::Agent(row) => {
                rows.note(
                    label,
                    row.tone,
                    &format!("[{}] {}", row.name, row.text),
                    out,
                );
            }
            Said::Completed(outcome, ms) => rows.ended(label, "", outcome, ms, out),
            Said::CheckCompleted(outcome, ms) => rows.ended(label, "check: ", outcome, ms, out),
        });
        if is_taken && self.executions.live().is_some() {
            self.live = None;
        }
        is_taken
    }

    /// Shows the open lines of executions as they are.
    fn break_off(&mut self, out: &mut String) {
        let (rows, names) = (&self.rows, &self.names);
        self.executions.break_off(&mut |said| {
            if let Said::Line(line) = said {
                let before = rows.before(&names.label(line.execution_id, None));
                push_row(out, &before, line, rows.look.coloured);
            }
        });
    }

    fn pane(&mut self, id: &str, pane: &PaneId) -> &mut Pane {
        self.panes.entry((id.to_owned(), pane.clone())).or_default()
    }

    fn lines(
        &mut self,
        id: &str,
        pane: &PaneId,
        first_line: i64,
        chunk: &str,
        label: &Label,
        out: &mut String,
    ) {
        let mut next = first_line;
        // A chunk may have thousands of lines: what they have in common is made once.
        let mut before = String::new();
        self.rows.push_label(label, '|', &mut before);
        let is_printable = are_printable(chunk);
        for line in lines_in(chunk) {
            out.push_str(&before);
            if !line.is_empty() {
                out.push(' ');
                match is_printable {
                    true => out.push_str(line),
                    false => push_clean(out, line),
                }
            }
            out.push('\n');
            next = next.saturating_add(1);
        }
        let known = self.pane(id, pane);
        known.next = known.next.max(next);
        known.full_screen = known.full_screen && chunk.is_empty();
        let next = known.next;
        known.unsettled.take_if(|(line, _)| *line < next);
    }

    fn revised(
        &mut self,
        id: &str,
        pane: &PaneId,
        line: i64,
        text: &str,
        label: &Label,
        out: &mut String,
    ) {
        let known = self.pane(id, pane);
        known.full_screen = false;
        if line < known.next {
            // A row that vanished is nothing to read.
            if !text.is_empty() {
                self.rows.row(label, '~', Tone::Plain, text, out);
            }
        } else if !text.is_empty() {
            known.unsettled = Some((line, text.to_owned()));
            self.live = Some((id.to_owned(), pane.clone()));
        } else {
            known.unsettled.take_if(|(shown, _)| *shown == line);
        }
    }

    /// The line that a pane ends with stays.
    fn end_pane(&mut self, id: &str, pane: &PaneId, label: &Label, out: &mut String) {
        let key = (id.to_owned(), pane.clone());
        if let Some(Pane {
            unsettled: Some((_, text)),
            ..
        }) = self.panes.remove(&key)
        {
            self.rows.row(label, '|', Tone::Plain, &text, out);
        }
        self.live.take_if(|live| *live == key);
    }
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
