//! Looks at panes: state and text of each from one command list, so that nothing moves in between.
//!
//! A pane is one line of a batch: its state, its rows, and the same rows joined to lines. tmux runs
//! such a list between two reads of the pane.

use std::fmt::Write;
use std::sync::Arc;

use super::counters::Counters;
use super::frame::{Frame, Nonce};
use super::joined;
use super::listing::ServerIdentity;
use super::listing::told_second;
use super::server::{ANSWER_BYTES_MAX, Server};
use super::state::{NUMBERS, PaneState};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::track::{Look, Modes, SavedScreen, TmuxVersion, unescape};

/// How many rows one look has at most. A longer history is not taken whole: this many rows take
/// the server some 70 ms already, and nobody else is served meanwhile.
pub const MAX_ROWS: u32 = 100_000;

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    /// The pane.
    pub pane: PaneId,
    /// How many rows of the history, above the screen.
    pub depth: u32,
    /// Whether the normal screen is wanted too, where the alternate one is shown.
    pub saved: bool,
    /// Whether all is wanted that it takes to go on from there with the pane's bytes.
    pub seam: Option<SeamShot>,
}

/// All that it takes to go on from a look with the bytes of the pane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeamShot {
    /// The tmux command that opens the pane's pipe; it is given only where there is no pipe.
    pub open: Option<String>,
}

/// What a look needs to be a seam; see [`crate::track::Seam`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeamView {
    /// How the terminal was set.
    pub modes: Modes,
    /// The beginning of an escape sequence.
    pub pending: Vec<u8>,
    /// The server's version.
    pub version: TmuxVersion,
    /// There was no pipe yet, so that the command to open one was given.
    pub was_free: bool,
}

/// A pane's state and text in one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneView {
    /// What tmux knew of it. A pane that is linked several times is seen here through any of its
    /// windows, and names are left out; the listing has them.
    pub state: PaneState,
    /// What it showed.
    pub look: Look,
    /// The rows of the screen as tmux wrote them, each ended by a line end: what
    /// [`super::probe`] gets as long as nothing changes.
    pub(super) screen: Arc<str>,
    /// In which second, since 1970, that was, by the clock that activity is dated with.
    pub(super) second: Option<i64>,
    /// What makes it a seam, where that was wanted.
    pub seam: Option<SeamView>,
}

/// What came of a shot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The pane.
    View(Box<PaneView>),
    /// There is no such pane.
    Gone,
    /// The answer was too long, or not tmux's.
    Unreadable,
}

/// Looks at panes with one tmux process: one result for each shot, in order. `known` is the server
/// that is expected: panes of another one are gone, and its bytes are counted.
///
/// # Errors
/// `is_gone()` without a server, `is_timeout()` when it does not answer.
pub fn capture(
    server: &Server,
    clock: &Clock,
    known: &ServerIdentity,
    shots: &[Shot],
) -> Result<Vec<Shown>> {
    let nonce = Nonce::fresh();
    let question = question(&nonce, known.tmux_version(), shots);
    let counters = Counters::of(known.pid);
    let bytes_before = counters.bytes();
    let answer = server.batch(question, clock)?;
    let mut shown = read(&nonce, known, &answer.text, shots);
    date(&mut shown, bytes_before, counters.bytes());
    let unreadable = shown
        .iter()
        .filter(|one| **one == Shown::Unreadable)
        .count();
    if unreadable > 0 {
        log::debug!(
            "{unreadable} of {} looks are unreadable (cut off: {}): {}",
            shots.len(),
            answer.truncated,
            answer.complaints.trim()
        );
    }
    Ok(shown)
}

/// Notes what the server had read before looks and after them.
pub(super) fn date(shown: &mut [Shown], bytes_before: Option<u64>, bytes_after: Option<u64>) {
    for one in shown {
        if let Shown::View(view) = one {
            view.look.bytes_before = bytes_before;
            view.look.bytes_after = bytes_after;
        }
    }
}

/// How deep a look at a pane of this width may go so that its answer surely fits, unless rows are
/// full of combining marks: two captures of three bytes for two columns.
pub(super) fn depth_max(width: u32) -> u32 {
    let fitting = ANSWER_BYTES_MAX / (3 * width.max(1) as usize + 2);
    MAX_ROWS.min(u32::try_from(fitting).unwrap_or(u32::MAX))
}

/// What captures each row on its own, as it was printed: blanks at its end are kept, and none are
/// added.
pub(super) fn capture_rows(version: TmuxVersion) -> &'static str {
    if version.pads_captures() {
        "capture-pane -p -N -T"
    } else {
        "capture-pane -p -N"
    }
}

