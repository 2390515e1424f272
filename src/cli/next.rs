//! `td-observe next`: shows the pane that has needed the user longest, in the client of tmux or on this terminal.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::failure::Failure;
use super::options::{Options, own_server};
use super::signals::Signals;
use super::{observer, output, status};
use crate::api::get_board;
use crate::board::{Attention, Place, Row, listed};
use crate::clock::Clock;
use crate::event::PaneId;
use crate::face::{NAME_WIDTH, one_line, row_names, with_ellipsis};
use crate::feed::real;
use crate::tmux::{Server, Viewer, Viewers};

/// The exit code if nothing needs the user, or nothing that has a pane here.
const NOTHING: u8 = 1;

/// The time for which a client shows why it is here, unless a key is pressed.
const SHOWN: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/next.txt").trim_end())]
pub(super) struct TypedNext {
    /// The tmux client that is switched, and that is told what this command would print [default: the one used last]
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
}

/// Goes to the pane.
pub(super) fn run(options: &Options, typed: &TypedNext) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let Some(socket) = own_server() else {
        return attach(options, typed, &clock);
    };
    let server = Server::socket(&socket);
    let viewers = server.viewers(&clock)?;
    let client = match &typed.client {
        Some(name) => viewers.named(name).ok_or_else(|| {
            let name = one_line(name);
            usage!("--client: {server} has no client {name:?} on a terminal: tmux list-clients shows them")
        })?,
        None => viewers.last_used(None).ok_or_else(|| {
            failure!("no client shows {server}: tmux attach-session starts one")
        })?,
    };
    let seat = Seat {
        server: &server,
        viewers: &viewers,
        client,
        clock: &clock,
    };
    match switch(options, &seat, &socket) {
        Ok((text, code)) => seat.tell(typed, &text, code),
        // A key's command has no terminal on which it could fail.
        Err(failure) if typed.client.is_some() => {
            seat.tell(typed, failure.text(), ExitCode::SUCCESS)
        }
        Err(failure) => Err(failure),
    }
}

/// A client of tmux, and how to reach it.
struct Seat<'a> {
    server: &'a Server,
    viewers: &'a Viewers,
    client: &'a Viewer,
    clock: &'a Clock,
}

impl Seat<'_> {
    /// Tells the user in the client that was named, otherwise on standard output.
    fn tell(&self, typed: &TypedNext, text: &str, code: ExitCode) -> Result<ExitCode, Failure> {
        if typed.client.is_none() {
            output::print(&format!("{text}\n"))?;
            return Ok(code);
        }
        let viewers = self.viewers.only(self.client);
        let fitted = |columns: usize| with_ellipsis(&format!("td-observe: {text}"), columns);
        self.server
            .show_message(&viewers, fitted, SHOWN, self.clock)?;
        // tmux covers the pane with a message of its own for any other code.
        Ok(ExitCode::SUCCESS)
    }
}

/// Switches the client. Returns what the user is told, and the exit code.
fn switch(
    options: &Options,
    seat: &Seat<'_>,
    socket: &Path,
) -> Result<(String, ExitCode), Failure> {
    let Some(waiting) = Waiting::read(options)? else {
        return Ok((
            status::UNOBSERVED_TEXT.to_owned(),
            ExitCode::from(status::UNOBSERVED),
        ));
    };
    let socket = real(socket);
    let here = |place: &Place| real(Path::new(&place.server)) == socket;
    let Some(next) = waiting.after(here, &seat.client.pane) else {
        return Ok((waiting.without_pane(), ExitCode::from(NOTHING)));
    };
    seat.server
        .switch_client(seat.client, &next.place.pane, seat.clock)?;
    Ok((next.text(&waiting), ExitCode::SUCCESS))
}

