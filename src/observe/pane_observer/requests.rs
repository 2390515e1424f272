//! The inputs that a pane needs next, and by when: the driver asks, requests and answers (pure).

use std::time::Instant;

use super::{Follow, Joining, Pane};
use crate::observe::pane_observer::agent_states::AgentStates;
use crate::observe::pane_observer::streamed_pane::StreamedPane;
use crate::observe::pane_observer::turns::PaneTurns;
use crate::tmux::{BASELINE_ROWS, Margin, PaneRequest, ResyncRequest, ResyncSpec};

/// The reason for a request that cannot wait for the next poll.
enum UrgentNeed {
    /// The listing shows whether another program still has the pipe.
    Recheck,
    /// A pipe is opened with a capture that its bytes follow.
    OpenPipe,
    /// No more bytes come through the pipe.
    Capture,
    /// The screen is compared with what the bytes have drawn.
    Check,
}

impl Pane {
    /// Returns the request for the next poll: the reply comes when something has changed.
    pub fn next_request(&self) -> PaneRequest {
        let is_resting = self.turns.as_ref().is_some_and(PaneTurns::is_resting);
        match &self.follow {
            Follow::Captures(polled) => {
                polled
                    .next_capture
                    .request(&polled.tracker, true, is_resting)
            }
            Follow::Bytes(_) => PaneRequest::Shape(self.shape),
        }
    }

    /// Returns true if [`Pane::urgent_request`] has a request.
    pub fn has_urgent_request(&self, now: Instant) -> bool {
        self.urgent_need(now).is_some()
    }

    /// Returns the request of a streamed pane that cannot wait for the next poll. `open_pipe` returns the
    /// command that opens a pipe, or `None` where none can be opened.
    pub fn urgent_request(
        &mut self,
        now: Instant,
        open_pipe: impl FnOnce() -> Option<String>,
    ) -> Option<PaneRequest> {
        Some(match self.urgent_need(now)? {
            UrgentNeed::Recheck => PaneRequest::Presence,
            UrgentNeed::OpenPipe => {
                let open_pipe = open_pipe();
                if open_pipe.is_none() {
                    self.piping.cannot_open(now);
                }
                self.resync_request(open_pipe)
            }
            UrgentNeed::Capture => self.resync_request(None),
            UrgentNeed::Check => {
                if let Some(stream) = self.stream_mut() {
                    stream.check_requested();
                }
                self.resync_request(None)
            }
        })
    }

    fn urgent_need(&self, now: Instant) -> Option<UrgentNeed> {
        let is_over = self.stream().is_some_and(StreamedPane::is_over);
        let may_open = self.piping.may_open(now)
            && (is_over || self.stream().is_none())
            && self.shape.dead.is_none();
        if self.piping.needs_recheck(now) {
            Some(UrgentNeed::Recheck)
        } else if may_open {
            Some(UrgentNeed::OpenPipe)
        } else if is_over {
            Some(UrgentNeed::Capture)
        } else if self.needs_check(now) {
            Some(UrgentNeed::Check)
        } else {
            None
        }
    }

    pub(super) fn needs_check(&self, now: Instant) -> bool {
        self.stream().is_some_and(|stream| stream.needs_check(now))
    }

    /// Returns the request for a sync point, or for a comparison with the stream.
    fn resync_request(&self, open_pipe: Option<String>) -> PaneRequest {
        let (margin, known) = match &self.follow {
            Follow::Captures(polled) => (polled.tracker.margin(), polled.next_capture.known()),
            // The stream itself knows by how much the history has grown.
            Follow::Bytes(stream) => (stream.rows_to_compare(), None),
        };
        PaneRequest::Resync(ResyncRequest {
            margin: match self.requests_all() {
                true => Margin::All,
                false => Margin::Rows(BASELINE_ROWS.max(margin)),
            },
            known,
            spec: ResyncSpec { open_pipe },
        })
    }

    /// Returns true if the last capture was too short.
    pub fn needs_full_capture(&self) -> bool {
        matches!(&self.follow, Follow::Captures(polled) if polled.next_capture.must_be_full())
    }

    /// Returns true if the next capture must have the whole history: the last one was too short, or the
    /// growth of the history since is unknown.
    pub fn requests_all(&self) -> bool {
        match &self.follow {
            Follow::Captures(polled) => polled.next_capture.requests_all(),
            Follow::Bytes(stream) => stream.is_over(),
        }
    }

    /// Returns when [`Pane::handle_timeout`] is due if nothing arrives; with `may_request`, also when the
    /// pane needs another request.
    pub fn deadline(&self, may_request: bool) -> Option<Instant> {
        let stream = self.stream();
        let joining = match self.joining {
            Joining::Searching(until) => until,
            Joining::None | Joining::Joined => None,
        };
        let deadlines = [
            self.throttle.deadline(),
            self.turns.as_ref().and_then(PaneTurns::deadline),
            self.states.as_ref().and_then(AgentStates::deadline),
            stream.and_then(StreamedPane::deadline),
            stream
                .and_then(StreamedPane::check_at)
                .filter(|_| may_request),
            self.judge_at,
            self.piping.deadline().filter(|_| stream.is_none()),
            self.death_due(),
            self.snapshots.next_due(),
            joining,
            self.reading.as_ref().and_then(|reading| reading.next_due()),
            self.views.next_due(self.last_news),
        ];
        deadlines.into_iter().flatten().min()
    }
}
