//! One pane as a terminal: what of its events is drawn, and how (pure).

use super::alternate_screen::Canvas;
use super::primary_screen::Paper;
use crate::event::{PaneId, TdEvent};
use crate::recording::{Encoder, EventCode};

/// What a terminal has where nothing is known of it.
pub(super) const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// The largest side of a pane that tmux makes; the format's readers take no more than 65,535.
const SIDE_MAX: u32 = 10_000;

/// The terminal of one pane.
#[derive(Debug)]
pub(super) struct PaneView {
    pane: PaneId,
    size: (usize, usize),
    paper: Paper,
    canvas: Canvas,
    /// The primary screen got another size while the alternate one was shown.
    is_stale: bool,
    /// Numbers below this one are spent.
    skipped_to: i64,
    /// What the pane's program exited with.
    exit_status: Option<i32>,
    /// What is to be written, built here and used again.
    data: String,
}

impl PaneView {
    pub fn new(pane: PaneId) -> Self {
        Self {
            pane,
            size: DEFAULT_SIZE,
            paper: Paper::new(DEFAULT_SIZE.0, DEFAULT_SIZE.1),
            canvas: Canvas::default(),
            is_stale: false,
            skipped_to: i64::MIN,
            exit_status: None,
            data: String::new(),
        }
    }

    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    pub fn exit_status(&self) -> Option<i32> {
        self.exit_status
    }

    pub fn unreached(&self) -> u64 {
        self.paper.unreached()
    }

    /// Whether the event is another pane's.
    pub fn is_foreign(&self, event: &TdEvent) -> bool {
        event.pane().is_some_and(|pane| *pane != self.pane)
    }

    /// Writes what an event does to the terminal. Nothing is drawn before the size is known.
    pub fn push(&mut self, event: &TdEvent, encoder: &mut Encoder, out: &mut String) {
        if self.is_foreign(event) {
            return;
        }
        match event {
            TdEvent::PaneOpened { width, height, .. } => {
                // Whoever looks anew says all that a full-screen program shows.
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
                    self.draw_lines(encoder, out, |paper, data| {
                        paper.settle(*first_line, chunk, data);
                    });
                }
            }
            TdEvent::OutputRevised { line, text, .. } => {
                self.draw_lines(encoder, out, |paper, data| {
                    paper.revise(*line, text, data);
                });
            }
            TdEvent::OutputGap {
                first_line,
                lost_lines,
                ..
            } => {
                let lost = lost_lines.and_then(|lost| i64::try_from(lost).ok());
                let next = first_line.saturating_add(lost.unwrap_or(0));
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
                self.canvas.draw(self.size, *cursor, rows, &mut self.data);
                self.write(encoder, out);
            }
            TdEvent::PaneClosed { exit_status, .. } => {
                self.exit_status = exit_status.or(self.exit_status);
                self.draw_lines(encoder, out, |_, _| {});
            }
            _ => {}
        }
    }

    fn set_size(&mut self, size: (usize, usize), encoder: &mut Encoder, out: &mut String) {
        if self.size != size {
            self.size = size;
            self.paper.resize(size.0, size.1);
            if encoder.has_header() {
                encoder.event(EventCode::Resize, &format!("{}x{}", size.0, size.1), out);
                if self.canvas.is_shown() {
                    self.is_stale = true;
                } else {
                    self.paper.repaint(&mut self.data);
                    self.write(encoder, out);
                }
            }
        }
        encoder.write_header(size, out);
    }

    /// The numbers below this one are spent, which is nothing to leave a full-screen program for.
    fn skip_to(&mut self, next: i64, encoder: &mut Encoder, out: &mut String) {
        self.skipped_to = self.skipped_to.max(next);
        if !self.canvas.is_shown() {
            self.draw_lines(encoder, out, |_, _| {});
        }
    }

    /// Draws on the primary screen: the full-screen program is gone.
    fn draw_lines(
        &mut self,
        encoder: &mut Encoder,
        out: &mut String,
        draw: impl FnOnce(&mut Paper, &mut String),
    ) {
        self.canvas.leave(&mut self.data);
        if std::mem::take(&mut self.is_stale) {
            self.paper.repaint(&mut self.data);
        }
        self.paper.skip_to(self.skipped_to, &mut self.data);
        draw(&mut self.paper, &mut self.data);
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

fn size(width: u32, height: u32) -> (usize, usize) {
    let side = |cells: u32| cells.clamp(1, SIDE_MAX) as usize;
    (side(width), side(height))
}
