//! Finds the panes that a client names, and lists them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::arguments::ListPanes;
use super::context::Context;
use super::refusal::Refusal;
use super::result::{Budget, ToolResult};
use super::rows::{Around, question_of, rows_that_fit};
use crate::api::{Observer, STARTING, is_just_answered};
use crate::board::{Attention, Place, Row, is_elsewhere, listed};
use crate::event::PaneId;
use crate::face::{is_among, names_of};
use crate::thread::park;
use crate::tmux::{Listing, Server, Target};

/// The time for which an observer is awaited that has just been started.
const OBSERVER_WITHIN: Duration = Duration::from_secs(10);

/// The time for which an observer may be found that does not answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// The time for which a pane is awaited that may have just been made: a session is found within a second.
const PANE_WITHIN: Duration = Duration::from_millis(2_500);

/// The time within which the board has the question that a screen shows.
const QUESTION_WITHIN: Duration = Duration::from_millis(1_500);

/// The interval at which these are looked for.
const CHECK: Duration = Duration::from_millis(50);

/// The longest time until a tmux server answers: a hung one must not hold up the call.
const TMUX_TIME: Duration = Duration::from_secs(2);

/// The rows of a short list: what fits ends it earlier.
const ROWS: usize = 50;

/// What a client names.
#[derive(Debug)]
pub(super) struct Found {
    /// The rows of the panes, or of what else has the name.
    pub rows: Vec<Row>,
    /// The server and the target, if tmux itself knows the name.
    pub target: Option<(PathBuf, String)>,
}

/// What tmux has of a name.
#[derive(Debug, PartialEq)]
enum InTmux {
    /// These panes of the server at a socket.
    Panes(PathBuf, Vec<PaneId>),
    None,
    /// No server is known yet, or none answers.
    Unknown,
}

