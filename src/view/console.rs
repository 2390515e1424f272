//! Events as lines for people: a session's label in its colour, then what happened (pure).
//!
//! One line a settled line. A line that is not settled yet (a prompt, a progress bar) is the live
//! line, which a terminal shows last and rewrites; there is at most one, the most recent. On a pipe
//! it is not shown until its pane or session ends with it. A settled line that reads differently
//! afterwards comes again, marked `~`.

use std::collections::HashMap;

use anstyle::{AnsiColor, Color, Reset, Style};
use unicode_width::UnicodeWidthStr;

use super::clean::{cut, push_clean};
use super::names::{COLOURS, Label, Names};
use crate::event::{Envelope, EventKind, PaneId, TdEvent};

/// Labels are padded to the widest one so far, up to this: more would leave no room for lines.
const LABEL_COLUMNS_MAX: usize = 20;

/// No red, which is for errors, and neither black nor white, which are backgrounds.
const PALETTE: [AnsiColor; COLOURS] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Yellow,
    AnsiColor::BrightCyan,
    AnsiColor::BrightGreen,
    AnsiColor::BrightMagenta,
    AnsiColor::BrightBlue,
    AnsiColor::BrightYellow,
];

/// How the console looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// With colours.
    pub coloured: bool,
    /// Labels as wide as each other, for eyes; else without padding, for programs.
    pub aligned: bool,
    /// Comings and goings of panes, too.
    pub verbose: bool,
}

/// What stood on a pane when observation began.
#[derive(Debug)]
pub(crate) struct Standing {
    pub session: String,
    pub pane: PaneId,
    pub lines: Vec<String>,
}

/// Renders events.
#[derive(Debug, Default)]
pub(crate) struct Console {
    look: Look,
    names: Names,
    panes: HashMap<(String, PaneId), Pane>,
    /// Whose unsettled line is the most recent.
    live: Option<(String, PaneId)>,
    label_columns: usize,
}

#[derive(Debug)]
struct Pane {
    /// The number of the first line that is not settled.
    next: i64,
    unsettled: Option<(i64, String)>,
    full_screen: bool,
}

impl Default for Pane {
    fn default() -> Self {
        Self {
            next: 1,
            unsettled: None,
            full_screen: false,
        }
    }
}

/// What a line is to the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Dim,
    Caution,
    Alarm,
}

impl Console {
    pub fn new(look: Look) -> Self {
        Self {
            look,
            ..Self::default()
        }
    }

    /// Adds a line that says how much was not shown.
    pub fn lagged(&self, missed: u64, out: &mut String) {
        let text = format!("… {missed} events were not shown: reading was too slow");
        push_line(out, self.look.coloured, Tone::Caution, &text);
    }

    /// Adds what stood on a pane when observation began; false when its session is not known yet.
    pub fn standing(&self, standing: &Standing, out: &mut String) -> bool {
        let Some(label) = self.names.label_of(&standing.session, &standing.pane) else {
            return false;
        };
        for line in &standing.lines {
            self.row(&label, '|', Tone::Dim, line, out);
        }
        true
    }

    /// The live line, within so many columns; without a line end.
    pub fn live(&self, columns: usize) -> Option<String> {
        let (id, pane) = self.live.as_ref()?;
        let (_, text) = self
            .panes
            .get(&(id.clone(), pane.clone()))?
            .unsettled
            .as_ref()?;
        let label = self.names.label(id, Some(pane));
        let (mut plain, mut shown) = (String::new(), String::new());
        push_clean(&mut plain, text);
        let taken = label.text.width().max(self.padding()) + 3;
        let text = cut(&plain, columns.checked_sub(taken)?);
        self.row_within(&label, '|', Tone::Plain, text, &mut shown);
        Some(shown)
    }

