//! Renders events as lines for people: a session's label in its colour, then the text or a description
//! (pure).
//!
//! Each settled line is one row. On a terminal, a line that changes after it was printed is rewritten in
//! place; if it has left the screen, it is printed again, marked `~`, once it stays unchanged. Open and
//! changing lines are live rows at the foot of the terminal, below the alerts. On a pipe, an open line is
//! printed when its pane, session or execution ends, and lines that may be rewritten are held until they stay
//! unchanged. If the state rules recognize an agent's screen, the rows that it draws around its text are
//! omitted.

mod error_lines;
mod line_buffer;

mod printed_rows;
mod row_writer;

mod pane_display;
mod pane_writer;
mod panes;

mod alerts;
mod footer;

mod handle;

use super::describe::{Description, lagged};
use super::execution_lines::live_text;
use super::session_labels::SessionLabels;
use super::stream_lines::StreamLines;
use super::tone::{Tone, push_styled};
use crate::agent::StateRules;
use crate::event::{Envelope, TdEvent};
use alerts::Alerts;
use footer::Footer;
use pane_display::{PaneDisplay, PanePolicy, PaneSink};
use panes::Panes;
use printed_rows::PrintedRows;
pub(crate) use row_writer::ConsoleOptions;
use row_writer::RowWriter;

/// Renders events.
#[derive(Debug, Default)]
pub(crate) struct Console {
    rows: RowWriter,
    labels: SessionLabels,
    panes: Panes,
    executions: StreamLines,
    alerts: Alerts,
    printed: PrintedRows,
    policy: PanePolicy,
    /// The execution and the name of the last agent whose error was shown.
    failed: Option<Box<(String, String)>>,
    /// The next time when a held line is due, in microseconds.
    deadline: Option<i64>,
}

impl Console {
    pub fn new(options: ConsoleOptions) -> Self {
        Self {
            rows: RowWriter::new(options),
            ..Self::default()
        }
    }

    /// Omits the decoration of agents' screens that these rules recognize.
    pub fn without_decoration(mut self, rules: StateRules) -> Self {
        self.policy.rules = (!self.rows.options.verbose).then_some(rules);
        self
    }

    /// Holds lines that may be rewritten, unless the output is a terminal. The caller must honour
    /// [`Console::deadline`] and call [`Console::release_due`].
    pub fn holding(mut self) -> Self {
        self.policy.holds = self.rows.columns.is_none();
        self
    }

    /// Renders for a terminal with these columns and rows.
    pub fn fit(&mut self, (columns, rows): (usize, usize)) {
        self.rows.columns = Some(columns);
        self.policy.holds = false;
        self.printed.fit((columns, rows));
    }

    /// Rewrites printed lines that have changed. The cursor must be at the start of the row below all
    /// written rows.
    pub fn rewrite(&mut self) -> Option<String> {
        self.printed.rewrite()
    }

    /// Records that all rows are written, with `live_rows` at the foot.
    pub fn mark_written(&mut self, live_rows: usize) {
        self.printed.mark_written(live_rows);
    }

    /// Appends a row that reports the number of missed events.
    pub fn lagged(&mut self, missed: u64, out: &mut String) {
        let start = out.len();
        // Text after the gap does not continue these lines.
        self.end_lines(out);
        self.with_panes(out, |display, sink| display.release(i64::MAX, sink));
        let text = Description::missing(lagged(missed)).marked();
        let style = Tone::Caution.style();
        push_styled(out, self.rows.options.coloured, style, &text);
        out.push('\n');
        self.printed.record(out, start);
    }

    /// Appends the lines that are still open, and those that have not settled.
    pub fn finish(&mut self, out: &mut String) {
        let start = out.len();
        self.end_lines(out);
        while let Some((id, pane)) = self.panes.map.keys().next().cloned() {
            self.end_pane(&id, &pane, out);
        }
        self.printed.record(out, start);
    }

    /// Returns the live rows for a terminal of this size, without line ends.
    pub fn live(&self, (columns, rows): (usize, usize), at: i64) -> Vec<String> {
        let mut live = Vec::new();
        let execution = self.live_execution(columns);
        let footer = Footer {
            rows: &self.rows,
            labels: &self.labels,
            columns,
            rows_max: Footer::rows_max(rows).saturating_sub(usize::from(execution.is_some())),
        };
        footer.push_alerts(&self.alerts.current(at), &mut live);
        let panes: Vec<_> = self.panes.map.iter().collect();
        footer.push_panes(&panes, at, &self.policy, &mut live);
        live.extend(execution);
        live
    }

    fn live_execution(&self, columns: usize) -> Option<String> {
        let live = self.executions.live()?;
        let label = self.labels.label(&live.execution_id, None);
        let columns = columns.checked_sub(self.rows.prefix_columns(&label))?;
        let text = live_text(live, self.rows.options.coloured, columns)?;
        Some(self.rows.prefix(&label) + &text)
    }

    /// Returns the next time, in microseconds, at which rows change without a new event.
    pub fn deadline(&self, at: i64) -> Option<i64> {
        earliest(self.deadline, self.alerts.deadline(at))
    }

    /// Appends the held lines that are due.
    pub fn release_due(&mut self, at: i64, out: &mut String) {
        if self.deadline.is_none_or(|deadline| deadline > at) {
            return;
        }
        self.with_panes(out, |display, sink| {
            if display.deadline(sink.policy).is_some_and(|due| due <= at) {
                display.release_due(at, sink);
            }
        });
    }

    /// Calls `act` with the display of each pane, and writes its output.
    fn with_panes(
        &mut self,
        out: &mut String,
        mut act: impl FnMut(&mut PaneDisplay, &mut PaneSink<'_>),
    ) {
        let (start, policy) = (out.len(), &self.policy);
        self.deadline = None;
        for ((id, pane), known) in &mut self.panes.map {
            let label = self.labels.label(id, Some(pane));
            let printed = &mut self.printed;
            known.write(&self.rows, &label, printed, out, policy, &mut act);
            self.deadline = earliest(self.deadline, known.display.deadline(policy));
        }
        self.printed.record(out, start);
    }

    /// Records the sessions and panes of an event that is not shown.
    pub fn note_context(&mut self, event: &TdEvent) {
        self.labels.note(event);
        let id = event.execution_id();
        match event {
            TdEvent::SessionEnded { session, .. } => {
                for pane in self.labels.remove(id, session) {
                    self.panes.remove(id, &pane);
                }
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.labels.remove_pane(id, pane);
                self.panes.remove(id, pane);
            }
            _ => {}
        }
    }

    /// Appends the lines of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        self.rows.time.set(envelope.ts);
        self.release_due(envelope.ts.micros(), out);
        let start = out.len();
        self.handle(envelope, out);
        self.printed.record(out, start);
    }
}

fn earliest(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
