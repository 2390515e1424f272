//! The probe: one cheap question that tells which panes changed, and shows the screens of those of
//! which numbers alone cannot tell.
//!
//! A look at a pane costs the server about 0.25 ms, most of it for formats, and a captured screen
//! 0.03 ms. Most panes show what they showed, so it pays to ask that first. Where only a few are
//! of interest, looks at them come along: cheaper than another process, and sooner.

use std::fmt::Write;

use super::capture::{self, Shot, Shown, capture_rows};
use super::counters::Counters;
use super::frame::{Frame, Nonce};
use super::listing::{Listing, ServerIdentity, changing};
use super::server::Server;
use crate::clock::Clock;
use crate::error::Result;
use crate::track::TmuxVersion;

/// A screen that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Screen {
    /// The number in the pane's id.
    pub pane: u32,
    /// Its rows, as far as is known.
    pub height: u32,
}

/// What a probe told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Probed {
    /// The panes as they are now; `None` when there are others than were known, or they were not
    /// asked for.
    pub listing: Option<Listing>,
    /// The screens, as they were asked for; none at all when they do not have the rows that were
    /// expected.
    pub screens: Vec<String>,
    /// The looks, as they were asked for.
    pub looks: Vec<Shown>,
}

/// Asks for the numbers of all panes that are known, if there are some, for screens, and for looks
/// at panes of the server that is expected.
///
/// # Errors
/// `is_gone()` without a server, `is_timeout()` when it does not answer.
pub(super) fn probe(
    server: &Server,
    clock: &Clock,
    known: Option<&Listing>,
    screens: &[Screen],
    (of, shots): (&ServerIdentity, &[Shot]),
) -> Result<Probed> {
    let (nonce, of_looks) = (Nonce::fresh(), Nonce::fresh());
    let mut lines = question(&nonce, known.is_some(), (of.tmux_version(), screens));
    if shots.is_empty() {
        let answer = server.batch(lines, clock)?;
        return Ok(read(&nonce, &answer.text, known, screens));
    }
    lines += &capture::question(&of_looks, of.tmux_version(), shots);
    let counters = Counters::of(of.pid);
    let bytes_before = counters.bytes();
    let answer = server.batch(lines, clock)?;
    let end = answer.text.find(of_looks.as_str());
    let (probed, looks) = answer.text.split_at(end.unwrap_or(answer.text.len()));
    let mut looks = capture::read(&of_looks, of, looks, shots);
    capture::date(&mut looks, bytes_before, counters.bytes());
    Ok(Probed {
        looks,
        ..read(&nonce, probed, known, screens)
    })
}

fn question(nonce: &Nonce, lists: bool, (version, screens): (TmuxVersion, &[Screen])) -> String {
    let mark = nonce.as_str();
    let listing = if lists { changing() } else { String::new() };
    let mut lines = format!("display-message -p '{mark}l'\n{listing}");
    // Writing to a string cannot fail; the same below.
    let _ = writeln!(lines, "display-message -p '{mark}s'");
    let capture_rows = capture_rows(version);
    for Screen { pane, .. } in screens {
        let _ = writeln!(lines, "{capture_rows} -t '%{pane}'");
    }
    let _ = writeln!(lines, "display-message -p '{mark}z'");
    lines
}

fn read(nonce: &Nonce, answer: &str, known: Option<&Listing>, screens: &[Screen]) -> Probed {
    let frames = nonce.frames(answer).unwrap_or_default();
    let [
        Frame {
            tag: b'l',
            body: listed,
        },
        Frame {
            tag: b's',
            body: shown,
        },
        Frame { tag: b'z', .. },
    ] = frames[..]
    else {
        return Probed::default();
    };
    Probed {
        listing: listed
            .strip_prefix('\n')
            .and_then(|listed| known?.refreshed(listed)),
        screens: shown
            .strip_prefix('\n')
            .and_then(|shown| cut(shown, screens))
            .unwrap_or_default(),
        looks: Vec::new(),
    }
}

/// The rows of each screen. One that has become higher or is gone shifts all that follow: then the
/// sum is another, and nothing is believed.
fn cut(mut shown: &str, screens: &[Screen]) -> Option<Vec<String>> {
    let mut cut = Vec::with_capacity(screens.len());
    for Screen { height, .. } in screens {
        let last_row = height.checked_sub(1)? as usize;
        let (end, _) = shown.match_indices('\n').nth(last_row)?;
        let (screen, rest) = shown.split_at(end + 1);
        cut.push(screen.to_owned());
        shown = rest;
    }
    shown.is_empty().then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::super::listing::tests::listing;
    use super::super::state::tests::state;
    use super::*;

    fn screen(pane: u32, height: u32) -> Screen {
        Screen { pane, height }
    }

    #[test]
    fn screens_are_cut_by_their_heights_or_not_at_all() {
        let wanted = [screen(1, 2), screen(2, 1)];
        assert_eq!(cut("a\nb\nc\n", &wanted).unwrap(), ["a\nb\n", "c\n"]);
        for other in ["a\nb\n", "a\nb\nc\nd\n", "a\nb\nc", ""] {
            assert_eq!(cut(other, &wanted), None, "{other:?}");
        }
        assert_eq!(cut("", &[]).unwrap(), Vec::<String>::new());
        assert_eq!(cut("", &[screen(1, 0)]), None);
    }

    #[test]
    fn other_panes_and_torn_answers_are_not_believed() {
        let nonce = Nonce::fixed("NN");
        let mut known = listing(vec![state(1, (1, "a"), (1, 0, "w"), 0)]);
        known.server.pid = 42;
        let line = "%1 $1 80 24 3 0 0 0 0   1 5 t\n";
        let answer = format!("NNl\n42 0 9\n{line}NNs\na\nNNz\n");
        let wanted = [screen(1, 1)];
        let probed = read(&nonce, &answer, Some(&known), &wanted);
        assert_eq!(probed.listing.unwrap().panes[0].history_size, 3);
        assert_eq!(probed.screens, ["a\n"]);
        let other = read(&nonce, &answer.replace("%1", "%2"), Some(&known), &wanted);
        assert_eq!((other.listing, other.screens.len()), (None, 1));
        let torn = answer.strip_suffix("NNz\n").unwrap();
        assert_eq!(read(&nonce, torn, Some(&known), &wanted), Probed::default());
    }
}
