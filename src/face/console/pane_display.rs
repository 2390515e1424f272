//! One pane: its lines, whether a full-screen program hides them, and whether an agent draws them (pure).

use super::line_buffer::{Holds, Lines, Print, split};
use super::line_styles::Paints;
use crate::agent::{RowKind, StateRules};
use crate::event::lines_in;

/// How long a full-screen program's command line may take to settle, in microseconds: in a pane that is
/// polled once a second, two captures.
const COMMAND_SETTLES: i64 = 2_000_000;

/// How long it may take, after a box was drawn, until it is known whether an agent has drawn it.
const AGENT_TELLS: i64 = 4_000_000;

/// Columns of a line across that look like those that agents draw.
const ACROSS_MIN: usize = 20;

/// What is to be printed of a pane.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown<'a> {
    Text(Print<'a>),
    /// A full-screen program began after the lines before this.
    FullScreen,
}

/// Rows of a pane's screen where they are not known: more than nearly all panes have.
const ROWS: i64 = 200;

/// A pane.
#[derive(Debug, Default)]
pub(super) struct Pane {
    /// The same for all lines of the pane, and for no other's.
    number: u64,
    lines: Lines,
    /// The rows of its screen.
    rows: Option<i64>,
    /// In which colours they are shown.
    pub paints: Paints,
    screen: FullScreen,
    /// The agent whose screen it shows.
    agent: Option<String>,
    /// The last turn of its agent has ended, and that was shown.
    pub is_turn_over: bool,
    /// Something that an agent may have drawn stands there, until then.
    is_boxed_until: i64,
    /// Programs that are no agents draw lines, too: they are not held up again until then.
    is_plain_until: i64,
    /// When its lines changed last.
    pub changed: i64,
}

/// Whether a full-screen program is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FullScreen {
    #[default]
    No,
    /// It has begun, after this line, which has not settled yet; since when.
    Begins { after: i64, since: i64 },
    /// That was said.
    Told { after: i64 },
}

/// How panes are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    /// By which rules rows of agents are left out; none: all are shown as they come.
    pub rules: Option<&'a StateRules>,
    /// Lines that may be rewritten are held.
    pub holds: bool,
}

impl Pane {
    /// A pane with this number, which no other has.
    pub fn numbered(number: u64) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Takes in settled lines.
    pub fn settled(
        &mut self,
        first_line: i64,
        chunk: &str,
        at: i64,
        reading: Reading<'_>,
        show: &mut dyn FnMut(Shown<'_>),
    ) {
        if chunk.is_empty() {
            return self.lines.skip_to(first_line);
        }
        self.changed = at;
        let is_new = self.agent.is_none() && self.is_plain_until <= at;
        if reading.rules.is_some() && is_new && lines_in(chunk).any(is_drawn) {
            self.is_boxed_until = at.saturating_add(AGENT_TELLS);
            self.is_plain_until = at.saturating_add(AGENT_TELLS * 30);
        }
        let mut rest = (first_line, chunk);
        match self.screen {
            FullScreen::No => {}
            FullScreen::Begins { after, .. } | FullScreen::Told { after } => {
                let (before, behind) = split(chunk, after.saturating_add(1) - first_line);
                let behind_line = first_line.max(after.saturating_add(1));
                self.settle(first_line, before, at, reading, show);
                let ends = lines_in(behind).any(|line| !line.is_empty());
                if (ends || self.lines.next() > after)
                    && matches!(self.screen, FullScreen::Begins { .. })
                {
                    self.tell_screen(after, reading, show);
                }
                if ends {
                    self.screen = FullScreen::No;
                }
                rest = (behind_line, behind);
            }
        }
        self.settle(rest.0, rest.1, at, reading, show);
    }

    fn settle(
        &mut self,
        first_line: i64,
        chunk: &str,
        at: i64,
        reading: Reading<'_>,
        show: &mut dyn FnMut(Shown<'_>),
    ) {
        if chunk.is_empty() {
            return;
        }
        let holds = self.holds(at, reading);
        let agent = self.agent.as_deref();
        self.lines.settle(
            first_line,
            chunk,
            (at, holds),
            &|row| reading.shows(agent, row),
            &mut |print| show(Shown::Text(print)),
        );
    }

    /// Takes in what a line reads now.
    pub fn revised(
        &mut self,
        line: i64,
        text: &str,
        (at, is_there): (i64, bool),
        reading: Reading<'_>,
        show: &mut dyn FnMut(Shown<'_>),
    ) {
        let is_there = is_there && self.holds(at, reading) != Holds::Each;
        let print = &mut |print: Print<'_>| show(Shown::Text(print));
        if !self.lines.revise(line, text, (at, is_there), print) {
            return;
        }
        self.changed = at;
        match self.screen {
            FullScreen::Begins { after, .. } | FullScreen::Told { after }
                if line > after && !text.is_empty() =>
            {
                if matches!(self.screen, FullScreen::Begins { .. }) {
                    self.tell_screen(after, reading, show);
                }
                self.screen = FullScreen::No;
            }
            _ => {}
        }
    }

    /// A full-screen program has drawn something.
    pub fn drew_screen(&mut self, at: i64) {
        if self.screen == FullScreen::No {
            let after = self.lines.last_open().unwrap_or(self.lines.next());
            self.screen = FullScreen::Begins { after, since: at };
        }
    }

    /// Lines below this number are spent.
    pub fn skip_to(&mut self, next: i64) {
        self.lines.skip_to(next);
    }

    /// An agent, or none, is known to draw it.
    pub fn is_of(&mut self, agent: Option<&str>) {
        self.is_boxed_until = 0;
        if self.agent.as_deref() != agent {
            self.agent = agent.map(str::to_owned);
        }
    }

    /// Its number, and whether an agent draws it.
    pub fn drawn_by(&self) -> (u64, bool) {
        (self.number, self.agent.is_some())
    }

    /// What has rested by now.
    pub fn rest(&mut self, at: i64, reading: Reading<'_>, show: &mut dyn FnMut(Shown<'_>)) {
        if let FullScreen::Begins { after, since } = self.screen
            && since.saturating_add(COMMAND_SETTLES) <= at
        {
            self.tell_screen(after, reading, show);
        }
        if self.is_boxed_until > at {
            return;
        }
        let holds = self.holds(at, reading);
        let agent = self.agent.as_deref();
        self.lines.rest(
            (at, holds),
            &|row| reading.shows(agent, row),
            &mut |print| {
                show(Shown::Text(print));
            },
        );
    }

    /// When there will be something that has rested.
    pub fn due(&self, reading: Reading<'_>) -> Option<i64> {
        let screen = match self.screen {
            FullScreen::Begins { since, .. } => Some(since.saturating_add(COMMAND_SETTLES)),
            _ => None,
        };
        // Behind a box, lines wait as an agent's do.
        let holds = self.holds(self.is_boxed_until, reading);
        let lines = self
            .lines
            .due(holds)
            .map(|due| due.max(self.is_boxed_until));
        [screen, lines].into_iter().flatten().min()
    }

    /// What is held of its lines is printed: something else is about to be.
    pub fn release(&mut self, at: i64, reading: Reading<'_>, show: &mut dyn FnMut(Shown<'_>)) {
        if let Holds::OnScreen(_) = self.holds(at, reading) {
            let agent = self.agent.as_deref();
            self.lines
                .release(i64::MAX, &|row| reading.shows(agent, row), &mut |print| {
                    show(Shown::Text(print));
                });
        }
    }

    /// Its screen has so many rows.
    pub fn has_rows(&mut self, rows: u32) {
        self.rows = Some(i64::from(rows));
    }

    /// Nothing more comes: its open lines are its last.
    pub fn end(&mut self, reading: Reading<'_>, show: &mut dyn FnMut(Shown<'_>)) {
        if let FullScreen::Begins { after, .. } = self.screen {
            self.tell_screen(after, reading, show);
        }
        self.flush(i64::MAX, reading, show);
    }

