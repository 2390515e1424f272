//! `GET /api/v1/panes/{id}/screen`: the present screen of a pane, with its colours, redacted.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::context::ApiContext;
use super::panes::{self, ObservedServer, failed};
use super::request::Request;
use super::response::Response;
use crate::event::{Cursor, PaneId, ScreenRow, Styles, TdEvent};
use crate::redact::{Redactor, Rules};
use crate::thread::Stop;
use crate::tmux::PaneScreen;

/// The screen of a pane, redacted. Its fields are those of the response.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ScreenView {
    alternate: bool,
    pub cursor: Cursor,
    pub height: u32,
    pane: PaneId,
    pub rows: Vec<ScreenRow>,
    #[serde(default)]
    pub styles: Styles,
    title: String,
    width: u32,
}

/// Returns the response to a request for the screen of a pane. `is_view` states that it counts as viewed. For a
/// target with several panes, the active one is used.
pub(super) fn screen(
    context: &ApiContext,
    id: &str,
    request: &Request,
    is_view: bool,
    stop: &Stop,
) -> Response {
    match view(context, id, request.socket(), is_view, stop) {
        Ok(view) => Response::json(&view),
        Err(response) => response,
    }
}

/// Returns the screen of a pane.
///
/// # Errors
/// The response to send instead.
pub(super) fn view(
    context: &ApiContext,
    id: &str,
    server: Option<&Path>,
    is_view: bool,
    stop: &Stop,
) -> Result<ScreenView, Response> {
    let (socket, screen) = capture(context, id, server, stop)?;
    if is_view {
        context.note_view(&screen.pane, &socket);
    }
    Ok(redacted(&context.panes.rules, screen))
}

fn capture(
    context: &ApiContext,
    id: &str,
    chosen: Option<&Path>,
    stop: &Stop,
) -> Result<(PathBuf, PaneScreen), Response> {
    let (all, clock) = (&context.panes, &context.clock);
    let target = panes::target(id)?;
    let mut screens = Vec::new();
    match target.pane() {
        // A pane id needs no listing, so one tmux process per server suffices.
        Some(pane) => {
            for ObservedServer { server, socket } in all.servers(chosen, stop)? {
                match PaneScreen::capture(&server, &pane, clock) {
                    Ok(Some(screen)) => screens.push((socket, screen)),
                    Ok(None) => {}
                    Err(error) if error.is_gone() => {}
                    Err(error) => return Err(failed(&error)),
                }
            }
        }
        None => {
            let (socket, found) = all.find(&target, chosen, (stop, clock))?;
            if let Some(pane) = found.panes.first() {
                let screen = PaneScreen::capture(&found.server, pane, clock);
                let screen = screen.map_err(|error| failed(&error))?;
                screens.extend(screen.map(|screen| (socket, screen)));
            }
        }
    }
    panes::require_single(&target, screens)
}

/// Redacts a screen. Redacted rows lose their styles.
fn redacted(rules: &Rules, screen: PaneScreen) -> ScreenView {
    let PaneScreen {
        pane,
        title,
        width,
        height,
        cursor,
        alternate,
        rows,
        mut styles,
    } = screen;
    let numbered = (0..).zip(&rows);
    let numbered = numbered.map(|(row, text)| ScreenRow {
        row,
        text: text.clone(),
    });
    let mut event = TdEvent::ScreenSnapshot {
        execution_id: "screen".into(),
        pane: pane.clone(),
        width,
        height,
        rows: numbered.collect(),
    };
    Redactor::new(rules.clone()).event(&mut event);
    let redacted = match event {
        TdEvent::ScreenSnapshot { rows, .. } => rows,
        _ => Vec::new(),
    };
    styles.move_lines(|line| {
        let at = line as usize;
        let text = redacted.get(at).map(|row| row.text.as_str());
        (text == rows.get(at).map(String::as_str)).then_some(line)
    });
    ScreenView {
        alternate,
        cursor,
        height,
        pane,
        rows: redacted,
        styles,
        title: rules.text(&title).into_owned(),
        width,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Style;

    #[test]
    fn a_secret_over_two_rows_is_hidden_with_its_colours() {
        // The key is assembled at run time, so that this file contains no key.
        let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
        let style = |line, to| Style::new(line, 0, to, "31");
        for cut in 1..key.len() {
            let (head, tail) = key.split_at(cut);
            let blanks = " ".repeat(60 - head.len());
            let screen = PaneScreen {
                pane: "%1".into(),
                title: format!("at {key}"),
                width: 60,
                height: 3,
                cursor: Default::default(),
                alternate: false,
                rows: vec![
                    format!("{blanks}{head}"),
                    format!("{tail} x"),
                    "plain".to_owned(),
                ],
                styles: Styles::new(vec![style(0, 60), style(1, 1), style(2, 5)]),
            };
            let view = redacted(&Rules::builtin(), screen);
            let json = serde_json::to_value(view).unwrap();
            let text: String = json["rows"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["text"].as_str().unwrap())
                .collect();
            let text = text + json["title"].as_str().unwrap();
            // At most a part that is too short to be recognized as a key may remain.
            for part in [head, tail].iter().filter(|part| part.len() > 11) {
                assert!(!text.contains(&part[..12]), "{cut}: {json}");
            }
            assert!(!text.contains(&key), "{cut}: {json}");
            let styles = json["styles"].as_array().unwrap();
            assert_eq!(styles.last().unwrap(), &json!([2, 0, 5, "31"]), "{cut}");
            assert!(styles.len() < 3, "{cut}: {json}");
        }
    }
}
