//! The configuration of the panes of a session: which are watched, and how.

use std::collections::{HashMap, HashSet};

use crate::agent::StateRules;
use crate::event::PaneId;
use crate::observe::conversation::Conversations;
use crate::observe::pane_observer::turns::TurnRules;
use crate::observe::pane_recordings::PaneRecordings;
use crate::observe::pane_transfers::PaneTransfers;
use crate::process::ProcessWatcher;
use crate::tmux::{Drains, GatewayHandle, PollSchedule, SessionId};

/// The watched panes of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Selection {
    /// The only panes to watch; `None` for all of them.
    pub only: Option<HashSet<PaneId>>,
    /// Excluded panes, such as those that show the observer itself.
    pub leave_out: HashSet<PaneId>,
}

impl Selection {
    /// Returns true if the pane is watched.
    pub fn contains(&self, pane: &PaneId) -> bool {
        !self.leave_out.contains(pane) && self.only.as_ref().is_none_or(|only| only.contains(pane))
    }
}

/// The configuration of the panes of a session.
pub(in crate::observe) struct PanesConfig {
    pub session_id: SessionId,
    /// The pid of the tmux server.
    pub server_pid: u32,
    pub gateway: GatewayHandle,
    pub schedule: PollSchedule,
    /// The rules for the ends of turns, in AI mode.
    pub turns: Option<TurnRules>,
    /// The rules that recognize agents' screens, if configured.
    pub states: Option<StateRules>,
    pub selection: Selection,
    /// The session appeared while the server was observed.
    pub fresh: bool,
    /// All panes are captured before any pipe is opened.
    pub captured_first: bool,
    /// The panes that move between sessions.
    pub transfers: PaneTransfers,
    /// The foreground programs of the panes, as far as they are known.
    pub commands: HashMap<PaneId, String>,
    /// The number of lines of the baseline that are reported.
    pub baseline_lines: usize,
    /// The drains, if panes are streamed.
    pub drains: Option<Drains>,
    /// The recordings, if panes are recorded.
    pub recording: Option<PaneRecordings>,
    /// Watches the programs of the panes, to learn how they end.
    pub exits: ProcessWatcher,
    /// Reads the conversations of agents.
    pub conversations: Conversations,
    /// Rows of a pane are reported even if its agent's conversation is.
    pub shows_screens: bool,
    /// Views of panes by attached clients are reported.
    pub reports_views: bool,
}
