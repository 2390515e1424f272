//! `GET /api/v1/panes/{id}/screen`: the present screen of a pane, with its colours, redacted.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::context::ApiContext;
use super::panes::{self, ObservedServer, failed};
use super::request::Request;
use super::response::Response;
use crate::event::{ScreenRow, TdEvent};
use crate::redact::{Redactor, Rules};
use crate::thread::Stop;
use crate::tmux::PaneScreen;

/// Returns the screen of a pane. `is_view` states that it counts as viewed. For a target with several panes, the
/// active one is used.
pub(super) fn screen(
    context: &ApiContext,
    id: &str,
    request: &Request,
    is_view: bool,
    stop: &Stop,
) -> Response {
    match capture(context, id, request, stop) {
        Ok((socket, screen)) => {
            if is_view {
                context.note_view(&screen.pane, &socket);
            }
            Response::json(&to_json(&context.panes.rules, screen))
        }
        Err(response) => response,
    }
}

fn capture(
    context: &ApiContext,
    id: &str,
    request: &Request,
    stop: &Stop,
) -> Result<(PathBuf, PaneScreen), Response> {
    let (all, clock) = (&context.panes, &context.clock);
    let target = panes::target(id)?;
    let mut screens = Vec::new();
    match target.pane() {
        // A pane id needs no listing, so one tmux process per server suffices.
        Some(pane) => {
            for ObservedServer { server, socket } in all.servers(request, stop)? {
                match PaneScreen::capture(&server, &pane, clock) {
                    Ok(Some(screen)) => screens.push((socket, screen)),
                    Ok(None) => {}
                    Err(error) if error.is_gone() => {}
                    Err(error) => return Err(failed(&error)),
                }
            }
        }
        None => {
            let (socket, found) = all.find(&target, request, (stop, clock))?;
            if let Some(pane) = found.panes.first() {
                let screen = PaneScreen::capture(&found.server, pane, clock);
                let screen = screen.map_err(|error| failed(&error))?;
                screens.extend(screen.map(|screen| (socket, screen)));
            }
        }
    }
    panes::require_single(&target, screens)
}

/// Converts a screen to JSON. Redacted rows lose their styles.
fn to_json(rules: &Rules, screen: PaneScreen) -> Value {
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
    json!({
        "pane": pane,
        "title": rules.text(&title),
        "width": width,
        "height": height,
        "cursor": cursor,
        "alternate": alternate,
        "rows": redacted,
        "styles": styles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Style, Styles};

    #[test]
    fn a_secret_over_two_rows_is_hidden_with_its_colours() {
        // The key is assembled at run time, so that this file contains no key.
        let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
        let style = |line, to| Style {
            line,
            from: 0,
            to,
            sgr: "31".to_owned(),
        };
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
            let json = to_json(&Rules::builtin(), screen);
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
