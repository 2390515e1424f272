//! The labels of sessions and panes on the console, and the lines of executions (pure).

use std::collections::BTreeSet;

use super::ansi::{cut_painted, end_of_painted};
use super::describe::HUNG_UP;
use super::sanitize::{Tone, push_styled, sanitized};
use super::stream_lines::{LineEnd, OpenStream, Origin, StreamLine, StreamLines};
use crate::event::{OutputStream, PaneId, TdEvent};
use crate::history::fnv1a;
use crate::track::cut;

/// The number of label colours: five, and their bright variants.
const COLOURS: usize = 10;

/// The name before a line, and the index of its colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub text: String,
    pub colour: usize,
}

/// The observed sessions.
#[derive(Debug, Default)]
pub(super) struct SessionLabels {
    sessions: Vec<LabelledSession>,
    /// The ids of executions begin with their hosts, which are shown.
    pub names_hosts: bool,
}

#[derive(Debug)]
struct LabelledSession {
    execution_id: String,
    name: String,
    panes: BTreeSet<PaneId>,
    colour: usize,
}

impl SessionLabels {
    /// Records the sessions and panes of an event. Must be called before the event is labelled.
    pub fn note(&mut self, event: &TdEvent) {
        let id = event.execution_id();
        match event {
            TdEvent::SessionStarted { session, panes, .. } => {
                self.remove(id, session);
                // The colour that the name hashes to, or the next unused one.
                let preferred = hash(session) % COLOURS;
                let is_free =
                    |colour: &usize| self.sessions.iter().all(|other| other.colour != *colour);
                let mut colours = (preferred..preferred + COLOURS).map(|colour| colour % COLOURS);
                let colour = colours.find(is_free).unwrap_or(preferred);
                self.sessions.push(LabelledSession {
                    execution_id: id.to_owned(),
                    colour,
                    name: session.clone(),
                    panes: panes.iter().cloned().collect(),
                });
            }
            TdEvent::SessionRenamed { from, to, .. } => {
                if let Some(at) = self.position(id, from) {
                    self.sessions[at].name.clone_from(to);
                }
            }
            TdEvent::PaneOpened { pane, .. } => {
                let of_run = |session: &LabelledSession| session.execution_id == id;
                let mut sessions = self.sessions.iter();
                let is_known =
                    sessions.any(|session| of_run(session) && session.panes.contains(pane));
                // If several sessions share a run, the event does not name its session, so the pane is
                // assigned to the session that started last.
                let last = self.sessions.iter_mut().rfind(|session| of_run(session));
                if let (false, Some(last)) = (is_known, last) {
                    last.panes.insert(pane.clone());
                }
            }
            _ => {}
        }
    }

    /// Returns the session's label, with the pane if the session has several.
    pub fn label(&self, execution_id: &str, pane: Option<&PaneId>) -> Label {
        let sessions = self.sessions.iter();
        let mut here = sessions.filter(|session| session.execution_id == execution_id);
        let of_pane = here
            .clone()
            .find(|session| pane.is_some_and(|pane| session.panes.contains(pane)));
        if let Some(session) = of_pane.or_else(|| here.next_back()) {
            return session.label(pane, self.names_hosts);
        }
        let text = sanitized(execution_id);
        Label {
            colour: hash(&text) % COLOURS,
            text,
        }
    }

    /// Returns the label of a session without a pane.
    pub fn label_of_session(&self, execution_id: &str, name: &str) -> Label {
        match self.position(execution_id, name) {
            Some(at) => self.sessions[at].label(None, self.names_hosts),
            None => self.label(execution_id, None),
        }
    }

    pub fn panes_of(&self, execution_id: &str, name: &str) -> BTreeSet<PaneId> {
        let session = self.position(execution_id, name);
        session.map_or_else(BTreeSet::new, |at| self.sessions[at].panes.clone())
    }

    /// Removes a session that has ended, and returns its panes.
    pub fn remove(&mut self, execution_id: &str, name: &str) -> BTreeSet<PaneId> {
        let session = self.position(execution_id, name);
        session.map_or_else(BTreeSet::new, |at| self.sessions.remove(at).panes)
    }

    /// Removes a closed pane.
    pub fn remove_pane(&mut self, execution_id: &str, pane: &PaneId) {
        for session in &mut self.sessions {
            if session.execution_id == execution_id {
                session.panes.remove(pane);
            }
        }
    }

    fn position(&self, execution_id: &str, name: &str) -> Option<usize> {
        let mut sessions = self.sessions.iter();
        sessions.position(|session| session.execution_id == execution_id && session.name == name)
    }
}