impl Context<'_> {
    /// Returns the observer, which may have just been started.
    pub fn observer(&self) -> Result<Observer, Refusal> {
        let now = self.clock().now();
        let (until, late) = (now + OBSERVER_WITHIN, now + ANSWERS_WITHIN);
        loop {
            match (self.server.find)() {
                Ok(observer) => match observer.board(None, Duration::ZERO) {
                    Ok(_) => return Ok(observer),
                    // It has just been ended or killed, and another one is found next.
                    Err(_) if self.clock().now() < late && !self.is_cancelled() => {
                        park(Some(CHECK));
                    }
                    Err(error) => return Err(not_answering(&error)),
                },
                Err(why)
                    if why == STARTING && self.clock().now() < until && !self.is_cancelled() =>
                {
                    park(Some(CHECK));
                }
                Err(why) => {
                    return Err(Refusal::new(
                        why,
                        "ask the user to run td-observe status in a terminal, which says more",
                    ));
                }
            }
        }
    }

    /// Returns all rows of the board, once it does not show a question any more that this server has just answered.
    pub fn rows(&self, observer: &Observer) -> Result<Vec<Row>, Refusal> {
        loop {
            let board = observer.board(None, Duration::ZERO);
            let board = board.map_err(|error| not_answering(&error))?;
            let rows = board.map_or_else(Vec::new, |(rows, _)| rows);
            let is_old = |row: &Row| {
                let question = row.question_id.as_ref().filter(|_| row.is_waiting());
                let question = row.pane.as_ref().zip(question);
                question.is_some_and(|(pane, id)| is_just_answered(pane, id, self.clock()))
            };
            if self.is_cancelled() || !rows.iter().any(is_old) {
                return Ok(rows);
            }
            park(Some(CHECK));
        }
    }

    /// Finds what a client names.
    pub fn find(&self, observer: &Observer, name: &str) -> Result<Found, Refusal> {
        self.find_within(observer, name, PANE_WITHIN)
    }

    /// Finds what a client names, and waits for so long for what does not exist yet.
    pub fn find_within(
        &self,
        observer: &Observer,
        name: &str,
        within: Duration,
    ) -> Result<Found, Refusal> {
        let until = self.clock().now() + within;
        loop {
            let rows = self.rows(observer)?;
            let is_late = self.clock().now() >= until || self.is_cancelled();
            let places = self.panes_of(observer, &rows, name)?;
            if let InTmux::Panes(socket, panes) = places {
                let found: Vec<Row> = panes
                    .iter()
                    .filter_map(|pane| row_in(&rows, &socket, pane, is_late))
                    .collect();
                if found.len() == panes.len() || is_late {
                    return Ok(Found {
                        rows: found,
                        target: Some((socket, name.to_owned())),
                    });
                }
            } else {
                let found = named(rows, name);
                if !found.is_empty() {
                    return Ok(Found {
                        rows: found,
                        target: None,
                    });
                }
                if is_late || places == InTmux::None {
                    let reason = format!("there is no pane {name:?}");
                    let advice =
                        "list_panes shows what there is, search_history also what has ended";
                    return Err(Refusal::of_arguments(reason, advice));
                }
            }
            park(Some(CHECK));
        }
    }

    /// Returns what tmux itself has of a name.
    fn panes_of(&self, observer: &Observer, rows: &[Row], name: &str) -> Result<InTmux, Refusal> {
        let Ok(target) = Target::parse(name) else {
            return Ok(InTmux::None);
        };
        let mut found = Vec::new();
        let mut has_answered = false;
        for socket in sockets(observer, rows) {
            let server = Server::socket(&socket)
                .with_timeout(TMUX_TIME)
                .until(self.stop.clone());
            let Ok(listing) = Listing::fetch(&server, self.clock()) else {
                continue;
            };
            has_answered = true;
            let panes = target.resolve(&listing);
            if !panes.is_empty() {
                let panes = panes.iter().map(|state| state.pane()).collect();
                found.push((socket, panes));
            }
        }
        if found.len() > 1 {
            let reason = format!("{} tmux servers have {name:?}", found.len());
            let advice = "give the id of its row, as list_panes shows it";
            return Err(Refusal::of_arguments(reason, advice));
        }
        Ok(match found.pop() {
            Some((socket, panes)) => InTmux::Panes(socket, panes),
            None if has_answered => InTmux::None,
            None => InTmux::Unknown,
        })
    }

    /// Finds the one live pane that a client names, with its row.
    pub fn one_pane(&self, observer: &Observer, name: &str) -> Result<(Row, Place), Refusal> {
        let found = self.find(observer, name)?;
        let live = found.rows.into_iter().filter(|row| !row.has_ended());
        let panes =
            live.filter_map(|row| Some((row.place().or_else(|| row.in_pane.clone())?, row)));
        let mut panes: Vec<(Place, Row)> = panes.collect();
        // A command and the pane that it runs in are one place.
        panes.dedup_by(|one, other| one.0 == other.0);
        match panes.pop() {
            Some((place, row)) if panes.is_empty() => Ok((row, place)),
            Some((last, _)) => {
                let ids = panes.iter().map(|(place, _)| place.pane.as_str());
                let ids: Vec<&str> = ids.chain([last.pane.as_str()]).collect();
                Err(Refusal::of_arguments(
                    format!("{name:?} has {} panes", ids.len()),
                    format!("give one of them: {}", ids.join(", ")),
                ))
            }
            None => Err(Refusal::of_arguments(
                format!("{name:?} is no pane that runs"),
                "read_output shows what it printed",
            )),
        }
    }

    /// Returns the present question of a pane, in full. The board may be about to have it.
    pub fn question(&self, observer: &Observer, place: &Place) -> Option<Value> {
        let until = self.clock().now() + QUESTION_WITHIN;
        loop {
            let rows = self.rows(observer).ok()?;
            let row = rows
                .iter()
                .find(|row| row.place().as_ref() == Some(place))?;
            let question = question_of(row, true);
            if question.is_some() || self.clock().now() >= until || self.is_cancelled() {
                return question;
            }
            park(Some(CHECK));
        }
    }
}

