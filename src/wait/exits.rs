//! How the programs of a wait's panes have ended.

use std::collections::HashMap;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use crate::clock::Clock;
use crate::event::PaneId;
use crate::process::{ExitWatch, ProcessWatcher, WatchedProcess};
use crate::track::ProcessExit;

/// Maximum time that tmux takes to reap a program whose pane it has closed.
const REAPING: Duration = Duration::from_millis(500);

/// The programs of the panes of a wait.
#[derive(Debug)]
pub(super) struct ProgramExits {
    programs: HashMap<PaneId, Vec<WatchedProcess>>,
    exited: Sender<()>,
    exits: Receiver<()>,
    /// `None` where the watch could not be started: exits are then read from `/proc`. Dropped last.
    watch: Option<ExitWatch>,
}

impl ProgramExits {
    pub fn start() -> Self {
        let watch = ExitWatch::start().inspect_err(|error| log::info!("{error:?}"));
        let (exited, exits) = bounded(1);
        Self {
            programs: HashMap::new(),
            exited,
            exits,
            watch: watch.ok(),
        }
    }

    /// Watches the program of a pane, a child of the tmux server.
    pub fn note(&mut self, pane: &PaneId, pid: u32, server: u32) {
        let programs = self.programs.entry(pane.clone()).or_default();
        if programs.iter().any(|program| program.pid == pid) {
            return;
        }
        let watch = self.watch.as_ref();
        let watcher = watch.map_or_else(ProcessWatcher::default, |watch| watch.watcher.clone());
        // tmux makes each program the leader of a session.
        let program = watcher.watch(pid, &self.exited, |stat| {
            stat.parent == server && stat.session == pid
        });
        // A respawned pane reports its latest program.
        *programs = program.into_iter().collect();
    }

    /// Returns the greatest exit status of the ended programs: it is 0 only if none is known to have failed.
    pub fn status(&self, clock: &Clock) -> Option<i32> {
        let time_up = clock.after(REAPING);
        let mut is_late = false;
        loop {
            let programs = self.programs.values().flatten();
            let exits: Vec<_> = programs.map(WatchedProcess::query_exit).collect();
            let is_final = exits.iter().all(Option::is_some);
            if is_final || is_late {
                let known = exits.into_iter().flatten().flatten();
                let known = known.filter_map(ProcessExit::exit_status);
                // A program that was hung up with its pane has not failed.
                return known.max_by_key(|status| (*status != ProcessExit::HUNG_UP, *status));
            }
            select_biased! {
                recv(self.exits) -> _ => {}
                recv(time_up) -> _ => is_late = true,
            }
        }
    }
}