    /// Takes in what an event says about sessions and panes without showing it.
    pub fn note_only(&mut self, event: &TdEvent) {
        self.names.note(event);
        match event {
            TdEvent::SessionEnded { session, .. } => {
                self.names.forget(event.execution_id(), session);
            }
            TdEvent::PaneClosed { pane, .. } => {
                self.names.forget_pane(event.execution_id(), pane);
            }
            _ => {}
        }
    }

    /// Adds the lines of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        self.names.note(event);
        let (id, pane) = (event.execution_id(), event.pane());
        let label = self.names.label(id, pane);
        if self.look.aligned {
            let columns = label.text.width().min(LABEL_COLUMNS_MAX);
            self.label_columns = self.label_columns.max(columns);
        }
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                is_complete,
                exit_status,
                ..
            } => {
                self.lines(id, pane, *first_line, chunk, &label, out);
                if let (true, Some(status @ 1..)) = (is_complete, exit_status) {
                    self.note(
                        &label,
                        Tone::Caution,
                        &format!("[exit status {status}]"),
                        out,
                    );
                }
            }
            TdEvent::OutputRevised {
                pane, line, text, ..
            } => {
                self.revised(id, pane, *line, text, &label, out);
            }
            TdEvent::OutputGap {
                pane,
                first_line,
                lost_lines,
                reason,
                ..
            } => {
                let text = match lost_lines {
                    Some(1) => format!("… 1 line lost ({reason})"),
                    Some(lost) => format!("… {lost} lines lost ({reason})"),
                    None => format!("… lines may be missing ({reason})"),
                };
                let lost = lost_lines
                    .and_then(|lost| i64::try_from(lost).ok())
                    .unwrap_or(0);
                let known = self.pane(id, pane);
                known.next = known.next.max(first_line.saturating_add(lost));
                self.note(&label, Tone::Caution, &text, out);
            }
            TdEvent::ScreenUpdate { pane, .. } => {
                if !std::mem::replace(&mut self.pane(id, pane).full_screen, true) {
                    self.note(&label, Tone::Dim, "[full-screen program]", out);
                }
            }
            TdEvent::SessionStarted { session, panes, .. } => {
                let label = self.names.label_of_session(id, session);
                let panes = panes.len();
                let text = format!(
                    "[watching {panes} pane{}]",
                    if panes == 1 { "" } else { "s" }
                );
                self.note(&label, Tone::Dim, &text, out);
            }
            TdEvent::SessionRenamed { from, to, .. } => {
                let label = self.names.label_of_session(id, to);
                self.note(&label, Tone::Dim, &format!("[was called {from}]"), out);
            }
            TdEvent::SessionEnded {
                session, reason, ..
            } => {
                let label = self.names.label_of_session(id, session);
                for pane in self.names.forget(id, session) {
                    self.end_pane(id, &pane, &label, out);
                }
                self.note(&label, Tone::Dim, &format!("[ended: {reason}]"), out);
            }
            TdEvent::PaneOpened {
                pane,
                width,
                height,
                command,
                ..
            } => {
                if self.look.verbose {
                    let text = format!("[pane {pane} opened: {command}, {width}x{height}]");
                    self.note(&label, Tone::Dim, &text, out);
                }
            }
            TdEvent::PaneResized {
                pane,
                width,
                height,
                ..
            } => {
                if self.look.verbose {
                    let text = format!("[pane {pane} is {width}x{height} now]");
                    self.note(&label, Tone::Dim, &text, out);
                }
            }
            TdEvent::PaneClosed { pane, reason, .. } => {
                self.end_pane(id, pane, &label, out);
                self.names.forget_pane(id, pane);
                if self.look.verbose {
                    self.note(&label, Tone::Dim, &format!("[pane {pane} {reason}]"), out);
                }
            }
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => {
                let text = format!("… events {first_seq} to {last_seq} are not in the log");
                self.note(&label, Tone::Caution, &text, out);
            }
            TdEvent::PollerRestarted { source, cause, .. } => {
                let text = format!("[{source} crashed and is back: {cause}]");
                self.note(&label, Tone::Alarm, &text, out);
            }
            TdEvent::Warning {
                context, message, ..
            } => {
                self.note(
                    &label,
                    Tone::Caution,
                    &format!("[warning, {context}: {message}]"),
                    out,
                );
            }
            TdEvent::Error {
                context, message, ..
            } => {
                self.note(
                    &label,
                    Tone::Alarm,
                    &format!("[error, {context}: {message}]"),
                    out,
                );
            }
            other if other.kind() == EventKind::LogOpened => {}
            other => self.note(&label, Tone::Dim, &format!("[{}]", other.type_name()), out),
        }
    }

    fn pane(&mut self, id: &str, pane: &PaneId) -> &mut Pane {
        self.panes.entry((id.to_owned(), pane.clone())).or_default()
    }

    fn lines(
        &mut self,
        id: &str,
        pane: &PaneId,
        first_line: i64,
        chunk: &str,
        label: &Label,
        out: &mut String,
    ) {
        let mut next = first_line;
        for line in chunk.split_terminator('\n') {
            self.row(label, '|', Tone::Plain, line, out);
            next = next.saturating_add(1);
        }
        let known = self.pane(id, pane);
        known.next = known.next.max(next);
        known.full_screen = known.full_screen && chunk.is_empty();
        let next = known.next;
        known.unsettled.take_if(|(line, _)| *line < next);
    }

    fn revised(
        &mut self,
        id: &str,
        pane: &PaneId,
        line: i64,
        text: &str,
        label: &Label,
        out: &mut String,
    ) {
        let known = self.pane(id, pane);
        known.full_screen = false;
        if line < known.next {
            // A row that vanished is nothing to read.
            if !text.is_empty() {
                self.row(label, '~', Tone::Plain, text, out);
            }
        } else if !text.is_empty() {
            known.unsettled = Some((line, text.to_owned()));
            self.live = Some((id.to_owned(), pane.clone()));
        } else {
            known.unsettled.take_if(|(shown, _)| *shown == line);
        }
    }

    /// The line that a pane ends with stays.
    fn end_pane(&mut self, id: &str, pane: &PaneId, label: &Label, out: &mut String) {
        let key = (id.to_owned(), pane.clone());
        if let Some(Pane {
            unsettled: Some((_, text)),
            ..
        }) = self.panes.remove(&key)
        {
            self.row(label, '|', Tone::Plain, &text, out);
        }
        self.live.take_if(|live| *live == key);
    }

    fn note(&self, label: &Label, tone: Tone, text: &str, out: &mut String) {
        self.row(label, '|', tone, text, out);
    }

    fn row(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        self.row_within(label, mark, tone, text, out);
        out.push('\n');
    }

    fn row_within(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        let colour = Color::Ansi(PALETTE[label.colour % COLOURS]);
        styled(
            out,
            self.look.coloured,
            Style::new().fg_color(Some(colour)),
            &label.text,
        );
        let padding = self.padding().saturating_sub(label.text.width());
        out.extend(std::iter::repeat_n(' ', padding));
        out.push(' ');
        out.push(mark);
        if !text.is_empty() {
            out.push(' ');
            styled(out, self.look.coloured, tone.style(), text);
        }
    }

    fn padding(&self) -> usize {
        self.label_columns
    }
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Dim => Style::new().dimmed(),
            Self::Caution => AnsiColor::Yellow.on_default(),
            Self::Alarm => AnsiColor::Red.on_default().bold(),
        }
    }
}

fn push_line(out: &mut String, coloured: bool, tone: Tone, text: &str) {
    styled(out, coloured, tone.style(), text);
    out.push('\n');
}

/// Adds cleaned text in a style.
fn styled(out: &mut String, coloured: bool, style: Style, text: &str) {
    if coloured && style != Style::new() {
        out.push_str(&style.render().to_string());
        push_clean(out, text);
        out.push_str(&Reset.render().to_string());
    } else {
        push_clean(out, text);
    }
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
