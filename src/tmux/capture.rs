//! Captures of panes: one command list returns the state and the text of each pane, so that both are from the
//! same instant.
//!
//! Each pane is one line of a batch: its state, its rows, and the same rows joined to lines. tmux runs such a
//! command list between two reads of the pane.

use std::fmt::Write;

use super::counters::Counters;
use super::digest::{CaptureDigest, Freshness};
use super::joined;
use super::listing::{ServerIdentity, parse_second};
use super::sections::{Nonce, Section};
use super::server::{OUTPUT_BYTES_MAX, Server};
use super::state::{FORMAT, PaneState};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::track::{Capture, SavedScreen, TerminalModes, TmuxVersion, unescape};

/// The maximum number of history rows in one capture. Such a capture takes the server about 70 ms, during
/// which it serves no other client.
pub const CAPTURE_ROWS_MAX: u32 = 100_000;

/// The extent of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureSpec {
    /// The pane.
    pub pane: PaneId,
    /// The number of history rows to capture above the screen.
    pub depth: u32,
    /// Also captures the normal screen while the alternate screen is shown.
    pub saved: bool,
    /// Also captures the data needed to continue with the pane's bytes.
    pub resync: Option<ResyncSpec>,
}

impl CaptureSpec {
    /// Extends the capture to cover another capture of the same pane.
    pub(super) fn merge(&mut self, other: Self) {
        self.depth = self.depth.max(other.depth);
        self.saved |= other.saved;
        self.resync = self.resync.take().or(other.resync);
    }
}

/// The additional steps of a capture from which the stream of the pane's bytes continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResyncSpec {
    /// The tmux command that opens the pane's pipe; it runs only if the pane has no pipe.
    pub open_pipe: Option<String>,
}

/// The additional state of the terminal that is needed to continue from a capture with the pane's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResyncData {
    /// The modes of the terminal.
    pub modes: TerminalModes,
    /// The incomplete escape sequence at the end of the pane's output.
    pub pending: Vec<u8>,
    /// The server's version.
    pub version: TmuxVersion,
    /// True if the pane had no pipe before, so that `open_pipe` ran.
    pub was_unpiped: bool,
}

/// The state and text of a pane at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneCapture {
    /// The state. It has no names until `PaneCapture::adopt_listed`: tmux may resolve a pane that is linked
    /// several times through any of its windows, and the listing has the owner's names.
    pub state: PaneState,
    /// The text.
    pub capture: Capture,
    /// The digest to pass with the next request. Its screen is the text as tmux wrote it, with a line feed
    /// after each row; a probe returns the same text while nothing changes.
    pub digest: CaptureDigest,
    /// The data for a resync, if it was requested.
    pub resync: Option<ResyncData>,
}

impl PaneCapture {
    /// Completes the capture with the listed state of the pane and the time just before the query.
    pub(super) fn adopt_listed(&mut self, listed: PaneState, queried: Freshness) {
        let Self {
            state,
            capture,
            digest,
            ..
        } = self;
        state.keep_pid(listed.pid);
        state.adopt_owner(listed);
        (capture.pid, capture.dead, capture.at) = (state.pid, state.dead, queried.at);
        digest.describe(state);
        digest.freshness.at = queried.at;
        if digest.freshness.second == 0 {
            digest.freshness.second = queried.second;
        }
    }
}

/// The result of one capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureResult {
    /// The pane's state and text.
    Captured(Box<PaneCapture>),
    /// The server has no such pane.
    Gone,
    /// The output is truncated or not from tmux.
    Unreadable,
}

/// Captures panes with one tmux process and returns one result for each, in order. `known` is the expected
/// server; panes of another server are reported as gone.
///
/// # Errors
/// `is_gone()` without a server, `is_timeout()` if it does not reply.
pub fn capture(
    server: &Server,
    clock: &Clock,
    known: &ServerIdentity,
    specs: &[CaptureSpec],
) -> Result<Vec<CaptureResult>> {
    capture_with(server, clock, String::new(), (known, specs)).map(|(_, results)| results)
}

