//! Which pane belongs to which session, and how both are called on the console (pure).

use std::collections::BTreeSet;

use super::clean::push_clean;
use crate::event::{PaneId, TdEvent};

/// How many colours there are to give.
pub(super) const COLOURS: usize = 10;

/// A name to put before a line, and the number of its colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub text: String,
    pub colour: usize,
}

/// The sessions that are watched.
#[derive(Debug, Default)]
pub(super) struct Names {
    sessions: Vec<Session>,
}

#[derive(Debug)]
struct Session {
    execution_id: String,
    name: String,
    panes: BTreeSet<PaneId>,
    colour: usize,
}

impl Names {
    /// Takes in what an event says about sessions and panes. Call it before the event is labelled.
    pub fn note(&mut self, event: &TdEvent) {
        let id = event.execution_id();
        match event {
            TdEvent::SessionStarted { session, panes, .. } => {
                self.forget(id, session);
                let session = Session {
                    execution_id: id.to_owned(),
                    colour: self.free_colour(session),
                    name: session.clone(),
                    panes: panes.iter().cloned().collect(),
                };
                self.sessions.push(session);
            }
            TdEvent::SessionRenamed { from, to, .. } => {
                if let Some(session) = self.named(id, from) {
                    session.name.clone_from(to);
                }
            }
            TdEvent::PaneOpened { pane, .. } => {
                if self
                    .of(id, Some(pane))
                    .is_some_and(|session| session.panes.contains(pane))
                {
                    return;
                }
                // Where sessions share a run, the event does not say which: the last that began.
                if let Some(session) = self
                    .sessions
                    .iter_mut()
                    .rfind(|session| session.execution_id == id)
                {
                    session.panes.insert(pane.clone());
                }
            }
            // No session, whatever was thought before the log said what it is.
            TdEvent::ExecutionStarted { pane: None, .. }
            | TdEvent::ExecutionOutput { .. }
            | TdEvent::ExecutionCompleted { pane: None, .. } => {
                self.sessions
                    .retain(|session| session.execution_id != id || !session.panes.is_empty());
            }
            _ => {}
        }
    }

    /// The session's label, with the pane where it has more than one.
    pub fn label(&self, execution_id: &str, pane: Option<&PaneId>) -> Label {
        match self.of(execution_id, pane) {
            Some(session) => session.label(pane),
            None => {
                let mut text = String::new();
                push_clean(&mut text, execution_id);
                Label {
                    colour: hash(&text) % COLOURS,
                    text,
                }
            }
        }
    }

    /// The label of a session by its name.
    pub fn label_of(&self, name: &str, pane: &PaneId) -> Option<Label> {
        let session = self.sessions.iter().rfind(|session| session.name == name)?;
        Some(session.label(Some(pane)))
    }

    /// The label of a session, whatever panes it has.
    pub fn label_of_session(&self, execution_id: &str, name: &str) -> Label {
        let found = self
            .sessions
            .iter()
            .find(|session| session.execution_id == execution_id && session.name == name);
        found.map_or_else(
            || self.label(execution_id, None),
            |session| session.label(None),
        )
    }

    /// The panes of a session.
    pub fn panes_of(&self, execution_id: &str, name: &str) -> Vec<PaneId> {
        let mut sessions = self.sessions.iter();
        let found =
            sessions.find(|session| session.execution_id == execution_id && session.name == name);
        found.map_or_else(Vec::new, |session| session.panes.iter().cloned().collect())
    }

    /// The panes of a session that has ended; it is forgotten.
    pub fn forget(&mut self, execution_id: &str, name: &str) -> BTreeSet<PaneId> {
        let found = self
            .sessions
            .iter()
            .position(|session| session.execution_id == execution_id && session.name == name);
        found
            .map(|at| self.sessions.remove(at).panes)
            .unwrap_or_default()
    }

    /// A pane is gone.
    pub fn forget_pane(&mut self, execution_id: &str, pane: &PaneId) {
        for session in &mut self.sessions {
            if session.execution_id == execution_id {
                session.panes.remove(pane);
            }
        }
    }

    fn named(&mut self, execution_id: &str, name: &str) -> Option<&mut Session> {
        self.sessions
            .iter_mut()
            .find(|session| session.execution_id == execution_id && session.name == name)
    }

    fn of(&self, execution_id: &str, pane: Option<&PaneId>) -> Option<&Session> {
        let mut here = self
            .sessions
            .iter()
            .filter(|session| session.execution_id == execution_id);
        match pane {
            Some(pane) => here
                .clone()
                .find(|session| session.panes.contains(pane))
                .or_else(|| here.next_back()),
            None => here.next_back(),
        }
    }

    /// The colour that the name asks for, or the next one that nobody has.
    fn free_colour(&self, name: &str) -> usize {
        let wish = hash(name) % COLOURS;
        let is_free = |colour: &usize| self.sessions.iter().all(|other| other.colour != *colour);
        (0..COLOURS)
            .map(|step| (wish + step) % COLOURS)
            .find(is_free)
            .unwrap_or(wish)
    }
}

impl Session {
    fn label(&self, pane: Option<&PaneId>) -> Label {
        let mut text = String::new();
        push_clean(&mut text, &self.name);
        if let Some(pane) = pane.filter(|_| self.panes.len() > 1) {
            text.push(' ');
            push_clean(&mut text, pane);
        }
        Label {
            text,
            colour: self.colour,
        }
    }
}

/// The same for the same name in every run of the program (FNV-1a).
fn hash(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize
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
        let mut names = Names::default();
        names.note(&started("run", "a", &["%1"]));
        names.note(&started("run", "b", &["%2", "%3"]));
        assert_eq!(names.label("run", Some(&"%1".into())).text, "a");
        assert_eq!(names.label("run", Some(&"%2".into())).text, "b %2");
        names.forget_pane("run", &"%3".into());
        assert_eq!(names.label("run", Some(&"%2".into())).text, "b");
        assert_eq!(names.label("other", None).text, "other");
    }

    #[test]
    fn an_execution_is_called_by_its_id() {
        let mut names = Names::default();
        assert_eq!(names.label("make@17", None).text, "make@17");
        // What its metadata call it, taken for a session's name.
        names.note(&started("make@17", "make", &[]));
        names.note(&TdEvent::ExecutionStarted {
            execution_id: "make@17".into(),
            command: "make".into(),
            cwd: "/".into(),
            pane: None,
            pid: None,
        });
        let label = names.label("make@17", None);
        assert_eq!(label.text, "make@17");
        assert_eq!(label, Names::default().label("make@17", None));
        assert_eq!(names.label("a\u{1b}\nb", None).text, "a^[^Jb");
    }

    #[test]
    fn no_two_sessions_share_a_colour_while_there_are_some() {
        let mut names = Names::default();
        for n in 0..COLOURS {
            names.note(&started(&format!("run{n}"), &format!("s{n}"), &["%1"]));
        }
        let mut colours: Vec<usize> = names
            .sessions
            .iter()
            .map(|session| session.colour)
            .collect();
        colours.sort_unstable();
        assert_eq!(colours, (0..COLOURS).collect::<Vec<_>>());
    }
}
