//! The lines of panes: their text and colours, and the last text of each revised line (pure).

use std::collections::{BTreeMap, BTreeSet};

use super::ansi::{RESET, push_sgr};
use super::sanitize::push_sanitized_at;
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
use crate::event::SgrOperation;
use crate::event::{
    Envelope, Ink, Link, Links, PaneId, ScreenRow, Style, Styles, TdEvent, line_ends_in, lines_in,
};
use unicode_width::UnicodeWidthStr;

/// Consecutive lines of an event, with its styles.
#[derive(Clone, Copy, Debug)]
pub(super) struct StyledLines<'a> {
    pub first_line: i64,
    pub chunk: &'a str,
    pub styles: &'a Styles,
    /// The number of lines of the event before these.
    before: u32,
}

impl<'a> StyledLines<'a> {
    pub fn new(first_line: i64, chunk: &'a str, styles: &'a Styles) -> Self {
        Self {
            first_line,
            chunk,
            styles,
            before: 0,
        }
    }

    /// Returns each line with its number and its styles.
    pub fn iter(self) -> impl Iterator<Item = (i64, &'a str, &'a [Style])> {
        let lines = (self.before..).zip((self.first_line..=i64::MAX).zip(lines_in(self.chunk)));
        lines.map(move |(at, (number, text))| (number, text, styles_of(self.styles, at)))
    }

    /// Splits these lines after `count` of them.
    pub fn split(self, count: i64) -> (Self, Self) {
        let last = usize::try_from(count).ok().and_then(|n| n.checked_sub(1));
        let (first, rest) = match last {
            None => ("", self.chunk),
            Some(last) => memchr::memchr_iter(b'\n', self.chunk.as_bytes())
                .nth(last)
                .map_or((self.chunk, ""), |end| self.chunk.split_at(end + 1)),
        };
        let skipped = line_ends_in(first);
        let rest = Self {
            first_line: self.first_line.saturating_add(skipped),
            chunk: rest,
            before: self.before.saturating_add(skipped as u32),
            ..self
        };
        (
            Self {
                chunk: first,
                ..self
            },
            rest,
        )
    }
}

/// The last snapshot of each pane's screen.
#[derive(Debug, Default)]
pub(super) struct Snapshots(BTreeMap<PaneId, Vec<ScreenRow>>);

impl Snapshots {
    /// Returns the rows of a snapshot that were not on the screen before.
    pub fn new_rows<'r>(
        &mut self,
        pane: &PaneId,
        rows: &'r [ScreenRow],
    ) -> impl Iterator<Item = &'r str> + use<'r> {
        let shown = self
            .0
            .insert(pane.clone(), rows.to_vec())
            .unwrap_or_default();
        let rows = rows.iter().map(|row| row.text.as_str());
        rows.filter(move |text| shown.iter().all(|shown| shown.text != *text))
    }
}

/// Returns the styles of one line of an event's text.
pub(super) fn styles_of(styles: &Styles, line: u32) -> &[Style] {
    let all = styles.as_slice();
    let rest = &all[all.partition_point(|style| style.line < line)..];
    &rest[..rest.partition_point(|style| style.line == line)]
}

/// Returns the styles of a line in which linked text is underlined, as terminals show it, and has the number of its
/// link, from 1.
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
pub(super) fn with_links(styles: &[Style], links: &[Link]) -> Vec<Style> {
    let runs = styles.iter().map(|style| [style.from, style.to]);
    let linked = links.iter().map(|link| [link.start, link.end]);
    let mut edges: Vec<u32> = runs.chain(linked).flatten().collect();
    edges.sort_unstable();
    edges.dedup();
    let part = |edge: &[u32]| {
        let (from, to) = (edge[0], edge[1]);
        let style = styles.get(styles.partition_point(|style| style.to <= from));
        let style = style.filter(|style| style.from <= from);
        let mut ink = style.map_or_else(Ink::default, |style| style.ink);
        let link = links.partition_point(|link| link.end <= from);
        if links.get(link).is_some_and(|link| link.start <= from) {
            ink.take(SgrOperation::Set(4));
            ink.link = u32::try_from(link + 1).unwrap_or(0);
        }
        let line = 0;
        (!ink.is_plain()).then_some(Style {
            line,
            from,
            to,
            ink,
        })
    };
    edges.windows(2).filter_map(part).collect()
}

