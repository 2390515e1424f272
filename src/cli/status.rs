//! `td-observe status`: prints the board of the observer or of the history.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use crossbeam_channel::select_biased;

use super::failure::Failure;
use super::observer::Announcement;
use super::options::Options;
use super::signals::Signals;
use super::{known, observer, output};
use crate::agent::StateRules;
use crate::api::{dismiss_row, get_board, get_problems};
use crate::board::{Attention, ExecutionKind, Place, Row, listed};
use crate::clock::Clock;
use crate::event::PaneId;
use crate::face::{BoardTable, NAME_WIDTH, is_among, names_of, one_line, row_names, terminal_size};
use crate::feed::board_of_history;
use crate::history::DataDir;
use crate::thread::park;

/// The time for which the observer holds a request while nothing changes, and after which the history is read
/// again.
const HOLD: Duration = Duration::from_secs(1);

/// The time that `--check` waits for panes that are not read yet.
const READING_TIME: Duration = Duration::from_secs(3);

/// The pause between two looks for an observer that is starting.
const START_POLL: Duration = Duration::from_millis(20);

/// The exit code if nothing observes.
pub(super) const UNOBSERVED: u8 = 3;

/// Tells it.
#[cfg(feature = "tui")]
pub(super) const UNOBSERVED_TEXT: &str = "nothing observes: td-observe start begins it";

/// Prints the board.
pub(super) fn run(options: &Options, typed: &TypedStatus) -> Result<ExitCode, Failure> {
    let template = typed.format.as_deref().map(Template::parse).transpose()?;
    let clock = Clock::system();
    let mut source = Source {
        data: options.home()?,
        socket: None,
        etag: None,
        is_observed: false,
        known: None,
        reads_hosts: options.reads_hosts(),
        problems: Vec::new(),
        reported_problems: Vec::new(),
        lacks: Vec::new(),
        notice: None,
        has_reported: false,
        clock,
    };
    if typed.print_socket {
        return print_socket(&source.data);
    }
    if typed.watch {
        return watch(options, typed, &mut source);
    }
    if !typed.ack.is_empty() {
        return dismiss(typed, &mut source);
    }
    let selected = if typed.check {
        source.read_rows(&typed.targets)?
    } else {
        selected(source.rows(None)?.unwrap_or_default(), &typed.targets)?
    };
    let rows = &selected.rows;
    source.report();
    let reading = rows.iter().filter(|row| row.is_unread()).count();
    if reading > 0 && !options.quiet {
        let panes = if reading == 1 { "pane" } else { "panes" };
        output::print_message(&format!("still reading {reading} {panes}"));
    }
    let text = match &template {
        _ if options.quiet => String::new(),
        Some(template) => template.fill(rows, &selected.names(NAME_WIDTH), source.is_observed),
        None if options.json => output::json_lines(rows),
        None => source.table((options, typed), &selected, false),
    };
    output::print(&text)?;
    let needs_you = rows
        .iter()
        .any(|row| row.attention() == Attention::NeedsYou);
    Ok(match typed.check {
        true if !source.is_observed => ExitCode::from(UNOBSERVED),
        true if needs_you => ExitCode::from(4),
        _ => ExitCode::SUCCESS,
    })
}

