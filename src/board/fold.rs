//! Applies one event to the rows of the board.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::job::is_job_named;
use super::last::{EarlierTurn, conclusion, is_echo, tool_in_words};
use super::limit::limit_end;
use super::row::{Row, RowKey, is_failure};
use super::rows::Rows;
use super::shown::{plain, shown, shown_child};
use super::state::{ExecutionKind, RowState};
use jiff::tz::TimeZone;

use crate::agent::{
    AgentProgram, RowKind, StateRules, UNNAMED, exit_status_of_detail, one_line, program_name,
};
use crate::event::{
    AgentState, Background, CompletionReason, Envelope, ExecutionId, GapEvidence, PaneId,
    SessionEndReason, StateSource, TdEvent,
};
use crate::process::{is_shell, runs_script};
use crate::timestamp::Timestamp;
use crate::track::ProcessExit;

/// The exit status of a command that ran into its timeout, as in `timeout(1)`.
const TIMED_OUT: i32 = 124;

/// The most characters of a row's last line.
const CHARS_MAX: usize = 500;

/// Applies an event; returns the keys of the rows that it changed.
pub(super) fn apply(rows: &mut Rows, envelope: &Envelope) -> BTreeSet<RowKey> {
    let mut fold = Fold {
        rows,
        at: envelope.ts,
        changed: BTreeSet::new(),
    };
    fold.event(&envelope.event);
    fold.changed
}

struct Fold<'a> {
    rows: &'a mut Rows,
    at: Timestamp,
    changed: BTreeSet<RowKey>,
}

