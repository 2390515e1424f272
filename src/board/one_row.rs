//! One row for a pane and the command or the loop in its foreground, or the background agent that is in it (pure).

use std::collections::BTreeSet;
#[cfg(feature = "cli")]
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::place::Place;
use super::row::{Row, RowKey, is_failure};
use super::rows::Rows;
#[cfg(feature = "cli")]
use super::state::Attention;
use super::state::{ExecutionKind, RowState};
#[cfg(feature = "cli")]
use crate::agent::AgentProgram;
use crate::agent::failure_in_words;
#[cfg(feature = "cli")]
use crate::event::AgentState;
use crate::timestamp::Timestamp;

/// The time after the end of its own program in which the end of a pane is noticed: 0.05 s, and longer on a busy machine.
const NOTICED_AFTER: Duration = Duration::from_secs(2);

impl Row {
    /// Returns the pane of a pane's row, if its server is known.
    pub(crate) fn place(&self) -> Option<Place> {
        let (server, pane) = (self.server.as_ref()?, self.pane.as_ref()?);
        Some(Place {
            server: server.clone(),
            pane: pane.clone(),
        })
    }

    /// Returns true if the row of a pane says what matters of the command that runs in it: the agent in it, a question.
    #[cfg(feature = "cli")]
    fn speaks_for_command(&self) -> bool {
        let RowState::Agent(state) = &self.state else {
            return false;
        };
        let is_agent = self.agent.as_deref().is_some_and(AgentProgram::is_name);
        let needs_user = self.attention() == Attention::NeedsYou;
        is_agent && *state != AgentState::Unknown || needs_user
    }

    /// Returns true for a pane that shows an agent, or says how it was killed.
    #[cfg(feature = "cli")]
    fn shows_agent(&self) -> bool {
        let is_there = !self.has_ended() || self.state == RowState::Failed;
        is_there && self.agent.as_deref().is_some_and(AgentProgram::is_name)
    }

    /// Returns true if the execution, or the agent, is stopped.
    #[cfg(feature = "cli")]
    fn is_suspended(&self) -> bool {
        self.state == RowState::Agent(AgentState::Suspended.into())
    }

    /// Records that the program of a command or a loop is stopped, or goes on; returns true if the row has changed.
    #[cfg(feature = "cli")]
    pub(super) fn set_suspended(&mut self, is_suspended: bool, at: Timestamp) -> bool {
        let suspended = RowState::Agent(AgentState::Suspended.into());
        let runs = matches!(self.kind, ExecutionKind::Command | ExecutionKind::Loop);
        if !runs || self.has_ended() || is_suspended == (self.state == suspended) {
            return false;
        }
        self.set_question(None, None, None);
        self.enter(
            if is_suspended {
                suspended
            } else {
                RowState::Running
            },
            at,
        )
    }

    /// Returns true if a command or a loop has ended without success.
    fn has_failed_in_place(&self) -> bool {
        self.in_pane.is_some() && self.has_ended() && self.exit_status.is_none_or(is_failure)
    }

    /// Returns true for a pane that has ended with this command or loop, which was its own program.
    fn has_ended_with(&self, command: &Row) -> bool {
        let noticed_until = command.since.after(NOTICED_AFTER);
        let is_seen = self.exit_status.is_some()
            && self.exit_status == command.exit_status
            && (command.since..noticed_until).contains(&self.since);
        self.state == RowState::Exited && (is_seen || self.has_ended_unseen())
    }

    /// Returns true for a pane whose own program was `td-observe`, and that has ended while nothing observed it: when, and
    /// with which status, only what ran in it knows.
    fn has_ended_unseen(&self) -> bool {
        self.exit_status.is_none() && self.agent.as_deref() == Some(env!("CARGO_PKG_NAME"))
    }

    /// Returns true for a pane whose row says how this command or loop has ended.
    #[cfg(feature = "cli")]
    fn tells_end_of(&self, command: &Row) -> bool {
        let is_of_job = self.job_ended >= Some(command.since) && command.has_failed_in_place();
        is_of_job || self.has_ended_with(command) && self.agent == command.agent
    }

    /// Returns the time after which the job began that has just failed, or the pane's own program.
    fn fails_after(&self) -> Option<Timestamp> {
        let is_own = self.state == RowState::Exited && self.job_ended >= Some(self.since);
        self.failed_after.or(self.began.filter(|_| is_own))
    }

