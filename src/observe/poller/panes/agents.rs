//! What the conversations of agents tell of a session's panes becomes states and events of theirs.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::Roster;
use crate::event::PaneId;
use crate::observe::conversation::{AgentChange, AgentUpdate, ConversationSink};
use crate::observe::resume_point::ResumePoint;
use crate::observe::say::Out;

/// How often an agent is looked for in a pane that prints: processes take longer to start.
const LOOK_FOR_AGENTS: Duration = Duration::from_millis(400);

impl Roster {
    /// Gets what is told of agents.
    pub fn agent_news(&self) -> &Receiver<AgentUpdate> {
        &self.agent_news
    }

    /// A pane shows something new: an agent may have begun there.
    pub(super) fn look_for_agent(&self, id: &PaneId, now: Instant) {
        if !self.outfit.conversations.are_read() {
            return;
        }
        let Some(pid) = self
            .panes
            .get(id)
            .and_then(|pane| pane.looks_for_agent(now, LOOK_FOR_AGENTS))
        else {
            return;
        };
        let recipient = ConversationSink {
            emitter: self.outfit.emitter.clone(),
            markers: self
                .outfit
                .turns
                .as_ref()
                .map(|turns| turns.markers.clone()),
            reported_until: self
                .outfit
                .recalls
                .get(id)
                .and_then(ResumePoint::conversation_ends),
            news: self.agent_sender.clone(),
        };
        self.outfit.conversations.active(id, pid, &recipient);
    }

    /// Takes in what is told of the agent in a pane.
    pub fn agent_told(&mut self, told: AgentUpdate, now: Instant) {
        let AgentUpdate { pane: id, news } = told;
        let Some(pane) = self.panes.get_mut(&id) else {
            // Another poller's by now, or gone.
            return;
        };
        let recall = self.outfit.recalls.entry(id.clone()).or_default();
        let mut out = Out {
            emitter: &self.outfit.emitter,
            recall,
            patient: self.pipes.is_some().then_some(&mut self.patient),
            now,
        };
        match news {
            AgentChange::Started {
                program,
                has_places,
            } => pane.agent_runs(Some((program, has_places)), &mut out),
            AgentChange::ConversationFound => pane.agent_joined(),
            AgentChange::Ended => pane.agent_runs(None, &mut out),
            AgentChange::Claims(claims) => pane.agent_claims(claims, &mut out),
            AgentChange::ScreenRequested => {
                self.outfit.conversations.screen(&id, pane.screen_text());
            }
        }
    }
}
