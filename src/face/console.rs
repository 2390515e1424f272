//! Events as lines for people: a session's label in its colour, then what happened (pure).
//!
//! One line a settled line. A line that changes after it was printed is rewritten where it stands on a
//! terminal; where it cannot be reached any more it comes again, marked `~`, when it has rested. What
//! is open or changes is shown at the foot of a terminal and rewritten there, below what needs a
//! person. On a pipe an open line is shown when its pane, session or execution ends with it, and
//! lines that may be rewritten are held until they rest. Rows that an agent draws around its text are left out where its screens can be read.

mod alerts;
mod error_lines;
mod footer;
mod line_buffer;
mod line_styles;
mod notes;
mod pane_display;
mod pane_writer;
mod printed_rows;
mod row_writer;

use std::collections::BTreeMap;
use std::mem::take;

use super::conversation;
use super::execution_lines::{Executions, Said, live_text, push_row, push_rows};
use super::session_labels::{Label, Names};
use super::tone::{Tone, push_styled};
use super::words::lagged;
use crate::agent::StateRules;
use crate::event::{Envelope, PaneId, Styles, TdEvent, lines_in};
use alerts::Needs;
use footer::{Foot, Named};
use pane_display::{Pane, Reading, Shown};
use pane_writer::Writer;
use printed_rows::Body;
use row_writer::Rows;

/// The name under which rules know what is no agent.
const SHELL: &str = "shell";

/// How the console looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsoleOptions {
    /// With colours.
    pub coloured: bool,
    /// Labels as wide as each other, for eyes; else without padding, for programs.
    pub aligned: bool,
    /// Comings and goings of panes, decoration of agents' screens, gaps that are possible only.
    pub verbose: bool,
}

/// What stood on a pane when observation began.
#[derive(Debug)]
pub(crate) struct BaselineLines {
    pub session: String,
    pub pane: PaneId,
    pub lines: Vec<String>,
}

/// Renders events.
#[derive(Debug, Default)]
pub(crate) struct Console {
    rows: Rows,
    names: Names,
    panes: BTreeMap<(String, PaneId), Pane>,
    executions: Executions,
    needs: Needs,
    /// What stands above the foot of a terminal.
    body: Body,
    /// How agents' screens are read, where decoration is left out.
    agents: Option<StateRules>,
    /// Where there is no terminal, lines that may be rewritten are held.
    holds: bool,
    /// So many panes have been seen.
    panes_seen: u64,
    /// When the next line will have rested, in microseconds.
    due: Option<i64>,
}

impl Console {
    pub fn new(look: ConsoleOptions) -> Self {
        Self {
            rows: Rows::new(look),
            ..Self::default()
        }
    }

    /// Leaves out what agents draw around their text, as these rules know it.
    pub fn without_decoration(mut self, rules: StateRules) -> Self {
        self.agents = (!self.rows.look.verbose).then_some(rules);
        self
    }

    /// Holds lines that may be rewritten, where there is no terminal on which they could be. The
    /// caller asks for [`Console::due`] and [`Console::rest`] then.
    pub fn holding(mut self) -> Self {
        self.holds = true;
        self
    }

    /// There is a terminal, of which so many columns and rows may be written to.
    pub fn fit(&mut self, (columns, rows): (usize, usize)) {
        self.rows.columns = Some(columns);
        self.body.fit((columns, rows));
    }

    /// What rewrites lines where they stand on the terminal; for the beginning of the row below all
    /// that has been written.
    pub fn rewrite(&mut self) -> Option<String> {
        self.body.rewrite()
    }

    /// All that was added has been written, with so many rows at the foot.
    pub fn is_written(&mut self, foot_rows: usize) {
        self.body.is_written(foot_rows);
    }

    /// Adds a line that says how much was not shown.
    pub fn lagged(&mut self, missed: u64, out: &mut String) {
        let start = out.len();
        // What comes next need not go on with these lines.
        self.break_off(out);
        self.release_all(out);
        let text = format!("… {}", lagged(missed));
        push_styled(out, self.rows.look.coloured, Tone::Caution.style(), &text);
        out.push('\n');
        self.body.record(out, start);
    }

    /// Adds what is left: lines that were never ended, and those that have not settled.
    pub fn finish(&mut self, out: &mut String) {
        let start = out.len();
        self.break_off(out);
        while let Some(((id, pane), _)) = self.panes.first_key_value() {
            let (id, pane) = (id.clone(), pane.clone());
            let label = self.names.label(&id, Some(&pane));
            self.end_pane(&id, &pane, &label, out);
        }
        self.body.record(out, start);
    }

