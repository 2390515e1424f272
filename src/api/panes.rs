//! The panes of the observed tmux servers: finds the target of a request, shows its screen and types into it. A
//! request for the screen of a pane counts as a view.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::http::Request;
use super::http::Response;
use super::typing::Input;
use crate::board::{Attention, Row};
use crate::bus::EventBus;
use crate::clock::Clock;
use crate::engine::LogTroubles;
use crate::error::{Error, Result};
use crate::event::{Cursor, PaneId, PaneViewer, ScreenRow, Styles, TdEvent};
use crate::feed::{Feed, real};
use crate::observe::{ObservedSessions, RunProvider};
use crate::redact::{Redactor, Rules};
use crate::thread::Stop;
use crate::timestamp::Timestamp;
use crate::tmux::{Listing, PaneScreen, Server, Target, Typing};

/// The shortest time between two `PaneSeen` events of a pane, unless its row has finished or needs the user.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The parts of the observer that requests use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApiContext {
    pub feed: Feed,
    /// The observer's bus, for views of panes by clients.
    pub bus: Arc<EventBus>,
    pub clock: Clock,
    /// The panes that clients can view and type into.
    pub panes: Panes,
    /// The observer's sessions, for waits.
    pub sessions: ObservedSessions,
    /// The runs whose logs cannot be written.
    pub log_troubles: LogTroubles,
    /// The observer's runs, for dismissals; without them, events are only emitted.
    pub runs: Option<Arc<dyn RunProvider>>,
}

impl fmt::Debug for ApiContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("ApiContext").field("feed", &self.feed)).finish_non_exhaustive()
    }
}

impl ApiContext {
    /// Emits `PaneSeen` for a pane that a face has shown, unless the board already has a recent view.
    fn note_view(&self, pane: &PaneId, socket: &Path) {
        let now = self.clock.wall();
        for row in self.feed.rows() {
            let is_due = row.pane.as_ref() == Some(pane) && is_due(&row, now);
            if is_due && self.is_of_server(&row, socket) {
                let emitter = self.bus.emitter_for(&row.execution_id);
                emitter.pane_seen(pane, PaneViewer::Face);
            }
        }
    }

    /// Returns the present row of a pane of the tmux server at a socket.
    pub(super) fn row_of(&self, pane: &PaneId, socket: &Path) -> Option<Row> {
        let rows = self.feed.rows().into_iter();
        let mut rows = rows.filter(|row| row.pane.as_ref() == Some(pane) && !row.has_ended());
        rows.find(|row| self.is_of_server(row, socket))
    }

    /// Returns true if a row belongs to the tmux server at a socket. Other servers may have a pane with the
    /// same id.
    fn is_of_server(&self, row: &Row, socket: &Path) -> bool {
        let run = self.feed.data().run(&row.execution_id);
        let metadata = run.metadata().ok().flatten();
        let identity = metadata.and_then(|metadata| metadata.identity);
        identity.is_some_and(|identity| Path::new(&identity.socket) == socket)
    }
}

/// Returns true if a view of the row must be reported: immediately if the row has finished or needs the user;
/// otherwise if it has changed since the last view, at most once a minute.
fn is_due(row: &Row, now: Timestamp) -> bool {
    if !row.is_observed() {
        // The row has no source that could emit.
        return false;
    }
    let Some(seen) = row.seen else {
        return true;
    };
    let age = now.micros().saturating_sub(seen.micros());
    let is_old = u128::try_from(age).is_ok_and(|age| age >= REPORT_INTERVAL.as_micros());
    let has_news = row.last_output.is_some_and(|at| at > seen) || row.since > seen;
    match row.attention() {
        Attention::Finished => true,
        Attention::NeedsYou if row.since > seen => true,
        _ => has_news && is_old,
    }
}

/// A tmux server under observation, and its socket.
#[derive(Clone, Debug)]
pub(crate) struct ObservedServer {
    pub server: Server,
    pub socket: PathBuf,
}

