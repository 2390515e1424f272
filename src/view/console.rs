//! Events as lines for people: a session's label in its colour, then what happened (pure).
//!
//! One line a settled line. A line that changes after it was printed comes again, marked `~`, when it
//! has rested. What is open or changes is shown at the foot of a terminal and rewritten there, below
//! what needs a person; on a pipe an open line is shown when its pane, session or execution ends
//! with it. Rows that an agent draws around its text are left out where its screens can be read.

mod errors;
mod lines;
mod live;
mod needs;
mod notes;
mod paints;
mod pane;
mod rows;
mod writer;

use std::collections::BTreeMap;
use std::mem::take;

use super::executions::{Executions, Said, live_text, push_row, push_rows};
use super::names::{Label, Names};
use super::tone::{Tone, push_styled};
use super::words::lagged;
use crate::agent::StateRules;
use crate::event::{Envelope, PaneId, Styles, TdEvent, lines_in};
use live::{Foot, Named};
use needs::Needs;
use pane::{Pane, Reading, Shown};
use rows::Rows;
use writer::Writer;

/// The name under which rules know what is no agent.
const SHELL: &str = "shell";

/// How the console looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// With colours.
    pub coloured: bool,
    /// Labels as wide as each other, for eyes; else without padding, for programs.
    pub aligned: bool,
    /// Comings and goings of panes, decoration of agents' screens, gaps that are possible only.
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
    panes: BTreeMap<(String, PaneId), Pane>,
    executions: Executions,
    needs: Needs,
    /// How agents' screens are read, where decoration is left out.
    agents: Option<StateRules>,
    /// When the next line will have rested, in microseconds.
    due: Option<i64>,
}

impl Console {
    pub fn new(look: Look) -> Self {
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

    /// There is a terminal, of which so many columns may be written to.
    pub fn fit(&mut self, columns: usize) {
        self.rows.columns = Some(columns);
    }

    /// Adds a line that says how much was not shown.
    pub fn lagged(&mut self, missed: u64, out: &mut String) {
        // What comes next need not go on with these lines.
        self.break_off(out);
        let text = format!("… {}", lagged(missed));
        push_styled(out, self.rows.look.coloured, Tone::Caution.style(), &text);
        out.push('\n');
    }

    /// Adds what is left: lines that were never ended, and those that have not settled.
    pub fn finish(&mut self, out: &mut String) {
        self.break_off(out);
        while let Some(((id, pane), _)) = self.panes.first_key_value() {
            let (id, pane) = (id.clone(), pane.clone());
            let label = self.names.label(&id, Some(&pane));
            self.end_pane(&id, &pane, &label, out);
        }
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
        foot.panes(&panes, at, Reading(self.agents.as_ref()), &mut live);
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

    /// Adds what has rested by now.
    pub fn rest(&mut self, at: i64, out: &mut String) {
        if self.due.is_none_or(|due| due > at) {
            return;
        }
        let Self {
            rows,
            names,
            panes,
            agents,
            ..
        } = self;
        let reading = Reading(agents.as_ref());
        for ((id, pane), known) in panes.iter_mut() {
            if known.due().is_some_and(|due| due <= at) {
                let label = names.label(id, Some(pane));
                let (paints, is_agent) = (take(&mut known.paints), known.agent().is_some());
                let mut writer = Writer::new(rows, &label, &paints, is_agent, out);
                known.rest(at, reading, &mut |shown| writer.show(shown));
                known.paints = paints;
            }
        }
        self.due = self.panes.values().filter_map(Pane::due).min();
    }

    /// Takes in what an event says about sessions and panes without showing it.
    pub fn note_only(&mut self, event: &TdEvent) {
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
        let event = &envelope.event;
        let at = envelope.ts.micros();
        self.rest(at, out);
        self.names.note(event);
        let (id, pane) = (event.execution_id(), event.pane());
        let label = self.names.label(id, pane);
        self.rows.make_room(&label);
        if self.rows.columns.is_some() {
            self.needs.note(event, at);
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
                ..
            } => {
                self.paints(id, pane, *first_line, chunk, styles);
                self.of_pane(id, pane, at, out, |known, reading, show| {
                    known.settled(*first_line, chunk, at, reading, show);
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
                self.of_pane(id, pane, at, out, |known, reading, show| {
                    known.revised(*line, text, at, reading, show);
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
                evidence,
                ..
            } => {
                let agent = Some(needs::told(evidence).0).filter(|agent| *agent != SHELL);
                self.of_pane(id, pane, at, out, |known, _, _| known.is_of(agent));
                self.note(event, &label, out);
            }
            TdEvent::PaneOpened { pane, command, .. } => {
                if self.is_agent(command) {
                    self.of_pane(id, pane, at, out, |known, _, _| known.is_of(Some(command)));
                }
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
        let key = (id.to_owned(), pane.clone());
        let known = self.panes.entry(key).or_default();
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
        let known = self.panes.entry((id.to_owned(), pane.clone())).or_default();
        let (mut paints, is_agent) = (take(&mut known.paints), known.agent().is_some());
        let mut writer = Writer::new(&self.rows, &label, &paints, is_agent, out);
        act(known, Reading(self.agents.as_ref()), &mut |shown| {
            writer.show(shown);
        });
        let error = writer.error.take();
        paints.forget();
        known.paints = paints;
        self.due = [self.due, known.due()].into_iter().flatten().min();
        if let (Some(error), Some(_)) = (error, self.rows.columns) {
            self.needs.printed_error(id, pane, &error, at);
        }
    }

    /// The lines that a pane ends with stay.
    fn end_pane(&mut self, id: &str, pane: &PaneId, label: &Label, out: &mut String) {
        let key = (id.to_owned(), pane.clone());
        if let Some(mut known) = self.panes.remove(&key) {
            let (paints, is_agent) = (take(&mut known.paints), known.agent().is_some());
            let mut writer = Writer::new(&self.rows, label, &paints, is_agent, out);
            known.end(Reading(self.agents.as_ref()), &mut |shown| {
                writer.show(shown);
            });
        }
    }
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