/// Captures panes after other commands, in the same process. Also returns the output of the other commands.
///
/// # Errors
/// Those of [`capture`].
pub(super) fn capture_with(
    server: &Server,
    clock: &Clock,
    mut lines: String,
    (known, specs): (&ServerIdentity, &[CaptureSpec]),
) -> Result<(String, Vec<CaptureResult>)> {
    let nonce = Nonce::fresh();
    add_commands(&mut lines, &nonce, known.tmux_version(), specs);
    let counters = Counters::of(known.pid);
    let bytes_before = counters.bytes();
    let mut output = server.batch(lines, clock)?;
    let bytes_after = counters.bytes();
    let other = output.text.find(nonce.as_str());
    let captured = output.text.split_off(other.unwrap_or(output.text.len()));
    let mut results = parse(&nonce, known, &captured, specs);
    let mut unreadable = 0;
    for result in &mut results {
        match result {
            CaptureResult::Captured(pane) => {
                pane.capture.bytes_before = bytes_before;
                pane.capture.bytes_after = bytes_after;
                pane.digest.freshness.server_bytes = bytes_before;
            }
            CaptureResult::Gone => {}
            CaptureResult::Unreadable => unreadable += 1,
        }
    }
    if unreadable > 0 {
        log::debug!(
            "{unreadable} of {} captures are unreadable (truncated: {}): {}",
            specs.len(),
            output.truncated,
            output.errors.trim()
        );
    }
    Ok((output.text, results))
}

/// Returns the depth at which the output for a pane of this width fits, unless its rows are full of combining
/// marks. Assumes two captures with three bytes for two columns.
pub(super) fn depth_max(width: u32) -> u32 {
    let fitting = OUTPUT_BYTES_MAX / (3 * width.max(1) as usize + 2);
    CAPTURE_ROWS_MAX.min(u32::try_from(fitting).unwrap_or(u32::MAX))
}

/// Returns the command that captures each row as it was printed, keeping trailing blanks and adding none.
pub(super) fn capture_rows(version: TmuxVersion) -> &'static str {
    if version.pads_captures() {
        "capture-pane -p -N -T"
    } else {
        "capture-pane -p -N"
    }
}

fn add_commands(lines: &mut String, nonce: &Nonce, version: TmuxVersion, specs: &[CaptureSpec]) {
    let mark = nonce.as_str();
    let capture_rows = capture_rows(version);
    for CaptureSpec {
        pane,
        depth,
        saved,
        resync,
    } in specs
    {
        let depth = depth.min(&CAPTURE_ROWS_MAX);
        // Writing to a string cannot fail, here and below. The condition guards against a missing pane, for
        // which tmux before 3.3 would crash. One mark per pane is cheapest, because each `display-message`
        // makes the server visit all of its sessions. The state, which comes first, determines the number of
        // rows.
        let _ = write!(
            lines,
            "display-message -p -t '{pane}' '{mark}h#{{?pane_id,{FORMAT},}}{mark}r#{{pid}} %s'; \
             {capture_rows} -S -{depth} -t '{pane}'; capture-pane -p -J -S -{depth} -t '{pane}'"
        );
        if *saved {
            // The saved screen keeps its former size, so its rows have marks. -q suppresses the error message
            // if there is no saved screen.
            let _ = write!(
                lines,
                "; display-message -p '{mark}s'; {capture_rows} -q -a -t '{pane}'; \
                 display-message -p '{mark}t'; capture-pane -p -q -a -J -t '{pane}'"
            );
        }
        if let Some(resync) = resync {
            let _ = write!(
                lines,
                "; display-message -p -t '{pane}' '{mark}m{modes}{mark}c'; \
                 capture-pane -p -P -C -t '{pane}'; \
                 display-message -p -t '{pane}' '{mark}p#{{pane_pipe}}'",
                modes = TerminalModes::FORMAT
            );
            if let Some(open) = &resync.open_pipe {
                let _ = write!(
                    lines,
                    "; if-shell -F -t '{pane}' '#{{pane_pipe}}' '' '{open}'"
                );
            }
        }
        lines.push('\n');
    }
    let _ = writeln!(lines, "display-message -p '{mark}z'");
}

