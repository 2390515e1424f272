//! Searches the lines that the runs of a data directory have printed, the newest first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::UNIX_EPOCH;

use regex::Regex;
use serde::Serialize;
use serde_json::json;

use super::result::cost;

use super::cursor::{Cursor, SearchCursor};
use super::read::is_zero;
use crate::board::{ExecutionKind, Row, RowKey};
use crate::error::{Error, Result};
use crate::event::{Envelope, EventKind, ExecutionId, PaneId, TdEvent};
use crate::face::local_time::LocalTime;
use crate::face::row_log::is_shown;
use crate::face::view_lines::{Change, Content, LineView, agent_of};
use crate::feed::run_hash;
use crate::history::{DataDir, LogReader, Query, RunDirectory, RunKind, RunMetadata};
use crate::timestamp::{Timestamp, ago, local_time};

/// The number of matches of a result whose caller names none: a screen, as far as the budget allows.
const MATCHES: usize = 20;

/// The maximum number of matches, whatever the caller asks for; it bounds memory.
const MATCHES_MAX: usize = 1_000;

/// The longest line of a match, in characters, and what precedes the matching text in it if it is longer.
const LINE_CHARS_MAX: usize = 300;
const CHARS_BEFORE: usize = 100;

/// The time before the span of a search from which logs are read: lines begin earlier than they end, clocks are set
/// back a little, and the times of files are some milliseconds late.
const EARLIER_MICROS: i64 = 60_000_000;

/// The events of panes, except their lines, from which lines are built: few, and their words are not all in the log.
/// The log is searched for the text of the other lines without parsing it.
const OF_PANES: [EventKind; 9] = [
    EventKind::OutputGap,
    EventKind::PromptSent,
    EventKind::ToolCallStarted,
    EventKind::ToolCallCompleted,
    EventKind::ScreenSnapshot,
    EventKind::AgentCompleted,
    EventKind::AgentFailed,
    EventKind::PaneClosed,
    EventKind::Error,
];

/// What is searched.
#[derive(Debug)]
pub(super) struct SearchRequest<'a> {
    /// The text to find, in any case if it has no capital letter; or a regular expression.
    pub pattern: &'a str,
    pub is_regex: bool,
    /// The rows to search; `None` for those of all runs.
    pub rows: Option<&'a [Row]>,
    /// The time from which lines match.
    pub since: Option<Timestamp>,
    /// The maximum number of matches; defaults to 20.
    pub limit: Option<usize>,
    /// The maximum size of the matches in a result, in bytes; at least one match is returned.
    pub budget: usize,
    /// The last match of an earlier result, to continue with older ones.
    pub cursor: Option<&'a SearchCursor>,
}

/// The result of a search.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    /// The matching lines, the newest first.
    pub matches: Vec<Match>,
    /// The cursor from which the search continues; `None` if it is complete, or if it was stopped: newer lines may then
    /// match, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<SearchCursor>,
    /// True if no older line matches.
    pub complete: bool,
    /// The number of runs whose logs, or parts of them, cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub unread_runs: u64,
}

/// A matching line.
#[derive(Debug, Serialize)]
pub(super) struct Match {
    /// The id of the row.
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pane: Option<PaneId>,
    pub ts: Timestamp,
    /// The line, cut to the surroundings of the match if it is long.
    pub line: String,
    /// The place before the line, for `read_output`.
    pub cursor: Cursor,
}

/// Parses the beginning of a search: a time before now such as `12h`, or a point in time.
///
/// # Errors
/// [`Error::is_invalid_input`] for other text.
pub(super) fn parse_since(text: &str, now: Timestamp) -> Result<Timestamp> {
    let point = text.parse().ok().or_else(|| ago(text, now));
    let point = point.or_else(|| local_time(text, now));
    point.ok_or_else(|| {
        Error::invalid("since is no time: write 12h, 2d or a time as 2026-01-21T10:00:00Z")
    })
}

