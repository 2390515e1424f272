//! The terminals in which tmux clients show observed panes: a pane with such a terminal is a view of these, and no pane
//! of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::process::Front;
use crate::thread::lock;

/// What clients show of the panes that the watches of an engine observe. Shared by the watches, and locked briefly.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientViews(Arc<Mutex<HashMap<u64, Vec<ClientView>>>>);

/// A client in the foreground of a terminal.
#[derive(Clone, Debug)]
pub(super) struct ClientView {
    /// The kernel's number of the terminal.
    pub terminal: i32,
    /// The name of the session that it shows.
    pub session: String,
}

impl ClientViews {
    /// Sets the views of what one watch observes.
    pub fn set(&self, watch: u64, views: Vec<ClientView>) {
        lock(&self.0).insert(watch, views);
    }

    /// Removes the views of a watch that has ended.
    pub fn remove(&self, watch: u64) {
        lock(&self.0).remove(&watch);
    }

    /// Returns the foreground of the terminal of a pane's first process, as [`Front::of`] does, with the session that a
    /// client shows there.
    pub fn front(&self, pid: u32) -> Option<Front> {
        let front = Front::of(pid)?;
        let views = lock(&self.0);
        let mut views = views.values().flatten();
        let view = views.find(|view| view.terminal == front.terminal);
        // A client that is suspended shows nothing.
        let view = view.filter(|_| !front.is_shell);
        let view = view.map(|view| view.session.clone());
        Some(Front { view, ..front })
    }
}
