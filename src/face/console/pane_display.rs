//! The display of one pane: its lines, full-screen programs, and agents that draw its screen (pure).

use std::collections::BTreeMap;

use super::super::lines::{StyledLines, paint};
use super::super::sanitize::{Tone, push_sanitized};
use super::super::session_labels::Label;
use super::line_buffer::{BufferedLine, Hold, LineBuffer, LineOutput, LineSink};
use super::rows::{PrintedRows, RowWriter, is_error_line};
use crate::agent::{RowKind, StateRules};
use crate::event::{PaneId, Style, lines_in};

/// The time, in microseconds, within which the command line of a full-screen program settles: two captures of
/// a pane that is polled once a second.
const COMMAND_SETTLES: i64 = 2_000_000;

/// The time, in microseconds, within which an agent that drew a box is recognized.
const AGENT_DETECTED: i64 = 4_000_000;

/// Receives the output of a pane.
pub(super) struct PaneSink<'a> {
    pub policy: &'a PanePolicy,
    pub emit: &'a mut dyn FnMut(LineOutput<'_>),
}

/// The policy for the lines of panes.
#[derive(Debug, Default)]
pub(super) struct PanePolicy {
    /// The rules that recognize the decoration of agents' screens, which is omitted; `None` shows all rows.
    pub rules: Option<StateRules>,
    /// True if lines that may be rewritten are held.
    pub holds: bool,
}

#[derive(Debug, Default)]
pub(super) struct PaneDisplay {
    pub lines: LineBuffer,
    /// The rows of the pane's screen.
    pub rows: Option<u32>,
    screen: FullScreen,
    /// The agent that draws the screen.
    agent: Option<String>,
    /// True if the end of the agent's last turn has been shown.
    pub is_turn_over: bool,
    /// The time until which boxes in the pane may be an agent's.
    agent_until: i64,
    /// The time until which boxes are not held again, because other programs also draw boxes.
    no_agent_until: i64,
    /// The time of the last change of a line.
    pub changed: i64,
}

/// The state of a full-screen program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FullScreen {
    #[default]
    None,
    /// A program has started after the line `after`, which has not settled yet.
    Starting { after: i64, since: i64 },
    /// The start of the program was emitted.
    Shown { after: i64 },
}

impl PaneDisplay {
    /// Adds settled lines.
    pub fn settle(&mut self, lines: StyledLines<'_>, at: i64, out: &mut PaneSink<'_>) {
        let (first_line, chunk) = (lines.first_line, lines.chunk);
        if chunk.is_empty() {
            return self.lines.skip_to(first_line);
        }
        self.changed = at;
        let is_unknown = self.agent.is_none() && self.no_agent_until <= at;
        if out.policy.rules.is_some() && is_unknown && lines_in(chunk).any(is_box_edge) {
            self.agent_until = at.saturating_add(AGENT_DETECTED);
            self.no_agent_until = at.saturating_add(AGENT_DETECTED * 30);
        }
        let mut rest = lines;
        if let FullScreen::Starting { after, .. } | FullScreen::Shown { after } = self.screen {
            let (before, behind) = lines.split(after.saturating_add(1) - first_line);
            self.settle_lines(before, at, out);
            let has_left = lines_in(behind.chunk).any(|line| !line.is_empty());
            if has_left || self.lines.next > after {
                self.show_starting(out);
            }
            if has_left {
                self.screen = FullScreen::None;
            }
            rest = behind;
        }
        self.settle_lines(rest, at, out);
    }

    fn settle_lines(&mut self, settled: StyledLines<'_>, at: i64, out: &mut PaneSink<'_>) {
        if !settled.chunk.is_empty() {
            let hold = self.hold(at, out.policy);
            self.with_lines(out, |lines, sink| lines.settle(settled, (at, hold), sink));
        }
    }

    /// Changes the text of a line; `is_printed` is true if the line can be rewritten in place.
    pub fn revise(
        &mut self,
        line: i64,
        (text, styles): (&str, &[Style]),
        (at, is_printed): (i64, bool),
        out: &mut PaneSink<'_>,
    ) {
        let is_printed = is_printed && self.hold(at, out.policy) != Hold::Each;
        let mut is_change = false;
        self.with_lines(out, |lines, sink| {
            is_change = lines.revise(line, (text, styles), (at, is_printed), sink);
        });
        if !is_change {
            return;
        }
        self.changed = at;
        if let FullScreen::Starting { after, .. } | FullScreen::Shown { after } = self.screen
            && line > after
            && !text.is_empty()
        {
            self.show_starting(out);
            self.screen = FullScreen::None;
        }
    }