    /// What is open or changes and is worth a look: number, text, and when it changed.
    pub fn live<'a>(&'a self, reading: Reading<'a>) -> impl Iterator<Item = (i64, &'a str, i64)> {
        let agent = self.agent.as_deref();
        let live = self.lines.live();
        live.filter(move |(_, text, _)| reading.kind(agent, text) != RowKind::Decoration)
    }

    fn tell_screen(&mut self, after: i64, reading: Reading<'_>, show: &mut dyn FnMut(Shown<'_>)) {
        self.flush(after, reading, show);
        show(Shown::FullScreen);
        self.screen = FullScreen::Told { after };
    }

    fn flush(&mut self, last: i64, reading: Reading<'_>, show: &mut dyn FnMut(Shown<'_>)) {
        let agent = self.agent.as_deref();
        self.lines
            .flush(last, &|row| reading.shows(agent, row), &mut |print| {
                show(Shown::Text(print));
            });
    }

    fn holds(&self, at: i64, reading: Reading<'_>) -> Holds {
        let is_drawn = self.agent.is_some() || at < self.is_boxed_until;
        match (is_drawn && reading.rules.is_some(), reading.holds) {
            (true, _) => Holds::Each,
            (false, true) => Holds::OnScreen(self.rows.unwrap_or(ROWS)),
            (false, false) => Holds::No,
        }
    }
}

impl Reading<'_> {
    /// Whether a row is worth a line.
    fn shows(self, agent: Option<&str>, row: &str) -> bool {
        self.kind(agent, row) == RowKind::Text
    }

    fn kind(self, agent: Option<&str>, row: &str) -> RowKind {
        match (self.rules, agent) {
            (Some(rules), Some(agent)) => rules.row_kind(agent, row),
            _ => RowKind::Text,
        }
    }
}

/// Whether a row looks like something that agents draw: the upper edge of a box, or a line across.
fn is_drawn(row: &str) -> bool {
    let row = row.trim();
    let row = row.strip_prefix('╭').unwrap_or(row);
    row.chars()
        .take(ACROSS_MIN)
        .filter(|c| matches!(c, '─' | '▄' | '▀'))
        .count()
        == ACROSS_MIN
}