/// Parses the output into one result for each capture.
pub(crate) fn parse(
    nonce: &Nonce,
    known: &ServerIdentity,
    output: &str,
    specs: &[CaptureSpec],
) -> Vec<CaptureResult> {
    let sections = nonce.sections(output).unwrap_or_default();
    // Without the end mark, the output is truncated and the last pane may be incomplete.
    let (sections, is_complete) = match &sections[..] {
        [rest @ .., (b'z', _)] => (rest, true),
        all => (all, false),
    };
    let mut panes: Vec<&[Section<'_>]> = sections.chunk_by(|_, next| next.0 != b'h').collect();
    if !is_complete {
        panes.pop();
    }
    let mut panes = panes.into_iter();
    specs
        .iter()
        .map(|spec| {
            let sections = panes.next().unwrap_or_default();
            parse_one(spec, known, sections).unwrap_or(CaptureResult::Unreadable)
        })
        .collect()
}

/// Parses the sections of one pane; `None` if they do not belong to this capture.
fn parse_one(
    spec: &CaptureSpec,
    known: &ServerIdentity,
    sections: &[Section<'_>],
) -> Option<CaptureResult> {
    let [(b'h', header), (b'r', first), sections @ ..] = sections else {
        return None;
    };
    let (words, text) = first.split_once('\n')?;
    let (pid, second) = words.split_once(' ').unwrap_or((words, ""));
    let Some(mut state) = PaneState::parse(header) else {
        // For a missing pane, tmux prints only the blanks between the fields.
        let is_missing = header.bytes().all(|byte| byte == b' ') && text.is_empty();
        return (is_missing && sections.is_empty()).then_some(CaptureResult::Gone);
    };
    if pid.parse() != Ok(known.pid) {
        return Some(CaptureResult::Gone);
    }
    if state.pane() != spec.pane {
        return None;
    }
    // tmux never stops within a command list, so no section is missing.
    let (saved, sections) = match (spec.saved, sections) {
        (false, rest) => (None, rest),
        (true, [(b's', rows), (b't', joined), rest @ ..]) => (Some((rows, joined)), rest),
        _ => return None,
    };
    let resync = match (&spec.resync, sections) {
        (None, []) => None,
        (Some(_), [(b'm', modes), (b'c', pending), (b'p', piped)]) => Some(ResyncData {
            modes: TerminalModes::read(modes),
            pending: unescape(captured_text(pending)?),
            version: known.tmux_version(),
            was_unpiped: piped.trim_end() == "0",
        }),
        _ => return None,
    };
    let depth = spec.depth.min(CAPTURE_ROWS_MAX).min(state.history_size);
    let (screen, _) = split_lines(split_lines(text, depth as usize)?.1, state.height as usize)?;
    let screen = screen.into();
    let (rows, joined) = split_lines(text, depth.saturating_add(state.height) as usize)?;
    let rows = joined::rows(chomp(rows), chomp(joined), state.width);
    let saved = match saved.filter(|_| state.alternate) {
        Some((rows, joined)) => Some(SavedScreen {
            cursor: state.saved_cursor,
            rows: joined::rows(captured_text(rows)?, captured_text(joined)?, state.width),
        }),
        None => None,
    };
    state.owned = true;
    let capture = Capture {
        numbers: state.numbers,
        rows,
        saved,
        ..Capture::default()
    };
    let freshness = Freshness {
        // By the clock that dates activity. 0 if it is unknown, until `adopt_listed`.
        second: parse_second(second).unwrap_or_default(),
        ..Freshness::default()
    };
    Some(CaptureResult::Captured(Box::new(PaneCapture {
        digest: CaptureDigest::new(&state, screen, freshness),
        state,
        capture,
        resync,
    })))
}

/// Splits a text after a number of lines; `None` unless at least one more line follows.
fn split_lines(text: &str, lines: usize) -> Option<(&str, &str)> {
    let end = match lines.checked_sub(1) {
        Some(last) => text.match_indices('\n').nth(last)?.0 + 1,
        None => 0,
    };
    let (first, rest) = text.split_at(end);
    rest.ends_with('\n').then_some((first, rest))
}

/// Returns captured text without the line feed of its mark.
fn captured_text(body: &str) -> Option<&str> {
    body.strip_prefix('\n').map(chomp)
}

/// Removes the line feed that `capture-pane` adds to its output.
fn chomp(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

#[cfg(test)]
mod tests;