    /// Records that a full-screen program has drawn its screen.
    pub fn draw_screen(&mut self, at: i64) {
        if self.screen == FullScreen::None {
            let after = self.lines.last_open().unwrap_or(self.lines.next);
            self.screen = FullScreen::Starting { after, since: at };
        }
    }

    /// Sets the agent that draws the screen; `None` if no agent does.
    pub fn set_agent(&mut self, agent: Option<&str>) {
        self.agent_until = 0;
        if self.agent.as_deref() != agent {
            self.agent = agent.map(str::to_owned);
        }
    }

    /// Emits the output that is due.
    pub fn release_due(&mut self, at: i64, out: &mut PaneSink<'_>) {
        if let FullScreen::Starting { since, .. } = self.screen
            && since.saturating_add(COMMAND_SETTLES) <= at
        {
            self.show_starting(out);
        }
        if self.agent_until > at {
            return;
        }
        let hold = self.hold(at, out.policy);
        self.with_lines(out, |lines, sink| lines.release_due((at, hold), sink));
    }

    /// Returns the next time, in microseconds, at which output is due.
    pub fn deadline(&self, policy: &PanePolicy) -> Option<i64> {
        let screen = match self.screen {
            FullScreen::Starting { since, .. } => Some(since.saturating_add(COMMAND_SETTLES)),
            FullScreen::None | FullScreen::Shown { .. } => None,
        };
        let lines = self.lines.deadline(self.hold(self.agent_until, policy));
        let lines = lines.map(|due| due.max(self.agent_until));
        [screen, lines].into_iter().flatten().min()
    }

    /// Emits the lines that are held on the screen, because other text follows them.
    pub fn release(&mut self, at: i64, out: &mut PaneSink<'_>) {
        if let Hold::OnScreen(_) = self.hold(at, out.policy) {
            self.with_lines(out, |lines, sink| lines.release(i64::MAX, sink));
        }
    }

    /// Emits all lines, including open ones, because the pane has ended.
    pub fn finish(&mut self, out: &mut PaneSink<'_>) {
        self.show_starting(out);
        self.with_lines(out, |lines, sink| lines.flush(i64::MAX, sink));
    }

    /// Returns the open and changing lines without decoration.
    pub fn live<'a>(
        &'a self,
        policy: &'a PanePolicy,
    ) -> impl Iterator<Item = (i64, &'a BufferedLine)> {
        let agent = self.agent.as_deref();
        let live = self.lines.live();
        live.filter(move |(_, line)| policy.row_kind(agent, &line.text) != RowKind::Decoration)
    }

    /// Emits the start of a full-screen program, unless it was emitted before.
    fn show_starting(&mut self, out: &mut PaneSink<'_>) {
        if let FullScreen::Starting { after, .. } = self.screen {
            self.with_lines(out, |lines, sink| lines.flush(after, sink));
            (out.emit)(LineOutput::FullScreen);
            self.screen = FullScreen::Shown { after };
        }
    }

    fn with_lines(
        &mut self,
        out: &mut PaneSink<'_>,
        act: impl FnOnce(&mut LineBuffer, &mut LineSink<'_>),
    ) {
        let agent = self.agent.as_deref();
        let mut sink = LineSink {
            is_shown: &|row| out.policy.row_kind(agent, row) == RowKind::Text,
            emit: &mut *out.emit,
        };
        act(&mut self.lines, &mut sink);
    }

    fn hold(&self, at: i64, policy: &PanePolicy) -> Hold {
        let is_agents = self.agent.is_some() || at < self.agent_until;
        match (is_agents && policy.rules.is_some(), policy.holds) {
            (true, _) => Hold::Each,
            // Nearly all panes have fewer rows than those assumed if they are unknown.
            (false, true) => Hold::OnScreen(self.rows.unwrap_or(200).into()),
            (false, false) => Hold::None,
        }
    }
}

impl PanePolicy {
    /// Returns true if the rules know the screen of this program.
    pub fn is_agent(&self, program: &str) -> bool {
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| rules.agents().any(|agent| agent == program))
    }

    fn row_kind(&self, agent: Option<&str>, row: &str) -> RowKind {
        match (&self.rules, agent) {
            (Some(rules), Some(agent)) => rules.row_kind(agent, row),
            _ => RowKind::Text,
        }
    }
}

/// Returns true if an agent may have drawn a row: the upper edge of a box, or a horizontal rule, of at least 20
/// columns.
fn is_box_edge(row: &str) -> bool {
    let row = row.trim();
    let mut edge = row.strip_prefix('╭').unwrap_or(row).chars();
    (0..20).all(|_| edge.next().is_some_and(|c| "─▄▀".contains(c)))
}

// Writes the output of a pane with its label, wrapped, and with error messages in red (pure).