/// Outside tmux, shows the pane on this terminal.
fn attach(options: &Options, typed: &TypedNext, clock: &Clock) -> Result<ExitCode, Failure> {
    if let Some(name) = &typed.client {
        let name = one_line(name);
        return Err(usage!(
            "--client {name:?}: this is not run by tmux, whose client that is"
        ));
    }
    if !output::has_terminal() {
        return Err(usage!(
            "next: neither tmux nor a terminal is here to show the pane: td-observe status prints what needs you"
        ));
    }
    let Some(waiting) = Waiting::read(options)? else {
        message!("{}", status::UNOBSERVED_TEXT);
        return Ok(ExitCode::from(status::UNOBSERVED));
    };
    let Some(next) = waiting.places.first() else {
        message!("{}", waiting.without_pane());
        return Ok(ExitCode::from(NOTHING));
    };
    let signals = Signals::catch(|| {})?;
    let server = Server::socket(&next.place.server);
    match server.attach(&next.place.pane, clock, &signals.first)? {
        Some(status) if !status.success() => {
            Err(failure!("tmux attach-session ended with {status}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// What needs the user.
struct Waiting {
    /// What has a pane on this host, those that have needed the user longest first.
    places: Vec<Needy>,
    /// The number of the others.
    others: usize,
}

/// A pane that needs the user.
struct Needy {
    place: Place,
    name: String,
    row: Row,
}

impl Waiting {
    /// Asks the observer; `None` if none runs.
    fn read(options: &Options) -> Result<Option<Self>, Failure> {
        let Some(known) = observer::running(&options.home()?)? else {
            return Ok(None);
        };
        let board = get_board(&known.socket, None, Duration::ZERO)
            .map_err(|error| failure!("the observer does not answer: {error:?}"))?;
        let (rows, _) = board.unwrap_or_default();
        Ok(Some(Self::of(listed(rows, |_| false))))
    }

    fn of(rows: Vec<Row>) -> Self {
        let names = row_names(&rows, NAME_WIDTH);
        let mut needy: Vec<(Row, String)> = rows
            .into_iter()
            .zip(names)
            .filter(|(row, _)| row.attention() == Attention::NeedsYou)
            .collect();
        needy.sort_by_key(|(row, _)| row.since);
        let all = needy.len();
        let places: Vec<Needy> = needy
            .into_iter()
            .filter_map(|(row, name)| {
                let place = row.place().or_else(|| row.in_pane.clone())?;
                // A pane that is gone cannot be shown.
                let is_shown = !row.has_ended() && !place.is_elsewhere();
                is_shown.then_some(Needy { place, name, row })
            })
            .collect();
        let others = all - places.len();
        Self { places, others }
    }

    /// Returns the pane that has needed the user longest, among those `here`; from one of them, the next one.
    fn after(&self, here: impl Fn(&Place) -> bool, shown: &PaneId) -> Option<&Needy> {
        let here: Vec<&Needy> = self
            .places
            .iter()
            .filter(|needy| here(&needy.place))
            .collect();
        let at = here.iter().position(|needy| needy.place.pane == *shown);
        let next = at.map_or(0, |at| at + 1);
        here.get(next).or_else(|| here.first()).copied()
    }

    /// Tells that no pane here needs the user.
    fn without_pane(&self) -> String {
        let elsewhere: Vec<&str> = self
            .places
            .iter()
            .map(|needy| needy.name.as_str())
            .collect();
        match (elsewhere.as_slice(), self.others) {
            ([], 0) => "nothing needs you".to_owned(),
            ([], 1) => "what needs you has no pane here: td-observe status names it".to_owned(),
            ([], others) => {
                format!("{others} that need you have no pane here: td-observe status names them")
            }
            (names, _) => format!("on another tmux server: {}", names.join(", ")),
        }
    }
}

impl Needy {
    /// Tells why the user is here, and how many others need him.
    fn text(&self, waiting: &Waiting) -> String {
        let row = &self.row;
        let words = row.asks.as_deref().unwrap_or(&row.last_line);
        let more = waiting.places.len() + waiting.others - 1;
        let more = match more {
            0 => String::new(),
            more => format!(" ({more} more)"),
        };
        let (name, state) = (&self.name, row.state.as_str());
        format!("{name} is {state}{more}: {}", one_line(words))
    }
}
