//! Captures that several requests share (pure).

use std::collections::HashMap;

use super::active::ActiveRequest;
use super::capture::CaptureSpec;
use super::reply::PaneReply;
use super::state::PaneState;
use crate::error::{Error, Result};
use crate::event::PaneId;

/// A capture of one pane, as deep as the deepest of the requests for it.
pub(super) struct SharedCapture {
    /// The indexes of the requests.
    pub requests: Vec<usize>,
    pub listed: PaneState,
    pub spec: CaptureSpec,
}

/// The requests whose captures are being taken; `None` once they have been replied to.
pub(super) struct Requests(Vec<Option<ActiveRequest>>);

/// Collects the captures that requests need, each pane once. Replies to requests without captures.
pub(super) fn share(requests: Vec<ActiveRequest>) -> (Requests, Vec<SharedCapture>) {
    let mut captures: Vec<SharedCapture> = Vec::new();
    let mut of_pane: HashMap<PaneId, usize> = HashMap::new();
    let mut waiting: Vec<Option<ActiveRequest>> = Vec::new();
    for mut request in requests {
        let needed = std::mem::take(&mut request.captures);
        if needed.is_empty() {
            request.finish();
            continue;
        }
        for (listed, spec) in needed {
            match of_pane.get(&spec.pane).map(|at| &mut captures[*at]) {
                Some(capture) => {
                    capture.requests.push(waiting.len());
                    capture.spec.merge(spec);
                }
                None => {
                    of_pane.insert(spec.pane.clone(), captures.len());
                    captures.push(SharedCapture {
                        requests: vec![waiting.len()],
                        listed,
                        spec,
                    });
                }
            }
        }
        waiting.push(Some(request));
    }
    (Requests(waiting), captures)
}

impl Requests {
    /// Returns true if a requester still waits for the capture.
    pub fn await_capture(&self, capture: &SharedCapture) -> bool {
        let mut requests = capture.requests.iter();
        requests.any(|at| self.0[*at].as_ref().is_some_and(ActiveRequest::is_awaited))
    }

    /// Hands the result of a capture to its requests, and replies to those that are complete. Only a
    /// result with several readers is cloned.
    pub fn add(&mut self, requests: &[usize], reply: Result<Option<PaneReply>>) {
        let Some((last, others)) = requests.split_last() else {
            return;
        };
        for at in others {
            let copy = match &reply {
                Ok(reply) => Ok(reply.clone()),
                Err(error) => Err(error.without_cause()),
            };
            self.add_one(*at, copy);
        }
        self.add_one(*last, reply);
    }

    /// Replies to the remaining requests with an error.
    pub fn fail(self, error: &Error) {
        let remaining = self.0.into_iter().flatten();
        remaining.for_each(|request| request.fail(error));
    }

    fn add_one(&mut self, at: usize, reply: Result<Option<PaneReply>>) {
        let Some(mut request) = self.0[at].take() else {
            return;
        };
        match reply {
            Err(error) => request.fail(&error),
            Ok(reply) => match request.add(reply) {
                true => self.0[at] = Some(request),
                false => request.finish(),
            },
        }
    }
}