/// Returns the parts of a line for display, each with its style. Returns `None` for a line without styles, or
/// with styles that do not fit its text.
pub(super) fn styled_parts(text: &str, styles: &[Style]) -> Option<Vec<(String, Ink)>> {
    let mut styles = styles.iter().filter(|style| style.is_valid()).peekable();
    styles.peek()?;
    let (mut column, mut done, mut parts) = (0, 0, Vec::new());
    let mut positions = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    // Returns the byte position of a character. The calls must have ascending numbers.
    let (mut position, mut number) = (positions.next()?, 0);
    let mut at = |char: u32| {
        while number < char {
            position = positions.next()?;
            number += 1;
        }
        (number == char).then_some(position)
    };
    let mut part = |text: &str, ink: Ink| {
        let mut shown = String::with_capacity(text.len());
        push_sanitized_at(&mut shown, text, column);
        column += shown.width();
        parts.push((shown, ink));
    };
    for style in styles {
        let (from, to) = (at(style.from)?, at(style.to)?);
        part(text.get(done..from)?, Ink::default());
        part(text.get(from..to)?, style.ink);
        done = to;
    }
    part(&text[done..], Ink::default());
    Some(parts)
}

/// Returns the line for display in its colours, as [`styled_parts`].
pub(super) fn paint(text: &str, styles: &[Style]) -> Option<String> {
    let mut out = String::with_capacity(2 * text.len());
    for (text, ink) in styled_parts(text, styles)? {
        if ink.is_plain() {
            out.push_str(&text);
        } else {
            push_sgr(&mut out, &ink.sgr());
            out.push_str(&text);
            out.push_str(RESET);
        }
    }
    Some(out)
}

/// The bound, in bytes, on the revisions in memory: some 300,000 lines. Only lines that were on a screen are
/// revised, so even long runs have few. Lines beyond the bound keep their first text.
const BYTES_MAX: usize = 64 << 20;

/// The last text and style of each revised line, by execution and pane.
///
/// A history shows each line once, in its place: [`LastRevisions::note`] collects the revisions in a first pass,
/// then [`LastRevisions::apply`] changes the events that are shown. A line that was rewritten after it had
/// settled, such as a row of a progress display, is shown with its last text, and omitted if its program
/// removed it. A line that was only erased stays, because it was printed before its row vanished.
#[derive(Debug, Default)]
pub(crate) struct LastRevisions {
    panes: BTreeMap<(String, PaneId), BTreeMap<i64, LastRevision>>,
    bytes: usize,
    /// The number of revisions beyond the bound.
    dropped: u64,
}

/// The last revision of a line.
#[derive(Debug, Default)]
struct LastRevision {
    /// The `seq` of the last revision.
    seq: u64,
    /// The `seq` of the last revision with text; 0 for none.
    text_seq: u64,
    text: String,
    styles: Styles,
    /// True if the line was shown with its last text.
    is_shown: bool,
}

impl LastRevision {
    /// Returns the memory that the line needs.
    fn bytes(&self) -> usize {
        128 + self.text.len()
    }

    /// Returns the last text; empty if the row was erased.
    fn into_text(self) -> String {
        if self.seq == self.text_seq {
            self.text
        } else {
            String::new()
        }
    }
}

/// The result of applying the revisions to an event.
#[derive(Debug, PartialEq)]
pub(crate) enum Applied {
    Unchanged,
    /// These events are shown instead; an empty list hides the event.
    Replaced(Vec<Envelope>),
}

impl LastRevisions {
    /// Records an event of the history, if it is a revision. Events of older logs have no number and are
    /// shown unchanged.
    pub fn note(&mut self, envelope: &Envelope) {
        if let Some(seq) = envelope.seq {
            self.note_at(&envelope.event, seq);
        }
    }

