//! Decides how panes that share a session are named: by their windows, the titles that agents set, or their directories
//! (pure).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::event::PaneId;
use crate::process::is_shell;
use crate::text::first_chars;
use crate::tmux::GivenNames;

/// The shortest time between two reports of a pane's name if only a title or a directory has changed, which programs
/// may do all the time.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The maximum length of a name in characters: titles may be whole prompts.
const CHARS_MAX: usize = 80;

/// The names of the panes of one session. A pane that is alone in its session needs none beside the session's.
#[derive(Debug, Default)]
pub(in crate::observe) struct PaneNames {
    panes: HashMap<PaneId, NamedPane>,
}

/// What may name a pane, and the name that was reported last.
#[derive(Debug, Default)]
struct NamedPane {
    /// The name that the user has given to the window.
    window: Option<String>,
    /// The name of the agent that the pane has declared.
    agent: Option<String>,
    title: Option<String>,
    directory: Option<String>,
    reported: Option<(PaneName, Instant)>,
    /// When the next report is due.
    due: Option<Instant>,
}

/// A name and its origin, the best one first.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PaneName {
    Window(String),
    Title(String),
    Directory(String),
}

impl PaneName {
    fn text(&self) -> &str {
        match self {
            Self::Window(text) | Self::Title(text) | Self::Directory(text) => text,
        }
    }
}

impl NamedPane {
    fn name(&self) -> Option<PaneName> {
        // With `automatic-rename` off for all windows, a window has the name of its shell.
        let window = self.window.as_deref().map(str::trim);
        let window = window.filter(|name| !name.is_empty() && !is_shell(name));
        // Some agents show the directory as their title; the directory's own name has the branch.
        let directory = self.directory.as_deref();
        let is_directory = |title: &&str| {
            directory.is_some_and(|directory| {
                let (path, _) = directory.split_once(" (").unwrap_or((directory, ""));
                path.rsplit('/').next() == Some(*title)
            })
        };
        let title = self.title.as_deref().filter(|title| !is_directory(title));
        let text = |text: &str| first_chars(text, CHARS_MAX).to_owned();
        let window = window.map(|window| PaneName::Window(text(window)));
        window
            .or_else(|| title.map(|title| PaneName::Title(text(title))))
            .or_else(|| directory.map(|directory| PaneName::Directory(text(directory))))
    }

    /// Decides when the present name is reported.
    fn schedule(&mut self, now: Instant) {
        let Some(name) = self.name() else { return };
        let is_same_origin = |known: &PaneName| {
            !matches!(name, PaneName::Window(_))
                && std::mem::discriminant(known) == std::mem::discriminant(&name)
        };
        self.due = match &self.reported {
            Some((known, _)) if *known == name => None,
            Some((known, at)) if is_same_origin(known) => Some((*at + REPORT_INTERVAL).max(now)),
            _ => Some(now),
        };
    }
}

impl PaneNames {
    /// Takes the name that the user has given to a pane's window.
    pub fn set_window(&mut self, pane: &PaneId, name: Option<&str>, now: Instant) {
        self.set(pane, name, now, |pane| &mut pane.window);
    }

    /// Takes the name of the agent that a pane declares, which is no name of the pane.
    pub fn set_agent(&mut self, pane: &PaneId, agent: Option<String>) {
        if let Some(pane) = self.panes.get_mut(pane) {
            pane.agent = agent;
        }
    }

    /// Takes the title that the agent in a pane has set.
    pub fn set_title(&mut self, pane: &PaneId, title: Option<&str>, now: Instant) {
        self.set(pane, title, now, |pane| &mut pane.title);
    }

    /// Takes the name of a pane's directory.
    pub fn set_directory(&mut self, pane: &PaneId, name: Option<&str>, now: Instant) {
        self.set(pane, name, now, |pane| &mut pane.directory);
    }

    fn set(
        &mut self,
        pane: &PaneId,
        value: Option<&str>,
        now: Instant,
        field: impl FnOnce(&mut NamedPane) -> &mut Option<String>,
    ) {
        if !self.panes.contains_key(pane) {
            self.panes.insert(pane.clone(), NamedPane::default());
        }
        let Some(pane) = self.panes.get_mut(pane) else {
            return;
        };
        let known = field(pane);
        if known.as_deref() != value {
            *known = value.map(str::to_owned);
            pane.schedule(now);
        }
    }

