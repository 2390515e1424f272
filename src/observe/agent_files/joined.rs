//! An agent in a pane, joined to its files, whose content becomes claims and events.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::earlier::EarlierTurn;
use super::file::{FileVersion, Followed, read_small, resolved};
use super::homes::{Located, Places};
use super::hooks::{FoundHooks, HookFiles};
use super::transcript::{SubAgentEvent, SubAgents, Transcript};
use crate::agent::{
    AgentEvent, AgentState, HookFile, KnownAgent, STATUS_BYTES_MAX, StateClaim, StateSource,
    StatusFile, StreamFormat, StreamStatus, is_limit, permission_question,
};
use crate::event::{Background, ExecutionId, PaneId, TdEvent};
use crate::observe::resume_point::ReportedConversation;
use crate::process::RunningAgent;
use crate::timestamp::Timestamp;

/// The interval of searches for the file of a conversation: `/clear` and `/resume` start another one.
const LOCATE_INTERVAL: Duration = Duration::from_millis(500);

/// The age from which the time of a change differs from that of the next one: the clock of files
/// advances every 4 to 10 milliseconds.
const SETTLED_AGE: Duration = Duration::from_millis(50);

/// The changes of an agent in one round of reading.
#[derive(Debug, Default)]
pub(super) struct ReadResult {
    pub events: Vec<AgentEvent>,
    pub of_sub_agents: Vec<SubAgentEvent>,
    /// The claims of its sources that have changed.
    pub claims: Vec<(StateSource, Option<StateClaim>)>,
    /// The files among which the screen's content decides.
    pub candidates: Vec<PathBuf>,
    /// The conversation, if it was found since the last round.
    pub found: Option<FoundConversation>,
}

/// A conversation that an agent in a pane goes on with.
#[derive(Debug)]
pub(in crate::observe) struct FoundConversation {
    pub file: PathBuf,
    /// Its last turn, if the agent is in its state since before the conversation was found.
    pub turn: Option<EarlierTurn>,
}

/// Where the conversation of an agent is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum ConversationPlace {
    Files,
    /// Its screen is the conversation.
    Screen,
    /// It shows a list of the sessions of others.
    Nowhere,
}

impl FoundConversation {
    /// Returns the event that an agent is found, in a pane or without one, or its conversation.
    pub fn event(
        found: Option<Self>,
        execution_id: &ExecutionId,
        pane: Option<&PaneId>,
        agent: String,
    ) -> TdEvent {
        let file = found.as_ref().map(|found| found.file.to_string_lossy());
        let file = file.map(|file| Box::new(file.into_owned()));
        let turn = found.and_then(|found| found.turn);
        let answer = turn.as_ref().and_then(|turn| turn.answer.clone());
        let turn = turn.as_ref();
        TdEvent::ConversationFound {
            execution_id: execution_id.clone(),
            pane: pane.cloned(),
            agent: Some(Box::new(agent)),
            file,
            answer: answer.map(Box::new),
            turn_began: turn.and_then(|turn| turn.began),
            turn_ended: turn.and_then(|turn| turn.ended),
            acted: turn.and_then(|turn| turn.acted),
        }
    }
}

/// The files of one agent.
#[derive(Debug)]
pub(super) struct Joined {
    pub agent: RunningAgent,
    places: Option<Places>,
    status: Option<Status>,
    transcript: Option<Transcript>,
    sub_agents: SubAgents,
    started: Timestamp,
    /// Events before this time are not reported, except those of the turn that goes on if `begins_in_turn`.
    since: Timestamp,
    /// True if nothing of the conversation is reported, and the observation may begin within a turn.
    begins_in_turn: bool,
    /// The time at which the observation of the agent's pane began, until its conversation is found; `None` if the agent
    /// was found there later.
    observed: Option<Timestamp>,
    located_at: Option<Instant>,
    /// The report files of hooks, and the session whose reports count if no other file names it.
    hooks: HookFiles,
    hook_session: Option<FoundHooks>,
    claims: Vec<(StateSource, Option<StateClaim>)>,
    failure: Option<String>,
    /// The end of a turn that is not reported while background agents run.
    held_turn: HeldTurn,
    /// The number of turns that have begun.
    turn: u64,
    /// True while the conversation that was found is not reported yet.
    is_new: bool,
    /// True if the agent was last found suspended.
    pub is_suspended: bool,
}

