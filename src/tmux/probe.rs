//! The probe: a cheap query that finds changed panes, including the screens of panes whose numbers are not
//! conclusive.
//!
//! A capture costs the server about 0.25 ms, most of it for format variables; a screen alone costs 0.03 ms.
//! Most panes have not changed, so a probe comes first. If few panes are polled, speculative captures come
//! with the probe, which is cheaper and faster than another process.

use std::fmt::Write;

use super::capture::{CaptureResult, CaptureSpec, capture_rows, capture_with};
use super::listing::{Listing, ServerIdentity, refresh_commands};
use super::server::Nonce;
use super::server::Server;
use crate::clock::Clock;
use crate::error::Result;
use crate::track::TmuxVersion;

/// A screen to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScreenSpec {
    /// The number of the pane's id.
    pub pane: u32,
    /// Its last known height in rows.
    pub height: u32,
}

/// The result of a probe.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeResult {
    /// The present state of the known panes. `None` if the set of panes differs or was not queried.
    pub listing: Option<Listing>,
    /// The screens, in the order of the request. Empty if their heights differ from the expected heights.
    pub screens: Vec<String>,
    /// The speculative captures, in the order of the request.
    pub captures: Vec<CaptureResult>,
}

/// Queries the numbers of all known panes, if any, and captures screens and panes of the expected server.
///
/// # Errors
/// `is_gone()` without a server, `is_timeout()` if it does not reply.
pub(super) fn probe(
    server: &Server,
    clock: &Clock,
    known: Option<&Listing>,
    screens: &[ScreenSpec],
    (identity, speculative): (&ServerIdentity, &[CaptureSpec]),
) -> Result<ProbeResult> {
    let nonce = Nonce::fresh();
    let lines = commands(&nonce, known.is_some(), identity.tmux_version(), screens);
    let (output, captures) = match speculative.is_empty() {
        true => (server.batch(lines, clock)?.text, Vec::new()),
        false => capture_with(server, clock, lines, (identity, speculative))?,
    };
    Ok(ProbeResult {
        captures,
        ..parse(&nonce, &output, known, screens)
    })
}

fn commands(nonce: &Nonce, lists: bool, version: TmuxVersion, screens: &[ScreenSpec]) -> String {
    let mark = nonce.as_str();
    let refresh = match lists {
        true => refresh_commands(),
        false => String::new(),
    };
    let mut lines = format!("display-message -p '{mark}l'\n{refresh}");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(lines, "display-message -p '{mark}s'");
    let capture_rows = capture_rows(version);
    for ScreenSpec { pane, .. } in screens {
        let _ = writeln!(lines, "{capture_rows} -t '%{pane}'");
    }
    let _ = writeln!(lines, "display-message -p '{mark}z'");
    lines
}

fn parse(
    nonce: &Nonce,
    output: &str,
    known: Option<&Listing>,
    screens: &[ScreenSpec],
) -> ProbeResult {
    let sections = nonce.sections(output).unwrap_or_default();
    let [(b'l', listed), (b's', captured), (b'z', _)] = sections[..] else {
        return ProbeResult::default();
    };
    ProbeResult {
        listing: listed
            .strip_prefix('\n')
            .and_then(|listed| known?.refreshed(listed)),
        screens: captured
            .strip_prefix('\n')
            .and_then(|captured| split_screens(captured, screens))
            .unwrap_or_default(),
        captures: Vec::new(),
    }
}

/// Splits the rows into screens. A screen that has become higher or no longer exists shifts all later ones;
/// the total then differs, and no screen is used.
fn split_screens(mut rows: &str, screens: &[ScreenSpec]) -> Option<Vec<String>> {
    let mut split = Vec::with_capacity(screens.len());
    for ScreenSpec { height, .. } in screens {
        let last_row = height.checked_sub(1)? as usize;
        let (end, _) = rows.match_indices('\n').nth(last_row)?;
        let (screen, rest) = rows.split_at(end + 1);
        split.push(screen.to_owned());
        rows = rest;
    }
    rows.is_empty().then_some(split)
}

#[cfg(test)]
mod tests {
    use super::super::listing::tests::listing;
    use super::super::state::tests::state;
    use super::*;

    fn screen(pane: u32, height: u32) -> ScreenSpec {
        ScreenSpec { pane, height }
    }

    #[test]
    fn screens_are_split_by_their_heights_or_not_at_all() {
        let wanted = [screen(1, 2), screen(2, 1)];
        assert_eq!(
            split_screens("a\nb\nc\n", &wanted).unwrap(),
            ["a\nb\n", "c\n"]
        );
        for other in ["a\nb\n", "a\nb\nc\nd\n", "a\nb\nc", ""] {
            assert_eq!(split_screens(other, &wanted), None, "{other:?}");
        }
        assert_eq!(split_screens("", &[]).unwrap(), Vec::<String>::new());
        assert_eq!(split_screens("", &[screen(1, 0)]), None);
    }

    #[test]
    fn other_panes_and_truncated_output_are_not_used() {
        let nonce = Nonce::fixed("NN");
        let mut known = listing(vec![state(1, (1, "a"), (1, 0, "w"), 0)]);
        known.server.pid = 42;
        let line = "%1 $1 80 24 3 0 0 0 0   1 5 0 t\n";
        let output = format!("NNl\n42 0 9\n{line}NNs\na\nNNz\n");
        let wanted = [screen(1, 1)];
        let probed = parse(&nonce, &output, Some(&known), &wanted);
        assert_eq!(probed.listing.unwrap().panes[0].history_size, 3);
        assert_eq!(probed.screens, ["a\n"]);
        let other = parse(&nonce, &output.replace("%1", "%2"), Some(&known), &wanted);
        assert_eq!((other.listing, other.screens.len()), (None, 1));
        let truncated = output.strip_suffix("NNz\n").unwrap();
        assert_eq!(
            parse(&nonce, truncated, Some(&known), &wanted),
            ProbeResult::default()
        );
    }
}
