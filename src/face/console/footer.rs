//! The live rows of a terminal: alerts, then open and changing lines (pure).
//!
//! Live rows fill at most half of the terminal. Every pane gets one row before any pane gets two. Panes and
//! their lines keep their order, so that rows do not jump.

use super::alerts::{Alert, AlertKind};
use super::pane_display::PanePolicy;
use super::panes::{KnownPane, PaneKey};
use super::row_writer::RowWriter;
use crate::face::session_labels::SessionLabels;
use crate::face::tone::Tone;

/// The maximum number of rows of alerts below their heading.
const ALERT_ROWS_MAX: usize = 6;

/// The maximum number of live rows: more are hard to follow.
const ROWS_MAX: usize = 12;

/// The time, in microseconds, after which a pane at an empty prompt is hidden.
const PROMPT_SHOWN: i64 = 3_000_000;

/// An open or changing line: number, text, time of the last change.
type LiveLine<'a> = (i64, &'a str, i64);

/// Renders the live rows.
pub(super) struct Footer<'a> {
    pub rows: &'a RowWriter,
    pub labels: &'a SessionLabels,
    pub columns: usize,
    pub rows_max: usize,
}

impl Footer<'_> {
    /// Returns the number of live rows on a terminal.
    pub fn rows_max(terminal_rows: usize) -> usize {
        (terminal_rows / 2).clamp(1, ROWS_MAX)
    }

    /// Appends the alerts.
    pub fn push_alerts(&self, alerts: &[&Alert], out: &mut Vec<String>) {
        let room = self
            .rows_max
            .saturating_sub(out.len() + 1)
            .min(ALERT_ROWS_MAX);
        if alerts.is_empty() || room == 0 {
            return;
        }
        let heading = match alerts.len() {
            1 => "── 1 needs you ".to_owned(),
            count => format!("── {count} need you "),
        };
        out.push(self.rows.heading(&heading, self.columns));
        for alert in alerts.iter().take(room) {
            let label = self.labels.label(&alert.execution_id, alert.pane.as_ref());
            let tone = match alert.kind {
                AlertKind::AgentWaits => Tone::Caution,
                _ => Tone::Alarm,
            };
            let text = self.rows.styled(tone, &alert.text);
            out.extend(self.rows.fitting(&label, '!', &text, self.columns));
        }
    }

    /// Appends the open and changing lines of panes.
    pub fn push_panes(
        &self,
        panes: &[(&PaneKey, &KnownPane)],
        at: i64,
        policy: &PanePolicy,
        out: &mut Vec<String>,
    ) {
        let room = self.rows_max.saturating_sub(out.len());
        let newest = panes.iter().map(|(_, pane)| pane.display.changed).max();
        let mut shown: Vec<(usize, Vec<LiveLine<'_>>)> = Vec::new();
        for (position, (_, pane)) in panes.iter().enumerate() {
            let pane = &pane.display;
            let lines: Vec<_> = pane.live(policy).collect();
            let is_unchanged = pane.changed.saturating_add(PROMPT_SHOWN) <= at;
            let is_newest = Some(pane.changed) == newest;
            let is_prompt = matches!(&lines[..], [(_, text, _)] if is_prompt(text));
            let is_idle = is_prompt && is_unchanged && !is_newest;
            if !lines.is_empty() && !is_idle {
                shown.push((position, lines));
            }
        }
        // If not all panes fit, those that changed last are shown.
        shown.sort_by_key(|(position, _)| std::cmp::Reverse(panes[*position].1.display.changed));
        shown.truncate(room);
        shown.sort_by_key(|(position, _)| *position);
        // Each row goes to the first pane with the fewest rows.
        let mut row_counts = vec![0; shown.len()];
        for _ in 0..room {
            let has_more = (0..shown.len()).filter(|at| row_counts[*at] < shown[*at].1.len());
            let Some(at) = has_more.min_by_key(|at| row_counts[*at]) else {
                break;
            };
            row_counts[at] += 1;
        }
        for (rows, (position, lines)) in row_counts.iter().zip(&mut shown) {
            let ((id, pane), known) = panes[*position];
            let label = self.labels.label(id, Some(pane));
            // If not all lines of a pane fit, those that changed last are shown.
            lines.sort_by_key(|(number, _, changed)| std::cmp::Reverse((*changed, *number)));
            lines.truncate(*rows);
            lines.sort_by_key(|(number, _, _)| *number);
            for (number, text, _) in lines.iter() {
                let painted = known.styles.paint(*number, text);
                let painted = painted.unwrap_or_else(|| self.rows.styled(Tone::Plain, text));
                let row = self.rows.fitting(&label, '|', &painted, self.columns);
                out.extend(row);
            }
        }
    }
}

/// Returns true if a line is a shell's empty prompt, judged by its last character.
fn is_prompt(text: &str) -> bool {
    let ends = ['$', '#', '%', '>', '❯', '➜'];
    text.trim_end().ends_with(ends) && text.len() < 200
}
