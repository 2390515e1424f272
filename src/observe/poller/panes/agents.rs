//! Turns updates about agents' conversations into states and events of a session's panes.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::SessionPanes;
use crate::event::PaneId;
use crate::observe::conversation::{AgentChange, AgentUpdate, ConversationSink};
use crate::observe::resume_point::ResumePoint;

/// The interval of searches for an agent in a pane that prints; processes take longer to start.
const AGENT_SEARCH_INTERVAL: Duration = Duration::from_millis(400);

impl SessionPanes {
    /// Returns the channel of updates about agents.
    pub fn agent_updates(&self) -> &Receiver<AgentUpdate> {
        &self.agent_updates
    }

    /// Searches a pane that shows something new for an agent.
    pub(super) fn search_for_agent(&self, id: &PaneId, now: Instant) {
        if !self.config.conversations.are_read() {
            return;
        }
        let Some(pid) = self
            .panes
            .get(id)
            .and_then(|pane| pane.begin_agent_search(now, AGENT_SEARCH_INTERVAL))
        else {
            return;
        };
        let recipient = ConversationSink {
            emitter: self.emitter.events.clone(),
            markers: self
                .config
                .turns
                .as_ref()
                .map(|turns| turns.markers.clone()),
            reported_until: self
                .emitter
                .resume_points
                .get(id)
                .and_then(ResumePoint::conversation_ends),
            updates: self.agent_sender.clone(),
        };
        self.config.conversations.active(id, pid, &recipient);
    }

    /// Handles an update about the agent in a pane.
    pub fn handle_agent_update(&mut self, update: AgentUpdate, now: Instant) {
        let AgentUpdate { pane: id, change } = update;
        let Some(pane) = self.panes.get_mut(&id) else {
            // The pane is gone, or belongs to another session's poller.
            return;
        };
        let may_wait = self.pipes.is_some();
        self.emitter
            .collect(&id, may_wait, now, |out| match change {
                AgentChange::Started {
                    program,
                    has_places,
                } => pane.agent_runs(Some((program, has_places)), out),
                AgentChange::ConversationFound => pane.agent_joined(),
                AgentChange::Ended => pane.agent_runs(None, out),
                AgentChange::Claims(claims) => pane.agent_claims(claims, out),
                AgentChange::ScreenRequested => {
                    self.config.conversations.screen(&id, pane.screen_text());
                }
            });
    }
}