    /// Adds what stood on a pane when observation began; false when its session is not known yet.
    pub fn standing(&mut self, standing: &BaselineLines, out: &mut String) -> bool {
        let Some(label) = self.names.label_of(&standing.session, &standing.pane) else {
            return false;
        };
        let start = out.len();
        for line in &standing.lines {
            self.rows.row(&label, '|', Tone::Dim, line, out);
        }
        self.body.record(out, start);
        true
    }

    /// The rows at the foot of a terminal with so many rows, now; without line ends.
    pub fn live(&self, (columns, rows): (usize, usize), at: i64) -> Vec<String> {
        let mut live = Vec::new();
        let execution = self.live_of_execution(columns);
        let foot = Foot {
            rows: &self.rows,
            names: &self.names,
            columns,
            rows_max: Foot::rows_of(rows).saturating_sub(usize::from(execution.is_some())),
        };
        foot.needs(&self.needs.now(at), &mut live);
        let panes = self.panes.iter();
        let panes: Vec<Named<'_>> = panes
            .map(|((id, pane), known)| (id.as_str(), pane, known))
            .collect();
        foot.panes(&panes, at, self.reading(), &mut live);
        live.extend(execution);
        live
    }

    fn live_of_execution(&self, columns: usize) -> Option<String> {
        let live = self.executions.live()?;
        let label = self.names.label(live.execution_id(), None);
        let columns = columns.checked_sub(self.rows.before_columns(&label))?;
        let text = live_text(live, self.rows.look.coloured, columns)?;
        Some(self.rows.before(&label) + &text)
    }

    /// When there is something to add or to take away, though nothing happens.
    pub fn due(&self, at: i64) -> Option<i64> {
        [self.due, self.needs.due(at)].into_iter().flatten().min()
    }

