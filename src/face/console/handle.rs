//! Handles one event: appends its lines, and updates its pane or session (pure).

use super::pane_display::{PaneDisplay, PaneSink};
use super::{Console, earliest};
use crate::event::{AgentState, Envelope, PaneId, Styles, TdEvent, lines_in};
use crate::face::conversation::conversation_lines;
use crate::face::describe::{agent_and_detail, describe};
use crate::face::execution_lines::{ExecutionText, push_event};
use crate::face::session_labels::Label;
use crate::face::tone::Tone;

/// The name by which the rules report a program that is not an agent.
const SHELL: &str = "shell";

impl Console {
    pub(super) fn handle(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        let at = envelope.ts.micros();
        self.labels.note(event);
        let (id, pane) = (event.execution_id(), event.pane());
        let label = self.labels.label(id, pane);
        self.rows.make_room(&label);
        if self.rows.columns.is_some() {
            self.alerts.note(event, at);
        }
        if let Some(pane) = pane {
            if follows_held_lines(event) {
                self.with_pane(id, pane, &label, at, out, |display, sink| {
                    display.release(at, sink);
                });
            }
            match event {
                TdEvent::TurnCompleted { .. } => self.display(id, pane).is_turn_over = true,
                TdEvent::PromptSent { .. } => self.display(id, pane).is_turn_over = false,
                _ => {}
            }
        }
        if let TdEvent::Error { context, .. } = event {
            self.failed = Some(Box::new((id.to_owned(), context.clone())));
        }
        if let Some(lines) = conversation_lines(event, self.rows.options.verbose) {
            for line in lines {
                self.rows.row(&label, '|', line.tone, &line.text, out);
            }
            return;
        }
        if self.add_text(event, &label, out) {
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
                self.set_styles(id, pane, *first_line, chunk, styles);
                self.with_pane(id, pane, &label, at, out, |display, sink| {
                    display.settle(*first_line, chunk, at, sink);
                    if *is_complete {
                        display.release(at, sink);
                    }
                });
            }
            TdEvent::OutputRevised {
                pane,
                line,
                text,
                styles,
                ..
            } => {
                self.set_styles(id, pane, *line, text, styles);
                let number = self.panes.get(id, pane).number;
                let is_printed = self.printed.can_rewrite((number, *line));
                self.with_pane(id, pane, &label, at, out, |display, sink| {
                    display.revise(*line, text, (at, is_printed), sink);
                });
            }
            TdEvent::ScreenSnapshot { rows, .. } if self.rows.options.shows_snapshots => {
                for row in rows {
                    self.rows.row(&label, '|', Tone::Dim, &row.text, out);
                }
            }
            TdEvent::ScreenUpdate { pane, .. } => {
                self.with_pane(id, pane, &label, at, out, |display, _| {
                    display.draw_screen(at)
                });
            }
            TdEvent::OutputGap {
                pane,
                first_line,
                lost_lines,
                ..
            } => {
                let next = first_line.saturating_add_unsigned(lost_lines.unwrap_or(0));
                self.with_pane(id, pane, &label, at, out, |display, _| {
                    display.skip_to(next)
                });
            }
            TdEvent::AgentState {
                pane: Some(pane),
                state,
                ..
            } => {
                let (name, _) = agent_and_detail(event);
                let agent = Some(name).filter(|agent| *agent != SHELL);
                self.with_pane(id, pane, &label, at, out, |display, _| {
                    display.set_agent(agent)
                });
                let is_same_agent =
                    |failed: &mut Box<(String, String)>| failed.0 == id && failed.1 == name;
                let failed = self.failed.take_if(is_same_agent);
                let is_shown = match state.known() {
                    Some(AgentState::Done) => self.display(id, pane).is_turn_over,
                    Some(AgentState::Error) => failed.is_some(),
                    _ => false,
                };
                if is_shown && !self.rows.options.verbose {
                    return;
                }
            }
            TdEvent::PaneOpened {
                pane,
                command,
                height,
                ..
            } => {
                self.display(id, pane).set_rows(*height);
                if command != SHELL && self.policy.is_agent(command) {
                    self.with_pane(id, pane, &label, at, out, |display, _| {
                        display.set_agent(Some(command));
                    });
                }
            }
            TdEvent::PaneResized { pane, height, .. } => self.display(id, pane).set_rows(*height),
            TdEvent::SessionStarted { session, .. }
            | TdEvent::SessionRenamed { to: session, .. } => {
                let label = self.labels.label_of_session(id, session);
                return self.add_description(event, &label, out);
            }
            TdEvent::SessionEnded { session, .. } => {
                let label = self.labels.label_of_session(id, session);
                for pane in self.labels.panes_of(id, session) {
                    self.end_pane(id, &pane, out);
                }
                self.labels.remove(id, session);
                return self.add_description(event, &label, out);
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.end_pane(id, pane, out);
                self.labels.remove_pane(id, pane);
            }
            TdEvent::LogGap { .. } => self.end_lines(out),
            _ => {}
        }
        self.add_description(event, &label, out);
    }

    fn add_description(&self, event: &TdEvent, label: &Label, out: &mut String) {
        let is_verbose = self.rows.options.verbose;
        let description = describe(event, is_verbose).filter(|text| is_verbose || !text.is_detail);
        if let Some(text) = description {
            self.rows.row(label, '|', text.tone, &text.marked(), out);
        }
    }

    /// Appends the text of an execution; returns true if the event needs no description.
    fn add_text(&mut self, event: &TdEvent, label: &Label, out: &mut String) -> bool {
        let rows = &self.rows;
        // Rendered once, because an event may have thousands of lines.
        let mut prefix = None;
        push_event(&mut self.executions, event, &mut |text| {
            let prefix = prefix.get_or_insert_with(|| rows.prefix(label));
            let start = out.len();
            text.push(out, prefix, rows.options.coloured);
            rows.wrap_painted(label, prefix, start, out);
        })
    }

    /// Appends the open lines of executions.
    pub(super) fn end_lines(&mut self, out: &mut String) {
        let (rows, labels) = (&self.rows, &self.labels);
        self.executions.end_all(&mut |line| {
            let label = labels.label(line.execution_id, None);
            let (prefix, start) = (rows.prefix(&label), out.len());
            ExecutionText::Line(line).push(out, &prefix, rows.options.coloured);
            rows.wrap_painted(&label, &prefix, start, out);
        });
    }

    /// Keeps the colours of lines if colours are shown.
    fn set_styles(&mut self, id: &str, pane: &PaneId, first: i64, text: &str, styles: &Styles) {
        if self.rows.options.coloured {
            // A revision to blank text is still one line.
            let lines = lines_in(text).count().max(1) as i64;
            self.panes.get(id, pane).styles.set(first, lines, styles);
        }
    }

    fn display(&mut self, id: &str, pane: &PaneId) -> &mut PaneDisplay {
        &mut self.panes.get(id, pane).display
    }

    /// Calls `act` with the display of a pane, and writes its output.
    fn with_pane(
        &mut self,
        id: &str,
        pane: &PaneId,
        label: &Label,
        at: i64,
        out: &mut String,
        act: impl FnOnce(&mut PaneDisplay, &mut PaneSink<'_>),
    ) {
        let (known, policy) = (self.panes.get(id, pane), &self.policy);
        let printed = &mut self.printed;
        let error = known.write(&self.rows, label, printed, out, policy, act);
        known.styles.truncate();
        self.deadline = earliest(self.deadline, known.display.deadline(policy));
        if let (Some(error), Some(_)) = (error, self.rows.columns) {
            self.alerts.add_error_message(id, pane, &error, at);
        }
    }

    /// Appends the last lines of a pane that has ended.
    pub(super) fn end_pane(&mut self, id: &str, pane: &PaneId, out: &mut String) {
        let label = self.labels.label(id, Some(pane));
        if let Some(mut known) = self.panes.remove(id, pane) {
            let (printed, policy) = (&mut self.printed, &self.policy);
            known.write(
                &self.rows,
                &label,
                printed,
                out,
                policy,
                PaneDisplay::finish,
            );
        }
    }
}

/// Returns true if the event's text follows the lines that its pane printed before.
fn follows_held_lines(event: &TdEvent) -> bool {
    match event {
        TdEvent::OutputGap { .. } | TdEvent::AgentState { .. } | TdEvent::TurnCompleted { .. } => {
            true
        }
        TdEvent::ExecutionCompleted { exit_code, .. } => !matches!(exit_code, None | Some(0)),
        _ => false,
    }
}