    /// Returns the names that have been given to the panes.
    pub fn given(&self) -> HashMap<PaneId, GivenNames<String>> {
        let given = |pane: &NamedPane| GivenNames {
            window: pane.window.clone(),
            agent: pane.agent.clone(),
        };
        let is_given = |pane: &NamedPane| pane.window.is_some() || pane.agent.is_some();
        let panes = self.panes.iter().filter(|(_, pane)| is_given(pane));
        panes.map(|(id, pane)| (id.clone(), given(pane))).collect()
    }

    /// Forgets a pane that is gone.
    pub fn forget(&mut self, pane: &PaneId) {
        self.panes.remove(pane);
    }

    /// Returns when [`PaneNames::take_due`] has a name to report.
    pub fn deadline(&self) -> Option<Instant> {
        let due = self.panes.values().filter_map(|pane| pane.due);
        due.min().filter(|_| self.panes.len() > 1)
    }

    /// Returns the names to report now.
    pub fn take_due(&mut self, now: Instant) -> Vec<(PaneId, String)> {
        if self.panes.len() < 2 {
            return Vec::new();
        }
        let due = self.panes.iter_mut().filter_map(|(id, pane)| {
            pane.due.take_if(|due| *due <= now)?;
            let name = pane.name()?;
            let text = name.text().to_owned();
            pane.reported = Some((name, now));
            Some((id.clone(), text))
        });
        let mut due: Vec<_> = due.collect();
        due.sort();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(names: &mut PaneNames, now: Instant) -> Vec<String> {
        let due = names.take_due(now).into_iter();
        due.map(|(pane, name)| format!("{pane} {name}")).collect()
    }

    #[test]
    fn a_pane_is_named_by_its_window_its_title_or_its_directory() {
        let (mut names, now) = (PaneNames::default(), Instant::now());
        let (one, two) = (PaneId::from("%1"), PaneId::from("%2"));
        names.set_window(&one, None, now);
        names.set_directory(&one, Some("api (main)"), now);
        assert_eq!(names.deadline(), None, "it is alone");
        assert!(due(&mut names, now).is_empty());
        names.set_window(&two, Some("tests"), now);
        names.set_directory(&two, Some("api (main)"), now);
        assert_eq!(names.deadline(), Some(now));
        assert_eq!(due(&mut names, now), ["%1 api (main)", "%2 tests"]);
        assert_eq!(names.deadline(), None, "once");
        // The title is the directory's own name, as Codex sets it.
        names.set_title(&one, Some("api"), now);
        assert!(due(&mut names, now).is_empty());
        names.set_title(&one, Some("Fix the login"), now);
        assert_eq!(due(&mut names, now), ["%1 Fix the login"], "a better name");
        names.set_title(&one, None, now);
        names.set_window(&one, Some("bash"), now);
        assert_eq!(
            due(&mut names, now),
            ["%1 api (main)"],
            "a shell is no name"
        );
        names.forget(&two);
        names.set_window(&one, Some("web"), now);
        assert!(due(&mut names, now).is_empty(), "it is alone again");
    }

    #[test]
    fn a_title_that_spins_is_reported_every_ten_seconds_and_a_window_at_once() {
        let (mut names, start) = (PaneNames::default(), Instant::now());
        let (one, two) = (PaneId::from("%1"), PaneId::from("%2"));
        names.set_window(&two, None, start);
        let mut reported = Vec::new();
        for second in 0..25 {
            let now = start + Duration::from_secs(second);
            names.set_title(&one, Some(&format!("step {second}")), now);
            reported.extend(due(&mut names, now));
        }
        assert_eq!(reported, ["%1 step 0", "%1 step 10", "%1 step 20"]);
        let last = start + REPORT_INTERVAL * 3;
        assert_eq!(names.deadline(), Some(last));
        assert_eq!(
            due(&mut names, last),
            ["%1 step 24"],
            "the last one is not lost"
        );
        for name in ["a", "b"] {
            names.set_window(&one, Some(name), last);
            assert_eq!(due(&mut names, last), [format!("%1 {name}")]);
        }
    }
}
