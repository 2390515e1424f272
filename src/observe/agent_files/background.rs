//! The background sessions of Claude Code: agents without a terminal of the user, which a daemon runs. Each has a run of
//! its own.
//!
//! A session is a process with a status file, and a job with a file in which the daemon keeps its name and its end. The
//! thread `td-sessions` reads them; it blocks on files, and until the next read is due or it is stopped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;
use rustix::fs::OFlags;

use super::conversations::AgentEventConverter;
use super::file::{FileVersion, read_small};
use super::homes::{claude_homes, entries};
use super::joined::{FoundConversation, Joined};
use crate::agent::{
    AgentEvent, AgentProgram, AgentState, JOB_BYTES_MAX, JobFile, KnownAgent, Questions,
    ResolvedState, STATUS_BYTES_MAX, StateClaim, StateResolver, StateSource, StatusFile,
};
use crate::bus::EventEmitter;
use crate::event::{Background, StateEvidence, TdEvent};
use crate::history::{RunInfo, RunKind, RunState};
use crate::observe::resume_point::reported_conversation;
use crate::observe::{RunName, Source, SourceContext};
use crate::process::{Presence, RunningAgent, stat};
use crate::thread::is_stopped;
use crate::timestamp::Timestamp;

/// The interval of searches for sessions. Without any, each is one `stat` of a directory.
const SEARCH_INTERVAL: Duration = Duration::from_secs(2);

/// The interval of reads of the sessions' files: a state is known within half a second.
const TICK: Duration = Duration::from_millis(200);

/// The time for which the daemon may record how a session has ended whose process is gone.
const END_WAIT: Duration = Duration::from_secs(2);

/// The most sessions that are observed.
const SESSIONS_MAX: usize = 200;

/// The source of all background sessions of a user.
#[derive(Debug)]
pub(crate) struct BackgroundSessions {
    /// The directories in which Claude Code keeps its files.
    homes: Vec<PathBuf>,
}

impl BackgroundSessions {
    /// Returns those of the homes that these variables name.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path =
            |name: &str| Some(PathBuf::from(variable(name)?)).filter(|path| path.is_absolute());
        Self {
            homes: claude_homes(path),
        }
    }
}

impl Source for BackgroundSessions {
    fn name(&self) -> String {
        "td-sessions".to_owned()
    }

    fn run(self: Box<Self>, context: SourceContext) {
        let mut sessions = BTreeMap::new();
        let mut searched_at: Option<Instant> = None;
        loop {
            // Read before the files, so that the last read comes after the stop.
            let is_last = is_stopped(&context.stop);
            let (now, wall) = (context.clock.now(), context.clock.wall());
            let is_due = |at: Instant| now.saturating_duration_since(at) >= SEARCH_INTERVAL;
            if !is_last && searched_at.is_none_or(is_due) {
                let is_first = searched_at.replace(now).is_none();
                self.search(&mut sessions, &context, (wall, is_first));
            }
            sessions.retain(|_, session| {
                let Some(state) = session.read(now, wall) else {
                    return true;
                };
                let id = session.emitter.execution_id();
                context.runs.close(id, state, None);
                false
            });
            if is_last {
                break;
            }
            let wait = if sessions.is_empty() {
                SEARCH_INTERVAL
            } else {
                TICK
            };
            let next = context.clock.after(wait);
            select_biased! {
                recv(context.stop) -> _ => {}
                recv(next) -> _ => {}
            }
        }
        for session in sessions.into_values() {
            let id = session.emitter.execution_id();
            context.runs.close(id, RunState::Detached, None);
        }
    }
}

impl BackgroundSessions {
    /// Adds the sessions that are not observed yet.
    fn search(
        &self,
        sessions: &mut BTreeMap<String, Session>,
        context: &SourceContext,
        (wall, is_first): (Timestamp, bool),
    ) {
        for home in self.homes.iter().filter(|home| home.join("jobs").is_dir()) {
            for pid in written_by(home) {
                let is_known = sessions.values().any(|known| known.agent().pid == pid);
                if is_known || sessions.len() >= SESSIONS_MAX {
                    continue;
                }
                let found = Found::of(pid, home);
                if let Some(found) = found.filter(|found| !sessions.contains_key(&found.id)) {
                    let id = found.id.clone();
                    match Session::open(found, context, wall, is_first) {
                        Ok(session) => drop(sessions.insert(id, session)),
                        Err(error) => log::warn!("{error:?}"),
                    }
                }
            }
        }
    }
}

/// Returns the living processes that have a status file in a home. The keys beside these files are not read.
fn written_by(home: &Path) -> Vec<u32> {
    let pid = |path: PathBuf| {
        path.file_name()?
            .to_str()?
            .strip_suffix(".json")?
            .parse()
            .ok()
    };
    let pids = entries(&home.join("sessions")).into_iter().filter_map(pid);
    // Files of earlier processes remain for good.
    pids.filter(|pid| stat(*pid).is_some()).collect()
}

