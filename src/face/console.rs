//! Renders events as lines for people: a session's label in its colour, then the text or a description
//! (pure).
//!
//! Each settled line is one row. On a terminal, a line that changes after it was printed is rewritten in
//! place; if it has left the screen, it is printed again, marked `~`, once it stays unchanged. Open and
//! changing lines are live rows at the foot of the terminal, below the alerts. On a pipe, an open line is
//! printed when its pane, session or execution ends, and lines that may be rewritten are held until they stay
//! unchanged. If the state rules recognize an agent's screen, the rows that it draws around its text are
//! omitted.

use std::collections::BTreeMap;

use super::conversation::conversation_lines;
use super::describe::{
    Description, HUNG_UP, agent_and_detail, agent_phrase, describe, duration, end_in_words, lagged,
};
use super::lines::{StyledLines, paint, styles_of};
use super::sanitize::{Tone, push_styled};
use super::session_labels::{Label, SessionLabels, live_text, push_event, push_row};
use super::stream_lines::StreamLines;
use crate::agent::StateRules;
use crate::event::{AgentState, Dialogue, Envelope, PaneId, SessionEndReason, Styles, TdEvent};
use crate::track::cut;
use line_buffer::BufferedLine;
use pane_display::{PaneDisplay, PanePolicy, PaneSink, Panes};
pub(crate) use rows::ConsoleOptions;
use rows::{PrintedRows, RowWriter};
use unicode_width::UnicodeWidthStr;

mod rows;

mod line_buffer;
mod pane_display;

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
    /// The rows that say that executions are no longer observed, if only the last one of each is shown.
    detached: Option<BTreeMap<String, String>>,
    /// The next time when a held line is due, in microseconds.
    deadline: Option<i64>,
}

impl Console {
    pub fn new(options: ConsoleOptions) -> Self {
        let mut labels = SessionLabels::default();
        labels.names_hosts = options.names_hosts;
        Self {
            rows: RowWriter::new(options),
            labels,
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
        // A live stream says at once that its execution is no longer observed.
        self.detached = None;
        self
    }

    /// Shows only the last of the rows that say that an execution is no longer observed: each restart of an observer
    /// ends its observation.
    pub fn detaching_once(mut self) -> Self {
        self.detached = Some(BTreeMap::new());
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
        for (_, row) in self.detached.iter_mut().flat_map(std::mem::take) {
            out.push_str(&row);
        }
        self.printed.record(out, start);
    }

    /// Returns the next time, in microseconds, at which rows change without a new event.
    pub fn deadline(&self, at: i64) -> Option<i64> {
        let ends = self.alerts.alerts.iter().map(|alert| alert.until);
        let expires = ends.filter(|until| *until > at && *until < i64::MAX).min();
        earliest(self.deadline, expires)
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
                    self.panes.map.remove(&(id.to_owned(), pane));
                }
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.labels.remove_pane(id, pane);
                self.panes.map.remove(&(id.to_owned(), pane.clone()));
            }
            _ => {}
        }
    }

    /// Appends the lines of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        self.rows.time.set(envelope.ts);
        self.release_due(envelope.ts.micros(), out);
        let start = out.len();
        self.handle(&envelope.event, envelope.ts.micros(), out);
        self.printed.record(out, start);
    }
}

fn earliest(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    [one, other].into_iter().flatten().min()
}

// Handles one event: appends its lines, and updates its pane or session (pure).

/// The name by which the rules report a program that is not an agent.
const SHELL: &str = "shell";