impl Fold<'_> {
    fn event(&mut self, event: &TdEvent) {
        let Some(id) = event.execution() else {
            return;
        };
        match event {
            TdEvent::SessionStarted { session, .. } => self.set_name(id, session),
            TdEvent::SessionRenamed { to, .. } => self.set_name(id, to),
            // A session that is only detached from its observer continues.
            TdEvent::SessionEnded { reason, .. } if *reason == SessionEndReason::Detached => {
                // Nothing changes that faces show.
                self.rows.of(id).for_each(|(_, row)| row.remember());
            }
            TdEvent::SessionEnded {
                reason,
                exit_status,
                ..
            } => self.all_rows(id, |row, at| {
                row.end_with_session(reason, *exit_status, at);
            }),
            TdEvent::PaneOpened {
                pane,
                command,
                is_new,
                ..
            } => self.pane(id, pane, |row, at| {
                row.open(is_new.unwrap_or(false), at);
                row.agent = Some(program(command));
            }),
            TdEvent::PaneClosed {
                pane, exit_status, ..
            } => self.pane(id, pane, |row, at| {
                // A pane may have been kept after its program has ended.
                let known = row.exit_status.filter(|_| row.has_ended());
                row.end_program(exit_status.or(known), at);
            }),
            TdEvent::RowRenamed {
                pane,
                agent_id,
                name,
                ..
            } => {
                let name = one_line(&plain(name));
                self.row_of(id, pane.as_ref(), agent_id.as_deref(), |row, _| {
                    row.label = Some(name);
                });
            }
            TdEvent::OutputUpdate {
                pane,
                chunk,
                reason,
                exit_status,
                ..
            } => {
                self.text(id, Some(pane), chunk);
                // With `remain-on-exit`, tmux keeps the pane of a program that has ended.
                if reason
                    .as_ref()
                    .is_some_and(|reason| *reason == CompletionReason::Exit)
                {
                    self.pane(id, pane, |row, at| row.end_program(*exit_status, at));
                }
            }
            // The prompt below a job that has ended is an open line. What is above it, the next job has not printed.
            TdEvent::OutputRevised { pane, .. } if self.is_at_prompt(id, pane) => {
                self.pane(id, pane, |row, at| {
                    row.note_output(at);
                    row.printed = None;
                });
            }
            TdEvent::OutputRevised { text, .. }
            | TdEvent::ExecutionOutput { text, .. }
            | TdEvent::ValidationOutput { line: text, .. } => self.text(id, event.pane(), text),
            // The user knows what he has asked; the agent has said nothing yet.
            TdEvent::PromptSent { .. } => self.says(id, event.pane(), |row| {
                row.answer.clear();
                row.answer.begin_turn();
                Some(String::new())
            }),
            TdEvent::TokenReceived { token, .. } => self.says(id, event.pane(), |row| {
                row.answer.push(&plain(token));
                row.answer.last_sentence()
            }),
            TdEvent::ResponseCompleted {
                response_summary, ..
            } => self.says(id, event.pane(), |row| {
                let is_known = row.answer.conclusion().is_some();
                // The next response is no part of its last sentence, such as another attempt after an error.
                row.answer.push("\n\n");
                (!is_known).then(|| conclusion(&plain(response_summary)))?
            }),
            // The transcript follows, by whole messages. What it has already is older than what it had last.
            TdEvent::AgentActivity { pane, text, .. } => {
                let says = one_line(&plain(text));
                self.says(id, Some(pane), |row| row.is_ahead(&says).then_some(says));
            }
            TdEvent::PaneSeen { pane, .. } => self.seen(key(id, Some(pane.as_str()))),
            TdEvent::RowDismissed {
                pane,
                agent_id,
                dismissed,
                ..
            } => {
                let part = pane.as_ref().map(PaneId::as_str).or(agent_id.as_deref());
                self.dismiss(key(id, part), *dismissed);
            }
            TdEvent::ScreenUpdate { pane, .. } => self.pane(id, pane, Row::note_output),
            TdEvent::OutputGap { pane, evidence, .. } if *evidence == GapEvidence::Confirmed => {
                self.pane(id, pane, |row, _| row.gaps += 1);
            }
            TdEvent::ExecutionStarted {
                pane: None,
                cell: Some(_),
                ..
            } => {
                // The row has the name of the kernel, because its cells change.
                let (label, _) = id.as_str().rsplit_once('@').unwrap_or((id.as_str(), ""));
                self.name_if_new(id, label);
                self.execution(id, ExecutionKind::Kernel, Row::begin);
            }
            TdEvent::ExecutionStarted {
                command,
                pane: None,
                ..
            } => {
                self.name_if_new(id, command);
                self.execution(id, ExecutionKind::Command, |row, at| {
                    row.agent = Some(program(command));
                    row.begin(at);
                });
            }
            TdEvent::ExecutionCompleted {
                exit_code,
                signal,
                pane: None,
                cell,
                ..
            } => {
                let status = exit_code.or_else(|| signal.map(|signal| signal.saturating_add(128)));
                let status = self.timeout_of(id).or(status);
                let kind = cell.map_or(ExecutionKind::Command, |_| ExecutionKind::Kernel);
                self.execution(id, kind, |row, at| row.end(status, at));
            }
            TdEvent::ExecutionStarted {
                command,
                pane: Some(pane),
                ..
            } => self.pane(id, pane, |row, at| {
                row.note_output(at);
                // The job that shows another pane is no work.
                if !row.is_view() {
                    row.begin_job(runs_script(command), at);
                    row.job = Some((job_name(command), at));
                    if is_agent(command) {
                        row.name_job();
                        row.begin_agent(at);
                    }
                }
            }),
            TdEvent::ExecutionCompleted {
                pane: Some(pane),
                exit_code,
                signal,
                duration_ms,
                ..
            } => self.pane(id, pane, |row, at| {
                row.note_output(at);
                let exit = ProcessExit {
                    status: *exit_code,
                    signal: *signal,
                };
                let is_news = |status: &i32| is_failure(*status) && !row.is_ended_by_shell(*status);
                let failure = exit.exit_status().filter(is_news);
                // What fails has its name, however short it was.
                if row.job.is_some() && (failure.is_some() || is_job_named(*duration_ms)) {
                    row.name_job();
                }
                // The end of an agent that lived too briefly to be found.
                row.fail_if_killed(exit.exit_status(), at);
                let job = row.job.take();
                row.runs_script = false;
                if row.state == RowState::Failed {
                    row.job_ended = Some(at);
                    return;
                }
                match failure {
                    Some(status) => {
                        let program = job.map(|(name, _)| name).or_else(|| row.agent.clone());
                        let program = program.unwrap_or_else(|| "it".to_owned());
                        row.fail_job(&program, status, *duration_ms, at);
                    }
                    None => {
                        row.end_job(at);
                        row.agent = Some("shell".to_owned());
                    }
                }
                row.job_ended = Some(at);
            }),
            TdEvent::LoopStarted {
                task_description,
                phases,
                ..
            } => {
                self.name_if_new(id, task_description);
                self.execution(id, ExecutionKind::Loop, |row, at| {
                    let plain_phase = |phase: &String| plain(phase).into_owned();
                    row.phases =
                        (phases.as_ref()).map(|phases| phases.iter().map(plain_phase).collect());
                    row.begin(at);
                });
            }
            TdEvent::PhaseStarted {
                phase_index,
                total_phases,
                ..
            } => self.execution(id, ExecutionKind::Loop, |row, _| {
                row.keep_phases(total_phases.saturating_sub(*phase_index));
            }),
            TdEvent::LoopCompleted { success, .. } => {
                let status = i32::from(!success);
                self.execution(id, ExecutionKind::Loop, |row, at| {
                    if *success {
                        row.keep_phases(0);
                    }
                    row.end(Some(status), at);
                });
            }
            TdEvent::ToolCallStarted {
                tool_name,
                tool_args_summary,
                ..
            } => {
                self.says(id, event.pane(), |row| {
                    row.answer.push("\n\n");
                    Some(tool_in_words(&plain(tool_name), &plain(tool_args_summary)))
                });
            }
            TdEvent::TurnCompleted {
                pane,
                agent_id,
                summary,
                ..
            } => {
                let agent = agent_id.as_deref().map(String::as_str);
                self.row_of(id, pane.as_ref(), agent, |row, _| {
                    row.turns += 1;
                    row.note_news();
                    row.conclude(&plain(summary));
                    row.answer.end_turn();
                });
            }
            TdEvent::AgentState {
                agent_id,
                pane,
                state,
                evidence,
                agent,
                source,
                asks,
                question_id,
                dialogue,
                detail,
                ..
            } => {
                let agent_id = agent_id.as_deref().map(String::as_str);
                self.row_of(id, pane.as_ref(), agent_id, |row, at| {
                    let is_shell = agent.as_deref().is_some_and(|agent| agent == "shell");
                    let is_idle = *state == AgentState::Idle;
                    if is_shell && is_idle && row.fail_again() {
                        return;
                    }
                    let is_news = row.state == RowState::Failed && *state != AgentState::Waiting;
                    row.works_again = is_shell && is_news && *state == AgentState::Working;
                    if is_shell && (is_news || row.runs_script && is_idle) {
                        // The shell goes on, and the failure is still news; a script's own prompt is work.
                        return;
                    }
                    // A job that has its name keeps it while it runs.
                    let is_unnamed = agent.as_deref().is_some_and(|agent| agent == UNNAMED);
                    let is_other = row.agent.as_deref().is_some_and(|agent| agent != "shell");
                    let is_named =
                        is_shell && !is_idle && row.has_named_job() || is_unnamed && is_other;
                    if let Some(agent) = agent.as_ref().filter(|_| !is_named) {
                        row.set_agent(plain(agent).into_owned());
                    }
                    if is_shell && *state == AgentState::Suspended {
                        row.stop_job();
                    }
                    row.evidence = Some(evidence.clone());
                    row.source.clone_from(source);
                    let asks = asks.as_deref().map(|asks| plain(asks).into_owned());
                    let is_end = source
                        .as_ref()
                        .is_some_and(|source| *source == StateSource::Process);
                    let detail = detail.as_deref().filter(|_| is_end);
                    if let Some(status) = detail.and_then(|detail| exit_status_of_detail(detail)) {
                        return row.fail(asks.unwrap_or_default(), status, at);
                    }
                    let id = question_id.as_deref().cloned();
                    match state.known().filter(|_| !is_shell && !is_end) {
                        Some(AgentState::Working) => row.forget_last_turn(),
                        Some(AgentState::Idle) => {
                            let source = source.as_ref();
                            row.stop_turn(source.is_some_and(|by| *by == StateSource::Transcript));
                        }
                        _ => {}
                    }
                    row.enter_agent(RowState::Agent(state.clone()), asks, id, at);
                    match state.known() {
                        Some(AgentState::Done) => row.conclude(""),
                        // A view of another pane.
                        Some(AgentState::Idle) => {
                            if let Some(words) = detail {
                                row.last_line = plain(words).into_owned();
                            }
                        }
                        Some(AgentState::Error | AgentState::Limited) => {
                            // Agents write the user's own time of day.
                            let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
                            if let Some(words) = &row.asks {
                                row.last_line.clone_from(words);
                                let said = row.since_before(&row.state, at).unwrap_or(at);
                                row.limit_end = limit_end(words, said, &zone);
                            }
                        }
                        _ => {}
                    }
                    row.dialogue = dialogue
                        .as_deref()
                        .map(|dialogue| Box::new(shown(dialogue)));
                    row.show_question();
                });
            }
            TdEvent::BackgroundWork {
                pane,
                shells,
                agents,
                ..
            } => self.own_row(id, pane.as_ref(), |row, _| {
                let (shells, agents) = (*shells, *agents);
                row.background =
                    Some(Background { shells, agents }).filter(|left| !left.is_empty());
            }),
            TdEvent::ProgressReported {
                pane,
                progress,
                children,
                ..
            } => self.pane(id, pane, |row, _| {
                row.progress = *progress;
                let children: Box<[_]> = children.iter().map(shown_child).collect();
                row.children = Some(children).filter(|children| !children.is_empty());
            }),
            TdEvent::ConversationFound {
                pane,
                agent,
                file,
                answer,
                turn_began,
                turn_ended,
                acted,
                ..
            } => self.own_row(id, pane.as_ref(), |row, at| {
                if let Some(agent) = agent {
                    let agent = plain(agent).into_owned();
                    let is_new =
                        row.agent.as_ref() != Some(&agent) || row.state == RowState::Running;
                    row.set_agent(agent);
                    // The screen of a known agent is read soon; of another one, no state may ever be.
                    let is_read_soon = row.is_unread() && row.is_agents();
                    if (is_new || row.is_unread()) && !is_read_soon {
                        row.begin_agent(at);
                    }
                }
                let before = row.file.clone();
                row.file = file.as_deref().cloned().or(row.file.take());
                let has_turn = turn_began.or(*turn_ended).or(*acted).is_some();
                if !has_turn {
                    return;
                }
                if before.is_some() && before != row.file {
                    // What it has said belongs to another conversation.
                    row.answer.clear();
                }
                let turn = EarlierTurn {
                    began: *turn_began,
                    ended: *turn_ended,
                    acted: *acted,
                    found: at,
                };
                let answer = answer.as_deref().map_or("", String::as_str);
                row.find_conversation(turn, &plain(answer));
            }),
            TdEvent::AgentRegistered {
                agent_id,
                output_file,
                pane: None,
                ..
            } => self.row_of(id, None, Some(agent_id), |row, _| {
                row.file = Some(output_file.clone()).filter(|file| !file.is_empty());
            }),
            TdEvent::AgentCompleted {
                agent_id,
                result,
                pane: None,
                ..
            } => self.background_end(id, agent_id, AgentState::Done, result),
            TdEvent::AgentFailed {
                agent_id,
                error,
                pane: None,
                ..
            } => self.background_end(id, agent_id, AgentState::Error, error),
            // The trouble of a log is no execution of its own.
            TdEvent::Error { context, .. }
                if context == "log" && self.rows.of(id).next().is_none() => {}
            TdEvent::Error {
                context, message, ..
            } => {
                self.error(id);
                if context == "timeout" {
                    self.time_out(id, message);
                }
            }
            // Iterations, warnings, resizes, headers and snapshots do not change rows. Sub-agents of a pane
            // belong to the row of the pane.
            _ => {}
        }
    }

    /// Sets the name of an execution and of its rows.
    fn set_name(&mut self, id: &ExecutionId, name: &str) {
        let name = &*plain(name);
        self.rows.names.insert(id.clone(), name.to_owned());
        for (key, row) in self.rows.of(id) {
            if row.name != name && row.kind != ExecutionKind::Agent {
                row.name = name.to_owned();
                self.changed.insert(key.clone());
            }
        }
    }

    /// Names an execution: by the id that its user has chosen for it, or else by what it runs.
    fn name_if_new(&mut self, id: &ExecutionId, name: &str) {
        let first = name.lines().next().unwrap_or_default();
        let name = if is_generated(id) { first } else { id.as_str() };
        let names = &mut self.rows.names;
        (names.entry(id.clone())).or_insert_with(|| plain(name).into_owned());
    }

    /// Changes all rows of an execution.
    fn all_rows(&mut self, id: &ExecutionId, mut change: impl FnMut(&mut Row, Timestamp)) {
        for (key, row) in self.rows.of(id) {
            let before = row.clone();
            change(row, self.at);
            if *row != before {
                self.changed.insert(key.clone());
            }
        }
    }

    /// Changes the row with a key. Creates the row if it does not exist.
    fn row(&mut self, key: RowKey, kind: ExecutionKind, change: impl FnOnce(&mut Row, Timestamp)) {
        let name = self.rows.names.get(&key.execution_id);
        let name = || {
            name.cloned()
                .unwrap_or_else(|| key.execution_id.to_string())
        };
        let at = self.at;
        let have_hosts = self.rows.have_hosts;
        let mut is_new = false;
        let row = self.rows.map.entry(key.clone()).or_insert_with(|| {
            is_new = true;
            let mut row = Row::new(&key, name(), kind, at);
            let server = self.rows.servers.get(&key.execution_id);
            row.server = server.filter(|_| row.pane.is_some()).cloned();
            row
        });
        let before = row.clone();
        change(row, at);
        if have_hosts {
            row.name_host();
        }
        if is_new || *row != before {
            self.changed.insert(key);
        }
    }

    fn pane(&mut self, id: &ExecutionId, pane: &PaneId, change: impl FnOnce(&mut Row, Timestamp)) {
        self.row(key(id, Some(pane.as_str())), ExecutionKind::Pane, change);
    }

    /// Records a view of a row. A view does not create a row.
    fn seen(&mut self, key: RowKey) {
        if let Some(row) = self.rows.map.get_mut(&key)
            && row.seen.replace(self.at) != Some(self.at)
        {
            self.changed.insert(key);
        }
    }

    /// Dismisses a row, or brings it back.
    fn dismiss(&mut self, key: RowKey, is_dismissed: bool) {
        if let Some(row) = self.rows.map.get_mut(&key)
            && std::mem::replace(&mut row.dismissed, is_dismissed) != is_dismissed
        {
            self.changed.insert(key);
        }
    }

    fn execution(
        &mut self,
        id: &ExecutionId,
        kind: ExecutionKind,
        change: impl FnOnce(&mut Row, Timestamp),
    ) {
        self.row(key(id, None), kind, change);
    }

    /// Changes the row of a pane, of a background agent, or of the execution itself.
    fn row_of(
        &mut self,
        id: &ExecutionId,
        pane: Option<&PaneId>,
        agent: Option<&str>,
        change: impl FnOnce(&mut Row, Timestamp),
    ) {
        match (pane, agent) {
            (Some(pane), _) => self.pane(id, pane, change),
            (None, Some(_)) if self.runs_an_agent(id) => {
                self.execution(id, ExecutionKind::Command, change);
            }
            (None, Some(agent)) => {
                self.row(key(id, Some(agent)), ExecutionKind::Agent, |row, at| {
                    row.name = agent.to_owned();
                    change(row, at);
                })
            }
            (None, None) => self.execution(id, ExecutionKind::Loop, change),
        }
    }

    /// Changes the row of a pane, or of the execution itself; of a run that is one background agent, the agent's.
    fn own_row(
        &mut self,
        id: &ExecutionId,
        pane: Option<&PaneId>,
        change: impl FnOnce(&mut Row, Timestamp),
    ) {
        if let Some(pane) = pane {
            return self.pane(id, pane, change);
        }
        let (first, is_only) = {
            let mut rows = self.rows.of(id);
            let first = rows.next().map(|(key, row)| (key.clone(), row.kind));
            (first, rows.next().is_none())
        };
        let is_own = |(key, kind): &(RowKey, ExecutionKind)| {
            key.part.is_none() || is_only && *kind == ExecutionKind::Agent
        };
        let own = first.filter(is_own);
        let (key, kind) = own.unwrap_or_else(|| (key(id, None), ExecutionKind::Command));
        self.row(key, kind, change);
    }

    /// Returns true if a shell reads commands in a pane.
    fn is_at_prompt(&self, id: &ExecutionId, pane: &PaneId) -> bool {
        let row = self.rows.map.get(&key(id, Some(pane.as_str())));
        row.is_some_and(|row| {
            row.state == RowState::Failed
                || row.is_idle() && row.agent.as_deref().is_some_and(|agent| agent == "shell")
        })
    }

    /// Records printed text.
    fn text(&mut self, id: &ExecutionId, pane: Option<&PaneId>, text: &str) {
        let key = key(id, pane.map(PaneId::as_str));
        let row = self.rows.map.get(&key);
        let agent = row.and_then(|row| row.agent.clone());
        let reads_commands = pane.is_some_and(|pane| self.is_at_prompt(id, pane));
        let is_typed = |line: &str| self.rows.rules.is_typed(line, reads_commands);
        let line = last_line(&self.rows.rules, agent.as_deref(), is_typed, text);
        let kind = match pane {
            Some(_) => ExecutionKind::Pane,
            None => row.map_or(ExecutionKind::Command, |row| row.kind),
        };
        self.row(key, kind, |row, at| {
            row.note_output(at);
            // A prompt is no news.
            let line = line.filter(|_| !row.resumes_agent());
            if line.is_some() {
                row.note_news();
            }
            if let Some(line) = line.filter(|_| !row.is_view()) {
                row.print(line, at);
            }
        });
    }

    /// Records what an agent says or does, as a line.
    fn says(
        &mut self,
        id: &ExecutionId,
        pane: Option<&PaneId>,
        line: impl FnOnce(&mut Row) -> Option<String>,
    ) {
        self.own_row(id, pane, |row, at| {
            row.note_words(at);
            // What an agent writes after it was stopped is no news.
            let line = line(row).filter(|line| line.is_empty() || !row.is_idle());
            if let Some(line) = line {
                row.last_line = line.chars().take(CHARS_MAX).collect();
                row.show_question();
            }
        });
    }

    /// Ends a background agent. The agent of a command or of a loop has no row of its own, and the end of the
    /// execution follows.
    fn background_end(&mut self, id: &ExecutionId, agent: &str, state: AgentState, text: &str) {
        let line = last_line(&self.rows.rules, None, |_| false, text);
        self.row_of(id, None, Some(agent), |row, at| {
            row.note_output(at);
            row.last_line = line.unwrap_or_default();
            if row.kind == ExecutionKind::Agent {
                row.set_question(None, None, None);
                (row.evidence, row.source) = (None, None);
                row.enter(RowState::Agent(state.into()), at);
            }
        });
    }

    /// Returns true for a command, a loop or a kernel, whose agent is the execution itself.
    fn runs_an_agent(&self, id: &ExecutionId) -> bool {
        // A row of an error or of text alone, without a start, knows no program.
        let is_started = |row: &Row| row.kind != ExecutionKind::Command || row.agent.is_some();
        self.rows.map.get(&key(id, None)).is_some_and(is_started)
    }

    /// Records that a command is ended because of its timeout, which is its status whatever ends it, and what matters of
    /// it whatever it has printed.
    fn time_out(&mut self, id: &ExecutionId, message: &str) {
        let row = self.rows.map.get_mut(&key(id, None));
        if let Some(row) = row.filter(|row| row.kind == ExecutionKind::Command && !row.has_ended())
        {
            row.exit_status = Some(TIMED_OUT);
            row.last_line = one_line(&plain(message)).chars().take(CHARS_MAX).collect();
        }
    }

    /// Returns the status of a running command that is ended because of its timeout.
    fn timeout_of(&self, id: &ExecutionId) -> Option<i32> {
        let row = self.rows.map.get(&key(id, None))?;
        row.exit_status.filter(|_| !row.has_ended())
    }

    /// Counts an error for the first row of its execution, because errors name no pane.
    fn error(&mut self, id: &ExecutionId) {
        let first = self
            .rows
            .of(id)
            .next()
            .map(|(key, row)| (key.clone(), row.kind));
        let (key, kind) = first.unwrap_or_else(|| (key(id, None), ExecutionKind::Command));
        self.row(key, kind, |row, _| row.errors += 1);
    }
}

