//! The ends of a wait: by a line, with its target, or by its channel.

use std::collections::HashMap;

use super::{StartedWait, matched};
use crate::error::Result;
use crate::event::PaneId;
use crate::tmux::ForegroundPrograms;
use crate::wait::config::{TargetEnd, WaitCondition, WaitEnd, WaitMatch};
use crate::wait::matcher::{LineMatch, MatchKind};

impl StartedWait<'_> {
    pub(super) fn end_of(&mut self, pane: PaneId, line_match: LineMatch) -> WaitEnd {
        if let Some(pane) = self.panes.get(&pane) {
            self.last_lines = pane.last_lines();
        }
        let condition = match line_match.kind {
            MatchKind::Wanted | MatchKind::Stop => WaitCondition::Text,
            MatchKind::Turn => WaitCondition::Turn,
        };
        let wait_match = WaitMatch {
            pane: Some(pane),
            line: line_match.line,
            text: Some(line_match.text),
            pattern: Some(line_match.pattern),
            ..WaitMatch::of(condition)
        };
        match line_match.kind {
            MatchKind::Stop => WaitEnd::Stopped(wait_match),
            MatchKind::Wanted | MatchKind::Turn => WaitEnd::Matched(wait_match),
        }
    }

    pub(super) fn server_gone(&mut self) -> WaitEnd {
        self.remove_panes(|_| true, &HashMap::new());
        self.target_ended(TargetEnd::ServerGone)
    }

    pub(super) fn target_ended(&mut self, end: TargetEnd) -> WaitEnd {
        if let Some((pane, line_match)) = self.final_match.take() {
            return self.end_of(pane, line_match);
        }
        match self.wait.exit {
            true => WaitEnd::Matched(WaitMatch {
                exit_status: self.exit_status.or_else(|| {
                    let programs = self.programs.as_ref()?;
                    programs.status(self.clock)
                }),
                ..WaitMatch::of(WaitCondition::Exit)
            }),
            false => WaitEnd::Ended(end),
        }
    }

    /// Handles the end of `wait-for`, which returns when the channel is signalled and when the server dies.
    pub(super) fn channel_done(&mut self, result: Result<()>) -> Result<WaitEnd> {
        let listing = self
            .gateway
            .request_listing(ForegroundPrograms::Omitted)?
            .wait();
        match (result, listing) {
            (Ok(()), Ok(listing)) if listing.server == self.identity => {
                Ok(matched(WaitCondition::Channel))
            }
            (_, Err(error)) if !error.is_gone() => Err(error),
            _ => Ok(self.target_ended(TargetEnd::ServerGone)),
        }
    }
}