    /// Returns true for the pane of a command or a loop that has failed if no event tells the end of this job: the
    /// observer reports no jobs of less than half a second.
    fn has_missed_job(&self, command: &Row) -> bool {
        let is_told = self.job_ended >= Some(command.since) || self.failed_after.is_some();
        self.is_observed() && self.job.is_none() && !is_told
    }

    /// Says how a command or a loop has ended that was the job of this pane, in place of what `td-observe` has shown of
    /// it.
    fn tell_end_of(&mut self, command: &Row) {
        let name = command.agent.clone();
        let name = name.unwrap_or_else(|| command.kind.as_str().to_owned());
        if self.has_missed_job(command)
            && let Some(status) = command.exit_status
        {
            let took = command.lived().unwrap_or_default() / 1_000;
            self.fail_job(&name, status, took.unsigned_abs(), command.since);
            self.job_ended = Some(command.since);
        } else if let (Some(_), Some(status)) = (&self.asks, self.exit_status) {
            self.asks = Some(failure_in_words(&name, status));
        }
        if self.has_ended_unseen() {
            (self.exit_status, self.since) = (command.exit_status, command.since);
        }
        self.agent = Some(name);
        self.last_line.clone_from(&command.last_line);
        self.failed_after = None;
    }
}

/// Lets the row of a pane say how the command or the loop failed that was its last job, or how it ended as the pane's own
/// program. The events of the job and of the command arrive in any order. Adds the keys of the panes that have changed.
pub(super) fn tell_ends(rows: &mut Rows, changed: &mut BTreeSet<RowKey>) {
    let place = |key: &RowKey| {
        let row = rows.map.get(key)?;
        if row.in_pane.is_some() && row.has_ended() {
            return row.in_pane.clone();
        }
        let may_tell = row.fails_after().is_some() || row.state == RowState::Exited;
        row.place().filter(|_| may_tell)
    };
    let places: BTreeSet<Place> = changed.iter().filter_map(place).collect();
    for place in places {
        let commands = rows.map.values();
        let ended = commands.filter(|row| row.in_pane.as_ref() == Some(&place) && row.has_ended());
        let Some(command) = ended.max_by_key(|row| row.since).cloned() else {
            continue;
        };
        let has_failed = command.has_failed_in_place();
        let is_job = |pane: &Row| {
            let is_later = |after| after <= command.since && command.since <= pane.since;
            let is_in_time = pane.fails_after().is_some_and(is_later);
            let is_loop = command.kind == ExecutionKind::Loop;
            let is_status = is_loop || command.exit_status == pane.exit_status;
            is_in_time && is_status
        };
        let mut all = rows.map.iter_mut();
        let pane = all.find(|(_, row)| {
            let has_failed_in = has_failed && (is_job(row) || row.has_missed_job(&command));
            let is_place = row.place().as_ref() == Some(&place);
            is_place && (has_failed_in || row.has_ended_with(&command))
        });
        if let Some((key, pane)) = pane {
            pane.tell_end_of(&command);
            changed.insert(key.clone());
        }
    }
}

