//! One row of the board: a pane, a command, a loop, a background agent or a kernel.

use std::fmt;
use std::time::Duration;

use super::last::{AnswerEnd, EarlierTurn};
use super::place::Place;
use super::state::{Attention, ExecutionKind, RowState, state_of_name};
use crate::agent::VIEWER;
use crate::event::{
    AgentState, Background, Dialogue, EnumOrUnknown, ExecutionId, PaneId, ReportedChild,
    StateEvidence, StateSource,
};
use crate::timestamp::Timestamp;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The time without output after which a row is quiet.
const QUIET_AFTER: Duration = Duration::from_secs(5 * 60);

/// The time for which a pane that has just come under observation may show an agent's state. Screens settle within
/// 0.3 s; processes and files are found a little later.
pub(super) const READING_TIME: Duration = Duration::from_secs(1);

/// The time after which a failure needs the user: he may have looked away, in microseconds.
pub(super) const LONG_MICROS: i64 = 10_000_000;

/// Returns true for the exit status of a failure: the user's own interrupt, a hang-up, a closed pipe and a stop are
/// none.
pub(crate) fn is_failure(status: i32) -> bool {
    let ends_of_users = [0, 129, 130, 141, 147, 148];
    !ends_of_users.contains(&status)
}

/// The identity of a row: its execution, and the pane or the background agent in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The pane, or the id of the background agent; `None` for a command, a loop or a kernel.
    pub part: Option<String>,
}

impl fmt::Display for RowKey {
    /// Writes the id of the row: the execution's, and after a colon the pane's or the agent's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Some(part) => write!(f, "{}:{part}", self.execution_id),
            None => f.write_str(self.execution_id.as_str()),
        }
    }
}

