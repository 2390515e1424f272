//! Captures of panes: one command list returns the state and the text of each pane, so that both are from the
//! same instant.
//!
//! Each pane is one line of a batch: its state, its rows, and the same rows joined to lines. tmux runs such a
//! command list between two reads of the pane.

use std::borrow::Cow;
use std::fmt::Write;

use super::digest::{CAPTURE_ROWS_MAX, CaptureDigest, Freshness};
use super::listing::{ServerIdentity, parse_second};
use super::procfs::Counters;
use super::server::{Nonce, Section, Server};
use super::state::{FORMAT, PaneState};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::track::{Capture, Row, SavedScreen, TerminalModes, TmuxVersion, expand_tabs, unescape};

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
    /// The digest to pass with the next request.
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
    let mut lines = String::new();
    let nonce = Nonce::fresh();
    add_commands(&mut lines, &nonce, known.tmux_version(), specs);
    let counters = Counters::of(known.pid);
    let bytes_before = counters.bytes();
    let output = server.batch(lines, clock)?;
    let bytes_after = counters.bytes();
    let mut results = parse(&nonce, known, &output.text, specs);
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
    Ok(results)
}

/// Returns the command that captures each row as it was printed, keeping trailing blanks and adding none.
fn capture_rows(version: TmuxVersion) -> &'static str {
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
    let (rows, joined) = split_lines(text, depth.saturating_add(state.height) as usize)?;
    let rows = marked_rows(chomp(rows), chomp(joined), state.width);
    let saved = match saved.filter(|_| state.alternate) {
        Some((rows, joined)) => Some(SavedScreen {
            cursor: state.saved_cursor,
            rows: marked_rows(captured_text(rows)?, captured_text(joined)?, state.width),
        }),
        None => None,
    };
    state.owned = true;
    let capture = Capture {
        numbers: state.numbers,
        rows,
        saved,
        is_updating: state.is_updating && state.dead.is_none(),
        ..Capture::default()
    };
    let freshness = Freshness {
        // By the clock that dates activity. 0 if it is unknown, until `adopt_listed`.
        second: parse_second(second).unwrap_or_default(),
        ..Freshness::default()
    };
    Some(CaptureResult::Captured(Box::new(PaneCapture {
        digest: CaptureDigest::new(&state, freshness),
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

/// Returns the rows, each with its `wrapped` mark: `capture-pane -N` prints rows without showing which of
/// them continue, and `-J` whole lines without showing where they were wrapped. Tabs become blanks. Empty rows within a wrapped line cannot always be
/// distinguished from empty lines. The row before them then counts as wrapped, which gives the same lines.
fn marked_rows(rows: &str, joined: &str, width: u32) -> Vec<Row> {
    let rows: Vec<&str> = rows.split('\n').collect();
    let lines: Vec<&str> = joined.split('\n').collect();
    let mut marked = mark_wraps(&rows, &lines).unwrap_or_else(|| {
        log::debug!("the rows and the joined lines of a capture do not match");
        let unwrapped = |row: &&str| Row {
            text: row.trim_end_matches(' ').into(),
            wrapped: false,
        };
        rows.iter().map(unwrapped).collect()
    });
    for row in &mut marked {
        if let Cow::Owned(text) = expand_tabs(&row.text, width as usize) {
            row.text = text;
        }
    }
    marked
}

fn mark_wraps(rows: &[&str], lines: &[&str]) -> Option<Vec<Row>> {
    let empty_rows = empty_runs(rows);
    let empty_lines = empty_runs(lines);
    let mut marked = Vec::with_capacity(rows.len());
    let mut line = 0;
    let mut rest = *lines.first()?;
    for (at, row) in rows.iter().enumerate() {
        // There are more rows than lines.
        if line >= lines.len() {
            return None;
        }
        rest = rest.strip_prefix(row)?;
        // A line ends with its text, unless more empty rows than empty lines follow. The first of those rows
        // then still belong to it.
        let wrapped = !rest.is_empty() || empty_rows[at + 1] > empty_lines[line + 1];
        marked.push(Row {
            text: (*row).to_owned(),
            wrapped,
        });
        if !wrapped {
            line += 1;
            rest = lines.get(line).copied().unwrap_or_default();
        }
    }
    (line == lines.len()).then_some(marked)
}

/// Returns the number of consecutive empty texts from each index on, and 0 for the end.
fn empty_runs(texts: &[&str]) -> Vec<usize> {
    let mut runs = vec![0; texts.len() + 1];
    for (at, text) in texts.iter().enumerate().rev() {
        if text.is_empty() {
            runs[at] = runs[at + 1] + 1;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::event::Cursor;

    use super::*;

    fn grid(rows: &[(&str, bool)]) -> (String, String) {
        let mut joined = String::new();
        for (at, (text, wrapped)) in rows.iter().enumerate() {
            joined.push_str(text);
            if !wrapped && at + 1 < rows.len() {
                joined.push('\n');
            }
        }
        (
            rows.iter()
                .map(|(text, _)| *text)
                .collect::<Vec<_>>()
                .join("\n"),
            joined,
        )
    }

    fn lines_of(rows: &[Row]) -> Vec<String> {
        let mut lines = vec![String::new()];
        for (at, row) in rows.iter().enumerate() {
            lines.last_mut().unwrap().push_str(&row.text);
            if !row.wrapped && at + 1 < rows.len() {
                lines.push(String::new());
            }
        }
        lines
    }

    #[test]
    fn plain_cases() {
        for case in [
            &[("one", false)][..],
            &[("", false), ("", false), ("", false)],
            &[("12345", true), ("678", false), ("", false)],
            &[
                ("12345", true),
                ("     ", true),
                ("  x", false),
                ("x", false),
            ],
            &[("12345", true), ("", true), ("678", false), ("9", false)],
            &[("12345", true), ("", false), ("", false)],
            &[("1234", true), ("漢字", true), ("x ", false)],
            &[
                ("aaaaa", true),
                ("aaaaa", false),
                ("aaaaa", false),
                ("aaaaa", true),
                ("a", false),
            ],
        ] {
            let (rows_text, joined) = grid(case);
            let marked = marked_rows(&rows_text, &joined, 80);
            let got: Vec<_> = marked
                .iter()
                .map(|row| (row.text.as_str(), row.wrapped))
                .collect();
            assert_eq!(got, case, "{rows_text:?} {joined:?}");
        }
    }

    #[test]
    fn tabs_do_not_hide_a_wrap() {
        let marked = marked_rows("a\tb3456789\nx\ty", "a\tb3456789x\ty", 16);
        assert!(marked[0].wrapped && marked[0].text == "a       b3456789");
        assert!(!marked[1].wrapped && marked[1].text == "x       y");
    }

    #[test]
    fn rows_that_do_not_match_stay_unwrapped() {
        let marked = marked_rows("ab  \ncd", "something else", 80);
        assert!(marked.iter().all(|row| !row.wrapped));
        assert_eq!(marked[0].text, "ab");
        assert_eq!(marked_rows("a\nb", "a", 80).len(), 2);
        assert_eq!(marked_rows("a", "a\nb", 80).len(), 1);
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            2 => Just(String::new()),
            1 => Just("   ".to_owned()),
            3 => "[ab ]{1,6}",
            2 => "[a漢é👍 ]{1,6}",
        ]
    }

    proptest! {
        #[test]
        fn the_joined_rows_are_always_the_lines(
            case in prop::collection::vec((text(), any::<bool>()), 1..30),
        ) {
            let case: Vec<_> = case.iter().map(|(text, wrapped)| (text.as_str(), *wrapped)).collect();
            let (rows_text, joined) = grid(&case);
            let marked = marked_rows(&rows_text, &joined, 80);
            let texts: Vec<_> = marked.iter().map(|row| row.text.as_str()).collect();
            prop_assert_eq!(texts, rows_text.split('\n').collect::<Vec<_>>());
            prop_assert_eq!(lines_of(&marked), joined.split('\n').collect::<Vec<_>>());
            // Without empty rows, the result is unique except for the last row.
            if case.iter().all(|(text, _)| !text.is_empty()) {
                for (row, (_, wrapped)) in marked.iter().zip(&case[..case.len() - 1]) {
                    prop_assert_eq!(row.wrapped, *wrapped);
                }
            }
        }

        #[test]
        fn any_input_keeps_the_number_of_rows(rows_text in "[ab \n漢]{0,30}", joined in "[ab \n漢]{0,30}") {
            prop_assert_eq!(marked_rows(&rows_text, &joined, 80).len(), rows_text.split('\n').count());
        }
    }

    const STATE_7: &str = "%7 $3 @2 9 0 0 1 1 5 2 1 2000 2 1 0   0 0   1 0 5 ";

    fn known() -> ServerIdentity {
        ServerIdentity {
            pid: 42,
            ..ServerIdentity::default()
        }
    }

    fn spec(pane: &str, saved: bool) -> CaptureSpec {
        CaptureSpec {
            pane: pane.into(),
            depth: 10,
            saved,
            resync: None,
        }
    }

    fn parse_all(output: &str, specs: &[CaptureSpec]) -> Vec<CaptureResult> {
        parse(
            &Nonce::fixed("NN"),
            &known(),
            &format!("{output}NNz\n"),
            specs,
        )
    }

    fn output(numbers: &str, pid: u32, rows: &str, joined: &str) -> String {
        format!("NNh{numbers}NNr{pid}\n{rows}\n{joined}\n")
    }

    #[test]
    fn a_missing_pane_does_not_shift_the_others() {
        let missing = format!("NNh{}NNr42\n", " ".repeat(22));
        let text = missing.clone() + &output(STATE_7, 42, "12345\n67\n", "1234567\n") + &missing;
        let results = parse_all(
            &text,
            &[spec("%1", false), spec("%7", false), spec("%8", true)],
        );
        let [
            CaptureResult::Gone,
            CaptureResult::Captured(pane),
            CaptureResult::Gone,
        ] = results.as_slice()
        else {
            panic!("{results:?}")
        };
        let rows: Vec<_> = pane
            .capture
            .rows
            .iter()
            .map(|row| (&*row.text, row.wrapped))
            .collect();
        assert_eq!(rows, [("12345", true), ("67", false), ("", false)]);
        assert_eq!(pane.capture.cursor, Cursor { x: 2, y: 1 });
        assert!(pane.capture.is_complete());
    }

    #[test]
    fn foreign_output_is_unreadable() {
        let specs = [spec("%7", false)];
        let good = output(STATE_7, 42, "a\nb\nc", "a\nb\nc");
        assert!(matches!(
            parse_all(&good, &specs)[..],
            [CaptureResult::Captured(_)]
        ));
        for bad in [
            String::new(),
            "no mark at all".into(),
            format!("x{good}"),
            output(STATE_7, 42, "a\nb", "a"),
            good.replace("%7", "%6"),
            good.replace("NNr", "NNx"),
            format!("{good}NNs\n"),
        ] {
            assert_eq!(
                parse_all(&bad, &specs),
                [CaptureResult::Unreadable],
                "{bad:?}"
            );
        }
        assert_eq!(
            parse_all(&good, &[spec("%7", true)]),
            [CaptureResult::Unreadable]
        );
        assert_eq!(
            parse_all(&good.replace("r42", "r43"), &specs),
            [CaptureResult::Gone],
            "another server"
        );
        assert_eq!(
            parse_all(&good, &[specs[0].clone(), spec("%8", false)])[1],
            CaptureResult::Unreadable
        );
        let truncated = parse(
            &Nonce::fixed("NN"),
            &known(),
            &format!("{good}{good}"),
            &[specs[0].clone(), specs[0].clone()],
        );
        assert!(
            matches!(
                truncated[..],
                [CaptureResult::Captured(_), CaptureResult::Unreadable]
            ),
            "{truncated:?}"
        );
    }

    #[test]
    fn the_saved_screen_is_read_only_behind_the_alternate_one() {
        let saved = |alternate: &str| {
            let numbers = STATE_7.replace(" 2 1 0   ", &format!(" 2 1 {alternate} 3 4 "));
            let text = format!("NNh{numbers}NNr42\na\nb\nc\na\nb\nc\nNNs\nold\n\nNNt\nold\n\n");
            match parse_all(&text, &[spec("%7", true)]).remove(0) {
                CaptureResult::Captured(pane) => pane.capture.saved,
                other => panic!("{other:?}"),
            }
        };
        let screen = saved("1").unwrap();
        assert_eq!(screen.cursor, Cursor { x: 3, y: 4 });
        assert_eq!(screen.rows.len(), 2);
        assert_eq!(saved("0"), None);
    }
}