/// Returns the sockets of the observed tmux servers on this host.
fn sockets(observer: &Observer, rows: &[Row]) -> BTreeSet<PathBuf> {
    let observed = rows.iter().filter(|row| row.is_observed());
    let mut sockets: BTreeSet<PathBuf> = observed
        .filter_map(|row| row.server.as_ref())
        .filter(|server| !is_elsewhere(server))
        .map(PathBuf::from)
        .collect();
    if let Observer::Here(context) = observer {
        sockets.extend(context.panes.servers.iter().map(|of| of.socket.clone()));
    }
    sockets
}

/// Returns the row of a pane that tmux has. One that is kept after its program has a row that has ended, as has an earlier
/// pane with its id, so that such a row counts only once the pane has had the time to get its own.
fn row_in(rows: &[Row], socket: &Path, pane: &PaneId, is_late: bool) -> Option<Row> {
    let is_there = |row: &&Row| {
        let place = row.place();
        place.is_some_and(|place| Path::new(&place.server) == socket && place.pane == *pane)
    };
    let rows = rows.iter().filter(is_there);
    let live = rows.clone().find(|row| !row.has_ended());
    let last = || rows.filter(|_| is_late).max_by_key(|row| row.since);
    live.or_else(last).cloned()
}

/// Returns the rows with an id or a name; those that run, if there are any.
fn named(rows: Vec<Row>, name: &str) -> Vec<Row> {
    let names = names_of(&rows);
    let all = rows.into_iter().zip(names);
    let is_meant =
        |(row, names): &(Row, Vec<String>)| row.key().to_string() == name || is_among(names, name);
    let found: Vec<Row> = all.filter(is_meant).map(|(row, _)| row).collect();
    let runs = found.iter().any(|row| !row.has_ended());
    found
        .into_iter()
        .filter(|row| !runs || !row.has_ended())
        .collect()
}

fn not_answering(error: &crate::Error) -> Refusal {
    Refusal::new(
        format!("the observer does not answer: {error}"),
        "call again; if that fails, too, ask the user to run td-observe status",
    )
}

/// Lists the rows of the board.
pub(super) fn list(context: &Context<'_>, arguments: ListPanes) -> Result<ToolResult, Refusal> {
    let observer = context.observer()?;
    let rows = context.rows(&observer)?;
    let servers: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.server.as_deref())
        .collect();
    let has_servers = servers.len() > 1;
    let mut rows = match &arguments.pane {
        Some(name) => context.find(&observer, name)?.rows,
        None => listed(rows, |_| false),
    };
    if arguments.needs_you {
        rows.retain(|row| row.attention() == Attention::NeedsYou);
    }
    let begin = match arguments.cursor.as_deref().map(str::parse::<usize>) {
        None => 0,
        Some(Ok(begin)) => begin,
        Some(Err(_)) => {
            let advice = "give next_cursor of an earlier list_panes, or none";
            return Err(Refusal::of_arguments(
                "the cursor is none of list_panes",
                advice,
            ));
        }
    };
    let around = Around {
        now: context.clock().wall(),
        own: context.server.own.as_ref(),
        has_servers,
        is_whole: arguments.pane.is_some(),
    };
    let total = rows.len();
    let rest = rows.get(begin..).unwrap_or_default();
    let mut budget = Budget::new(arguments.limit.is_some());
    let limit = arguments.limit.unwrap_or(ROWS).max(1);
    let panes = rows_that_fit(rest, limit, &mut budget, &around);
    let mut fields = Map::new();
    if panes.len() < rest.len() {
        fields.insert(
            "next_cursor".to_owned(),
            json!((begin + panes.len()).to_string()),
        );
    }
    fields.insert("panes".to_owned(), json!(panes));
    fields.insert("total".to_owned(), json!(total));
    Ok(ToolResult::new(fields))
}