impl LabelledSession {
    fn label(&self, pane: Option<&PaneId>, names_host: bool) -> Label {
        let host = self.execution_id.split_once('/').filter(|_| names_host);
        let mut text = match host {
            // The label of a copy has it already.
            Some((host, _)) if !self.name.starts_with(&format!("{host}/")) => {
                sanitized(&format!("{host}/{}", self.name))
            }
            _ => sanitized(&self.name),
        };
        if let Some(pane) = pane.filter(|_| self.panes.len() > 1) {
            text = format!("{text} {}", sanitized(pane));
        }
        Label {
            text,
            colour: self.colour,
        }
    }
}

/// Returns a number that is the same for a name in each run of the program.
fn hash(name: &str) -> usize {
    (fnv1a(name.as_bytes()) >> 32) as usize
}

// Renders the output of executions, checks and models for console and tree (pure).

/// Emits the text of an event, and the open lines that the event ends. Returns true if the event needs no
/// description.
pub(super) fn push_event(
    lines: &mut StreamLines,
    event: &TdEvent,
    emit: &mut dyn FnMut(StreamLine<'_>),
) -> bool {
    lines.push_event(event, emit) || is_silent_job(event)
}

/// Returns true if the event belongs to a job in a pane and is not reported. The shell's prompt shows the
/// job, so only failures are reported.
fn is_silent_job(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::ExecutionStarted { pane: Some(_), .. }
            | TdEvent::ExecutionCompleted {
                pane: Some(_),
                exit_code: None | Some(0 | HUNG_UP),
                ..
            }
    )
}

/// Appends the row of a line after `prefix`. An empty line has no trailing blanks, and an optional line without
/// visible text has no row.
pub(super) fn push_row(out: &mut String, prefix: &str, mut line: StreamLine<'_>, coloured: bool) {
    let start = out.len();
    out.push_str(prefix);
    push_stream_name(out, line.stream, coloured);
    let text = out.len();
    line.push(out, coloured);
    if out.len() == text {
        if line.is_optional() {
            return out.truncate(start);
        }
        out.truncate(out.trim_end_matches(' ').len().max(start));
    }
    if line.end == LineEnd::Continues {
        out.push('…');
    }
    out.push('\n');
}

/// Returns the text of a live line with the name of its stream, cut to `columns`; `None` without visible
/// text. A model's answer grows at its end, so its end is shown.
pub(super) fn live_text(live: &OpenStream, coloured: bool, columns: usize) -> Option<String> {
    let (mut name, mut text) = (String::new(), String::new());
    live.push_open(&mut text, coloured);
    if text.is_empty() {
        return None;
    }
    push_stream_name(&mut name, &live.name, coloured);
    let text = name + &text;
    Some(match live.origin {
        Origin::Model => end_of_painted(&text, columns),
        Origin::Child | Origin::Check => cut_painted(&text, columns),
    })
}

/// Appends the name of a stream other than standard output.
fn push_stream_name(out: &mut String, stream: &str, coloured: bool) {
    if stream == OutputStream::Stdout.as_str() {
        return;
    }
    let name = format!("[{}", sanitized(stream));
    // A longer name would leave no room for the text.
    let name = format!("{}]", cut(&name, 20));
    push_styled(out, coloured, Tone::Alarm.style(), &name);
    out.push(' ');
}

#[cfg(test)]
mod tests {

    use super::*;

    fn started(id: &str, session: &str, panes: &[&str]) -> TdEvent {
        TdEvent::SessionStarted {
            execution_id: id.into(),
            session: session.into(),
            panes: panes.iter().map(|pane| PaneId::from(*pane)).collect(),
        }
    }

    #[test]
    fn sessions_that_share_a_run_keep_their_names() {
        let mut labels = SessionLabels::default();
        labels.note(&started("run", "a", &["%1"]));
        labels.note(&started("run", "b", &["%2", "%3"]));
        assert_eq!(labels.label("run", Some(&"%1".into())).text, "a");
        assert_eq!(labels.label("run", Some(&"%2".into())).text, "b %2");
        labels.remove_pane("run", &"%3".into());
        assert_eq!(labels.label("run", Some(&"%2".into())).text, "b");
        assert_eq!(labels.label("other", None).text, "other");
    }

    #[test]
    fn an_execution_is_labelled_with_its_id() {
        let labels = SessionLabels::default();
        assert_eq!(labels.label("make@17", None).text, "make@17");
        assert_eq!(labels.label("a\u{1b}\nb", None).text, "a^[^Jb");
    }

    #[test]
    fn sessions_have_different_colours_while_there_are_enough() {
        let mut labels = SessionLabels::default();
        for n in 0..COLOURS {
            labels.note(&started(&format!("run{n}"), &format!("s{n}"), &["%1"]));
        }
        let mut colours: Vec<usize> = labels
            .sessions
            .iter()
            .map(|session| session.colour)
            .collect();
        colours.sort_unstable();
        assert_eq!(colours, (0..COLOURS).collect::<Vec<_>>());
    }
}