impl Joined {
    /// Joins an agent to its files. `observed` is the time at which the observation of its pane began, if the agent was
    /// there before. Of its earlier actions, those are reported that follow what was `reported`; if there was no observer,
    /// only the prompt and the open tools of the turn that goes on.
    pub fn new(
        agent: RunningAgent,
        started: Timestamp,
        reported: Option<ReportedConversation>,
        observed: Option<Timestamp>,
    ) -> Self {
        let since = match reported {
            Some(reported) => reported.until.max(started),
            None => observed.unwrap_or(started),
        };
        let places = Places::of(&agent);
        let status = places
            .as_ref()
            .and_then(|places| places.status_file(&agent));
        Self {
            places,
            status: status.map(Status::new),
            agent,
            transcript: None,
            sub_agents: SubAgents::default(),
            started,
            since,
            begins_in_turn: observed.is_some() && !reported.is_some_and(|of| of.has_begun),
            observed,
            located_at: None,
            hooks: HookFiles::of(|name| std::env::var_os(name)),
            hook_session: None,
            claims: Vec::new(),
            failure: None,
            held_turn: HeldTurn::default(),
            turn: 0,
            is_new: false,
            is_suspended: false,
        }
    }

    pub fn path(&self) -> Option<&std::path::Path> {
        self.transcript.as_ref().map(Transcript::path)
    }

    /// Returns where the agent's conversation is found.
    pub fn conversation_place(&self) -> ConversationPlace {
        match (&self.places, &self.agent.shows) {
            (Some(_), _) => ConversationPlace::Files,
            (None, Some(_)) => ConversationPlace::Nowhere,
            (None, None) => ConversationPlace::Screen,
        }
    }

    pub fn format(&self) -> StreamFormat {
        let places = self.places.as_ref();
        places.map_or(StreamFormat::Text, |places| places.format)
    }