impl Console {
    fn handle(&mut self, event: &TdEvent, at: i64, out: &mut String) {
        self.labels.note(event);
        let (id, pane) = (event.execution_id(), event.pane());
        if let Some(detached) = &mut self.detached {
            // It is observed again.
            detached.remove(id);
        }
        let label = self.labels.label(id, pane);
        self.rows.make_room(&label);
        if self.rows.columns.is_some() {
            self.alerts.note(event, at);
        }
        if let Some(pane) = pane {
            // The event's text follows the lines that its pane printed before.
            let follows_lines = match event {
                TdEvent::OutputGap { .. }
                | TdEvent::AgentState { .. }
                | TdEvent::TurnCompleted { .. } => true,
                TdEvent::ExecutionCompleted { exit_code, .. } => {
                    !matches!(exit_code, None | Some(0))
                }
                _ => false,
            };
            if follows_lines {
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
            for (tone, text) in lines {
                self.rows.row(&label, '|', tone, &text, out);
            }
            return;
        }
        let rows = &self.rows;
        // Rendered once, because an event may have thousands of lines.
        let mut prefix = None;
        let is_text = push_event(&mut self.executions, event, &mut |text| {
            let prefix = prefix.get_or_insert_with(|| rows.prefix(&label));
            let start = out.len();
            push_row(out, prefix, text, rows.options.coloured);
            rows.wrap_painted(&label, prefix, start, out);
        });
        if is_text {
            return;
        }
        let Some(label) = self.update(event, label, at, out) else {
            return;
        };
        let is_detached = matches!(event, TdEvent::SessionEnded { reason, .. } if *reason == SessionEndReason::Detached);
        if is_detached && self.detached.is_some() {
            let mut row = String::new();
            self.add_description(event, &label, &mut row);
            if let Some(detached) = &mut self.detached {
                detached.insert(id.to_owned(), row);
            }
        } else {
            self.add_description(event, &label, out);
        }
    }

    /// Updates the pane or session of an event, and appends the lines of its pane. Returns the label of the event's
    /// description, if it is shown.
    fn update(
        &mut self,
        event: &TdEvent,
        label: Label,
        at: i64,
        out: &mut String,
    ) -> Option<Label> {
        let id = event.execution_id();
        let (none, is_coloured) = (Styles::default(), self.rows.options.coloured);
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                styles,
                is_complete,
                ..
            } => {
                let lines =
                    StyledLines::new(*first_line, chunk, if is_coloured { styles } else { &none });
                self.with_pane(id, pane, &label, at, out, |display, sink| {
                    display.settle(lines, at, sink);
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
                let styles = styles_of(if is_coloured { styles } else { &none }, 0);
                let number = self.panes.get(id, pane).number;
                let is_printed = self.printed.can_rewrite((number, *line));
                self.with_pane(id, pane, &label, at, out, |display, sink| {
                    display.revise(*line, (text, styles), (at, is_printed), sink);
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
                    display.lines.skip_to(next);
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
                let failed = (self.failed).take_if(|failed| failed.0 == id && failed.1 == name);
                let is_shown = match state.known() {
                    Some(AgentState::Done) => self.display(id, pane).is_turn_over,
                    Some(AgentState::Error) => failed.is_some(),
                    _ => false,
                };
                if is_shown && !self.rows.options.verbose {
                    return None;
                }
            }
            TdEvent::PaneOpened {
                pane,
                command,
                height,
                ..
            } => {
                self.display(id, pane).rows = Some(*height);
                if command != SHELL && self.policy.is_agent(command) {
                    self.with_pane(id, pane, &label, at, out, |display, _| {
                        display.set_agent(Some(command));
                    });
                }
            }
            TdEvent::PaneResized { pane, height, .. } => {
                self.display(id, pane).rows = Some(*height)
            }
            TdEvent::SessionStarted { session, .. }
            | TdEvent::SessionRenamed { to: session, .. } => {
                return Some(self.labels.label_of_session(id, session));
            }
            TdEvent::SessionEnded { session, .. } => {
                let label = self.labels.label_of_session(id, session);
                for pane in self.labels.panes_of(id, session) {
                    self.end_pane(id, &pane, out);
                }
                self.labels.remove(id, session);
                return Some(label);
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.end_pane(id, pane, out);
                self.labels.remove_pane(id, pane);
            }
            TdEvent::LogGap { .. } => self.end_lines(out),
            _ => {}
        }
        Some(label)
    }

    fn add_description(&self, event: &TdEvent, label: &Label, out: &mut String) {
        let is_verbose = self.rows.options.verbose;
        let description = describe(event, is_verbose).filter(|text| is_verbose || !text.is_detail);
        let Some(text) = description else {
            return;
        };
        let marked = text.marked();
        if !matches!(event, TdEvent::PromptSent { .. }) {
            return self.rows.row(label, '|', text.tone, &marked, out);
        }
        // The lines of a prompt are those that were typed.
        for (at, line) in marked.trim_end().lines().enumerate() {
            let indented = if at == 0 { "" } else { "  " }.to_owned() + line;
            self.rows
                .row(label, '|', text.tone, indented.trim_end(), out);
        }
    }

    /// Appends the open lines of executions.
    fn end_lines(&mut self, out: &mut String) {
        let (rows, labels) = (&self.rows, &self.labels);
        self.executions.end_all(&mut |line| {
            let label = labels.label(line.execution_id, None);
            let (prefix, start) = (rows.prefix(&label), out.len());
            push_row(out, &prefix, line, rows.options.coloured);
            rows.wrap_painted(&label, &prefix, start, out);
        });
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
        self.deadline = earliest(self.deadline, known.display.deadline(policy));
        if let (Some(error), Some(_)) = (error, self.rows.columns) {
            self.alerts.add_error_message(id, pane, &error, at);
        }
    }

    /// Appends the last lines of a pane that has ended.
    fn end_pane(&mut self, id: &str, pane: &PaneId, out: &mut String) {
        let label = self.labels.label(id, Some(pane));
        if let Some(mut known) = self.panes.map.remove(&(id.to_owned(), pane.clone())) {
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

// Alerts for the user: waiting agents, failed commands, the last error message of each pane (pure).

/// The maximum number of alerts to keep: more than fit on a screen.
const ALERTS_MAX: usize = 64;

/// The kind of an alert, in ascending urgency: the most urgent alert of a pane is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AlertKind {
    ErrorMessage,
    CommandFailed,
    /// An agent cannot continue by itself.
    AgentStopped,
    /// An agent asks its user.
    AgentWaits,
}

#[derive(Clone, Debug)]
struct Alert {
    execution_id: String,
    pane: Option<PaneId>,
    kind: AlertKind,
    text: String,
    since: i64,
    until: i64,
}

#[derive(Debug, Default)]
struct Alerts {
    alerts: Vec<Alert>,
    /// The commands running in panes.
    commands: Vec<(String, PaneId, String)>,
}

impl Alerts {
    pub fn note(&mut self, event: &TdEvent, at: i64) {
        let id = event.execution_id();
        // A failed command is shown for five minutes, unless another command starts in its pane.
        let failed_until = at.saturating_add(300_000_000);
        match event {
            TdEvent::AgentState { dialogue, .. } if Dialogue::is_again(dialogue.as_deref()) => {}
            TdEvent::AgentState {
                pane: Some(pane),
                state,
                ..
            } => {
                self.remove_where(id, Some(pane), |kind| kind > AlertKind::CommandFailed);
                let (agent, detail) = agent_and_detail(event);
                let Some(phrase) = agent_phrase(state.known()) else {
                    return;
                };
                let kind = if *state == AgentState::Waiting {
                    AlertKind::AgentWaits
                } else {
                    AlertKind::AgentStopped
                };
                let colon = if detail.is_empty() { "" } else { ": " };
                let text = format!("{agent} {phrase}{colon}{detail}");
                self.add(id, Some(pane), (kind, text), (at, i64::MAX));
            }
            TdEvent::ExecutionStarted {
                pane: Some(pane),
                command,
                ..
            } => {
                self.remove_where(id, Some(pane), |kind| kind <= AlertKind::CommandFailed);
                self.take_command(id, pane);
                if self.commands.len() < ALERTS_MAX {
                    let command = (id.to_owned(), pane.clone(), command.clone());
                    self.commands.push(command);
                }
            }
            TdEvent::ExecutionCompleted {
                pane: Some(pane),
                exit_code,
                signal,
                duration_ms,
                ..
            } => {
                let command = self.take_command(id, pane);
                // The user knows about a command that they interrupted.
                let is_expected = matches!(exit_code, None | Some(0 | HUNG_UP | 130));
                if signal.is_some() || !is_expected {
                    let command = command.unwrap_or_else(|| "a command".to_owned());
                    let words = end_in_words(*exit_code, *signal);
                    let text =
                        format!("{command} failed: {words} after {}", duration(*duration_ms));
                    let alert = (AlertKind::CommandFailed, text);
                    self.add(id, Some(pane), alert, (at, failed_until));
                }
            }
            TdEvent::SessionEnded { exit_status, .. } => {
                self.remove(id, None);
                if let Some(status) = exit_status.filter(|status| *status > 0 && *status != HUNG_UP)
                {
                    let text = format!("failed: exit status {status}");
                    let alert = (AlertKind::CommandFailed, text);
                    self.add(id, None, alert, (at, failed_until));
                }
            }
            TdEvent::PaneClosed { pane, .. } => self.remove(id, Some(pane)),
            _ => {}
        }
    }

    /// Adds an error message that a program printed, for half a minute.
    fn add_error_message(&mut self, id: &str, pane: &PaneId, line: &str, at: i64) {
        self.remove_where(id, Some(pane), |kind| kind == AlertKind::ErrorMessage);
        let alert = (AlertKind::ErrorMessage, line.trim().to_owned());
        let until = at.saturating_add(30_000_000);
        self.add(id, Some(pane), alert, (at, until));
    }

    /// Returns the most urgent alert of each pane, the most urgent and newest first.
    pub fn current(&self, at: i64) -> Vec<&Alert> {
        let mut now: Vec<&Alert> = Vec::new();
        for alert in self.alerts.iter().filter(|alert| alert.until > at) {
            let same = |other: &&mut &Alert| {
                (&other.execution_id, &other.pane) == (&alert.execution_id, &alert.pane)
            };
            match now.iter_mut().find(same) {
                Some(other) if (other.kind, other.since) < (alert.kind, alert.since) => {
                    *other = alert;
                }
                Some(_) => {}
                None => now.push(alert),
            }
        }
        now.sort_by_key(|alert| std::cmp::Reverse((alert.kind, alert.since)));
        now
    }

    fn add(
        &mut self,
        id: &str,
        pane: Option<&PaneId>,
        (kind, text): (AlertKind, String),
        (since, until): (i64, i64),
    ) {
        self.alerts.retain(|alert| alert.until > since);
        if self.alerts.len() >= ALERTS_MAX {
            self.alerts.remove(0);
        }
        self.alerts.push(Alert {
            execution_id: id.to_owned(),
            pane: pane.cloned(),
            kind,
            text,
            since,
            until,
        });
    }

    fn remove_where(
        &mut self,
        id: &str,
        pane: Option<&PaneId>,
        is_obsolete: impl Fn(AlertKind) -> bool,
    ) {
        self.alerts.retain(|alert| {
            let belongs = alert.execution_id == id && alert.pane.as_ref() == pane;
            !(belongs && is_obsolete(alert.kind))
        });
    }

    /// Drops the alerts and commands of a closed pane, or of an ended execution.
    fn remove(&mut self, id: &str, pane: Option<&PaneId>) {
        let belongs =
            |owner: &str, other: Option<&PaneId>| owner == id && (pane.is_none() || other == pane);
        self.alerts
            .retain(|alert| !belongs(&alert.execution_id, alert.pane.as_ref()));
        self.commands
            .retain(|(owner, other, _)| !belongs(owner, Some(other)));
    }

    fn take_command(&mut self, id: &str, pane: &PaneId) -> Option<String> {
        let mut commands = self.commands.iter();
        let at = commands.position(|(owner, other, _)| owner == id && other == pane)?;
        Some(self.commands.swap_remove(at).2)
    }
}

// The live rows of a terminal: alerts, then open and changing lines (pure).
//
// Live rows fill at most half of the terminal. Every pane gets one row before any pane gets two. Panes and
// their lines keep their order, so that rows do not jump.

/// The maximum number of live rows: more are hard to follow.
const ROWS_MAX: usize = 12;

impl Console {
    /// Returns the live rows for a terminal of this size, without line ends.
    pub fn live(&self, (columns, rows): (usize, usize), at: i64) -> Vec<String> {
        let mut live = Vec::new();
        let execution = self.live_execution(columns);
        let room = (rows / 2).clamp(1, ROWS_MAX) - usize::from(execution.is_some());
        self.push_alerts(columns, room, at, &mut live);
        self.push_panes(columns, room, at, &mut live);
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

    /// Appends the alerts.
    fn push_alerts(&self, columns: usize, room: usize, at: i64, out: &mut Vec<String>) {
        let alerts = self.alerts.current(at);
        // At most six, below their heading.
        let room = room.saturating_sub(1).min(6);
        if alerts.is_empty() || room == 0 {
            return;
        }
        let heading = match alerts.len() {
            1 => "── 1 needs you ".to_owned(),
            count => format!("── {count} need you "),
        };
        let rule = "─".repeat(columns.saturating_sub(heading.width()));
        let heading = heading + &rule;
        out.push(self.rows.styled(Tone::Dim, cut(&heading, columns)));
        for alert in alerts.iter().take(room) {
            let label = self.labels.label(&alert.execution_id, alert.pane.as_ref());
            let tone = match alert.kind {
                AlertKind::AgentWaits => Tone::Caution,
                _ => Tone::Alarm,
            };
            let text = self.rows.styled(tone, &alert.text);
            out.extend(self.rows.fitting(&label, '!', &text, columns));
        }
    }

    /// Appends the open and changing lines of panes.
    fn push_panes(&self, columns: usize, room: usize, at: i64, out: &mut Vec<String>) {
        let panes: Vec<_> = self.panes.map.iter().collect();
        let room = room.saturating_sub(out.len());
        let newest = panes.iter().map(|(_, pane)| pane.display.changed).max();
        let mut shown: Vec<(usize, Vec<(i64, &BufferedLine)>)> = Vec::new();
        for (position, (_, pane)) in panes.iter().enumerate() {
            let pane = &pane.display;
            let lines: Vec<_> = pane.live(&self.policy).collect();
            // After three seconds, a pane at an empty prompt is hidden.
            let is_unchanged = pane.changed.saturating_add(3_000_000) <= at;
            let is_newest = Some(pane.changed) == newest;
            let is_prompt = matches!(&lines[..], [(_, line)] if is_prompt(&line.text));
            let is_idle = is_prompt && is_unchanged && !is_newest;
            if !lines.is_empty() && !is_idle {
                shown.push((position, lines));
            }
        }
        // If not all panes fit, those that changed last are shown.
        shown.sort_by_key(|(position, _)| std::cmp::Reverse(panes[*position].1.display.changed));
        shown.truncate(room);
        shown.sort_by_key(|(position, _)| *position);
        // Each row goes to the first pane with the fewest rows.
        let mut row_counts = vec![0; shown.len()];
        for _ in 0..room {
            let has_more = (0..shown.len()).filter(|at| row_counts[*at] < shown[*at].1.len());
            let Some(at) = has_more.min_by_key(|at| row_counts[*at]) else {
                break;
            };
            row_counts[at] += 1;
        }
        for (rows, (position, lines)) in row_counts.iter().zip(&mut shown) {
            let ((id, pane), _) = panes[*position];
            let label = self.labels.label(id, Some(pane));
            // If not all lines of a pane fit, those that changed last are shown.
            lines.sort_by_key(|(number, line)| std::cmp::Reverse((line.changed, *number)));
            lines.truncate(*rows);
            lines.sort_by_key(|(number, _)| *number);
            for (_, line) in lines.iter() {
                let painted = paint(&line.text, &line.styles)
                    .unwrap_or_else(|| self.rows.styled(Tone::Plain, &line.text));
                out.extend(self.rows.fitting(&label, '|', &painted, columns));
            }
        }
    }
}

/// Returns true if a line is a shell's empty prompt, judged by its last character.
fn is_prompt(text: &str) -> bool {
    let ends = ['$', '#', '%', '>', '❯', '➜'];
    text.trim_end().ends_with(ends) && text.len() < 200
}

#[cfg(test)]
mod tests;