/// The panes of all observed servers.
#[derive(Clone, Debug)]
pub(crate) struct Panes {
    pub servers: Vec<ObservedServer>,
    /// The redaction rules for responses.
    pub rules: Rules,
    /// Clients may type into panes.
    pub allows_input: bool,
}

/// The panes of a target, of one server.
#[derive(Debug)]
pub(super) struct FoundPanes {
    pub server: Server,
    /// The panes, at least one. The active pane of the current window comes first.
    pub panes: Vec<PaneId>,
}

impl Panes {
    /// Returns the servers, or the chosen one. Their queries end when the observer stops.
    pub fn servers(
        &self,
        chosen: Option<&Path>,
        stop: &Stop,
    ) -> Result<Vec<ObservedServer>, Response> {
        let is_chosen =
            |of: &&ObservedServer| chosen.is_none_or(|socket| real(socket) == real(&of.socket));
        let found = self
            .servers
            .iter()
            .filter(is_chosen)
            .map(|of| ObservedServer {
                server: of.server.clone().until(stop.clone()),
                socket: of.socket.clone(),
            });
        let found: Vec<ObservedServer> = found.collect();
        match (found.is_empty(), chosen) {
            (true, Some(socket)) => Err(Response::problem(
                404,
                &format!("no server at {socket:?} is observed: see /healthz"),
            )),
            _ => Ok(found),
        }
    }

    /// Finds the panes of a target among all servers; also returns the socket of their server.
    ///
    /// # Errors
    /// The response to send instead: 404 if there are none, 409 if several servers have some.
    pub(super) fn find(
        &self,
        target: &Target,
        chosen: Option<&Path>,
        (stop, clock): (&Stop, &Clock),
    ) -> Result<(PathBuf, FoundPanes), Response> {
        let mut found = Vec::new();
        for ObservedServer { server, socket } in self.servers(chosen, stop)? {
            let listing = match Listing::fetch(&server, clock) {
                Ok(listing) => listing,
                Err(error) if error.is_gone() => continue,
                Err(error) => return Err(failed(&error)),
            };
            let mut panes = target.resolve(&listing);
            panes.sort_by_key(|pane| !(pane.window_active && pane.pane_active));
            if !panes.is_empty() {
                let panes = panes.iter().map(|state| state.pane()).collect();
                found.push((socket, FoundPanes { server, panes }));
            }
        }
        require_single(target, found)
    }

    /// Returns an error unless input is allowed.
    pub fn check_input(&self) -> Result<(), Response> {
        if self.allows_input {
            return Ok(());
        }
        let why = "this observer types nothing: end it with td-observe stop, and allow input with td-observe start --allow-input";
        Err(Response::problem(403, why))
    }
}

/// Returns the result of the server that has the target, which must be the only one, and its socket.
fn require_single<T>(
    target: &Target,
    mut found: Vec<(PathBuf, T)>,
) -> Result<(PathBuf, T), Response> {
    if found.len() > 1 {
        let sockets: Vec<String> = found
            .iter()
            .map(|(socket, _)| socket.display().to_string())
            .collect();
        let why = format!(
            "{} servers have {:?}: choose one with ?socket=PATH, of {}",
            found.len(),
            target.as_str(),
            sockets.join(", ")
        );
        return Err(Response::problem(409, &why));
    }
    found.pop().ok_or_else(|| {
        let why = format!(
            "no observed server has {:?}: see /api/v1/board",
            target.as_str()
        );
        Response::problem(404, &why)
    })
}

/// Parses a target in a request path.
fn target(id: &str) -> Result<Target, Response> {
    Target::parse(id).map_err(|error| {
        let why = format!("{error}; in a path, % is written as %25, so that %3 is %253");
        Response::problem(400, &why)
    })
}

/// Parses a body, which must be a JSON object.
pub(super) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    // serde would also accept an array.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Response::problem(400, "the body is no JSON object"));
    }
    serde_json::from_slice(body)
        .map_err(|error| Response::problem(400, &format!("the body cannot be used: {error}")))
}