    /// Ends the agent's turn, which another source has found to be over.
    pub fn end_turn(&mut self, wall: Timestamp) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        if let Some(transcript) = &mut self.transcript {
            transcript.end_turn(wall, &mut events);
        }
        events
    }

    /// Reads the new content of all files.
    pub fn read(&mut self, now: Instant, wall: Timestamp) -> ReadResult {
        let mut result = ReadResult::default();
        let Some(places) = self.places.clone() else {
            return result;
        };
        let status = self.status.as_mut();
        let status = status.and_then(|status| status.read(&self.agent, wall).cloned());
        let is_due = self
            .located_at
            .is_none_or(|at| now.saturating_duration_since(at) >= LOCATE_INTERVAL);
        if is_due || self.names_another(status.as_ref().map(|status| status.session_id.as_str())) {
            self.located_at = Some(now);
            match places.locate(&self.agent, status.as_ref(), self.started) {
                Located::File(path) => self.join(path),
                Located::Nowhere => {}
                // The newest file is the one that is read already.
                Located::OneOf(files) if self.path() == files.first().map(PathBuf::as_path) => {}
                Located::OneOf(files) => result.candidates = files,
            }
            let find = || {
                let directory = &self.agent.directory;
                self.hooks.find(self.agent.pid, directory, self.started)
            };
            // A status file names the session.
            self.hook_session = (status.is_none() && self.has_hooks()).then(find).flatten();
        }
        if let Some(transcript) = &mut self.transcript
            && let Err(error) = transcript.read(wall, &mut result.events)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            log::debug!("{}: {error}", transcript.path().display());
        }
        if let Some(path) = self
            .transcript
            .as_ref()
            .filter(|_| places.agent == KnownAgent::Claude)
            .map(Transcript::path)
        {
            if is_due {
                self.sub_agents
                    .find(path, self.since, &mut result.of_sub_agents);
            }
            self.sub_agents.read(wall, &mut result.of_sub_agents);
        }
        if let Some(transcript) = &mut self.transcript
            && transcript.is_read()
            && std::mem::take(&mut self.is_new)
        {
            // What an agent that was observed before goes on with is its conversation from now on.
            let (observed, started) = match self.observed.take() {
                Some(observed) => (observed, self.started),
                None => (self.since, wall),
            };
            let earlier = transcript.take_earlier_turn(observed, started);
            let (turn, failure) = earlier.unzip();
            result.found = Some(FoundConversation {
                file: resolved(transcript.path()),
                turn,
            });
            self.failure = failure.flatten().or(self.failure.take());
        }
        if let Some(transcript) = &self.transcript {
            let agents = transcript.background(self.started).agents;
            let state = (agents, transcript.status());
            self.held_turn.pass(&mut result.events, state, now);
        }
        for event in &result.events {
            match event {
                AgentEvent::PromptSent { .. } => self.turn += 1,
                AgentEvent::AgentFailed { error, .. } => self.failure = Some(error.clone()),
                _ => {}
            }
        }
        let status_claim = status.as_ref().and_then(|status| {
            Some(StateClaim {
                state: status.state()?,
                is_confirmed: true,
                asks: None,
                detail: status.waiting_for.clone().unwrap_or_default(),
                turn: 0,
                background: Background::default(),
            })
        });
        self.claim(StateSource::StatusFile, status_claim, &mut result);
        let transcript_claim = self.transcript_claim();
        let session = status.as_ref().map(|status| status.session_id.as_str());
        let hook = self.hook(session);
        let hook_claim = hook.as_ref().and_then(|hook| {
            let mut claim = hook.claim()?;
            // The tool that waits for its result describes the question better than a general report.
            let asks = transcript_claim
                .as_ref()
                .and_then(|claim| claim.asks.as_ref());
            if hook.is_general() && asks.is_some() {
                claim.asks = asks.cloned();
            }
            Some(claim)
        });
        self.claim(StateSource::Transcript, transcript_claim, &mut result);
        self.claim(StateSource::Hook, hook_claim, &mut result);
        result
    }

    /// Returns true if the session differs from that of the file that is read.
    fn names_another(&self, session: Option<&str>) -> bool {
        let name = self.path().and_then(|path| path.file_stem());
        session.is_some_and(|session| name.is_none_or(|name| name != session))
    }

    /// Returns true for Claude Code, the only agent with our hooks.
    fn has_hooks(&self) -> bool {
        self.agent.program.known() == Some(KnownAgent::Claude)
    }

    /// Returns the last report of hooks about the session of the status file, else of the hooks that the agent has run,
    /// else of the transcript.
    fn hook(&self, session: Option<&str>) -> Option<HookFile> {
        if !self.has_hooks() {
            return None;
        }
        let stem = self.path().and_then(|path| path.file_stem()?.to_str());
        let certain = self.hook_session.as_ref().filter(|found| found.is_certain);
        let certain = certain.map(|found| found.session.as_str());
        let other = self
            .hook_session
            .as_ref()
            .map(|found| found.session.as_str());
        let session = session.or(certain).or(stem).or(other)?;
        // The report of an earlier process that was killed does not apply to this one.
        let is_its = |file: &HookFile| file.at().is_some_and(|at| at >= self.started);
        self.hooks.read(session).filter(is_its)
    }

    /// Returns the time at which the agent's process was started.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// Sets the file of the conversation.
    pub fn join(&mut self, path: PathBuf) {
        let Some(places) = &self.places else { return };
        if self.path() == Some(&path) {
            return;
        }
        // An agent writes one conversation at a time, so records of another conversation from before
        // this time are not its own.
        let latest = self.transcript.as_ref().and_then(Transcript::latest);
        let after = latest.map(|latest| Timestamp::from_micros(latest.micros() + 1));
        self.since = after.map_or(self.since, |after| after.max(self.since));
        let mut transcript = Transcript::new(path.clone(), places.format, self.since);
        let begins_in_turn = std::mem::take(&mut self.begins_in_turn);
        transcript.collect_last_turn(begins_in_turn.then_some(self.started));
        self.transcript = Some(transcript);
        self.failure = None;
        self.is_new = true;
        log::debug!(
            "{} (pid {}) writes {}",
            self.agent.program.name(),
            self.agent.pid,
            path.display()
        );
    }

    fn claim(&mut self, source: StateSource, claim: Option<StateClaim>, result: &mut ReadResult) {
        let before = self.claims.iter_mut().find(|(of, _)| *of == source);
        match before {
            Some((_, before)) if *before == claim => return,
            Some((_, before)) => before.clone_from(&claim),
            None => self.claims.push((source, claim.clone())),
        }
        result.claims.push((source, claim));
    }

    fn transcript_claim(&self) -> Option<StateClaim> {
        let transcript = self.transcript.as_ref()?;
        let (state, is_confirmed) = match transcript.status() {
            StreamStatus::Unknown => return None,
            StreamStatus::Working => (AgentState::Working, true),
            StreamStatus::MaybeDone => (AgentState::Done, false),
            // The screen has shown the end, and may show that the agent goes on.
            StreamStatus::Done if transcript.evidence().starts_with("inferred") => {
                (AgentState::Done, false)
            }
            StreamStatus::Done | StreamStatus::Background { .. } => (AgentState::Done, true),
            StreamStatus::Interrupted => (AgentState::Idle, true),
            StreamStatus::Failed => {
                let is_limited = self.failure.as_deref().is_some_and(is_limit);
                let state = if is_limited {
                    AgentState::Limited
                } else {
                    AgentState::Error
                };
                // Qwen Code retries a failed request without a record, and aider writes a moment later that it does; the
                // title or the screen shows that they work.
                let format = self.format();
                let may_retry = [StreamFormat::QwenSession, StreamFormat::AiderHistory];
                (state, !may_retry.contains(&format))
            }
        };
        // With several open tools, only the screen shows which one the question is about.
        let mut open = transcript
            .open_tools()
            .chain(self.sub_agents.open_tools())
            .filter(|_| state == AgentState::Working);
        let tool = open.next().filter(|_| open.next().is_none());
        Some(StateClaim {
            state,
            is_confirmed,
            asks: tool.and_then(|(name, arguments)| permission_question(name, arguments)),
            detail: match (state, &self.failure) {
                (AgentState::Error | AgentState::Limited, Some(failure)) => failure.clone(),
                _ => transcript.evidence().to_owned(),
            },
            turn: self.turn,
            background: transcript.background(self.started),
        })
    }
}