/// Writes the output of a pane's display.
struct PaneWriter<'a> {
    rows: &'a RowWriter,
    label: &'a Label,
    /// The number of the pane.
    pane: u64,
    printed: &'a mut PrintedRows,
    /// True if error messages are recognized. Agents write about errors, so the lines of agents are excluded.
    finds_errors: bool,
    /// The last error message.
    error: Option<String>,
    out: &'a mut String,
}

impl PaneWriter<'_> {
    fn write(&mut self, output: LineOutput<'_>) {
        match output {
            LineOutput::FullScreen => {
                let text = "[full-screen program]";
                self.rows.row(self.label, '|', Tone::Dim, text, self.out);
            }
            LineOutput::Chunk(lines) => self.write_chunk(lines),
            LineOutput::Line(number, line) => {
                self.write_line('|', number, &line.text, &line.styles);
            }
            LineOutput::Changed(number, line) => {
                self.write_line('~', number, &line.text, &line.styles);
            }
            LineOutput::Replace(number, line) => {
                let rows = self.rows_of('|', &line.text, &line.styles);
                self.printed.replace((self.pane, number), Some(&rows));
            }
            LineOutput::Remove(number) => {
                self.printed.replace((self.pane, number), None);
            }
        }
    }

    fn write_line(&mut self, mark: char, number: i64, text: &str, styles: &[Style]) {
        let rows = self.rows_of(mark, text, styles);
        self.push_line(number, &rows);
    }

    fn rows_of(&mut self, mark: char, text: &str, styles: &[Style]) -> String {
        let tone = self.tone(text);
        let painted = paint(text, styles).unwrap_or_else(|| self.rows.styled(tone, text));
        let mut rows = String::new();
        self.rows.painted(self.label, mark, &painted, &mut rows);
        rows
    }

    /// Writes the rows of a line.
    fn push_line(&mut self, number: i64, rows: &str) {
        let start = self.out.len();
        self.out.push_str(rows);
        let key = (self.pane, number);
        self.printed.mark_line(start..self.out.len(), key);
    }

    /// Writes a chunk. It may have thousands of lines, so their common prefix is rendered once.
    fn write_chunk(&mut self, lines: StyledLines<'_>) {
        let mut row = String::new();
        self.rows.push_label(self.label, '|', &mut row);
        let before = row.len();
        let room = self.rows.text_columns(self.label).unwrap_or(usize::MAX);
        for (number, line, styles) in lines.iter() {
            let is_plain = self.tone(line) == Tone::Plain;
            // A line has at most as many columns as bytes.
            if !is_plain || line.len() > room || !styles.is_empty() {
                self.write_line('|', number, line, styles);
                continue;
            }
            row.truncate(before);
            if !line.is_empty() {
                row.push(' ');
                push_sanitized(&mut row, line);
            }
            row.push('\n');
            self.push_line(number, &row);
        }
    }

    fn tone(&mut self, line: &str) -> Tone {
        if !self.finds_errors || !is_error_line(line) {
            return Tone::Plain;
        }
        self.error = Some(line.to_owned());
        Tone::Alarm
    }
}

// The panes that are displayed (pure).

/// A displayed pane.
#[derive(Debug, Default)]
pub(super) struct KnownPane {
    /// Identifies the pane's lines on the terminal; never reused.
    pub number: u64,
    pub display: PaneDisplay,
}

/// All displayed panes.
#[derive(Debug, Default)]
pub(super) struct Panes {
    /// By execution and id.
    pub map: BTreeMap<(String, PaneId), KnownPane>,
    /// The number of panes so far.
    count: u64,
}

impl Panes {
    /// Returns a pane; adds it if it is new.
    pub fn get(&mut self, id: &str, pane: &PaneId) -> &mut KnownPane {
        let panes = self.map.entry((id.to_owned(), pane.clone()));
        panes.or_insert_with(|| {
            self.count += 1;
            KnownPane {
                number: self.count,
                ..KnownPane::default()
            }
        })
    }
}

impl KnownPane {
    /// Calls `act` with the display, and writes its output; returns the last error message in it.
    pub fn write(
        &mut self,
        rows: &RowWriter,
        label: &Label,
        printed: &mut PrintedRows,
        out: &mut String,
        policy: &PanePolicy,
        act: impl FnOnce(&mut PaneDisplay, &mut PaneSink<'_>),
    ) -> Option<String> {
        let is_for_people = rows.options.coloured || rows.columns.is_some();
        let mut writer = PaneWriter {
            rows,
            label,
            pane: self.number,
            printed,
            finds_errors: is_for_people && self.display.agent.is_none(),
            error: None,
            out,
        };
        let mut sink = PaneSink {
            policy,
            emit: &mut |output| writer.write(output),
        };
        act(&mut self.display, &mut sink);
        writer.error
    }
}
