//! Describes sessions, panes, gaps, warnings and errors (pure).

use super::description::Description;
use super::phrases::{HUNG_UP, count, failed_status};
use crate::event::{GapEvidence, PaneCloseReason, PaneViewer, SessionEndReason, TdEvent};
use crate::face::tone::Tone;
use crate::observe::PIPE_CONTEXT;

pub(super) fn describe(event: &TdEvent) -> Option<Description> {
    let (labelled, statement) = (Description::labelled, Description::statement);
    let detail = |text: String| Description::statement(Tone::Dim, text).detail_if(true);
    Some(match event {
        TdEvent::OutputUpdate {
            is_complete: true,
            exit_status: Some(status @ 1..),
            ..
        } if *status != HUNG_UP => statement(Tone::Caution, format!("exit status {status}")),
        TdEvent::OutputGap {
            lost_lines,
            reason,
            evidence,
            ..
        } => match (lost_lines, evidence.known()) {
            // A count confirms the gap: gaps of older logs have no evidence.
            (Some(lost), _) => {
                Description::missing(format!("{} lost ({reason})", count(*lost, "line")))
            }
            (None, Some(GapEvidence::Confirmed)) => {
                Description::missing(format!("lines lost ({reason})"))
            }
            (None, Some(GapEvidence::Possible) | None) => {
                Description::missing(format!("lines may be missing ({reason})")).detail_if(true)
            }
        },
        TdEvent::LogGap {
            first_seq,
            last_seq,
            ..
        } => {
            let text = format!("events {first_seq} to {last_seq} are not in the log");
            Description::missing(text)
        }
        TdEvent::SessionStarted { panes, .. } => {
            let panes = count(panes.len() as u64, "pane");
            statement(Tone::Dim, format!("watching {panes}"))
        }
        TdEvent::SessionRenamed { from, .. } => statement(Tone::Dim, format!("was called {from}")),
        TdEvent::SessionEnded {
            reason,
            exit_status,
            ..
        } => {
            let why = match reason.known() {
                Some(SessionEndReason::Closed) => "the session was closed",
                Some(SessionEndReason::ServerGone) => "the tmux server has gone",
                Some(SessionEndReason::Detached) => "it is no longer observed",
                None => reason.as_str(),
            };
            match failed_status(*exit_status) {
                None => statement(Tone::Dim, format!("ended: {why}")),
                Some(status) => statement(Tone::Alarm, format!("ended: {why}{status}")),
            }
        }
        TdEvent::PaneOpened {
            pane,
            width,
            height,
            command,
            ..
        } => detail(format!("pane {pane} opened: {command}, {width}x{height}")),
        TdEvent::PaneResized {
            pane,
            width,
            height,
            ..
        } => detail(format!("pane {pane} is {width}x{height} now")),
        TdEvent::PaneSeen { pane, by, .. } => {
            let place = match by.known() {
                Some(PaneViewer::Client) => "in tmux",
                Some(PaneViewer::Face) => "here",
                None => by.as_str(),
            };
            detail(format!("pane {pane} was looked at {place}"))
        }
        TdEvent::PaneClosed {
            pane,
            reason,
            exit_status,
            ..
        } => {
            let status = failed_status(*exit_status).unwrap_or_default();
            let why = match reason.known() {
                Some(PaneCloseReason::Closed) => "was closed",
                Some(PaneCloseReason::Moved) => "has moved to another session",
                None => reason.as_str(),
            };
            detail(format!("pane {pane} {why}{status}"))
        }
        TdEvent::PollerRestarted { source, cause, .. } => statement(
            Tone::Alarm,
            format!("{source} crashed and is back: {cause}"),
        ),
        TdEvent::Warning {
            context, message, ..
        } => labelled("warning", Tone::Caution, format!("{context}: {message}"))
            .detail_if(context == PIPE_CONTEXT),
        TdEvent::Error {
            context, message, ..
        } => {
            let rows = message.lines().map(str::trim).filter(|row| !row.is_empty());
            let message = rows.collect::<Vec<_>>().join(" · ");
            labelled("error", Tone::Alarm, format!("{context}: {message}"))
        }
        TdEvent::Unknown(_) => statement(Tone::Dim, event.type_name().to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_described_in_words() {
        let ended = |reason: &str| TdEvent::SessionEnded {
            execution_id: "a".into(),
            session: "a".into(),
            reason: reason.into(),
            exit_status: None,
        };
        let seen = |by: &str| TdEvent::PaneSeen {
            execution_id: "a".into(),
            pane: "%3".into(),
            by: by.into(),
        };
        for (event, words) in [
            (ended("server_gone"), "[ended: the tmux server has gone]"),
            (ended("closed"), "[ended: the session was closed]"),
            (ended("another"), "[ended: another]"),
            (seen("face"), "[pane %3 was looked at here]"),
            (seen("client"), "[pane %3 was looked at in tmux]"),
        ] {
            assert_eq!(describe(&event).unwrap().marked(), words);
        }
    }
}