/// Searches the lines of rows or of all runs, until `is_over` returns true.
///
/// # Errors
/// [`Error::is_invalid_input`] if the pattern is empty or no regular expression, or if the runs cannot be listed.
pub(super) fn search_history(
    data: &DataDir,
    request: &SearchRequest<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<Found> {
    let mut search = Search::new(request, is_over)?;
    search.search(runs(data, request.rows)?);
    Ok(search.found(request.budget))
}

/// Returns the runs that may have lines, each with the time of its last activity, the latest first.
fn runs(data: &DataDir, rows: Option<&[Row]>) -> Result<Vec<(Timestamp, RunDirectory)>> {
    let directories = match rows {
        Some(rows) => {
            let ids: BTreeSet<&ExecutionId> = rows.iter().map(|row| &row.execution_id).collect();
            ids.into_iter().map(|id| data.run(id)).collect()
        }
        None => data.run_directories()?,
    };
    let dated = directories.into_iter().filter_map(|run| {
        // Between two files of its log, a run has none.
        let written = fs::metadata(run.events_path()).or_else(|_| fs::metadata(run.path()));
        let written = written.ok()?.modified().ok()?;
        let micros = written.duration_since(UNIX_EPOCH).ok()?.as_micros();
        let last = Timestamp::from_micros(i64::try_from(micros).ok()?);
        Some((last, run))
    });
    let mut runs: Vec<_> = dated.collect();
    runs.sort_by_key(|(last, run)| (Reverse(*last), run.execution_id().clone()));
    Ok(runs)
}

/// A search in progress.
struct Search<'a> {
    request: &'a SearchRequest<'a>,
    is_over: &'a dyn Fn() -> bool,
    /// Selects the events of panes.
    of_panes: Query,
    regex: Regex,
    local: LocalTime,
    limit: usize,
    /// The newest matches by their places.
    matches: BTreeMap<SearchCursor, Match>,
    /// True if the search has ended before its time.
    is_stopped: bool,
    unread_runs: u64,
}

impl<'a> Search<'a> {
    fn new(request: &'a SearchRequest<'a>, is_over: &'a dyn Fn() -> bool) -> Result<Self> {
        let empty = || Error::invalid("pattern: give a text");
        let typed = Some(request.pattern).filter(|typed| !typed.is_empty());
        let typed = typed.ok_or_else(empty)?;
        let pattern = if request.is_regex {
            typed.to_owned()
        } else if typed.chars().any(char::is_uppercase) {
            regex::escape(typed)
        } else {
            format!("(?i){}", regex::escape(typed))
        };
        let query = Query::all().text(&pattern)?;
        let lines = [EventKind::OutputUpdate, EventKind::TokenReceived];
        let query = (lines.iter()).fold(query, |query, kind| query.kind(kind.as_str()));
        let of_panes = (OF_PANES.iter()).fold(query, |query, kind| query.context(kind.as_str()));
        Ok(Self {
            request,
            is_over,
            regex: of_panes.text_regex().cloned().ok_or_else(empty)?,
            of_panes,
            local: LocalTime::of_system(),
            limit: request.limit.unwrap_or(MATCHES).clamp(1, MATCHES_MAX),
            matches: BTreeMap::new(),
            is_stopped: false,
            unread_runs: 0,
        })
    }

    /// Searches the runs, the latest first.
    fn search(&mut self, runs: Vec<(Timestamp, RunDirectory)>) {
        for (last, run) in runs {
            self.is_stopped = self.is_stopped || (self.is_over)();
            // The other runs ended earlier.
            if self.is_stopped || last < earlier(self.since()) {
                return;
            }
            if let Err(error) = self.search_run(&run)
                && run.exists()
            {
                log::debug!("{error:?}");
                self.unread_runs += 1;
            }
        }
    }

    /// Returns the time before which no line is in the result.
    fn since(&self) -> Timestamp {
        let asked = self.request.since;
        let asked = asked.unwrap_or(Timestamp::from_micros(i64::MIN));
        match self.matches.first_key_value() {
            Some((oldest, _)) if self.matches.len() >= self.limit => asked.max(oldest.ts),
            _ => asked,
        }
    }