pub(super) fn question(nonce: &Nonce, version: TmuxVersion, shots: &[Shot]) -> String {
    let mark = nonce.as_str();
    let capture_rows = capture_rows(version);
    let mut lines = String::new();
    for Shot {
        pane,
        depth,
        saved,
        seam,
    } in shots
    {
        let depth = depth.min(&MAX_ROWS);
        // Writing to a string cannot fail; the same below.
        // Inside the condition nothing is asked of a pane that is gone: tmux before 3.3 would end.
        // One mark a pane is enough, and cheaper: each `display-message` makes the server walk all
        // of its sessions. The number of rows is known from the state in front of them.
        let _ = write!(
            lines,
            "display-message -p -t '{pane}' '{mark}h#{{?pane_id,{NUMBERS},}}{mark}r#{{pid}} %s'; \
             {capture_rows} -S -{depth} -t '{pane}'; capture-pane -p -J -S -{depth} -t '{pane}'"
        );
        if *saved {
            // The saved screen keeps the size that it had, so its rows are marked. -q: no
            // complaint where there is none.
            let _ = write!(
                lines,
                "; display-message -p '{mark}s'; {capture_rows} -q -a -t '{pane}'; \
                 display-message -p '{mark}t'; capture-pane -p -q -a -J -t '{pane}'"
            );
        }
        if let Some(seam) = seam {
            let _ = write!(
                lines,
                "; display-message -p -t '{pane}' '{mark}m{modes}{mark}c'; \
                 capture-pane -p -P -C -t '{pane}'; \
                 display-message -p -t '{pane}' '{mark}p#{{pane_pipe}}'",
                modes = Modes::FORMAT
            );
            if let Some(open) = &seam.open {
                let _ = write!(
                    lines,
                    "; if-shell -F -t '{pane}' '#{{pane_pipe}}' '' '{open}'"
                );
            }
        }
        lines.push('\n');
    }
    let _ = writeln!(lines, "display-message -p '{mark}z'");
    lines
}

pub(super) fn read(
    nonce: &Nonce,
    known: &ServerIdentity,
    answer: &str,
    shots: &[Shot],
) -> Vec<Shown> {
    let frames = nonce.frames(answer).unwrap_or_default();
    // Without its end an answer was cut off, and what stands last may be a part only.
    let (frames, whole) = match frames.split_last() {
        Some((last, rest)) if last.tag == b'z' => (rest, usize::MAX),
        _ => (
            frames.as_slice(),
            frames
                .iter()
                .filter(|frame| frame.tag == b'h')
                .count()
                .max(1)
                - 1,
        ),
    };
    let mut groups = frames.chunk_by(|_, next| next.tag != b'h').take(whole);
    shots
        .iter()
        .map(|shot| {
            let group = groups.next().unwrap_or_default();
            read_one(shot, known, group).unwrap_or(Shown::Unreadable)
        })
        .collect()
}

/// `None` when the frames are not an answer to the shot.
fn read_one(shot: &Shot, known: &ServerIdentity, frames: &[Frame<'_>]) -> Option<Shown> {
    let (header, frames) = frames.split_first()?;
    let (first, frames) = frames.split_first()?;
    let (words, text) = first.body.split_once('\n')?;
    let (pid, second) = words.split_once(' ').unwrap_or((words, ""));
    if header.tag != b'h' || first.tag != b'r' {
        return None;
    }
    let Some(mut state) = PaneState::read(header.body) else {
        // A missing pane is answered too, with nothing in the places of its fields.
        let missing = header.body.bytes().all(|byte| byte == b' ') && text.is_empty();
        return (missing && frames.is_empty()).then_some(Shown::Gone);
    };
    if pid.parse() != Ok(known.pid) {
        return Some(Shown::Gone);
    }
    if state.pane() != shot.pane {
        return None;
    }
    // Where frames are missing, it ended between the commands of one list, which tmux does not do.
    let (saved, frames) = match (shot.saved, frames) {
        (false, rest) => (None, rest),
        (true, [s, t, rest @ ..]) if (s.tag, t.tag) == (b's', b't') => (Some((s, t)), rest),
        _ => return None,
    };
    let seam = match (&shot.seam, frames) {
        (None, []) => None,
        (Some(_), [m, c, p]) if (m.tag, c.tag, p.tag) == (b'm', b'c', b'p') => Some(SeamView {
            modes: Modes::read(m.body),
            pending: unescape(body_of(c)?),
            version: known.tmux_version(),
            was_free: p.body.trim_end() == "0",
        }),
        _ => return None,
    };
    let depth = shot.depth.min(MAX_ROWS).min(state.history_size);
    let (screen, _) = after_lines(after_lines(text, depth as usize)?.1, state.height as usize)?;
    let screen = screen.into();
    let (rows, joined) = after_lines(text, (depth + state.height) as usize)?;
    let rows = joined::rows(one_end_less(rows), one_end_less(joined), state.width);
    let saved = match saved.filter(|_| state.alternate) {
        Some((s, t)) => Some(SavedScreen {
            cursor: state.saved_cursor,
            rows: joined::rows(body_of(s)?, body_of(t)?, state.width),
        }),
        None => None,
    };
    // What the pane is called is not asked here.
    state.owned = true;
    let look = Look {
        width: state.width,
        height: state.height,
        history_size: state.history_size,
        history_limit: state.history_limit,
        cursor: state.cursor,
        alternate: state.alternate,
        dead: state.dead,
        pid: state.pid,
        rows,
        saved,
        ..Look::default()
    };
    let view = PaneView {
        state,
        look,
        screen,
        second: told_second(second),
        seam,
    };
    Some(Shown::View(Box::new(view)))
}

/// The first lines of a text, so many, and what follows them: at least one more line.
fn after_lines(text: &str, lines: usize) -> Option<(&str, &str)> {
    let end = match lines.checked_sub(1) {
        Some(last) => text.match_indices('\n').nth(last)?.0 + 1,
        None => 0,
    };
    let (first, rest) = text.split_at(end);
    rest.ends_with('\n').then_some((first, rest))
}

/// The text after a frame's own line end.
fn body_of<'a>(frame: &Frame<'a>) -> Option<&'a str> {
    frame.body.strip_prefix('\n').map(one_end_less)
}