    /// Records an event with this number, if it is a revision.
    fn note_at(&mut self, event: &TdEvent, seq: u64) {
        let TdEvent::OutputRevised {
            execution_id,
            pane,
            line,
            text,
            styles,
        } = event
        else {
            return;
        };
        if self.bytes > BYTES_MAX {
            self.dropped += 1;
            return;
        }
        let key = (execution_id.as_str().to_owned(), pane.clone());
        let known = self.panes.entry(key).or_default().entry(*line);
        let known = known.or_insert_with(|| {
            self.bytes += LastRevision::default().bytes();
            LastRevision::default()
        });
        known.seq = seq;
        if !text.is_empty() {
            self.bytes += text.len();
            self.bytes -= known.text.len();
            known.text_seq = seq;
            known.text.clone_from(text);
            known.styles.clone_from(styles);
        }
    }

    /// Drops the revisions of lines whose later text the log has.
    fn forget_lines(&mut self, event: &TdEvent) {
        if let TdEvent::OutputUpdate {
            execution_id,
            pane,
            first_line,
            chunk,
            ..
        } = event
            && let Some(lines) = self.lines_of(execution_id, pane)
        {
            let end = first_line.saturating_add(line_ends_in(chunk));
            let mut after = lines.split_off(first_line);
            lines.extend(after.split_off(&end));
            self.bytes -= after.values().map(LastRevision::bytes).sum::<usize>();
        }
    }

    /// Drops the revisions of an execution whose history has been shown.
    pub fn forget(&mut self, execution_id: &str) {
        self.panes.retain(|(id, _), lines| {
            let is_kept = id != execution_id;
            if !is_kept {
                self.bytes -= lines.values().map(LastRevision::bytes).sum::<usize>();
            }
            is_kept
        });
    }

    fn lines_of(&mut self, id: &str, pane: &PaneId) -> Option<&mut BTreeMap<i64, LastRevision>> {
        self.panes.get_mut(&(id.to_owned(), pane.clone()))
    }

    /// Applies the revisions to the next event of the recorded history.
    pub fn apply(&mut self, envelope: &Envelope) -> Applied {
        let event = &envelope.event;
        let (Some(seq), Some(pane)) = (envelope.seq, event.pane()) else {
            return Applied::Unchanged;
        };
        let Some(lines) = self.lines_of(event.execution_id(), pane) else {
            return Applied::Unchanged;
        };
        match event {
            TdEvent::OutputUpdate {
                first_line, chunk, ..
            } => {
                let count = lines_in(chunk).count() as i64;
                let range = *first_line..first_line.saturating_add(count);
                let mut is_unchanged = true;
                for (_, line) in lines.range_mut(range) {
                    line.is_shown |= line.seq > seq;
                    is_unchanged &= line.text_seq < seq;
                }
                if is_unchanged {
                    Applied::Unchanged
                } else {
                    Applied::Replaced(parts(envelope, seq, lines))
                }
            }
            TdEvent::OutputRevised { line, .. }
                if lines
                    .get(line)
                    .is_some_and(|known| known.is_shown && seq <= known.seq) =>
            {
                Applied::Replaced(Vec::new())
            }
            _ => Applied::Unchanged,
        }
    }
}

/// Returns settled lines with their last text, as several events if lines between them are omitted.
fn parts(envelope: &Envelope, seq: u64, revisions: &BTreeMap<i64, LastRevision>) -> Vec<Envelope> {
    let TdEvent::OutputUpdate {
        first_line,
        chunk,
        styles,
        links,
        ..
    } = &envelope.event
    else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let mut part = ChunkPart::at(*first_line);
    for (number, line, line_styles) in StyledLines::new(*first_line, chunk, styles).iter() {
        match revisions.get(&number) {
            Some(known) if known.text_seq > seq && known.seq != known.text_seq => {
                if !part.chunk.is_empty() {
                    parts.push(part.envelope(envelope, false));
                }
                part = ChunkPart::at(number.saturating_add(1));
            }
            Some(known) if known.text_seq > seq => {
                part.push(&known.text, known.styles.as_slice());
            }
            _ => {
                part.push(line, line_styles);
                part.links.extend_from_slice(links.of_line(number));
            }
        }
    }
    // The last part carries the event's other fields, even without lines.
    parts.push(part.envelope(envelope, true));
    parts
}

/// Consecutive lines.
#[derive(Default)]
struct ChunkPart {
    first_line: i64,
    count: u32,
    chunk: String,
    styles: Vec<Style>,
    links: Vec<Link>,
}