pub(super) fn key(id: &ExecutionId, part: Option<&str>) -> RowKey {
    RowKey {
        execution_id: id.clone(),
        part: part.map(str::to_owned),
    }
}

/// Returns true for an id of the form `LABEL@SECONDS`, perhaps with a number after it, which was not chosen.
fn is_generated(id: &ExecutionId) -> bool {
    let time = id.as_str().rsplit_once('@').map(|(_, time)| time);
    let is_time = |time: &str| {
        time.starts_with(|first: char| first.is_ascii_digit())
            && time.chars().all(|one| one.is_ascii_digit() || one == '-')
    };
    time.is_some_and(is_time)
}

/// Returns the display name of a command line's program: an agent's name, its file name, or `shell`.
fn program(command: &str) -> String {
    let command = &*plain(command);
    let words = shlex::split(command).unwrap_or_default();
    if let Some(agent) = AgentProgram::recognise(None, &words) {
        return agent.name().to_owned();
    }
    let first = command.split_whitespace().next().unwrap_or(command);
    let name = program_name(first);
    if is_shell(name) {
        "shell".to_owned()
    } else {
        name.to_owned()
    }
}

/// Returns true if a command line runs an agent.
fn is_agent(command: &str) -> bool {
    let words = shlex::split(&plain(command)).unwrap_or_default();
    AgentProgram::recognise(None, &words).is_some()
}

