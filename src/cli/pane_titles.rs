//! Queries the titles of panes, for hooks.

use super::server_checks::ANSWER_TIMEOUT;
use crate::clock::Clock;
use crate::event::PaneId;
use crate::redact::Rules;
use crate::tmux::Server;

/// Queries a tmux server for titles.
pub(super) struct PaneTitles {
    server: Server,
    rules: Rules,
}

impl PaneTitles {
    pub fn new(server: &Server, rules: &Rules) -> Self {
        Self {
            server: server.clone().with_timeout(ANSWER_TIMEOUT),
            rules: rules.clone(),
        }
    }

    /// Returns the title of a pane without secrets; empty for a pane that is gone.
    pub fn of(&self, pane: &PaneId, clock: &Clock) -> String {
        let query = ["display-message", "-p", "-t", pane, "#{pane_title}"];
        let title = self.server.run(query, clock).unwrap_or_default();
        self.rules.text(title.trim_end_matches('\n')).into_owned()
    }
}