impl ChunkPart {
    fn at(first_line: i64) -> Self {
        Self {
            first_line,
            ..Self::default()
        }
    }

    fn push(&mut self, line: &str, styles: &[Style]) {
        self.chunk.push_str(line);
        self.chunk.push('\n');
        let line = self.count;
        let styles = styles.iter().map(|style| Style { line, ..*style });
        self.styles.extend(styles);
        self.count += 1;
    }

    fn envelope(self, source: &Envelope, is_last: bool) -> Envelope {
        let mut envelope = source.clone();
        if let TdEvent::OutputUpdate {
            first_line,
            chunk,
            styles,
            links,
            is_complete,
            ..
        } = &mut envelope.event
        {
            *first_line = self.first_line;
            *chunk = self.chunk;
            *styles = Styles::new(self.styles);
            *links = Links::new(self.links);
            *is_complete &= is_last;
        }
        envelope
    }
}

/// The maximum number of panes to count: far more than a tmux server has in its lifetime.
const PANES_MAX: usize = 100_000;

/// The first pass of an export: collects the panes of a run, and the last text of revised lines.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The pane to which the survey is limited.
    pub(super) only: Option<PaneId>,
    pub(crate) panes: BTreeSet<PaneId>,
    /// True if the run has the conversation of an agent in a pane.
    has_conversation: bool,
    /// The last revisions that no later `OutputUpdate` has replaced.
    revised: LastRevisions,
    /// The number of envelopes so far.
    count: u64,
}

impl Survey {
    /// Surveys the text of one pane, or of all panes. Panes are counted in either case.
    pub fn new(only: Option<PaneId>) -> Self {
        Self {
            only,
            ..Self::default()
        }
    }

    /// Records the next envelope of the log.
    pub fn note(&mut self, envelope: &Envelope) {
        let event = &envelope.event;
        self.revised.forget_lines(event);
        let Some(pane) = event.pane() else {
            return;
        };
        if self.panes.len() < PANES_MAX && !self.panes.contains(pane) {
            self.panes.insert(pane.clone());
        }
        self.has_conversation |= matches!(
            event,
            TdEvent::PromptSent { .. } | TdEvent::TokenReceived { .. }
        );
        if self.includes(pane) {
            self.count += 1;
            self.revised.note_at(event, self.count);
        }
    }

    /// Returns the run's pane, if the run has exactly one and no conversation replaces its lines.
    pub fn sole_pane(&self) -> Option<&PaneId> {
        let is_sole = self.panes.len() == 1 && !self.has_conversation;
        self.panes.first().filter(|_| is_sole)
    }

    /// Returns the number of revisions beyond the bound; these lines keep their first text.
    pub fn dropped_revisions(&self) -> u64 {
        self.revised.dropped
    }

    pub(super) fn includes(&self, pane: &PaneId) -> bool {
        self.only.as_ref().is_none_or(|only| only == pane)
    }

    /// Removes and returns the last text of a revised line.
    pub(super) fn take(&mut self, id: &str, pane: &PaneId, line: i64) -> Option<String> {
        let lines = self.revised.lines_of(id, pane)?;
        Some(lines.remove(&line)?.into_text())
    }

    /// Removes and returns the revised lines below `end`, with their numbers.
    pub(super) fn take_below(&mut self, id: &str, pane: &PaneId, end: i64) -> Vec<(i64, String)> {
        let Some(lines) = self.revised.lines_of(id, pane) else {
            return Vec::new();
        };
        let rest = lines.split_off(&end);
        texts(std::mem::replace(lines, rest))
    }

    /// Removes and returns all revised lines of each pane, in order.
    pub(super) fn take_remaining(&mut self) -> impl Iterator<Item = (PaneId, Vec<(i64, String)>)> {
        let panes = std::mem::take(&mut self.revised.panes).into_iter();
        panes.map(|((_, pane), lines)| (pane, texts(lines)))
    }
}

fn texts(lines: BTreeMap<i64, LastRevision>) -> Vec<(i64, String)> {
    let lines = lines.into_iter();
    lines
        .map(|(number, line)| (number, line.into_text()))
        .collect()
}

