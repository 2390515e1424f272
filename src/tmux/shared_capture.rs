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

/// Collects the captures that requests need, each pane once. Replies to requests without captures.
pub(super) fn share(requests: &mut [ActiveRequest]) -> Vec<SharedCapture> {
    let mut captures: Vec<SharedCapture> = Vec::new();
    let mut of_pane: HashMap<PaneId, usize> = HashMap::new();
    for (at, request) in requests.iter_mut().enumerate() {
        request.finish();
        for (listed, spec) in std::mem::take(&mut request.captures) {
            match of_pane.get(&spec.pane).map(|at| &mut captures[*at]) {
                Some(capture) => {
                    capture.requests.push(at);
                    capture.spec.merge(spec);
                }
                None => {
                    of_pane.insert(spec.pane.clone(), captures.len());
                    captures.push(SharedCapture {
                        requests: vec![at],
                        listed,
                        spec,
                    });
                }
            }
        }
    }
    captures
}

impl SharedCapture {
    /// Returns true if a requester still waits for the capture.
    pub fn is_awaited(&self, requests: &[ActiveRequest]) -> bool {
        let mut readers = self.requests.iter();
        readers.any(|at| requests[*at].is_awaited())
    }
}

/// Hands the result of a capture to its readers among the requests. Only a result with several readers is
/// cloned.
pub(super) fn deliver(
    reply: Result<Option<PaneReply>>,
    readers: &[usize],
    requests: &mut [ActiveRequest],
) {
    let Some((last, others)) = readers.split_last() else {
        return;
    };
    for at in others {
        let copy = reply.as_ref().map_err(Error::without_cause).cloned();
        requests[*at].add(copy);
    }
    requests[*last].add(reply);
}