    fn search_run(&mut self, run: &RunDirectory) -> Result<()> {
        let metadata = run.metadata().unwrap_or_default();
        let until = self.request.cursor.map(|cursor| cursor.ts);
        if let (Some(metadata), Some(until)) = (&metadata, until)
            && until < earlier(metadata.created)
        {
            return Ok(());
        }
        let mut rows = RunRows::new(run, metadata.as_ref(), self.request.rows);
        let mut query = match rows.kind {
            RunKind::Tmux => self.of_panes.clone(),
            // A line of other runs may begin in an event without the text.
            _ => Query::all(),
        };
        let since = self.since();
        if since > Timestamp::from_micros(i64::MIN) {
            query = query.since(earlier(since));
        }
        if let Some(until) = until {
            query = query.until(Timestamp::from_micros(until.micros().saturating_add(1)));
        }
        let mut log = LogReader::open(run, query)?;
        while let Some(record) = log.next_until(self.is_over) {
            self.take(&mut rows, &record.envelope);
        }
        self.unread_runs += u64::from(!log.report().problems.is_empty());
        self.is_stopped |= (self.is_over)();
        Ok(())
    }

    /// Adds the matching lines of an event.
    fn take(&mut self, rows: &mut RunRows<'_>, envelope: &Envelope) {
        let Some(part) = rows.part_of(&envelope.event, &self.local) else {
            return;
        };
        let (since, regex) = (self.since(), &self.regex);
        let mut found = Vec::new();
        part.content.push(envelope, &mut |change| {
            if let Change::Line(line) = change
                && line.ts >= since
                && let Some(at) = regex.find(&line.text.text)
            {
                found.push((surroundings(&line.text.text, at.start()), line.at));
            }
        });
        let run = &part.row.execution_id;
        for (line, at) in found {
            let place = SearchCursor {
                ts: envelope.ts,
                run: run_hash(run),
                at,
            };
            if self.request.cursor.is_some_and(|cursor| place >= *cursor) {
                continue;
            }
            let found = Match {
                id: part.id.clone(),
                name: part.row.name.clone(),
                pane: part.pane.clone(),
                ts: envelope.ts,
                line,
                cursor: Cursor::new(run, at),
            };
            self.matches.insert(place, found);
            if self.matches.len() > self.limit {
                self.matches.pop_first();
            }
        }
    }

    fn found(self, budget: usize) -> Found {
        let is_full = self.matches.len() >= self.limit;
        let (mut matches, mut last, mut room) = (Vec::new(), None, budget);
        let count = self.matches.len();
        for (place, found) in self.matches.into_iter().rev() {
            let cost = cost(&json!(found));
            if cost > room && !matches.is_empty() {
                break;
            }
            room = room.saturating_sub(cost);
            last = Some(place);
            matches.push(found);
        }
        let has_more = is_full || matches.len() < count;
        Found {
            next_cursor: last.filter(|_| has_more && !self.is_stopped),
            complete: !has_more && !self.is_stopped,
            unread_runs: self.unread_runs,
            matches,
        }
    }
}

/// The rows of a run.
struct RunRows<'a> {
    run: &'a RunDirectory,
    kind: RunKind,
    name: String,
    /// The agent of a run of agents whose events name none.
    agent: Option<String>,
    wanted: Option<&'a [Row]>,
    /// The rows by their parts; `None` for a row that is not searched.
    known: BTreeMap<Option<String>, Option<PartRow>>,
}

/// A row, and what is known of its lines.
struct PartRow {
    row: Row,
    id: String,
    pane: Option<PaneId>,
    content: Content,
}