/// One row of the board.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// The execution; its id begins with the name of its host and a slash, if it has one.
    pub execution_id: ExecutionId,
    /// The host on which the execution runs, as the user names it; `None` on this one.
    #[serde(default)]
    pub host: Option<String>,
    /// The display name: of the session, the agent or the kernel; of a command or a loop, the execution id that was
    /// chosen for it, else the command line or the loop's task.
    pub name: String,
    /// What tells the row apart from others of its name, in its owner's words: of a pane beside others in its
    /// session, the name of its window, the title that its agent has set, or its directory and branch; of a background
    /// agent, its project and its first prompt.
    #[serde(default)]
    pub label: Option<String>,
    /// The pane, for a pane.
    pub pane: Option<PaneId>,
    /// The socket of the tmux server, for a pane whose server is known.
    pub server: Option<String>,
    /// The pane in whose foreground a command or a loop runs. Lists have one row for both.
    #[serde(default)]
    pub in_pane: Option<Place>,
    /// The kind of execution.
    pub kind: ExecutionKind,
    /// The program: `claude`, `codex`, …, `shell`, or another program's name; `None` if unknown.
    pub agent: Option<String>,
    /// The file of the conversation of the agent in a pane, or that a background agent writes. Lists have one row for
    /// both.
    #[serde(default)]
    pub file: Option<String>,
    /// The state.
    #[serde(deserialize_with = "state_of_name")]
    pub state: RowState,
    /// The time at which the row entered this state.
    pub since: Timestamp,
    /// The time at which a user last viewed the row in this state.
    pub seen: Option<Timestamp>,
    /// The certainty of an agent's state.
    pub evidence: Option<EnumOrUnknown<StateEvidence>>,
    /// What showed an agent's state.
    #[serde(default)]
    pub source: Option<EnumOrUnknown<StateSource>>,
    /// The agent's question, while it waits.
    pub asks: Option<String>,
    /// The id of the question, while the agent waits; another question has another id.
    #[serde(default)]
    pub question_id: Option<String>,
    /// The question in full, while the agent waits.
    #[serde(default)]
    pub dialogue: Option<Box<Dialogue>>,
    /// What an agent has left running in the background; `None` if nothing.
    #[serde(default)]
    pub background: Option<Background>,
    /// The progress in percent that the program in a pane reports; `None` if it reports none.
    #[serde(default)]
    pub progress: Option<u32>,
    /// The children that the program in a pane reports; `None` if it reports none.
    #[serde(default)]
    pub children: Option<Box<[ReportedChild]>>,
    /// True if the execution has ended.
    #[serde(default)]
    pub ended: bool,
    /// The exit status, or `128 + n` for a signal; `None` while the execution runs or if the status is
    /// unknown.
    pub exit_status: Option<i32>,
    /// What matters now, in one line: the words of an error or a limit; of an agent that works, its present tool or
    /// its last sentence; the question of one that waits; `interrupted` or `refused: …` of one that was stopped; the
    /// conclusion of its turn; else the last line that is not decoration, which is empty while a job in a shell has
    /// printed none.
    pub last_line: String,
    /// The time of the last output.
    pub last_output: Option<Timestamp>,
    /// The number of turns that an agent has finished.
    pub turns: u64,
    /// The number of confirmed gaps.
    pub gaps: u64,
    /// The number of errors.
    pub errors: u64,
    /// The phases that a loop has not completed, the current one first; `None` if they are unknown.
    pub phases: Option<Vec<String>>,
    /// True if the user has dismissed the row since its last change.
    #[serde(default)]
    pub dismissed: bool,
    /// True if the row has ended because the writer of its run died: `runs` shows the run as `cut off`.
    #[serde(default)]
    pub cut_off: bool,
    /// True if the pane ended because its tmux server did.
    #[serde(default)]
    pub server_gone: bool,
    /// The end of the agent's present answer. Not part of the JSON.
    #[serde(skip)]
    pub(super) answer: AnswerEnd,
    /// The time at which the pane, or the execution, began.
    #[serde(default)]
    pub began: Option<Timestamp>,
    /// True for a pane that began while its server was observed.
    #[serde(default)]
    pub is_new: bool,
    /// The name of the job in the pane's shell, and when it began. Not part of the JSON.
    #[serde(skip)]
    pub(super) job: Option<(String, Timestamp)>,
    /// The last line that was printed, and when; it may be another job's than [`Row::last_line`]. Not part of the JSON.
    #[serde(skip)]
    pub(super) printed: Option<(String, Timestamp)>,
    /// The name of the last job of the pane's shell that was stopped. Not part of the JSON.
    #[serde(skip)]
    pub(super) stopped_job: Option<String>,
    /// The time at which the last job of the pane's shell ended, or its own program failed.
    #[serde(default)]
    pub job_ended: Option<Timestamp>,
    /// The time after which the job that has just failed began, until a command or a loop is found to have been this
    /// job. Not part of the JSON.
    #[serde(skip)]
    pub(super) failed_after: Option<Timestamp>,
    /// The screen shows that the pane's shell works again, while the failure of its last job is still news. Not part of
    /// the JSON.
    #[serde(skip)]
    pub(super) works_again: bool,
    /// A script runs in the pane's shell: what looks like a prompt is none. Not part of the JSON.
    #[serde(skip)]
    pub(super) runs_script: bool,
    /// True if nothing was printed for five minutes when the row was last `unknown`. The attention tells it.
    #[serde(rename = "attention", default, deserialize_with = "is_quiet")]
    pub(super) is_silent: bool,
    /// When the agent's limit ends, if its words say so. Not part of the JSON.
    #[serde(skip)]
    pub(super) limit_end: Option<Timestamp>,
    /// The state when the observer ended. Not part of the JSON.
    #[serde(skip)]
    pub(super) last_observed: Option<Box<LastObserved>>,
    /// The times of the agent's last turn, if it began before the observation. Not part of the JSON.
    #[serde(skip)]
    pub(super) earlier: Option<Box<EarlierTurn>>,
}

/// The state of a row when its observer ended. If the next observer reports the same state, the row keeps the times
/// of its beginning and of its last view, and stays dismissed. The failure of a shell's job is no state of the shell: it
/// is still news if the shell has printed nothing since.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LastObserved {
    pub(super) state: RowState,
    pub(super) agent: Option<String>,
    pub(super) exit_status: Option<i32>,
    pub(super) asks: Option<String>,
    pub(super) since: Timestamp,
    pub(super) seen: Option<Timestamp>,
    pub(super) dismissed: bool,
    pub(super) began: Option<Timestamp>,
    pub(super) ended: bool,
}