/// A background session that was found.
struct Found {
    /// The id of its job.
    id: String,
    agent: RunningAgent,
    job: Job,
}

impl Found {
    /// Returns the session of this process; `None` if it is another agent, or waits for a session.
    fn of(pid: u32, home: &Path) -> Option<Self> {
        let path = home.join(format!("sessions/{pid}.json"));
        let status = StatusFile::read(&read_small(&path, OFlags::empty(), STATUS_BYTES_MAX)?)?;
        let id = status.background_job()?;
        let agent = RunningAgent::at(pid, AgentProgram::Known(KnownAgent::Claude))?;
        let job = Job::read_from(home.join("jobs").join(id).join("state.json"))?;
        status.is_of(pid, agent.started).then(|| Self {
            id: id.to_owned(),
            agent,
            job,
        })
    }
}

/// The file of a session's job.
#[derive(Debug)]
struct Job {
    path: PathBuf,
    seen: Option<FileVersion>,
    content: JobFile,
}

impl Job {
    /// Returns the job of a file; `None` if there is none.
    fn read_from(path: PathBuf) -> Option<Self> {
        let mut job = Self {
            path,
            seen: None,
            content: JobFile::default(),
        };
        job.update();
        job.seen.is_some().then_some(job)
    }

    /// Reads the file if it has changed. Content of another kind changes nothing.
    fn update(&mut self) {
        let metadata = fs::metadata(&self.path).ok();
        let version = metadata.as_ref().map(FileVersion::of);
        if version.is_some() && version != self.seen {
            let read = || JobFile::read(&read_small(&self.path, OFlags::empty(), JOB_BYTES_MAX)?);
            if let Some(content) = read() {
                (self.content, self.seen) = (content, version);
            }
        }
    }

    /// Returns true if the user has removed the job.
    fn is_removed(&self) -> bool {
        !self.path.exists()
    }
}

/// A session that is observed.
#[derive(Debug)]
struct Session {
    id: String,
    emitter: EventEmitter,
    joined: Joined,
    job: Job,
    /// The claim of the status file, without what the job tells of it.
    status: Option<StateClaim>,
    /// True if the last turn has failed, which its transcript says.
    has_failed: bool,
    resolver: StateResolver,
    questions: Questions,
    converter: AgentEventConverter,
    name: Option<String>,
    background: Background,
    /// When the process was found to have ended.
    gone_at: Option<Instant>,
}

impl Session {
    /// Opens the run of a session. `is_first`: it may have begun before the observation.
    ///
    /// # Errors
    /// When the engine is shutting down.
    fn open(
        Found { id, agent, job }: Found,
        context: &SourceContext,
        wall: Timestamp,
        is_first: bool,
    ) -> crate::Result<Self> {
        let name = job.content.name();
        let info = RunInfo {
            kind: RunKind::Agents,
            label: name.unwrap_or_else(|| id.clone()),
            ..RunInfo::default()
        };
        let run_name = RunName::Exact(format!("{}-{id}", agent.program.name()).into());
        let run = context.runs.open(run_name, info)?;
        let age = i64::try_from(agent.age().as_micros()).unwrap_or(0);
        let started = Timestamp::from_micros(wall.micros().saturating_sub(age));
        let reported = run.history.as_ref().and_then(reported_conversation);
        let session = Self {
            joined: Joined::new(agent, started, reported, is_first.then_some(wall)),
            id,
            emitter: run.emitter,
            job,
            status: None,
            has_failed: false,
            resolver: StateResolver::new(true),
            questions: Questions::default(),
            converter: AgentEventConverter::default(),
            name: None,
            background: Background::default(),
            gone_at: None,
        };
        session.emitter.agent_registered(&session.id, "");
        session.emit_conversation(None);
        Ok(session)
    }

    fn agent(&self) -> &RunningAgent {
        &self.joined.agent
    }