impl<'a> RunRows<'a> {
    fn new(
        run: &'a RunDirectory,
        metadata: Option<&RunMetadata>,
        wanted: Option<&'a [Row]>,
    ) -> Self {
        let label = metadata.map(|of| of.label.as_str());
        let name = label.filter(|label| !label.is_empty());
        let kind = metadata.map(|of| of.kind.clone()).unwrap_or_default();
        Self {
            run,
            agent: if kind == RunKind::Agents {
                first_agent(run)
            } else {
                None
            },
            kind,
            name: name.unwrap_or(run.execution_id()).to_owned(),
            wanted,
            known: BTreeMap::new(),
        }
    }

    /// Returns the row of an event; `None` if it has none that is searched.
    fn part_of(&mut self, event: &TdEvent, local: &LocalTime) -> Option<&mut PartRow> {
        let pane = || event.pane().map(|pane| pane.as_str().to_owned());
        let part = match self.kind {
            RunKind::Tmux => Some(pane()?),
            RunKind::Agents => Some(agent_of(event).or(self.agent.as_deref())?.to_owned()),
            RunKind::Process | RunKind::Loop | RunKind::Kernel => None,
            RunKind::Other(_) => pane(),
        };
        if !self.known.contains_key(&part) {
            let row = self.row_of(part.clone(), local);
            self.known.insert(part.clone(), row);
        }
        let part = self.known.get_mut(&part)?.as_mut();
        part.filter(|part| is_shown(&part.row, event))
    }

    fn row_of(&self, part: Option<String>, local: &LocalTime) -> Option<PartRow> {
        let key = RowKey {
            execution_id: self.run.execution_id().clone(),
            part,
        };
        let row = match self.wanted {
            Some(rows) => {
                let mut own = rows.iter().filter(|row| {
                    // A row of an older run may represent all its panes.
                    let of = row.key();
                    of.execution_id == key.execution_id && (of.part.is_none() || of == key)
                });
                own.next()?.clone()
            }
            None => {
                let kind = match (&self.kind, &key.part) {
                    (RunKind::Agents, _) => ExecutionKind::Agent,
                    (_, Some(_)) => ExecutionKind::Pane,
                    (RunKind::Loop, None) => ExecutionKind::Loop,
                    (RunKind::Kernel, None) => ExecutionKind::Kernel,
                    (_, None) => ExecutionKind::Command,
                };
                let agent = key.part.as_ref().filter(|_| kind == ExecutionKind::Agent);
                let name = agent.unwrap_or(&self.name).clone();
                Row::new(&key, name, kind, Timestamp::default())
            }
        };
        let pane = key.part.as_deref().filter(|part| part.starts_with('%'));
        Some(PartRow {
            row,
            id: key.to_string(),
            pane: pane.map(PaneId::from),
            content: Content::new(LineView::Output, local.clone()),
        })
    }
}

/// Returns the first agent that a run reports.
fn first_agent(run: &RunDirectory) -> Option<String> {
    let registered = Query::all().kind(EventKind::AgentRegistered.as_str());
    let mut log = LogReader::open(run, registered).ok()?;
    let record = log.next()?;
    agent_of(&record.envelope.event).map(str::to_owned)
}

fn earlier(ts: Timestamp) -> Timestamp {
    Timestamp::from_micros(ts.micros().saturating_sub(EARLIER_MICROS))
}

/// Returns the line, or the part around a position of one that is long.
fn surroundings(line: &str, at: usize) -> String {
    if line.chars().nth(LINE_CHARS_MAX).is_none() {
        return line.to_owned();
    }
    let before = line.get(..at).unwrap_or_default();
    let start = if before.chars().nth(CHARS_BEFORE * 2).is_none() {
        0
    } else {
        let chars = before.char_indices().rev();
        chars.take(CHARS_BEFORE).last().map_or(0, |(at, _)| at)
    };
    let mut text = String::new();
    if start > 0 {
        text.push('…');
    }
    let room = LINE_CHARS_MAX - 2;
    let rest = line.get(start..).unwrap_or_default();
    text.extend(rest.chars().take(room));
    if rest.chars().nth(room).is_some() {
        text.push('…');
    }
    text
}
