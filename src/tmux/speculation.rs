//! Speculative captures, taken with a probe before it is known if the panes have changed (pure).
//!
//! For a few panes, a capture with the probe takes less time in the server than starting another process, and
//! arrives sooner. On two busy processors, waits that poll every 50 ms take 12 to 14 ms with them and 20 ms
//! without; those that poll every 200 ms, beside 20 printing panes, take 96 to 101 ms and 114 to 122 ms.

use std::collections::HashMap;

use super::capture::{CaptureResult, CaptureSpec};
use super::digest::Margin;
use super::digest::{CaptureDigest, Freshness};
use super::request::CaptureRequest;
use crate::event::PaneId;

/// The maximum number of panes: as many as the server captures in the time that tmux takes to start.
const PANES_MAX: usize = 4;

/// The number of rows that a pane may have printed for its capture to be deep enough. They cost less than the
/// rest of the capture.
const ROWS: u32 = 64;

/// Returns the captures to take with the next probe: those of all panes that may have changed, or none.
pub(super) fn speculative_captures<'a>(
    requests: impl Iterator<Item = (&'a PaneId, &'a CaptureRequest, &'a CaptureDigest)>,
    now: Freshness,
) -> Vec<CaptureSpec> {
    let mut specs: Vec<CaptureSpec> = Vec::new();
    for (pane, request, known) in requests {
        let Margin::Rows(rows) = request.margin else {
            continue;
        };
        if request.is_resting || known.nothing_read(now.server_bytes) {
            continue;
        }
        let spec = CaptureSpec {
            pane: pane.clone(),
            depth: rows.saturating_add(ROWS),
            saved: known.numbers.alternate,
            resync: None,
        };
        match specs.iter().position(|other| other.pane == spec.pane) {
            Some(at) => specs[at].merge(spec),
            None if specs.len() == PANES_MAX => return Vec::new(),
            None => specs.push(spec),
        }
    }
    specs
}

/// The results of speculative captures.
#[derive(Debug, Default)]
pub(super) struct Speculations {
    captures: HashMap<PaneId, (CaptureSpec, CaptureResult)>,
    /// The time just before the captures.
    pub freshness: Freshness,
}

impl Speculations {
    pub fn new(specs: Vec<CaptureSpec>, results: Vec<CaptureResult>, freshness: Freshness) -> Self {
        let captures = specs.into_iter().zip(results);
        Self {
            captures: captures
                .map(|(spec, result)| (spec.pane.clone(), (spec, result)))
                .collect(),
            freshness,
        }
    }

    /// Takes the result that can be used for a capture, if any.
    pub fn take_for(&mut self, wanted: &CaptureSpec) -> Option<CaptureResult> {
        let (spec, result) = self.captures.remove(&wanted.pane)?;
        let serves = matches!(result, CaptureResult::Captured(_))
            && wanted.resync.is_none()
            && spec.depth >= wanted.depth
            && (spec.saved || !wanted.saved);
        serves.then_some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_panes_are_captured_and_many_are_not() {
        let request = |rows| CaptureRequest {
            known: None,
            margin: Margin::Rows(rows),
            settles_at: None,
            is_resting: false,
        };
        let resting = CaptureRequest {
            is_resting: true,
            ..request(0)
        };
        let deep = CaptureRequest {
            margin: Margin::All,
            ..request(0)
        };
        let (few, more) = (request(10), request(20));
        let known = CaptureDigest::default();
        let ids: Vec<PaneId> = (0..=PANES_MAX).map(|n| format!("%{n}").into()).collect();
        let of = |requests: &[(usize, &CaptureRequest)], known: &CaptureDigest, now| {
            let requests = requests
                .iter()
                .map(|(at, request)| (&ids[*at], *request, known));
            let specs = speculative_captures(requests, now);
            specs.iter().map(|spec| spec.depth).collect::<Vec<_>>()
        };
        let now = Freshness {
            server_bytes: Some(7),
            ..Freshness::default()
        };
        assert_eq!(
            of(&[(0, &few), (0, &more), (1, &few), (2, &deep)], &known, now),
            [84, 74]
        );
        let many: Vec<_> = (0..=PANES_MAX).map(|at| (at, &few)).collect();
        assert!(of(&many, &known, now).is_empty());
        let quiet = CaptureDigest {
            freshness: now,
            ..CaptureDigest::default()
        };
        assert!(of(&[(0, &few)], &quiet, now).is_empty(), "nothing was read");
        assert!(
            of(&[(0, &resting)], &known, now).is_empty(),
            "it is resting"
        );
    }
}