/// Returns the rows that a face lists: one for a command or a loop and the pane in whose foreground it runs. The pane's
/// row is the one if it shows an agent, which is in the command, or needs the user; else the command's, unless the pane
/// has finished or is kept. While it is suspended, the pane is a shell's and has its own row. Once it has failed, the
/// pane's row tells it as it tells of any job, until the pane's next job, and so it does once the pane has ended with it.
/// Of what a pane has run several times, the last one is listed. Who looks for a pane looks among all rows.
/// A background agent is left out if the agent in a pane writes its file, or did so until its end, or if another one
/// has the same file. A background session, whose program is known, outlives the panes in which it was attached.
#[cfg(feature = "cli")]
pub(crate) fn listed(mut rows: Vec<Row>, is_kept: impl Fn(&Row) -> bool) -> Vec<Row> {
    let runs = |row: &Row| row.in_pane.clone().filter(|_| !row.has_ended());
    let running = rows.iter().filter(|row| !row.is_suspended());
    let taken: HashSet<Place> = running.filter_map(runs).collect();
    let panes = || rows.iter().filter_map(|row| Some((row.place()?, row)));
    let mut by_place: HashMap<Place, Vec<&Row>> = HashMap::new();
    for (place, row) in panes() {
        by_place.entry(place).or_default().push(row);
    }
    let run_of = |row: &Row| Some((row.in_pane.clone()?, row.kind.as_str(), row.name.clone()));
    let mut last_runs: HashMap<_, Timestamp> = HashMap::new();
    for (run, began) in (rows.iter()).filter_map(|row| Some((run_of(row)?, row.began?))) {
        let last = last_runs.entry(run).or_insert(began);
        *last = began.max(*last);
    }
    let is_told = |row: &Row| {
        let place = row.in_pane.as_ref();
        let mut panes = place
            .and_then(|place| by_place.get(place))
            .into_iter()
            .flatten();
        panes.any(|pane| pane.tells_end_of(row))
    };
    let is_repeated = |row: &Row| {
        let run = run_of(row);
        run.is_some_and(|run| row.began < last_runs.get(&run).copied())
    };
    let ended = rows.iter().filter(|row| row.has_ended());
    let past_runs = ended.filter(|row| is_told(row) || is_repeated(row));
    let past_runs: HashSet<RowKey> = past_runs.map(Row::key).collect();
    let speaks = |row: &Row| !row.has_ended() && row.speaks_for_command();
    let speaking = panes().filter(|(_, row)| speaks(row));
    let speaking: HashMap<Place, bool> = speaking
        .map(|(place, row)| (place, row.is_suspended()))
        .collect();
    let of_panes = || rows.iter().filter(|row| row.pane.is_some());
    let present = of_panes().filter(|row| row.shows_agent());
    let mut present: HashSet<String> = present.filter_map(|row| row.file.clone()).collect();
    let past: HashSet<String> = of_panes().filter_map(|row| row.file.clone()).collect();
    rows.retain(|row| {
        if is_kept(row) {
            return true;
        }
        if row.kind == ExecutionKind::Agent
            && let Some(file) = &row.file
        {
            let is_past = row.is_agents_end() && row.agent.is_none() && past.contains(file);
            return !is_past && present.insert(file.clone());
        }
        if let Some(place) = &row.in_pane {
            let is_said = match speaking.get(place) {
                Some(is_suspended) => *is_suspended || !row.is_suspended(),
                None => false,
            };
            return if row.has_ended() {
                !past_runs.contains(&row.key())
            } else {
                !is_said
            };
        }
        let Some(place) = row.place().filter(|place| taken.contains(place)) else {
            return true;
        };
        let is_finished = row.attention() == Attention::Finished;
        speaking.contains_key(&place) || is_finished || row.has_ended() || row.is_unread()
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::event::{CompletionReason, Envelope, PaneCloseReason, PaneId, TdEvent};

    fn started(id: &str, pane: Option<&str>) -> TdEvent {
        TdEvent::ExecutionStarted {
            execution_id: id.into(),
            command: pane
                .map_or("make all", |_| "td-observe run make all")
                .into(),
            cwd: "/".into(),
            pane: pane.map(PaneId::from),
            pid: None,
            cell: None,
            verification: None,
        }
    }

    fn completed(id: &str, pane: Option<&str>, status: i32) -> TdEvent {
        TdEvent::ExecutionCompleted {
            execution_id: id.into(),
            exit_code: Some(status),
            signal: None,
            duration_ms: 12_000,
            pane: pane.map(PaneId::from),
            pid: None,
            cell: None,
        }
    }

    fn printed(id: &str, text: &str) -> TdEvent {
        TdEvent::ExecutionOutput {
            execution_id: id.into(),
            stream: crate::event::OutputStream::Stdout.into(),
            text: text.into(),
        }
    }

    /// Returns what the pane's row says after these events, each at its second; the run of the command is `make`.
    fn told(events: Vec<(i64, TdEvent)>) -> (RowState, Option<String>, Option<String>, String) {
        let mut board = Board::default();
        board.set_server(&"work".into(), "/tmp/s");
        for (second, event) in events {
            let is_start = event == started("make", None);
            let at = Timestamp::from_micros(second * 1_000_000);
            board.apply(&Envelope::new(None, at, event));
            if is_start {
                let place = ("/tmp/s".to_owned(), "%1".into());
                board.set_place(&"make".into(), Some(place));
            }
        }
        let pane = board.rows().find(|row| row.pane.is_some()).unwrap().clone();
        (pane.state, pane.agent, pane.asks, pane.last_line)
    }

    #[test]
    fn a_pane_says_how_the_command_failed_that_was_its_job_whatever_event_comes_first() {
        let opened = TdEvent::PaneOpened {
            execution_id: "work".into(),
            pane: "%1".into(),
            width: 80,
            height: 24,
            command: "bash".into(),
            is_new: None,
        };
        let begin = || {
            vec![
                (1, opened.clone()),
                (2, started("work", Some("%1"))),
                (2, started("make", None)),
                (3, printed("make", "it broke")),
            ]
        };
        let run_over = (14, completed("make", None, 2));
        let job_over = (14, completed("work", Some("%1"), 2));
        let words = Some("make failed (2)".to_owned());
        let name = Some("make".to_owned());
        let expected = (RowState::Failed, name, words, "it broke".to_owned());
        for ends in [[&run_over, &job_over], [&job_over, &run_over]] {
            let ends = ends.into_iter().cloned();
            assert_eq!(told(begin().into_iter().chain(ends).collect()), expected);
        }
        // The job of the shell went on, and failed otherwise.
        let other = vec![run_over.clone(), (20, completed("work", Some("%1"), 3))];
        let (_, _, words, line) = told([begin(), other].concat());
        let words = words.as_deref().unwrap_or_default();
        assert_eq!((words, line.as_str()), ("td-observe failed (3)", ""));
        // No event tells the end of a short job.
        let mut short = begin();
        short.remove(1);
        short.push(run_over);
        assert_eq!(told(short), expected);
        // The command was the pane's own program, whose pane closes right after it.
        let exited = TdEvent::OutputUpdate {
            execution_id: "work".into(),
            pane: "%1".into(),
            first_line: 1,
            chunk: String::new(),
            is_complete: true,
            reason: Some(CompletionReason::Exit.into()),
            exit_status: Some(2),
            styles: Default::default(),
            links: Default::default(),
        };
        let closed = TdEvent::PaneClosed {
            execution_id: "work".into(),
            pane: "%1".into(),
            reason: PaneCloseReason::Closed.into(),
            exit_status: Some(2),
        };
        let mut own = begin();
        own.remove(1);
        own.extend([(14, exited), (15, closed), (14, completed("make", None, 2))]);
        let (state, name, _, line) = told(own);
        assert_eq!((state, line.as_str()), (RowState::Exited, "it broke"));
        assert_eq!(name.as_deref(), Some("make"));
        // It succeeded.
        let ends = |second, status: i32| {
            let mut own = begin();
            own.remove(1);
            let closed = TdEvent::PaneClosed {
                execution_id: "work".into(),
                pane: "%1".into(),
                reason: PaneCloseReason::Closed.into(),
                exit_status: Some(status),
            };
            own.extend([(14, completed("make", None, 0)), (second, closed)]);
            own
        };
        let (state, name, _, line) = told(ends(15, 0));
        assert_eq!((state, line.as_str()), (RowState::Exited, "it broke"));
        assert_eq!(name.as_deref(), Some("make"));
        // Nobody has seen its end.
        let mut own = begin();
        own.remove(1);
        let TdEvent::PaneOpened { command, .. } = &mut own[0].1 else {
            unreachable!("the first event opens the pane");
        };
        "td-observe".clone_into(command);
        let unseen = TdEvent::PaneClosed {
            execution_id: "work".into(),
            pane: "%1".into(),
            reason: PaneCloseReason::Closed.into(),
            exit_status: None,
        };
        own.extend([(4, unseen), (14, completed("make", None, 2))]);
        let (state, name, _, line) = told(own);
        assert_eq!((state, line.as_str()), (RowState::Exited, "it broke"));
        assert_eq!(name.as_deref(), Some("make"));
        // The shell around it has gone on.
        for shells in [ends(15, 1), ends(20, 0)] {
            assert_eq!(told(shells).1.as_deref(), Some("shell"));
        }
        // A job that succeeds is the last word.
        let ends = vec![
            (14, completed("make", None, 2)),
            (14, completed("work", Some("%1"), 0)),
        ];
        let (state, ..) = told([begin(), ends].concat());
        assert_ne!(state, RowState::Failed);
    }

    #[cfg(feature = "cli")]
    #[test]
    fn a_command_in_the_foreground_of_a_pane_and_the_pane_are_one_row() {
        let at = Timestamp::from_micros(1);
        let key = |id: &str, part: Option<&str>| RowKey {
            execution_id: id.into(),
            part: part.map(str::to_owned),
        };
        let pane = |program: &str, state: RowState| {
            let name = "work".to_owned();
            let mut pane = Row::new(&key("work", Some("%1")), name, ExecutionKind::Pane, at);
            pane.server = Some("/tmp/s".to_owned());
            (pane.agent, pane.state) = (Some(program.to_owned()), state);
            pane
        };
        let command = |server: &str| {
            let name = "make".to_owned();
            let mut command = Row::new(&key("make", None), name, ExecutionKind::Command, at);
            command.in_pane = Some(Place {
                server: server.to_owned(),
                pane: "%1".into(),
            });
            assert_eq!((command.key().part, &command.pane), (None, &None));
            command
        };
        let names = |pane: &Row, command: &Row, is_kept: &dyn Fn(&Row) -> bool| {
            let rows = listed(vec![pane.clone(), command.clone()], is_kept);
            let names: Vec<String> = rows.into_iter().map(|row| row.name).collect();
            names.join(" ")
        };
        let agent = |state: AgentState| RowState::Agent(state.into());
        let here = command("/tmp/s");
        let mut suspended = here.clone();
        assert!(suspended.set_suspended(true, at));
        for (program, state, shown) in [
            ("shell", RowState::Running, "make"),
            ("shell", RowState::Quiet, "make"),
            ("shell", agent(AgentState::Working), "make"),
            ("shell", agent(AgentState::Idle), "make"),
            ("shell", agent(AgentState::Waiting), "work"),
            ("claude", agent(AgentState::Idle), "work"),
            ("claude", agent(AgentState::Working), "work"),
            ("claude", agent(AgentState::Waiting), "work"),
            ("claude", agent(AgentState::Error), "work"),
            ("claude", agent(AgentState::Limited), "work"),
            ("claude", agent(AgentState::Done), "work"),
            ("claude", agent(AgentState::Suspended), "work"),
            ("claude", agent(AgentState::Unknown), "work make"),
            ("shell", RowState::Failed, "work make"),
            ("shell", RowState::Exited, "work make"),
        ] {
            let pane = pane(program, state);
            assert_eq!(names(&pane, &here, &|_| false), shown, "{pane:?}");
            assert_eq!(names(&pane, &here, &|_| true), "work make");
            assert_eq!(names(&pane, &command("/tmp/t"), &|_| false), "work make");
            let mut ended = here.clone();
            ended.end(Some(3), at);
            assert_eq!(names(&pane, &ended, &|_| false), "work make");
            // The agent that is suspended is in the command.
            let is_agents = pane.is_suspended();
            let shown = if is_agents { "work" } else { "work make" };
            assert_eq!(names(&pane, &suspended, &|_| false), shown, "{pane:?}");
        }
        // A background agent is in the pane, was there until its end, or is elsewhere.
        let background = |state: AgentState, file: &str| {
            let key = key("agents", Some("a1"));
            let mut row = Row::new(&key, "a1".to_owned(), ExecutionKind::Agent, at);
            (row.state, row.file) = (agent(state), Some(file.to_owned()));
            row
        };
        for (program, file, state, shown) in [
            ("claude", "/a", AgentState::Working, "work"),
            ("claude", "/b", AgentState::Working, "work a1"),
            ("shell", "/a", AgentState::Working, "work a1"),
            ("shell", "/a", AgentState::Done, "work"),
        ] {
            let mut pane = pane(program, agent(AgentState::Idle));
            pane.file = Some("/a".to_owned());
            let one = background(state, file);
            assert_eq!(names(&pane, &one, &|_| false), shown, "{pane:?} {one:?}");
            assert_eq!(names(&pane, &one, &|_| true), "work a1");
        }
        let [one, other] = ["/a", "/a"].map(|file| background(AgentState::Working, file));
        assert_eq!(names(&one, &other, &|_| false), "a1");
        // The pane has told how the command failed, until its next job and after it.
        let mut pane = pane("shell", RowState::Failed);
        let mut ended = here.clone();
        ended.end(Some(3), at);
        pane.job_ended = Some(at);
        assert_eq!(names(&pane, &ended, &|_| false), "work");
        pane.job_ended = Some(Timestamp::from_micros(0));
        assert_eq!(names(&pane, &ended, &|_| false), "work make");
        (pane.job_ended, ended.exit_status) = (Some(at), Some(0));
        assert_eq!(names(&pane, &ended, &|_| false), "work make");
    }
}