/// Returns the response to a request for which tmux failed.
pub(super) fn failed(error: &Error) -> Response {
    let status = match (error.is_timeout(), error.is_gone()) {
        (true, _) => 504,
        (_, true) => 404,
        _ => 500,
    };
    Response::problem(status, &error.to_string())
}

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
    pub title: String,
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
    let target = target(id)?;
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
                let screen = PaneScreen::capture(&found.server, pane, clock)
                    .map_err(|error| failed(&error))?;
                screens.extend(screen.map(|screen| (socket, screen)));
            }
        }
    }
    require_single(&target, screens)
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
    let numbered = (0..).zip(&rows).map(|(row, text)| ScreenRow {
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputBody {
    text: Option<String>,
    /// Press Enter after the text; defaults to true.
    enter: Option<bool>,
    keys: Option<Vec<String>>,
    /// The id of the question that the input answers.
    answers: Option<String>,
}

impl InputBody {
    fn typing(&self) -> Result<Typing> {
        match (&self.text, &self.keys, self.enter) {
            (Some(text), None, enter) => Typing::text(text, enter.unwrap_or(true)),
            (None, Some(keys), None) => Typing::keys(keys.clone()),
            _ => Err(Error::invalid(
                "give text, with enter true or false, or else keys",
            )),
        }
    }
}

/// Types into a pane, and responds with its id. `row_of` returns the present row of a pane of the server at a socket. For a target with several panes, the active one is used.
pub(super) fn input(
    all: &Panes,
    row_of: &dyn Fn(&PaneId, &Path) -> Result<Option<Row>>,
    (id, request, body): (&str, &Request, &[u8]),
    (stop, clock): (&Stop, &Clock),
) -> Response {
    let typed = || -> Result<Response, Response> {
        let target = target(id)?;
        let input: InputBody = parsed(body)?;
        let typing = input
            .typing()
            .map_err(|error| Response::problem(400, &error.to_string()))?;
        let (socket, found) = all.find(&target, request.socket(), (stop, clock))?;
        let typed = Input {
            typing,
            may_leave_enter: input.enter.is_none(),
            answers: input.answers.as_deref(),
        };
        let row_of = |pane: &PaneId| row_of(pane, &socket);
        let pane = typed.send((&found.server, &found.panes), &row_of, (stop, clock));
        Ok(Response::json(
            &json!({"pane": pane.map_err(|error| refused(&error))?}),
        ))
    };
    typed().unwrap_or_else(|response| response)
}

/// Returns the response to input that a pane refuses.
pub(super) fn refused(error: &Error) -> Response {
    if error.is_invalid_input() {
        Response::problem(409, &error.to_string())
    } else {
        failed(error)
    }
}

#[cfg(test)]
mod tests {
    mod screen {
        use serde_json::json;

        use super::super::*;
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

    mod input {
        use super::super::*;

        #[test]
        fn bodies_are_read_or_refused() {
            let read = |text: &str| {
                let input: InputBody = parsed(text.as_bytes()).ok()?;
                input.typing().ok()
            };
            let text = |text: &str, presses_enter| Typing::Text {
                text: text.to_owned(),
                presses_enter,
            };
            assert_eq!(read(r#"{"text":"a"}"#), Some(text("a", true)));
            assert_eq!(read(r#" {"text":"","enter":true}"#), Some(text("", true)));
            assert_eq!(
                read(r#"{"text":"a","enter":false}"#),
                Some(text("a", false))
            );
            let keys = Typing::Keys(vec!["Up".to_owned(), "Enter".to_owned()]);
            assert_eq!(read(r#"{"keys":["Up","Enter"]}"#), Some(keys));
            for wrong in [
                "",
                "x",
                "{}",
                "[\"a\"]",
                r#"{"text":"a","keys":["Up"]}"#,
                r#"{"keys":["Up"],"enter":true}"#,
                r#"{"keys":[]}"#,
                r#"{"keys":["rm"]}"#,
                r#"{"text":"a","more":1}"#,
                r#"{"text":"a\u0000"}"#,
                r#"{"text":7}"#,
                r#"{"text":"a"} x"#,
            ] {
                assert_eq!(read(wrong), None, "{wrong}");
            }
        }
    }
}