#[cfg(test)]
mod tests {
    mod line_styles {

        use super::super::*;
        use crate::face::sanitize::push_sanitized;
        use crate::face::sanitize::tests::nasty;
        use proptest::prelude::*;

        fn style(from: u32, to: u32, sgr: &str) -> Style {
            Style::new(0, from, to, sgr)
        }

        fn painted(text: &str, styles: Vec<Style>) -> Option<String> {
            paint(text, &styles)
        }

        #[test]
        fn only_styled_text_is_painted() {
            let styles = vec![style(0, 3, "31"), style(5, 6, "1;4")];
            assert_eq!(
                painted("röd plain", styles).unwrap(),
                "\x1b[31mröd\x1b[0m p\x1b[1;4ml\x1b[0main"
            );
            // Tab stops depend on the beginning of the line.
            assert_eq!(
                painted("ab\tc", vec![style(1, 4, "7")]).unwrap(),
                "a\x1b[7mb      c\x1b[0m"
            );
        }

        #[test]
        fn styles_that_do_not_fit_are_not_painted() {
            for styles in [
                vec![style(2, 9, "31")],
                vec![style(1, 3, "31"), style(0, 2, "32")],
                vec![style(0, 1, "31m\x1b]2;x\x07")],
                vec![style(2, 2, "31")],
            ] {
                assert_eq!(painted("text", styles.clone()), None, "{styles:?}");
            }
        }

        #[test]
        fn each_line_has_its_styles() {
            let styles = [1, 1, 3].map(|line| Style {
                line,
                ..style(0, 1, "31")
            });
            let styles = Styles::new(styles.to_vec());
            let lines = StyledLines::new(7, "a\nb\nc\nd\n", &styles);
            let counts = |lines: StyledLines<'_>| -> Vec<_> {
                let lines = lines.iter();
                lines
                    .map(|(number, text, styles)| (number, text.to_owned(), styles.len()))
                    .collect()
            };
            let all = counts(lines);
            assert_eq!(
                all[1..],
                [(8, "b".into(), 2), (9, "c".into(), 0), (10, "d".into(), 1)]
            );
            for count in -1..6 {
                let (before, after) = lines.split(count);
                assert_eq!([counts(before), counts(after)].concat(), all);
            }
        }