/// The time in which the end of a background agent sends its parent on. Claude Code 2.1.332 writes the end, and 0.11 s later
/// what begins the next turn; on a busy machine both are read at once, or half a second apart.
const SENT_ON: Duration = Duration::from_secs(2);

/// The end of a turn while background agents run: their ends send the agent on, to the only end of the turn.
#[derive(Debug, Default)]
struct HeldTurn {
    end: Option<AgentEvent>,
    /// When the last of the agents was found to have ended.
    ended: Option<Instant>,
}

impl HeldTurn {
    /// Takes the end of a turn out of the events while background agents run, and adds it if none of them has sent the
    /// agent on.
    fn pass(
        &mut self,
        events: &mut Vec<AgentEvent>,
        (agents, status): (u32, StreamStatus),
        now: Instant,
    ) {
        let is_end = |event: &AgentEvent| matches!(event, AgentEvent::TurnCompleted { .. });
        if agents > 0 {
            let ends = events.extract_if(.., |event| is_end(event));
            self.end = ends.last().or(self.end.take());
            self.ended = None;
            return;
        }
        let Some(end) = self.end.take() else { return };
        if status != StreamStatus::Done || events.iter().any(is_end) {
            return;
        }
        let ended = *self.ended.get_or_insert(now);
        if now >= ended + SENT_ON {
            events.push(end);
        } else {
            self.end = Some(end);
        }
    }
}

/// The state that an agent reports about itself.
#[derive(Debug)]
struct Status {
    file: Followed,
    content: Option<StatusFile>,
}

impl Status {
    fn new(path: PathBuf) -> Self {
        Self {
            file: Followed::new(path),
            content: None,
        }
    }

    /// Returns the current content; `None` if there is no file or another process wrote it.
    fn read(&mut self, agent: &RunningAgent, now: Timestamp) -> Option<&StatusFile> {
        let metadata = fs::metadata(&self.file.path).ok();
        let version = metadata.as_ref().map(FileVersion::of);
        if version.is_none() || version != self.file.seen {
            let read = || {
                StatusFile::read(&read_small(
                    &self.file.path,
                    OFlags::empty(),
                    STATUS_BYTES_MAX,
                )?)
            };
            let is_its = |status: &StatusFile| status.is_of(agent.pid, agent.started);
            self.content = version.and_then(|_| read()).filter(is_its);
            let is_settled = |age: Duration| age >= SETTLED_AGE;
            self.file.seen = version.filter(|version| version.age(now).is_some_and(is_settled));
        }
        self.content.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_turn_whose_background_agent_sends_it_on_ends_once() {
        let start = Clock::system().now();
        let end = |summary: &str| AgentEvent::TurnCompleted {
            marker: "end_turn".into(),
            summary: summary.into(),
        };
        let mut held = HeldTurn::default();
        let mut pass = |event: Option<AgentEvent>, agents: u32, status, ms: u64| {
            let mut events: Vec<AgentEvent> = event.into_iter().collect();
            let now = start + Duration::from_millis(ms);
            held.pass(&mut events, (agents, status), now);
            let ends = events.into_iter().filter_map(|event| match event {
                AgentEvent::TurnCompleted { summary, .. } => Some(summary),
                _ => None,
            });
            ends.collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        let waits = StreamStatus::Background { tasks: 1 };
        assert_eq!(pass(Some(end("I wait")), 1, waits, 0), none);
        // Its end is written, and then what begins the next turn.
        assert_eq!(pass(None, 0, StreamStatus::Done, 7_000), none);
        assert_eq!(pass(None, 0, StreamStatus::Working, 7_110), none);
        assert_eq!(
            pass(Some(end("All is done")), 0, StreamStatus::Done, 8_000),
            ["All is done"]
        );
        // One that the user has killed sends nothing on.
        assert_eq!(pass(Some(end("I wait again")), 1, waits, 9_000), none);
        assert_eq!(pass(None, 0, StreamStatus::Done, 10_000), none);
        assert_eq!(pass(None, 0, StreamStatus::Done, 11_999), none);
        assert_eq!(pass(None, 0, StreamStatus::Done, 12_000), ["I wait again"]);
        assert_eq!(pass(None, 0, StreamStatus::Done, 19_000), none);
    }
}