/// Returns the display name of a job: of a script, its file, else its program.
fn job_name(command: &str) -> String {
    let is_word = |word: &&str| !word.starts_with('-') && !word.contains(['\'', '"', '=']);
    let is_text =
        |word: &str| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    let command = &*plain(command);
    let mut words = command.split_whitespace().skip(1);
    if runs_script(command) && !command.split_whitespace().any(is_text) {
        let script = words.find(is_word);
        return script.map_or_else(
            || program(command),
            |script| program_name(script).to_owned(),
        );
    }
    program(command)
}

/// Returns the last informative line of a text, which is not a blank row, a rule, an edge of a box, an agent's footer,
/// a prompt, what was typed behind one, or what a terminal or a shell prints of its own.
fn last_line(
    rules: &StateRules,
    agent: Option<&str>,
    is_typed: impl Fn(&str) -> bool,
    text: &str,
) -> Option<String> {
    let is_informative = |line: &Cow<'_, str>| {
        line.contains(char::is_alphanumeric)
            && !line.trim_start().starts_with(['╭', '╰', '┌', '└', '├'])
            && agent.is_none_or(|agent| rules.row_kind(agent, line) == RowKind::Text)
            && !rules.is_prompt(line)
            && !is_echo(line.trim())
            && !is_typed(line)
    };
    let line = text.lines().rev().map(plain).find(is_informative)?;
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '│');
    Some(line.chars().take(CHARS_MAX).collect())
}