impl Row {
    pub(crate) fn new(key: &RowKey, name: String, kind: ExecutionKind, at: Timestamp) -> Self {
        let pane = key.part.as_deref().filter(|_| kind == ExecutionKind::Pane);
        Self {
            execution_id: key.execution_id.clone(),
            host: None,
            name,
            label: None,
            pane: pane.map(PaneId::from),
            server: None,
            in_pane: None,
            kind,
            agent: None,
            file: None,
            state: RowState::Running,
            since: at,
            seen: None,
            evidence: None,
            source: None,
            asks: None,
            question_id: None,
            dialogue: None,
            background: None,
            progress: None,
            children: None,
            exit_status: None,
            last_line: String::new(),
            last_output: None,
            turns: 0,
            gaps: 0,
            errors: 0,
            phases: None,
            dismissed: false,
            ended: false,
            cut_off: false,
            server_gone: false,
            answer: AnswerEnd::default(),
            began: None,
            is_new: false,
            job: None,
            printed: None,
            stopped_job: None,
            job_ended: None,
            failed_after: None,
            works_again: false,
            runs_script: false,
            is_silent: false,
            limit_end: None,
            last_observed: None,
            earlier: None,
        }
    }

    /// Returns the identity of the row.
    pub fn key(&self) -> RowKey {
        let part = match self.kind {
            // The name of a background agent's row is the agent's id.
            ExecutionKind::Agent => Some(self.name.clone()),
            _ => self.pane.as_ref().map(|pane| pane.as_str().to_owned()),
        };
        RowKey {
            execution_id: self.execution_id.clone(),
            part,
        }
    }