/// Prints the path of the socket of the running observer, for those who connect to it.
fn print_socket(data: &Path) -> Result<ExitCode, Failure> {
    let Some(known) = observer::running(data)? else {
        message!(
            "no observer runs for {}: td-observe start begins one",
            data.display()
        );
        return Ok(ExitCode::from(UNOBSERVED));
    };
    output::print(&format!("{}\n", known.socket.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Dismisses the named rows until their next change.
fn dismiss(typed: &TypedStatus, source: &mut Source) -> Result<ExitCode, Failure> {
    let all = source.rows(None)?.unwrap_or_default();
    let Some(socket) = source.socket.clone() else {
        source.report();
        return Ok(ExitCode::from(UNOBSERVED));
    };
    for row in selected(all, &typed.ack)?.rows {
        let dismissed = dismiss_row(&socket, &row.key().to_string(), true);
        dismissed.map_err(|why| failure!("{} is not dismissed: {why}", one_line(&row.name)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the board at each change, until a signal arrives or the output is closed.
fn watch(options: &Options, typed: &TypedStatus, source: &mut Source) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(|| {})?;
    let is_redrawn = std::io::stdout().is_terminal() && !options.json;
    let mut shown: Vec<Row> = Vec::new();
    let mut is_first = true;
    loop {
        if !signals.first.is_empty() || output::is_unread() {
            return Ok(ExitCode::SUCCESS);
        }
        let Some(rows) = source.rows(Some(HOLD))? else {
            continue;
        };
        source.report();
        let selected = selected(rows, &typed.targets).unwrap_or_default();
        if !is_first && selected.rows == shown {
            select_biased! {
                recv(signals.first) -> _ => return Ok(ExitCode::SUCCESS),
                recv(source.clock.after(source.pause())) -> _ => continue,
            }
        }
        let text = if options.json {
            output::json_lines(selected.rows.iter().filter(|row| !shown.contains(row)))
        } else {
            source.table((options, typed), &selected, is_redrawn)
        };
        let start = match (is_redrawn, is_first) {
            // Moves the cursor to the top and clears the terminal.
            (true, _) => "\x1b[H\x1b[2J",
            (false, false) if !options.json => "\n",
            _ => "",
        };
        if !options.quiet {
            output::print(&format!("{start}{text}"))?;
        }
        shown = selected.rows;
        is_first = false;
    }
}

/// The source of the rows.
struct Source {
    data: PathBuf,
    socket: Option<PathBuf>,
    etag: Option<String>,
    /// The rows are those of an observer.
    is_observed: bool,
    /// What the observer says of itself.
    known: Option<Announcement>,
    /// Several hosts are read as one.
    reads_hosts: bool,
    /// What the observer cannot do, and what of it was reported.
    problems: Vec<String>,
    reported_problems: Vec<String>,
    /// What the observer lacks, as last reported.
    lacks: Vec<String>,
    /// The reason why the rows are those of the history.
    notice: Option<String>,
    has_reported: bool,
    clock: Clock,
}

impl Source {
    /// Returns the rows; `None` if they have not changed for the time `hold`.
    fn rows(&mut self, hold: Option<Duration>) -> Result<Option<Vec<Row>>, Failure> {
        if self.socket.is_none() {
            self.known = observer::running(&self.data)?;
            self.socket = self.known.as_ref().map(|known| known.socket.clone());
        }
        self.is_observed = false;
        let history = format!(
            "this is the last state in the history {}",
            self.data.display()
        );
        let mut notice = match observer::left_behind(&self.data) {
            Some(pid) => format!(
                "nothing observes: no observer runs, because that of pid {pid} has died; {history}; td-observe start begins another"
            ),
            None => format!(
                "nothing observes: no observer runs; {history}; td-observe start begins one"
            ),
        };
        if let Some(socket) = self.socket.clone() {
            match get_board(&socket, self.etag.as_deref(), hold.unwrap_or_default()) {
                Ok(Some((rows, etag))) => {
                    self.etag = etag;
                    self.is_observed = true;
                    let problems = get_problems(&socket);
                    self.problems = match problems.as_slice() {
                        // Each names its host.
                        _ if self.reads_hosts => problems,
                        [] => Vec::new(),
                        [only] => vec![format!("the history cannot be written: {only}")],
                        [first, others @ ..] => vec![format!(
                            "the history cannot be written: {first}; and {} more",
                            others.len()
                        )],
                    };
                    return Ok(Some(rows));
                }
                Ok(None) => {
                    self.is_observed = true;
                    return Ok(None);
                }
                // The observer has ended, or another one has replaced it.
                Err(error) if error.is_gone() => {}
                Err(error) => notice = format!("nothing observes: {error:?}; {history}"),
            }
            (self.socket, self.etag) = (None, None);
        }
        let data = DataDir::new(self.data.clone());
        let (board, _) = board_of_history(&data, StateRules::builtin(), &self.clock)?;
        self.notice.get_or_insert(notice);
        Ok(Some(board.rows().cloned().collect()))
    }

    /// Returns the rows that the targets name, once their panes are read and a starting observer is ready, or
    /// without that after some seconds.
    fn read_rows(&mut self, targets: &[String]) -> Result<Selected, Failure> {
        let deadline = self.clock.now() + READING_TIME;
        let is_starting = || -> Result<bool, Failure> {
            Ok(observer::is_running(&self.data)? && observer::running(&self.data)?.is_none())
        };
        while is_starting()? && self.clock.now() < deadline {
            park(Some(START_POLL));
        }
        let mut rows = self.rows(None)?.unwrap_or_default();
        loop {
            let now = self.clock.now();
            let chosen = selected(rows.clone(), targets)?;
            if now >= deadline || !chosen.rows.iter().any(Row::is_unread) || !self.is_observed {
                return Ok(chosen);
            }
            if let Some(changed) = self.rows(Some(HOLD.min(deadline - now)))? {
                rows = changed;
            }
        }
    }

    /// Reports once that the rows are those of the history, and a problem of the observer that is new.
    fn report(&mut self) {
        let new = self.problems.iter();
        let new = new.filter(|problem| !self.reported_problems.contains(problem));
        new.for_each(|problem| output::print_message(&one_line(problem)));
        self.reported_problems.clone_from(&self.problems);
        let known = self.known.as_ref().filter(|_| self.is_observed);
        let lacks = known.map(observer::lacks).unwrap_or_default();
        let new = lacks.iter().filter(|what| !self.lacks.contains(what));
        new.for_each(|what| output::print_message(what));
        self.lacks = lacks;
        if let Some(notice) = &self.notice
            && !std::mem::replace(&mut self.has_reported, true)
        {
            output::print_message(notice);
        }
    }

    /// Returns the pause before the next check for changes.
    fn pause(&self) -> Duration {
        match self.socket {
            Some(_) => Duration::ZERO,
            None => HOLD,
        }
    }

    /// Returns the table. A table that is redrawn is limited to the height of the terminal.
    fn table(
        &self,
        (options, typed): (&Options, &TypedStatus),
        selected: &Selected,
        is_redrawn: bool,
    ) -> String {
        let size = std::io::stdout().is_terminal().then(terminal_size);
        let table = BoardTable {
            width: size
                .map(|(columns, _)| columns)
                .or_else(columns_asked)
                .unwrap_or(120)
                .max(20),
            height: size.map(|(_, rows)| rows).filter(|_| is_redrawn),
            is_coloured: options.coloured,
            is_folded: !typed.all && typed.targets.is_empty(),
            now: self.clock.wall(),
        };
        table.render(&selected.rows, |width| selected.names(width))
    }
}

/// Returns the width in `COLUMNS`, which counts where there is no terminal, as for `--help`.
fn columns_asked() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.trim().parse().ok()
}

/// The rows that are shown.
#[derive(Default)]
pub(super) struct Selected {
    pub rows: Vec<Row>,
    /// The rows whose names those of the shown ones differ from, too.
    others: Vec<Row>,
}

impl Selected {
    /// Returns the names of the rows, at most `width` columns wide.
    fn names(&self, width: usize) -> Vec<String> {
        let all: Vec<Row> = self.rows.iter().chain(&self.others).cloned().collect();
        let mut names = row_names(&all, width);
        names.truncate(self.rows.len());
        names
    }
}

/// Returns the rows that the targets name; without targets, those that are listed.
pub(super) fn selected(rows: Vec<Row>, targets: &[String]) -> Result<Selected, Failure> {
    if targets.is_empty() {
        let rows = listed(rows, |_| false);
        let others = Vec::new();
        return Ok(Selected { rows, others });
    }
    let names = names_of(&rows);
    for target in targets {
        if !names.iter().any(|names| is_among(names, target)) {
            if let Some(host) = host_of(&rows, target) {
                let why = one_line(&host.last_line);
                let (host, state) = (one_line(&host.name), host.state.as_str());
                return Err(failure!(
                    "{host} is {state}, so {target:?} is not known: {why}"
                ));
            }
            // The names of all rows, then their panes and executions.
            let first = names.iter().filter_map(|names| names.first());
            let known = first.chain(names.iter().flatten()).map(String::as_str);
            let hint = known::hint(target, known, "td-observe status");
            let target = one_line(target);
            return Err(usage!("there is no row {target:?}{hint}"));
        }
    }
    let named = rows.into_iter().zip(names);
    let is_wanted = |names: &[String]| targets.iter().any(|target| is_among(names, target));
    let (rows, others): (Vec<_>, Vec<_>) = named.partition(|(_, names)| is_wanted(names));
    let rows_of = |named: Vec<(Row, _)>| named.into_iter().map(|(row, _)| row).collect();
    Ok(Selected {
        rows: rows_of(rows),
        others: rows_of(others),
    })
}

/// Returns the row of the host that is not read and that a target names.
fn host_of<'a>(rows: &'a [Row], target: &str) -> Option<&'a Row> {
    let (host, _) = target.split_once('/')?;
    let mut rows = rows.iter();
    rows.find(|row| row.kind == ExecutionKind::Host && row.name == host)
}

/// Returns the pane that a face shows by this name, or in whose foreground runs what it shows by this name, if the
/// observer of the server knows one. Names that tmux itself has are left to it.
pub(super) fn pane_named(options: &Options, name: &str, clock: &Clock) -> Option<PaneId> {
    let is_id = name.starts_with(['%', '$', '@']);
    // An observer that hangs delays only names that tmux does not have.
    if is_id || known::Targets::of(&options.server, clock).contains(name) {
        return None;
    }
    let observer = observer::running(&options.home().ok()?).ok()??;
    let (rows, _) = get_board(&observer.socket, None, Duration::ZERO).ok()??;
    let socket = options.server.socket_path()?;
    let of_server = |place: &Place| Path::new(&place.server) == socket.as_path();
    let named = rows.iter().zip(names_of(&rows));
    let named = named.filter(|(row, names)| !row.has_ended() && is_among(names, name));
    let places = named.filter_map(|(row, _)| row.place().or_else(|| row.in_pane.clone()));
    let mut panes: BTreeSet<PaneId> = places.filter(of_server).map(|place| place.pane).collect();
    panes.pop_first().filter(|_| panes.is_empty())
}

/// The parsed text of `--format`.
#[derive(Debug)]
struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Count(Attention),
    Total,
    First,
    Observer,
}

impl Template {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| usage!("--format: a brace is not closed in {text:?}"))?;
            parts.push(Part::Text(before.to_owned()));
            let count = Attention::ALL
                .iter()
                .find(|attention| attention.as_str() == name);
            parts.push(match (count, name) {
                (Some(attention), _) => Part::Count(*attention),
                (None, "total") => Part::Total,
                (None, "first") => Part::First,
                (None, "observer") => Part::Observer,
                (None, name) => {
                    return Err(usage!("--format: {{{name}}} is unknown; there are {{needs_you}}, {{finished}}, {{working}}, {{quiet}}, {{total}}, {{first}} and {{observer}}"));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    fn fill(&self, rows: &[Row], names: &[String], is_observed: bool) -> String {
        let needs_you = |(row, _): &(&Row, &String)| row.attention() == Attention::NeedsYou;
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Count(attention) => {
                let counted = rows.iter().filter(|row| row.attention() == *attention);
                counted.count().to_string()
            }
            Part::Total => rows.len().to_string(),
            Part::Observer if is_observed => "observing".to_owned(),
            Part::Observer => "nothing observes".to_owned(),
            Part::First => (rows.iter().zip(names))
                .find(needs_you)
                .map_or_else(String::new, |(_, name)| name.clone()),
        });
        one_line(&parts.collect::<String>()) + "\n"
    }
}

// The arguments of `td-observe status`.

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/status.txt").trim_end())]
pub(super) struct TypedStatus {
    /// A session, a run or a %pane; all by default
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(known::rows))]
    pub targets: Vec<String>,
    /// Print each row of a tmux server that has ended
    #[arg(long)]
    pub all: bool,
    /// Print the board again when it changes, until Ctrl-C
    #[arg(long, conflicts_with_all = ["format", "check"])]
    pub watch: bool,
    /// Exit with 4 if something needs you, and with 3 if nothing observes
    #[arg(long)]
    pub check: bool,
    /// Dismiss this row until its next change (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["targets", "watch", "check", "format"],
        add = ArgValueCompleter::new(known::rows))]
    pub ack: Vec<String>,
    /// Print the path of the observer's socket alone; exit code 3 if no observer runs
    #[cfg_attr(feature = "hosts", arg(conflicts_with = "hosts"))]
    #[arg(long, conflicts_with_all = ["targets", "watch", "check", "format", "ack", "all"])]
    pub print_socket: bool,
    /// Print one line with these counts
    #[arg(long, value_name = "TEXT")]
    pub format: Option<String>,
    #[cfg(feature = "hosts")]
    #[command(flatten)]
    pub hosts: super::hosts::TypedHosts,
}
