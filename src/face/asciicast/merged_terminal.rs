//! Draws the whole run on one terminal: labelled lines of panes, as the console prints them, and other text
//! unchanged, with its open line below (pure).

use super::super::text_export::PlainText;
use super::pane_terminal::DEFAULT_SIZE;
use super::terminal::ExportTerminal;
use crate::event::{Envelope, TdEvent};
use crate::face::console::Console;
use crate::recording::{Encoder, EventCode};

/// The size for runs with panes, which has room for labels and for the last lines of several panes.
const PANES_SIZE: (usize, usize) = (120, 40);

const ERASE_LINE: &str = "\r\x1b[K";

/// One terminal for all panes and executions.
#[derive(Debug)]
pub(super) struct MergedTerminal {
    console: Console,
    plain: PlainText,
    /// The open line on the terminal's last row.
    live: String,
    size: (usize, usize),
    exit_status: Option<i32>,
}

impl MergedTerminal {
    pub fn new() -> Self {
        Self {
            console: Console::default(),
            plain: PlainText::new("\r\n"),
            live: String::new(),
            size: DEFAULT_SIZE,
            exit_status: None,
        }
    }

    /// Replaces the open line by complete lines, and writes the new open line below them.
    fn write(&mut self, lines: String, live: String, encoder: &mut Encoder, out: &mut String) {
        let shown = lines + &live;
        let before = std::mem::replace(&mut self.live, live);
        // Text that continues the open line is written unchanged.
        let data = match shown.strip_prefix(before.as_str()) {
            Some(more) => more.to_owned(),
            None => [ERASE_LINE, shown.as_str()].concat(),
        };
        if !data.is_empty() {
            encoder.event(EventCode::Output, &data, out);
        }
    }
}

impl ExportTerminal for MergedTerminal {
    fn size(&self) -> (usize, usize) {
        self.size
    }

    fn exit_status(&self) -> Option<i32> {
        self.exit_status
    }

    fn push(&mut self, envelope: &Envelope, encoder: &mut Encoder, out: &mut String) {
        let event = &envelope.event;
        let mut data = String::new();
        let has_text = if is_tmux_event(event) {
            self.size = PANES_SIZE;
            self.plain.interrupt(&mut data);
            let mut lines = String::new();
            self.console.event(envelope, &mut lines);
            data.push_str(&lines.replace('\n', "\r\n"));
            true
        } else {
            self.plain.push(event, &mut data)
        };
        if let TdEvent::ExecutionCompleted {
            exit_code,
            signal,
            pane: None,
            ..
        } = event
        {
            // The same status as a shell reports for a signal.
            self.exit_status = exit_code.or(signal.map(|signal| signal.saturating_add(128)));
        }
        if has_text {
            encoder.write_header(self.size, out);
        }
        // The last column stays free, because some terminals wrap as soon as it is written.
        let live = self.plain.live(self.size.0 - 1);
        self.write(data, live, encoder, out);
    }

    fn finish(&mut self, encoder: &mut Encoder, out: &mut String) {
        let (mut data, mut lines) = (String::new(), String::new());
        self.plain.finish(&mut data);
        self.console.finish(&mut lines);
        data.push_str(&lines.replace('\n', "\r\n"));
        self.write(data, String::new(), encoder, out);
    }
}

fn is_tmux_event(event: &TdEvent) -> bool {
    event.pane().is_some() && !matches!(event, TdEvent::AgentState { .. })
        || matches!(
            event,
            TdEvent::SessionStarted { .. }
                | TdEvent::SessionRenamed { .. }
                | TdEvent::SessionEnded { .. }
        )
}
