//! Draws the events of one pane on a terminal of its size (pure).

use super::alternate_screen::AlternateScreen;
use super::primary_screen::PrimaryScreen;
use super::terminal::ExportTerminal;
use crate::event::{Envelope, PaneId, TdEvent};
use crate::recording::{Encoder, EventCode};

/// The size of a terminal if the run does not record one.
pub(super) const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// The largest side of a tmux pane. Readers of the format accept at most 65,535.
const SIDE_MAX: u32 = 10_000;

#[derive(Debug)]
pub(super) struct PaneTerminal {
    pane: PaneId,
    size: (usize, usize),
    primary: PrimaryScreen,
    alternate: AlternateScreen,
    /// True if the size changed while the alternate screen was shown, so that the primary screen needs a
    /// repaint.
    is_stale: bool,
    /// Line numbers below this one are skipped.
    skipped_to: i64,
    exit_status: Option<i32>,
    /// Output that is not written yet; reused.
    data: String,
}

impl PaneTerminal {
    pub fn new(pane: PaneId) -> Self {
        Self {
            pane,
            size: DEFAULT_SIZE,
            primary: PrimaryScreen::new(DEFAULT_SIZE.0, DEFAULT_SIZE.1),
            alternate: AlternateScreen::default(),
            is_stale: false,
            skipped_to: i64::MIN,
            exit_status: None,
            data: String::new(),
        }
    }

    fn set_size(&mut self, size: (usize, usize), encoder: &mut Encoder, out: &mut String) {
        if self.size != size {
            self.size = size;
            self.primary.resize(size.0, size.1);
            if encoder.has_header() {
                encoder.event(EventCode::Resize, &format!("{}x{}", size.0, size.1), out);
                if self.alternate.is_shown() {
                    self.is_stale = true;
                } else {
                    self.primary.repaint(&mut self.data);
                    self.write(encoder, out);
                }
            }
        }
        encoder.write_header(size, out);
    }

    /// Skips the line numbers below `next`. Does not leave the alternate screen.
    fn skip_to(&mut self, next: i64, encoder: &mut Encoder, out: &mut String) {
        self.skipped_to = self.skipped_to.max(next);
        if !self.alternate.is_shown() {
            self.draw_lines(encoder, out, |_, _| {});
        }
    }

    /// Leaves the alternate screen, and draws on the primary screen.
    fn draw_lines(
        &mut self,
        encoder: &mut Encoder,
        out: &mut String,
        draw: impl FnOnce(&mut PrimaryScreen, &mut String),
    ) {
        self.alternate.leave(&mut self.data);
        if std::mem::take(&mut self.is_stale) {
            self.primary.repaint(&mut self.data);
        }
        self.primary.skip_to(self.skipped_to, &mut self.data);
        draw(&mut self.primary, &mut self.data);
        self.write(encoder, out);
    }

    fn write(&mut self, encoder: &mut Encoder, out: &mut String) {
        if !self.data.is_empty() {
            encoder.write_header(self.size, out);
            encoder.event(EventCode::Output, &self.data, out);
            self.data.clear();
        }
    }
}

impl ExportTerminal for PaneTerminal {
    fn includes(&self, event: &TdEvent) -> bool {
        event.pane().is_none_or(|pane| *pane == self.pane)
    }

    fn size(&self) -> (usize, usize) {
        self.size
    }

    fn exit_status(&self) -> Option<i32> {
        self.exit_status
    }

    fn unreached(&self) -> u64 {
        self.primary.unreached()
    }

    fn push(&mut self, envelope: &Envelope, encoder: &mut Encoder, out: &mut String) {
        match &envelope.event {
            TdEvent::PaneOpened { width, height, .. } => {
                // A new observer reports the complete screen of a full-screen program again.
                self.draw_lines(encoder, out, |_, _| {});
                self.set_size(size(*width, *height), encoder, out);
            }
            TdEvent::PaneResized { width, height, .. } => {
                self.set_size(size(*width, *height), encoder, out);
            }
            TdEvent::OutputUpdate {
                first_line,
                chunk,
                exit_status,
                ..
            } => {
                self.exit_status = exit_status.or(self.exit_status);
                if chunk.is_empty() {
                    self.skip_to(*first_line, encoder, out);
                } else {
                    self.draw_lines(encoder, out, |primary, data| {
                        primary.settle(*first_line, chunk, data);
                    });
                }
            }
            TdEvent::OutputRevised { line, text, .. } => {
                self.draw_lines(encoder, out, |primary, data| {
                    primary.revise(*line, text, data);
                });
            }
            TdEvent::OutputGap {
                first_line,
                lost_lines,
                ..
            } => {
                let next = first_line.saturating_add_unsigned(lost_lines.unwrap_or(0));
                self.skip_to(next, encoder, out);
            }
            TdEvent::ScreenUpdate {
                width,
                height,
                cursor,
                rows,
                ..
            } => {
                self.set_size(size(*width, *height), encoder, out);
                self.alternate
                    .draw(self.size, *cursor, rows, &mut self.data);
                self.write(encoder, out);
            }
            TdEvent::PaneClosed { exit_status, .. } => {
                self.exit_status = exit_status.or(self.exit_status);
                self.draw_lines(encoder, out, |_, _| {});
            }
            _ => {}
        }
    }
}

fn size(width: u32, height: u32) -> (usize, usize) {
    let side = |cells: u32| cells.clamp(1, SIDE_MAX) as usize;
    (side(width), side(height))
}