/// `capture-pane` ends its output with one line end.
fn one_end_less(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Cursor;

    const NUMBERS_7: &str = "%7 $3 @2 9 0 0 1 1 5 2 1 2000 2 1 0   0 0   1 0 5";

    fn known() -> ServerIdentity {
        ServerIdentity {
            pid: 42,
            ..ServerIdentity::default()
        }
    }

    fn shot(pane: &str, saved: bool) -> Shot {
        Shot {
            pane: pane.into(),
            depth: 10,
            saved,
            seam: None,
        }
    }

    fn read_all(answer: &str, shots: &[Shot]) -> Vec<Shown> {
        read(
            &Nonce::fixed("NN"),
            &known(),
            &format!("{answer}NNz\n"),
            shots,
        )
    }

    fn answer(numbers: &str, pid: u32, rows: &str, joined: &str) -> String {
        format!("NNh{numbers}NNr{pid}\n{rows}\n{joined}\n")
    }

    #[test]
    fn a_missing_pane_does_not_shift_the_others() {
        let missing = format!("NNh{}NNr42\n", " ".repeat(23));
        let text = missing.clone() + &answer(NUMBERS_7, 42, "12345\n67\n", "1234567\n") + &missing;
        let shown = read_all(
            &text,
            &[shot("%1", false), shot("%7", false), shot("%8", true)],
        );
        let [Shown::Gone, Shown::View(view), Shown::Gone] = shown.as_slice() else {
            panic!("{shown:?}")
        };
        let rows: Vec<_> = view
            .look
            .rows
            .iter()
            .map(|row| (&*row.text, row.wrapped))
            .collect();
        assert_eq!(rows, [("12345", true), ("67", false), ("", false)]);
        assert_eq!(view.look.cursor, Cursor { x: 2, y: 1 });
        assert!(view.look.is_complete());
    }

    #[test]
    fn what_is_not_an_answer_is_not_read() {
        let shots = [shot("%7", false)];
        let good = answer(NUMBERS_7, 42, "a\nb\nc", "a\nb\nc");
        assert!(matches!(read_all(&good, &shots)[..], [Shown::View(_)]));
        for bad in [
            String::new(),
            "no mark at all".into(),
            format!("x{good}"),
            answer(NUMBERS_7, 42, "a\nb", "a"),
            good.replace("%7", "%6"),
            good.replace("NNr", "NNx"),
            format!("{good}NNs\n"),
        ] {
            assert_eq!(read_all(&bad, &shots), [Shown::Unreadable], "{bad:?}");
        }
        assert_eq!(read_all(&good, &[shot("%7", true)]), [Shown::Unreadable]);
        assert_eq!(
            read_all(&good.replace("r42", "r43"), &shots),
            [Shown::Gone],
            "another server"
        );
        assert_eq!(
            read_all(&good, &[shots[0].clone(), shot("%8", false)])[1],
            Shown::Unreadable
        );
        let cut_off = read(
            &Nonce::fixed("NN"),
            &known(),
            &format!("{good}{good}"),
            &[shots[0].clone(), shots[0].clone()],
        );
        assert!(
            matches!(cut_off[..], [Shown::View(_), Shown::Unreadable]),
            "{cut_off:?}"
        );
    }

    #[test]
    fn the_saved_screen_counts_only_behind_the_alternate_one() {
        let saved = |alternate: &str| {
            let numbers = NUMBERS_7.replace(" 2 1 0   ", &format!(" 2 1 {alternate} 3 4 "));
            let text = format!("NNh{numbers}NNr42\na\nb\nc\na\nb\nc\nNNs\nold\n\nNNt\nold\n\n");
            match read_all(&text, &[shot("%7", true)]).remove(0) {
                Shown::View(view) => view.look.saved,
                other => panic!("{other:?}"),
            }
        };
        let screen = saved("1").unwrap();
        assert_eq!(screen.cursor, Cursor { x: 3, y: 4 });
        assert_eq!(screen.rows.len(), 2);
        assert_eq!(saved("0"), None);
    }
}
