//! The end of a poller: the last capture and the last bytes, within a time limit.

use std::time::{Duration, Instant};

use crossbeam_channel::{never, select_biased};

use super::{Ended, Work};
use crate::event::SessionEndReason;
use crate::observe::session_outcome::SessionOutcome;
use crate::tmux::{ReplyTime, SessionRequest};

/// The time limit of the last capture: a hung server must not delay the observer's end.
const LAST_CAPTURE_TIMEOUT: Duration = Duration::from_millis(800);

impl Work {
    /// Emits the last lines and the ends of the panes and of the session.
    pub(super) fn end(&mut self, reason: SessionEndReason) -> Ended {
        if reason == SessionEndReason::Detached {
            self.last_capture();
            self.poller.panes.finish();
            self.receive_last_bytes(Some(self.poller.clock.now() + LAST_CAPTURE_TIMEOUT));
        } else {
            let now = self.poller.clock.now();
            if !std::mem::replace(&mut self.started, true) {
                // The session ended before its first capture; its run still has a start and an end.
                let panes = self.poller.panes.unopened();
                self.poller
                    .emitter
                    .session_started(&self.poller.name, panes);
            }
            self.poller.panes.close(&self.departed, now);
            self.receive_last_bytes(None);
        }
        self.poller.panes.detach(self.poller.clock.now());
        // A session that continues has no exit status.
        let outcome = match reason {
            SessionEndReason::Detached => SessionOutcome::default(),
            SessionEndReason::Closed | SessionEndReason::ServerGone => self.poller.panes.outcome(),
        };
        let exit_status = outcome.status();
        if self.started {
            self.poller
                .emitter
                .session_ended(&self.poller.name, reason, exit_status);
        }
        Ended {
            reason,
            exit_status,
            has_failed: outcome.has_failed(),
        }
    }

    /// Captures the output from before the stop, if the server replies in time.
    fn last_capture(&mut self) {
        if !self.started || self.hung {
            return;
        }
        for again in [false, true] {
            let now = self.poller.clock.now();
            if again && !self.poller.panes.needs_more_captures(now)
                || self.poller.panes.is_streamed()
            {
                return;
            }
            let panes = match again {
                true => self.poller.panes.extra_requests(now),
                false => self.poller.panes.requests(),
            };
            // Without a name, the reply contains the current one.
            let session_request = SessionRequest {
                panes,
                name: None,
                ..self.session_request(ReplyTime::Now)
            };
            let Ok(pending) = self.poller.gateway.request_session(session_request) else {
                return;
            };
            let deadline = self
                .poller
                .clock
                .at(self.poller.clock.now() + LAST_CAPTURE_TIMEOUT);
            match pending.wait_or(&deadline) {
                Some(Ok(reply)) => {
                    // The panes that a reply lacks reveal that the session has just ended.
                    let _ = self.handle_reply(reply, again);
                }
                Some(Err(_)) | None => return,
            }
        }
    }

    /// Receives the remaining bytes of drains and exits of programs until the deadline. Without one,
    /// waits for all of them, or for [`LAST_CAPTURE_TIMEOUT`] once the observer is stopped.
    fn receive_last_bytes(&mut self, until: Option<Instant>) {
        let mut until = until;
        while self.poller.panes.has_pending_bytes() {
            let nothing = never();
            let arrivals = self.poller.panes.arrivals().unwrap_or(&nothing);
            let timeout = until.map_or_else(never, |until| self.poller.clock.at(until));
            let due = self.poller.panes.deadline(false);
            let due = due.map_or_else(never, |due| self.poller.clock.at(due));
            let stop = match until {
                Some(_) => never(),
                None => self.poller.stop.clone(),
            };
            select_biased! {
                recv(stop) -> _ => until = Some(self.poller.clock.now() + LAST_CAPTURE_TIMEOUT),
                recv(timeout) -> _ => return,
                recv(self.poller.panes.exits()) -> _ => {
                    let now = self.poller.clock.now();
                    self.poller.panes.handle_exits(now);
                }
                // An expected drain may never connect.
                recv(due) -> _ => {
                    self.poller.panes.handle_timeout(self.poller.clock.now());
                }
                recv(arrivals) -> arrival => match arrival {
                    Ok(arrival) => {
                        let now = self.poller.clock.now();
                        self.poller.panes.arrived(arrival, now);
                    }
                    Err(_) => return,
                },
            }
        }
    }
}