    /// Returns the name, after that of the host if it is another one.
    #[cfg(feature = "tui")]
    pub(crate) fn full_name(&self) -> String {
        match &self.host {
            Some(host) if self.kind != ExecutionKind::Host => format!("{host}/{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Returns the urgency with which the row asks for the user.
    pub fn attention(&self) -> Attention {
        if self.dismissed {
            return Attention::Quiet;
        }
        match &self.state {
            RowState::Agent(state) => match state.known() {
                Some(
                    AgentState::Waiting
                    | AgentState::Error
                    | AgentState::Limited
                    | AgentState::Suspended,
                ) => Attention::NeedsYou,
                Some(AgentState::Done) => self.finished(),
                Some(AgentState::Idle) => Attention::Quiet,
                Some(AgentState::Unknown) if self.is_silent => Attention::Quiet,
                Some(AgentState::Working | AgentState::Unknown) | None => Attention::Working,
            },
            // A failure with words for the user needs him; another one is a result.
            RowState::Failed if self.says_failure() && self.seen.is_none() => Attention::NeedsYou,
            RowState::Exited if self.has_failed_late() && self.seen.is_none() => {
                Attention::NeedsYou
            }
            RowState::Exited | RowState::Failed => self.finished(),
            RowState::Quiet | RowState::NotObserved => Attention::Quiet,
            RowState::Running | RowState::Connecting => Attention::Working,
            RowState::Unreachable => Attention::NeedsYou,
        }
    }

    /// Returns true if the pane's own program has failed, after a time in which nobody waits beside it.
    fn has_failed_late(&self) -> bool {
        self.kind == ExecutionKind::Pane
            && self.exit_status.is_some_and(is_failure)
            && self.lived().is_some_and(|micros| micros >= LONG_MICROS)
    }

    /// Returns the attention of a row that is done or has ended.
    fn finished(&self) -> Attention {
        match self.seen {
            None => Attention::Finished,
            Some(_) => Attention::Quiet,
        }
    }

    /// Returns true if the execution has ended.
    pub fn has_ended(&self) -> bool {
        self.ended || self.state == RowState::Exited
    }

    /// Returns true if an observer knows what the row does now, or is about to.
    pub(crate) fn is_observed(&self) -> bool {
        !matches!(self.state, RowState::Exited | RowState::NotObserved)
    }

    /// Returns true for a pane that has just come under observation: it is read, and its state is not known yet.
    pub fn is_unread(&self) -> bool {
        self.kind == ExecutionKind::Pane && self.is_unknown() && self.evidence.is_none()
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.state == RowState::Agent(AgentState::Limited.into())
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.state == RowState::Agent(AgentState::Unknown.into())
    }

    /// Returns true for a background agent that has completed or failed. One that reports its states goes on.
    pub(super) fn is_agents_end(&self) -> bool {
        let RowState::Agent(state) = &self.state else {
            return false;
        };
        self.kind == ExecutionKind::Agent
            && self.source.is_none()
            && matches!(state.known(), Some(AgentState::Done | AgentState::Error))
    }

    /// Returns the sort key of the row: by attention; among rows that need the user, by what they need, and the
    /// longest in its state first; the most recent first among others.
    pub(super) fn rank(&self) -> (Attention, u8, i64, ExecutionId, Option<PaneId>) {
        let attention = self.attention();
        let (need, place) = match attention {
            Attention::NeedsYou => (self.need(), self.since.micros()),
            _ => (0, self.last_active().micros().saturating_neg()),
        };
        let (id, pane) = (self.execution_id.clone(), self.pane.clone());
        (attention, need, place, id, pane)
    }

    /// Returns the place of what the row needs among the needs of others.
    fn need(&self) -> u8 {
        let state = match &self.state {
            RowState::Agent(state) => state,
            // Nobody knows what waits there.
            RowState::Unreachable => return 1,
            _ => return 3,
        };
        match state.known() {
            Some(AgentState::Waiting) => 0,
            Some(AgentState::Error) => 1,
            Some(AgentState::Limited) => 2,
            _ => 4,
        }
    }

    /// Returns the time of the last output or change of state.
    fn last_active(&self) -> Timestamp {
        self.last_output
            .map_or(self.since, |output| output.max(self.since))
    }

    /// Enters a state; returns false if the row is already in that state.
    pub(super) fn enter(&mut self, state: RowState, at: Timestamp) -> bool {
        (self.cut_off, self.server_gone) = (false, false);
        if self.state == state {
            return false;
        }
        self.state = state;
        self.failed_after = None;
        if !matches!(self.state, RowState::Agent(_)) || self.is_unknown() {
            (self.background, self.progress, self.children) = (None, None, None);
        }
        self.since = self.date(at);
        self.seen = None;
        self.dismissed = false;
        self.is_silent = self.is_unknown() && self.is_silent_at(at);
        self.ended = false;
        true
    }

    /// Returns true if the row is not known to have printed anything in the last five minutes.
    fn is_silent_at(&self, now: Timestamp) -> bool {
        self.last_output
            .is_none_or(|output| now >= output.after(QUIET_AFTER))
    }

    /// Begins to run, perhaps again.
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.exit_status = None;
        self.set_question(None, None, None);
        self.began = Some(at);
        self.enter(RowState::Running, at);
    }

    /// Begins to observe a pane, perhaps again. Its state is known once it is read.
    pub(super) fn open(&mut self, is_new: bool, at: Timestamp) {
        if self.has_ended() {
            // tmux keeps the pane, and its end is found again, or the program was started anew.
            let ended = (!is_new).then(|| Box::new(self.observed()));
            self.last_observed = self.last_observed.take().or(ended);
            self.began = None;
        }
        self.exit_status = None;
        self.evidence = None;
        (self.job, self.earlier) = (None, None);
        // A job that an earlier observer has seen begin is reported again, and has printed this.
        self.printed = Some((self.last_line.clone(), at));
        self.set_question(None, None, None);
        self.began.get_or_insert(at);
        self.is_new = is_new;
        self.enter(RowState::Agent(AgentState::Unknown.into()), at);
    }

    /// Ends the row, with the exit status if it is known.
    pub(super) fn end(&mut self, exit_status: Option<i32>, at: Timestamp) {
        if self.state == RowState::Failed {
            self.ended = true;
            return;
        }
        self.exit_status = exit_status;
        self.set_question(None, None, None);
        (self.evidence, self.source, self.job) = (None, None, None);
        self.enter(RowState::Exited, at);
        self.ended = true;
    }

    /// Returns true for a pane that is a view of another observed pane, to which all belongs that it shows.
    pub(crate) fn is_view(&self) -> bool {
        let is_process = self.source == Some(StateSource::Process.into());
        self.is_idle() && is_process && self.agent.as_deref() == Some(VIEWER)
    }

    /// Sets the agent. What another agent has said is not its own, nor what the shell has printed: the command that
    /// started it, and the first screen of an agent that was not known yet.
    pub(super) fn set_agent(&mut self, agent: String) {
        let before = self.agent.replace(agent);
        if self.agent != before {
            self.earlier = None;
        }
        if self.agent.as_deref() != Some("shell") {
            // The job is the agent, or its wrapper.
            self.job = None;
        }
        let has_spoken = !self.answer.is_empty();
        let is_other = before.is_some_and(|before| {
            let is_shell = before == "shell";
            self.agent != Some(before) && (!is_shell || !has_spoken)
        });
        if is_other && self.agent.as_deref() != Some("shell") {
            self.forget_words();
        }
    }

    /// Sets the question of an agent that waits.
    pub(super) fn set_question(
        &mut self,
        asks: Option<String>,
        id: Option<String>,
        dialogue: Option<Box<Dialogue>>,
    ) {
        (self.asks, self.question_id, self.dialogue) = (asks, id, dialogue);
    }

    /// Ends the row because its observer has ended, and it with the observer or meanwhile.
    pub(super) fn end_with_observer(
        &mut self,
        exit_status: Option<i32>,
        is_cut_off: bool,
        at: Timestamp,
    ) {
        self.remember();
        self.end(exit_status, at);
        self.cut_off = is_cut_off;
    }

    /// Marks a row that goes on, although its observer has ended.
    pub(super) fn leave(&mut self, at: Timestamp) {
        self.remember();
        self.set_question(None, None, None);
        self.evidence = None;
        self.enter(RowState::NotObserved, at);
    }

    /// Remembers the observed state for the next observer.
    pub(super) fn remember(&mut self) {
        if matches!(self.state, RowState::Exited | RowState::NotObserved) || self.is_unread() {
            return;
        }
        self.last_observed = Some(Box::new(self.observed()));
    }

    fn observed(&self) -> LastObserved {
        LastObserved {
            state: self.state.clone(),
            agent: self.agent.clone(),
            exit_status: self.exit_status,
            asks: self.asks.clone(),
            since: self.since,
            seen: self.seen,
            dismissed: self.dismissed,
            began: self.began,
            ended: self.has_ended(),
        }
    }

    /// Restores the times of a state that only ended with its observer.
    fn restore_times(&mut self) {
        let Some(before) = self.last_observed.take() else {
            return;
        };
        if (&before.state, &before.asks) == (&self.state, &self.asks) {
            (self.since, self.seen) = (before.since, before.seen);
            self.dismissed = before.dismissed;
        } else if self.earlier.is_some() {
            // An agent that rests since before is idle until its files are read, and then done.
            self.last_observed = Some(before);
        }
    }

    /// Notes that the program has printed since the last observation, so the state of its agent may have changed.
    pub(super) fn note_news(&mut self) {
        let before = self.last_observed.as_ref();
        if before.is_some_and(|before| before.state != RowState::Running) {
            self.last_observed = None;
        }
    }

    /// Enters the state of an agent. Restores the times of a state that only ended with its observer.
    pub(super) fn enter_agent(
        &mut self,
        state: RowState,
        asks: Option<String>,
        question_id: Option<String>,
        at: Timestamp,
    ) {
        // Another question is a new dialogue, whose wait begins now.
        let is_waiting = state == RowState::Agent(AgentState::Waiting.into());
        if self.last_observed.take_if(|before| before.ended).is_some() {
            // Its program had ended, and was started anew.
            self.forget_words();
        }
        if self.asks != asks && is_waiting {
            self.since = self.since_before(&state, at).unwrap_or(at);
            self.dismissed = false;
        }
        self.set_question(asks, question_id, None);
        self.enter(state, at);
        self.restore_times();
    }

    /// Removes completed phases of a loop, so that this many remain.
    pub(super) fn keep_phases(&mut self, remaining: usize) {
        if let Some(phases) = &mut self.phases {
            phases.drain(..phases.len().saturating_sub(remaining));
        }
    }

    /// Records the time of printed output.
    pub(super) fn note_output(&mut self, at: Timestamp) {
        self.last_output = Some(at);
        self.is_silent = false;
        if self.state == RowState::Quiet {
            self.enter(RowState::Running, at);
        }
    }

    /// Makes a pane that shows no agent's state running, and a row quiet that has printed nothing for five minutes;
    /// returns true if the row has changed.
    pub(super) fn tick(&mut self, now: Timestamp) -> bool {
        let is_named = self.name_due_job(now);
        self.tick_state(now) || is_named
    }

    /// Gives a pane its state that was under observation for the reading time and shows none; returns true if the row has
    /// changed.
    pub(super) fn settle(&mut self, now: Timestamp) -> bool {
        if !self.is_unread() || now < self.since.after(READING_TIME) {
            return false;
        }
        if self.fail_again() {
            return true;
        }
        if self.is_agents() {
            self.begin_agent(self.since);
            return true;
        }
        self.enter(RowState::Running, self.since);
        let before = self.last_observed.as_mut();
        if let Some(before) = before.filter(|before| before.state == RowState::Quiet) {
            before.state = RowState::Running;
        }
        self.restore_times();
        true
    }

    fn tick_state(&mut self, now: Timestamp) -> bool {
        if self.settle(now) {
            self.become_quiet(now);
            return true;
        }
        if self.limit_end.take_if(|end| *end <= now).is_some() && self.is_limited() {
            // What the user has put off until then is due.
            return std::mem::take(&mut self.dismissed);
        }
        if self.is_unknown() {
            let is_silent = self.is_silent_at(now);
            return std::mem::replace(&mut self.is_silent, is_silent) != is_silent;
        }
        self.become_quiet(now)
    }

    fn become_quiet(&mut self, now: Timestamp) -> bool {
        let quiet_at = self.last_active().after(QUIET_AFTER);
        self.state == RowState::Running && now >= quiet_at && self.enter(RowState::Quiet, quiet_at)
    }
}

fn is_quiet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(deserializer)? == Attention::Quiet.as_str())
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.key().to_string())?;
        map.serialize_entry("execution_id", &self.execution_id)?;
        map.serialize_entry("host", &self.host)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("label", &self.label)?;
        map.serialize_entry("pane", &self.pane)?;
        map.serialize_entry("server", &self.server)?;
        map.serialize_entry("in_pane", &self.in_pane)?;
        map.serialize_entry("kind", self.kind.as_str())?;
        map.serialize_entry("agent", &self.agent)?;
        map.serialize_entry("file", &self.file)?;
        map.serialize_entry("state", self.state.as_str())?;
        map.serialize_entry("since", &self.since)?;
        map.serialize_entry("seen", &self.seen)?;
        map.serialize_entry("evidence", &self.evidence)?;
        map.serialize_entry("source", &self.source)?;
        map.serialize_entry("asks", &self.asks)?;
        map.serialize_entry("question_id", &self.question_id)?;
        map.serialize_entry("dialogue", &self.dialogue)?;
        map.serialize_entry("background", &self.background)?;
        map.serialize_entry("progress", &self.progress)?;
        map.serialize_entry("children", &self.children)?;
        map.serialize_entry("ended", &self.ended)?;
        map.serialize_entry("exit_status", &self.exit_status)?;
        map.serialize_entry("last_line", &self.last_line)?;
        map.serialize_entry("last_output", &self.last_output)?;
        map.serialize_entry("turns", &self.turns)?;
        map.serialize_entry("gaps", &self.gaps)?;
        map.serialize_entry("errors", &self.errors)?;
        map.serialize_entry("phases", &self.phases)?;
        map.serialize_entry("dismissed", &self.dismissed)?;
        map.serialize_entry("began", &self.began)?;
        map.serialize_entry("is_new", &self.is_new)?;
        map.serialize_entry("job_ended", &self.job_ended)?;
        map.serialize_entry("cut_off", &self.cut_off)?;
        map.serialize_entry("server_gone", &self.server_gone)?;
        map.serialize_entry("attention", &self.attention())?;
        map.end()
    }
}

// The rows of the board by key, with names and servers for rows that may appear later.
