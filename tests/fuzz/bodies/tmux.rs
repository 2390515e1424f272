//! Any text as the output of tmux: each requested capture has a result, which is of the requested pane, and
//! each pane of a listing has one owner.
//!
//! The first two bytes select the captures.

use std::collections::HashSet;

use td_observe::internals::fuzzing::{captures, listing};
use td_observe::internals::tmux::{CaptureResult, CaptureSpec, ResyncSpec};

pub fn run(bytes: &[u8]) {
    let Some((&[how, depth], output)) = bytes.split_first_chunk() else {
        return;
    };
    let output = String::from_utf8_lossy(output);
    let spec = |pane: &str, bits: u8| CaptureSpec {
        pane: pane.into(),
        depth: if bits & 4 == 0 {
            depth.into()
        } else {
            u32::MAX
        },
        saved: bits & 1 != 0,
        resync: (bits & 2 != 0).then_some(ResyncSpec { open_pipe: None }),
    };
    let specs = [spec("%7", how), spec("%7", how >> 3), spec("%1", how >> 5)];
    let results = captures(&output, &specs);
    assert_eq!(results.len(), specs.len());
    for (result, spec) in results.iter().zip(&specs) {
        if let CaptureResult::Captured(pane) = result {
            assert_eq!(pane.state.pane(), spec.pane);
            assert_eq!(pane.resync.is_some(), spec.resync.is_some());
            assert!(pane.capture.saved.is_none() || spec.saved);
            // Each row takes at least a line feed.
            assert!(pane.capture.rows.len() <= output.len() + 1);
        }
    }
    let Some(listed) = listing(&output) else {
        return;
    };
    let mut owned = HashSet::new();
    for state in listed.panes.iter().filter(|state| state.owned) {
        assert!(owned.insert(state.pane()), "two owners");
    }
    assert!(
        listed
            .panes
            .iter()
            .all(|state| owned.contains(&state.pane()))
    );
}