        proptest! {
            /// Painting adds only the styles, and a reset for each.
            #[test]
            fn paint_changes_no_text(
                text in nasty(),
                runs in prop::collection::vec((0_u32..9, 0_u32..9, "[0-9;:m\x1b]{0,5}"), 0..5),
            ) {
                let mut at = 0;
                let styles: Vec<Style> = runs.into_iter().map(|(skip, length, sgr)| {
                    let from = at + skip;
                    at = from + length;
                    Style::new(0, from, at, &sgr)
                }).collect();
                let valid = styles.iter().filter(|style| style.is_valid()).count();
                let mut plain = String::new();
                push_sanitized(&mut plain, &text.replace('\t', " "));
                if let Some(painted) = painted(&text.replace('\t', " "), styles.clone()) {
                    let mut without = painted.replace(RESET, "");
                    for style in styles.iter().filter(|style| style.is_valid()) {
                        without = without.replacen(&format!("\x1b[{}m", style.sgr()), "", 1);
                    }
                    prop_assert_eq!(without, plain);
                    prop_assert_eq!(painted.matches(RESET).count() >= valid, true);
                }
            }
        }
    }

    mod last_revisions {

        use super::super::*;
        use crate::face::samples;
        use crate::timestamp::Timestamp;

        fn style(line: u32, sgr: &str) -> Style {
            Style::new(line, 0, 1, sgr)
        }

        fn revised(line: i64, text: &str) -> TdEvent {
            let styles = match text.strip_prefix("red") {
                Some(_) => vec![style(0, "31")],
                None => Vec::new(),
            };
            samples::revised_with(line, text, styles)
        }

        /// Returns the shown events: the number and the chunk of lines, `~` for revisions.
        fn shown(noted: usize, events: Vec<TdEvent>) -> Vec<(i64, String)> {
            let mut revisions = LastRevisions::default();
            let envelopes: Vec<Envelope> = (1..)
                .zip(events)
                .map(|(seq, event)| Envelope::new(Some(seq), Timestamp::default(), event))
                .collect();
            for envelope in &envelopes[..noted.min(envelopes.len())] {
                revisions.note(envelope);
            }
            let mut shown = Vec::new();
            for envelope in envelopes {
                let parts = match revisions.apply(&envelope) {
                    Applied::Unchanged => vec![envelope],
                    Applied::Replaced(parts) => parts,
                };
                for part in parts {
                    shown.push(match part.event {
                        TdEvent::OutputUpdate {
                            first_line, chunk, ..
                        } => (first_line, chunk),
                        TdEvent::OutputRevised { line, text, .. } => (line, format!("~{text}")),
                        _ => continue,
                    });
                }
            }
            shown
        }

        fn lines(of: &[(i64, &str)]) -> Vec<(i64, String)> {
            of.iter()
                .map(|(line, text)| (*line, (*text).to_owned()))
                .collect()
        }

        #[test]
        fn a_line_is_shown_with_its_last_text() {
            let events = || {
                vec![
                    revised(1, "a 0"),
                    samples::update(1, "a 1\nb 1\nc 1\n"),
                    revised(2, "b 2"),
                    revised(3, ""),
                    samples::update(4, "d\n"),
                    revised(2, "b 3"),
                    revised(5, "$ "),
                ]
            };
            // Changes of an open line stay, and so does a printed line that was erased.
            assert_eq!(
                shown(usize::MAX, events()),
                lines(&[(1, "~a 0"), (1, "a 1\nb 3\nc 1\n"), (4, "d\n"), (5, "~$ ")])
            );
            // Events after the first pass are unchanged.
            assert_eq!(
                shown(4, events()),
                lines(&[
                    (1, "~a 0"),
                    (1, "a 1\nb 2\nc 1\n"),
                    (4, "d\n"),
                    (2, "~b 3"),
                    (5, "~$ ")
                ])
            );
        }

        #[test]
        fn links_of_revised_lines_are_left_out() {
            let link = |line| Link {
                line,
                start: 0,
                end: 1,
                url: "https://x".to_owned(),
            };
            let mut update = samples::update(1, "a\nb\nc\n");
            if let TdEvent::OutputUpdate { links, .. } = &mut update {
                *links = Links::new((1..=3).map(link).collect());
            }
            let mut revisions = LastRevisions::default();
            let envelope = |seq, event| Envelope::new(Some(seq), Timestamp::default(), event);
            revisions.note(&envelope(2, revised(2, "b 2")));
            let Applied::Replaced(parts) = revisions.apply(&envelope(1, update)) else {
                panic!("nothing was revised");
            };
            let TdEvent::OutputUpdate { chunk, links, .. } = &parts[0].event else {
                panic!("{parts:?}");
            };
            assert_eq!(chunk, "a\nb 2\nc\n");
            assert_eq!(links.as_slice(), [link(1), link(3)]);
        }

        #[test]
        fn a_row_removed_by_its_program_is_omitted() {
            let events = vec![
                samples::update(1, "a\nb\nc\nd\n"),
                revised(2, "b 2"),
                revised(4, "d 2"),
                revised(2, ""),
                revised(4, ""),
            ];
            assert_eq!(
                shown(usize::MAX, events),
                lines(&[(1, "a\n"), (3, "c\n"), (5, "")])
            );
        }

        #[test]
        fn the_shown_text_has_its_own_colours() {
            let mut revisions = LastRevisions::default();
            let envelope = |seq, event| Envelope::new(Some(seq), Timestamp::default(), event);
            revisions.note(&envelope(3, revised(2, "red")));
            let first = vec![style(0, "1"), style(1, "2"), style(2, "3")];
            let event = envelope(2, samples::update_of("%1", 1, "a\nb\nc\n", first));
            let Applied::Replaced(parts) = revisions.apply(&event) else {
                panic!("the second line reads differently");
            };
            let now = vec![style(0, "1"), style(1, "31"), style(2, "3")];
            assert_eq!(
                parts,
                [envelope(2, samples::update_of("%1", 1, "a\nred\nc\n", now))]
            );
        }
    }
}