    /// Reads what is new. Returns the state of the run if the session has ended.
    fn read(&mut self, now: Instant, wall: Timestamp) -> Option<RunState> {
        // Noted first, so that the files are read once more after the end.
        let is_gone = self.agent().presence(self.agent().pid) == Presence::Gone;
        self.job.update();
        self.emit_name();
        let result = self.joined.read(now, wall);
        for event in result.events {
            self.emit(event);
        }
        if let Some(found) = result.found {
            self.emit_conversation(Some(found));
        }
        for (source, claim) in result.claims {
            if source == StateSource::StatusFile {
                self.status = claim;
                continue;
            }
            if source == StateSource::Transcript {
                let state = claim.as_ref().map(|claim| claim.state);
                self.has_failed = matches!(state, Some(AgentState::Error | AgentState::Limited));
            }
            self.resolver.set_claim(source, claim, now);
        }
        let status = self.status.clone().map(|claim| self.with_needs(claim));
        self.resolver
            .set_claim(StateSource::StatusFile, status, now);
        if let Some(report) = self.resolver.next_change(now) {
            self.emit_state(report, wall);
        }
        self.emit_background();
        if self.job.is_removed() {
            return Some(self.end(None));
        }
        if !is_gone {
            self.gone_at = None;
            return None;
        }
        let gone_at = *self.gone_at.get_or_insert(now);
        let is_recorded = self.job.content.has_ended();
        if !is_recorded && now.saturating_duration_since(gone_at) < END_WAIT {
            return None;
        }
        let is_busy = matches!(
            self.resolver.state(),
            Some(AgentState::Working | AgentState::Waiting)
        );
        let failure = match &self.job.content {
            job if job.has_failed() => Some(job.detail()),
            _ if is_busy && !is_recorded => Some("its process has ended".to_owned()),
            _ => None,
        };
        Some(self.end(failure))
    }

    /// Ends the session, as failed if there is a reason.
    fn end(&self, failure: Option<String>) -> RunState {
        let evidence = "the end of its process";
        match failure {
            Some(error) => {
                self.emitter.agent_failed(&self.id, &error, evidence);
                RunState::Failed
            }
            None => {
                let detail = self.job.content.detail();
                self.emitter.agent_completed(&self.id, &detail, evidence);
                RunState::Completed
            }
        }
    }

    /// Adds what the session needs from the user, which Claude Code judges after each turn.
    fn with_needs(&self, claim: StateClaim) -> StateClaim {
        // The words of a failure are better than that it needs another try.
        let needs = self.job.content.needs().filter(|_| !self.has_failed);
        match claim.state {
            AgentState::Idle if needs.is_some() => StateClaim {
                state: AgentState::Waiting,
                asks: needs,
                ..claim
            },
            _ => claim,
        }
    }

    fn emit_name(&mut self) {
        let name = self.job.content.name();
        if name.is_none() || name == self.name {
            return;
        }
        self.name = name;
        self.emitter.emit(TdEvent::RowRenamed {
            execution_id: self.emitter.execution_id().clone(),
            pane: None,
            agent_id: Some(self.id.clone()),
            name: self.name.clone().unwrap_or_default(),
        });
    }

    fn emit(&mut self, event: AgentEvent) {
        let id = self.emitter.execution_id();
        let agent = (self.joined.agent.program.name(), None);
        let Some(mut event) = self.converter.convert(event, id, agent, None) else {
            return;
        };
        if let TdEvent::TurnCompleted { agent_id, .. } = &mut event {
            *agent_id = Some(Box::new(self.id.clone()));
        }
        self.emitter.emit(event);
    }

    /// Emits that the agent is found, or its conversation.
    fn emit_conversation(&self, found: Option<FoundConversation>) {
        let agent = self.agent().program.name().to_owned();
        let id = self.emitter.execution_id();
        self.emitter
            .emit(FoundConversation::event(found, id, None, agent));
    }

    fn emit_state(&mut self, report: ResolvedState, wall: Timestamp) {
        let claim = report.claim;
        if claim.state == AgentState::Done && !claim.is_confirmed {
            // The transcript lacks the end of the turn.
            for event in self.joined.end_turn(wall) {
                self.emit(event);
            }
        }
        let is_waiting = claim.state == AgentState::Waiting;
        let detail = Some(claim.detail).filter(|detail| !detail.is_empty());
        let needs = || self.job.content.needs();
        let asks = match claim.asks {
            // The kind of a dialogue is better than no question.
            None if is_waiting => needs().or_else(|| detail.clone()),
            asks => asks,
        };
        let question_id = if is_waiting {
            Some(self.questions.ask(asks.as_deref(), None))
        } else {
            self.questions.close();
            None
        };
        let evidence = if claim.is_confirmed {
            StateEvidence::Confirmed
        } else {
            StateEvidence::Inferred
        };
        self.emitter.emit(TdEvent::AgentState {
            execution_id: self.emitter.execution_id().clone(),
            agent_id: Some(Box::new(self.id.clone())),
            pane: None,
            state: claim.state.into(),
            evidence: evidence.into(),
            agent: Some(Box::new(self.agent().program.name().to_owned())),
            source: Some(report.source.into()),
            asks: asks.map(Box::new),
            detail: detail.map(Box::new),
            question_id: question_id.map(Box::new),
            dialogue: None,
        });
    }

    /// Emits what the agent has left running in the background, if it has changed.
    fn emit_background(&mut self) {
        let now = self.resolver.background();
        if std::mem::replace(&mut self.background, now) != now {
            self.emitter.emit(TdEvent::BackgroundWork {
                execution_id: self.emitter.execution_id().clone(),
                pane: None,
                shells: now.shells,
                agents: now.agents,
            });
        }
    }
}