    /// How panes are read.
    fn reading(&self) -> Reading<'_> {
        Reading {
            rules: self.agents.as_ref(),
            holds: self.holds && self.rows.columns.is_none(),
        }
    }

    /// Adds what has rested by now.
    pub fn rest(&mut self, at: i64, out: &mut String) {
        if self.due.is_none_or(|due| due > at) {
            return;
        }
        self.of_panes(out, |known, reading, show| {
            if known.due(reading).is_some_and(|due| due <= at) {
                known.rest(at, reading, show);
            }
        });
    }

    /// Adds what is held of all panes.
    fn release_all(&mut self, out: &mut String) {
        self.of_panes(out, |known, reading, show| {
            known.release(i64::MAX, reading, show);
        });
    }

    /// Does something with each pane, and adds the lines that follow from it.
    fn of_panes(
        &mut self,
        out: &mut String,
        mut act: impl FnMut(&mut Pane, Reading<'_>, &mut dyn FnMut(Shown<'_>)),
    ) {
        let start = out.len();
        let mut panes = take(&mut self.panes);
        let mut body = take(&mut self.body);
        let reading = self.reading();
        let mut next = None;
        for ((id, pane), known) in &mut panes {
            let label = self.names.label(id, Some(pane));
            let paints = take(&mut known.paints);
            let (number, is_agent) = known.drawn_by();
            let of = (&label, number, is_agent);
            let mut writer = Writer::new(&self.rows, of, &paints, &mut body, out);
            act(known, reading, &mut |shown| writer.show(shown));
            known.paints = paints;
            next = [next, known.due(reading)].into_iter().flatten().min();
        }
        body.record(out, start);
        (self.panes, self.body, self.due) = (panes, body, next);
    }

    /// Takes in what an event says about sessions and panes without showing it.
    pub fn note_context(&mut self, event: &TdEvent) {
        self.names.note(event);
        let id = event.execution_id();
        match event {
            TdEvent::SessionEnded { session, .. } => {
                for pane in self.names.forget(id, session) {
                    self.panes.remove(&(id.to_owned(), pane));
                }
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.names.forget_pane(id, pane);
                self.panes.remove(&(id.to_owned(), pane.clone()));
            }
            _ => {}
        }
    }

    /// Adds the lines of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        self.rest(envelope.ts.micros(), out);
        let start = out.len();
        self.add(envelope, out);
        self.body.record(out, start);
    }

    fn add(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        let at = envelope.ts.micros();
        self.names.note(event);
        let (id, pane) = (event.execution_id(), event.pane());
        let label = self.names.label(id, pane);
        self.rows.make_room(&label);
        if self.rows.columns.is_some() {
            self.needs.note(event, at);
        }
        if let (Some(pane), true) = (pane, ends_display(event)) {
            self.of_pane(id, pane, at, out, |known, reading, show| {
                known.release(at, reading, show);
            });
        }
        if let Some(pane) = pane {
            match event {
                TdEvent::TurnCompleted { .. } => self.pane_mut(id, pane).is_turn_over = true,
                TdEvent::PromptSent { .. } => self.pane_mut(id, pane).is_turn_over = false,
                _ => {}
            }
        }
        if let Some(lines) = conversation::lines(event, self.rows.look.verbose) {
            for line in lines {
                self.rows.row(&label, '|', line.tone, &line.text, out);
            }
            return;
        }
        if self.execution(event, &label, out) {
            return;
        }
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                styles,
                is_complete,
                ..
            } => {
                self.paints(id, pane, *first_line, chunk, styles);
                self.of_pane(id, pane, at, out, |known, reading, show| {
                    known.settled(*first_line, chunk, at, reading, show);
                    if *is_complete {
                        known.release(at, reading, show);
                    }
                });
                self.note(event, &label, out);
            }
            TdEvent::OutputRevised {
                pane,
                line,
                text,
                styles,
                ..
            } => {
                self.paints(id, pane, *line, text, styles);
                let (number, _) = self.pane_mut(id, pane).drawn_by();
                let is_there = self.body.has((number, *line));
                self.of_pane(id, pane, at, out, |known, reading, show| {
                    known.revised(*line, text, (at, is_there), reading, show);
                });
            }
            TdEvent::ScreenUpdate { pane, .. } => {
                self.of_pane(id, pane, at, out, |known, _, _| known.drew_screen(at));
            }
            TdEvent::OutputGap {
                pane,
                first_line,
                lost_lines,
                ..
            } => {
                let lost = lost_lines.and_then(|lost| i64::try_from(lost).ok());
                let next = first_line.saturating_add(lost.unwrap_or(0));
                self.of_pane(id, pane, at, out, |known, _, _| known.skip_to(next));
                self.note(event, &label, out);
            }
            TdEvent::AgentState {
                pane: Some(pane),
                state,
                ..
            } => {
                let agent = Some(alerts::told(event).0).filter(|agent| *agent != SHELL);
                self.of_pane(id, pane, at, out, |known, _, _| known.is_of(agent));
                let is_shown = state == "done" && self.pane_mut(id, pane).is_turn_over;
                if !is_shown || self.rows.look.verbose {
                    self.note(event, &label, out);
                }
            }
            TdEvent::PaneOpened {
                pane,
                command,
                height,
                ..
            } => {
                self.pane_mut(id, pane).has_rows(*height);
                if self.is_agent(command) {
                    self.of_pane(id, pane, at, out, |known, _, _| known.is_of(Some(command)));
                }
                self.note(event, &label, out);
            }
            TdEvent::PaneResized { pane, height, .. } => {
                self.pane_mut(id, pane).has_rows(*height);
                self.note(event, &label, out);
            }
            TdEvent::SessionStarted { session, .. }
            | TdEvent::SessionRenamed { to: session, .. } => {
                let label = self.names.label_of_session(id, session);
                self.note(event, &label, out);
            }
            TdEvent::SessionEnded { session, .. } => {
                let label = self.names.label_of_session(id, session);
                for pane in self.names.panes_of(id, session) {
                    let label = self.names.label(id, Some(&pane));
                    self.end_pane(id, &pane, &label, out);
                }
                self.names.forget(id, session);
                self.note(event, &label, out);
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.end_pane(id, pane, &label, out);
                self.names.forget_pane(id, pane);
                self.note(event, &label, out);
            }
            TdEvent::LogGap { .. } => {
                self.break_off(out);
                self.note(event, &label, out);
            }
            _ => self.note(event, &label, out),
        }
    }

    /// Whether a program is an agent whose screens can be read.
    fn is_agent(&self, program: &str) -> bool {
        let rules = self.agents.as_ref();
        program != SHELL && rules.is_some_and(|rules| rules.agents().any(|it| it == program))
    }

    fn note(&self, event: &TdEvent, label: &Label, out: &mut String) {
        if let Some((tone, text)) = notes::note(event, self.rows.look.verbose) {
            self.rows.note(label, tone, &text, out);
        }
    }

    /// Shows an event of an execution, a check or an agent; false for other events.
    fn execution(&mut self, event: &TdEvent, label: &Label, out: &mut String) -> bool {
        let rows = &self.rows;
        let mut before = None;
        self.executions.take(event, &mut |said| match said {
            Said::Started(command) => {
                rows.note(label, Tone::Dim, &format!("[running: {command}]"), out);
            }
            Said::CheckStarted(command) => {
                rows.note(label, Tone::Dim, &format!("[checking: {command}]"), out);
            }
            Said::Line(line) => {
                // Once for the thousands of lines that an event may have.
                let before = before.get_or_insert_with(|| rows.before(label));
                let start = out.len();
                push_row(out, before, line, rows.look.coloured);
                rows.wrap_painted(label, before, start, out);
            }
            Said::Plain { stream, lines } => {
                let (before, start) = (rows.before(label), out.len());
                push_rows(out, &before, stream, lines, rows.look.coloured);
                rows.wrap_painted(label, &before, start, out);
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
        })
    }

    /// Shows the open lines of executions as they are.
    fn break_off(&mut self, out: &mut String) {
        let (rows, names) = (&self.rows, &self.names);
        self.executions.break_off(&mut |said| {
            if let Said::Line(line) = said {
                let label = names.label(line.execution_id, None);
                let (before, start) = (rows.before(&label), out.len());
                push_row(out, &before, line, rows.look.coloured);
                rows.wrap_painted(&label, &before, start, out);
            }
        });
    }

    /// Takes in the colours of lines, where any are shown.
    fn paints(&mut self, id: &str, pane: &PaneId, first_line: i64, text: &str, styles: &Styles) {
        if !self.rows.look.coloured {
            return;
        }
        let known = self.pane_mut(id, pane);
        // A revision of a blank line is of one, too.
        let lines = lines_in(text).count().max(1) as i64;
        known.paints.take(first_line, lines, styles);
    }

    /// Does something with a pane, and adds the lines that follow from it.
    fn of_pane(
        &mut self,
        id: &str,
        pane: &PaneId,
        at: i64,
        out: &mut String,
        act: impl FnOnce(&mut Pane, Reading<'_>, &mut dyn FnMut(Shown<'_>)),
    ) {
        let label = self.names.label(id, Some(pane));
        let mut body = take(&mut self.body);
        let mut known = take(self.pane_mut(id, pane));
        let mut paints = take(&mut known.paints);
        let reading = self.reading();
        let (number, is_agent) = known.drawn_by();
        let of = (&label, number, is_agent);
        let mut writer = Writer::new(&self.rows, of, &paints, &mut body, out);
        act(&mut known, reading, &mut |shown| writer.show(shown));
        let error = writer.error.take();
        paints.forget();
        known.paints = paints;
        self.due = [self.due, known.due(reading)].into_iter().flatten().min();
        *self.pane_mut(id, pane) = known;
        self.body = body;
        if let (Some(error), Some(_)) = (error, self.rows.columns) {
            self.needs.printed_error(id, pane, &error, at);
        }
    }

    /// The lines that a pane ends with stay.
    fn end_pane(&mut self, id: &str, pane: &PaneId, label: &Label, out: &mut String) {
        let key = (id.to_owned(), pane.clone());
        if let Some(mut known) = self.panes.remove(&key) {
            let (paints, mut body) = (take(&mut known.paints), take(&mut self.body));
            let (number, is_agent) = known.drawn_by();
            let of = (label, number, is_agent);
            let mut writer = Writer::new(&self.rows, of, &paints, &mut body, out);
            known.end(self.reading(), &mut |shown| writer.show(shown));
            self.body = body;
        }
    }

    fn pane_mut(&mut self, id: &str, pane: &PaneId) -> &mut Pane {
        let seen = &mut self.panes_seen;
        let panes = self.panes.entry((id.to_owned(), pane.clone()));
        panes.or_insert_with(|| {
            *seen += 1;
            Pane::numbered(*seen)
        })
    }
}

/// Whether something is about to be added behind the lines of a pane that came before it.
fn ends_display(event: &TdEvent) -> bool {
    match event {
        TdEvent::OutputGap { .. } | TdEvent::AgentState { .. } | TdEvent::TurnCompleted { .. } => {
            true
        }
        TdEvent::ExecutionCompleted { exit_code, .. } => !matches!(exit_code, None | Some(0)),
        _ => false,
    }
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
