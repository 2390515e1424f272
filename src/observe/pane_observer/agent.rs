//! The agent in a pane: its state, its screen's snapshots, and whether its conversation is reported in
//! place of the pane's rows.

use std::time::{Duration, Instant};

use super::agent_states::{AgentStates, JUDGE_DELAY, Joining, Reading};
use super::output::PaneOutput;
use super::turns::PaneTurns;
use super::{Pane, reporting};
use crate::agent::{
    AgentEvent, AgentProgram, ResolvedState, ScreenReader, StateClaim, StateSource,
    exit_status_in_words, failure_in_words,
};
use crate::event::{AgentState, Dialogue, StateEvidence, TdEvent};
use crate::observe::agent_files::{ConversationPlace, FoundConversation};
use crate::process::Front;
use crate::track::{Capture, Change, PaneNumbers, ProcessExit};

/// The time for which the conversation of an agent that has begun to work is searched.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

impl Pane {
    /// Takes the title of a polled pane. Streamed panes get it from their bytes, which is faster.
    pub(super) fn update_title(&mut self, title: &str, out: &mut PaneOutput<'_>) {
        if self.agent.title != title {
            title.clone_into(&mut self.agent.title);
            if let Some(states) = &mut self.agent.states {
                states.set_title(title, out.now);
            }
            self.emit_due_state(out);
        }
    }

    /// Returns what the agent in the pane says in its title about its work.
    pub fn work_in_title(&self) -> Option<&str> {
        let states = self.agent.states.as_ref()?;
        states.work_in_title(&self.agent.title)
    }

    /// Reads the agent's state and conversation from a capture.
    pub(super) fn judge(&mut self, capture: &Capture, out: &mut PaneOutput<'_>) {
        if self.agent.is_screen_stale {
            return;
        }
        if self.agent.states.is_some() {
            self.agent.shown = Some(reporting::screen_of(capture));
            if self.shows_agent() {
                self.agent
                    .snapshots
                    .shows(&reporting::screen_text(capture), out.now);
            }
        }
        let states = self.agent.states.as_mut();
        let state = states.and_then(|states| states.handle_screen(capture, out.now));
        self.emit_state(state, out);
        if self.agent.reading.is_none() {
            let says = self.agent.states.as_ref().and_then(AgentStates::says);
            self.agent.activity.shows(says.map(str::to_owned), out.now);
            self.emit_activity(out);
        }
        self.read_screen(capture, out);
        let states = self.agent.states.as_ref();
        if states.is_some_and(|states| states.may_be_view(out.now)) {
            self.agent.judge_at.get_or_insert(out.now + JUDGE_DELAY);
        }
    }

    /// Searches the screen for turns and states if that is due.
    pub(super) fn judge_due(&mut self, out: &mut PaneOutput<'_>) {
        if self.agent.judge_at.is_none_or(|at| at > out.now) {
            return;
        }
        let states = self.agent.states.as_ref();
        let awaits = states.is_some_and(|states| states.awaits_successor(out.now));
        let is_alive = self.life.ended.is_none() && self.life.dead.is_none();
        self.agent.judge_at = (awaits && is_alive).then(|| out.now + JUDGE_DELAY);
        if let Some(capture) = self.shown() {
            self.judge(&capture, out);
        }
    }

    /// Returns true if the pane shows an agent, which may run on another host or in a container.
    fn shows_agent(&self) -> bool {
        let states = self.agent.states.as_ref();
        states.is_some_and(AgentStates::shows_agent)
    }

    /// Returns true if the process of an agent was found.
    fn has_agent(&self) -> bool {
        let states = self.agent.states.as_ref();
        states.is_some_and(|states| states.program().is_some())
    }

    /// Returns true if the agent's conversation is reported, and with it the ends of its turns, here or in the pane
    /// of which this one is a view.
    pub(super) fn reads_conversation(&self) -> bool {
        let reading = self.agent.reading.as_deref();
        let states = self.agent.states.as_ref();
        self.agent.joining == Joining::Joined
            || reading.is_some_and(Reading::has_turns)
            || states.is_some_and(|states| states.view().is_some())
    }

    /// Returns true if the agent's conversation is reported in place of this change.
    pub(super) fn hides(&self, change: &Change) -> bool {
        let is_hidden = match change {
            Change::Gap { .. } => false,
            Change::Screen { .. } => {
                self.agent.joining != Joining::None || self.agent.reading.is_some()
            }
            Change::Lines { .. } | Change::Revised { .. } => self.agent.joining != Joining::None,
        };
        is_hidden && !self.agent.shows_screen
    }

    pub(super) fn emit_snapshot(&mut self, out: &mut PaneOutput<'_>) {
        if self
            .agent
            .snapshots
            .next_due()
            .is_none_or(|due| due > out.now)
        {
            return;
        }
        if let Some(rows) = self.agent.snapshots.take(self.screen_text(), out.now) {
            let PaneNumbers { width, height, .. } = self.shape;
            out.emit(TdEvent::ScreenSnapshot {
                execution_id: out.execution_id.clone(),
                pane: self.id.clone(),
                width,
                height,
                rows,
            });
        }
    }

    /// Emits what the agent says or does, if that is due.
    pub(super) fn emit_activity(&mut self, out: &mut PaneOutput<'_>) {
        let states = self.agent.states.as_ref();
        let may_be_ahead = states.is_some_and(AgentStates::may_be_ahead);
        if let Some(text) = self.agent.activity.take(may_be_ahead, out.now) {
            out.emit(TdEvent::AgentActivity {
                execution_id: out.execution_id.clone(),
                pane: self.id.clone(),
                text,
            });
        }
    }

    /// Gives up the search for the conversation of an agent that works.
    pub(super) fn give_up_joining(&mut self, out: &mut PaneOutput<'_>) {
        if !matches!(self.agent.joining, Joining::Searching(Some(until)) if until <= out.now) {
            return;
        }
        // Codex shows in its title that it starts, and then waits for a prompt.
        let states = self.agent.states.as_ref();
        if states.is_some_and(AgentStates::is_at_prompt) {
            self.agent.joining = Joining::Searching(None);
            return;
        }
        self.agent.joining = Joining::None;
        let agent = self.agent.states.as_ref().and_then(AgentStates::name);
        let agent = agent.unwrap_or("an agent");
        let message = format!(
            "the conversation of {agent} in pane {} is not found: its screen is reported",
            self.id
        );
        out.warn(agent, message);
    }

    /// Looks at the pane's foreground if one of its processes has reported its status, and it is not known which.
    pub fn look_if_reported(
        &mut self,
        front: impl FnOnce(u32) -> Option<Front>,
        out: &mut PaneOutput<'_>,
    ) {
        let states = self.agent.states.as_ref();
        if states.is_some_and(AgentStates::awaits_front) {
            self.set_front(front(self.shape.pid), out);
        }
    }

    /// Emits what the program reports of its progress and its children, if that is due.
    pub(super) fn emit_progress(&mut self, out: &mut PaneOutput<'_>) {
        let states = self.agent.states.as_mut();
        if let Some((progress, children)) = states.and_then(|states| states.take_progress(out.now))
        {
            out.emit(TdEvent::ProgressReported {
                execution_id: out.execution_id.clone(),
                pane: self.id.clone(),
                progress,
                children,
            });
        }
    }

    /// Emits the agent's state if it has changed.
    pub(super) fn emit_due_state(&mut self, out: &mut PaneOutput<'_>) {
        let states = self.agent.states.as_mut();
        let state = states.and_then(|states| states.handle_timeout(out.now));
        self.emit_state(state, out);
    }

    /// Ends the agent's state, because its process has ended; reports it if the agent was killed.
    pub fn agent_ended(&mut self, exit: Option<ProcessExit>, out: &mut PaneOutput<'_>) {
        let Some(states) = &mut self.agent.states else {
            return;
        };
        let program = states.end(out.now);
        self.emit_background(out);
        self.agent.joining = Joining::None;
        self.agent.questions.close();
        self.read_state(AgentState::Done, out);
        self.agent.reading = None;
        // What follows it in the foreground may print nothing.
        self.agent.judge_at.get_or_insert(out.now + JUDGE_DELAY);
        let killed = exit.filter(|exit| exit.is_killed());
        let status = killed.and_then(ProcessExit::exit_status);
        let Some((program, status)) = program.zip(status) else {
            return;
        };
        let words = failure_in_words(program.name(), status);
        self.listeners.state_reported(AgentState::Error, &words);
        out.emit(TdEvent::AgentState {
            execution_id: out.execution_id.clone(),
            agent_id: None,
            pane: Some(self.id.clone()),
            state: AgentState::Error.into(),
            evidence: StateEvidence::Confirmed.into(),
            agent: Some(Box::new(program.name().to_owned())),
            source: Some(StateSource::Process.into()),
            asks: Some(Box::new(words)),
            detail: Some(Box::new(exit_status_in_words(status))),
            question_id: None,
            dialogue: None,
        });
    }

    /// Ends the agent's state if it is known no other way that its process has ended. What a process that lives has
    /// drawn is still on the screen.
    pub fn agent_left(&mut self, lives: bool, out: &mut PaneOutput<'_>) {
        if !self.has_agent() {
            return;
        }
        self.agent_ended(None, out);
        if let Some(states) = self.agent.states.as_mut().filter(|_| lives) {
            states.begin(out.now);
        }
    }

    /// Ends the state that the screen shows if the process group that has ended drew it.
    pub fn group_ended(&mut self, group: u32, out: &mut PaneOutput<'_>) {
        let states = self.agent.states.as_ref();
        if states.is_some_and(|states| states.is_drawn_by(group)) {
            self.agent_ended(None, out);
        }
    }

    /// Suspends the agent's state, or continues it.
    pub fn agent_suspended(&mut self, is_suspended: bool, out: &mut PaneOutput<'_>) {
        if let Some(states) = &mut self.agent.states
            && states.program().is_some()
        {
            states.set_suspended(is_suspended, out.now);
        }
        self.emit_due_state(out);
    }

    /// Sets what is in the pane's foreground.
    pub fn set_front(&mut self, front: Option<Front>, out: &mut PaneOutput<'_>) {
        let states = self.agent.states.as_mut();
        if states.is_some_and(|states| states.set_front(front.clone(), out.now)) {
            self.agent_ended(None, out);
            let states = self.agent.states.as_mut();
            states.map(|states| states.set_front(front, out.now));
        }
    }

    /// Emits what the agent has left running in the background, if it has changed.
    fn emit_background(&mut self, out: &mut PaneOutput<'_>) {
        let states = self.agent.states.as_mut();
        if let Some(running) = states.and_then(AgentStates::background_change) {
            out.emit(TdEvent::BackgroundWork {
                execution_id: out.execution_id.clone(),
                pane: Some(self.id.clone()),
                shells: running.shells,
                agents: running.agents,
            });
        }
    }

    fn emit_state(&mut self, state: Option<(String, ResolvedState)>, out: &mut PaneOutput<'_>) {
        self.emit_background(out);
        let Some((agent, report)) = state else {
            return;
        };
        if self.shows_agent() {
            self.agent.snapshots.state_changed(out.now);
        }
        let is_busy = matches!(
            report.claim.state,
            AgentState::Working | AgentState::Waiting
        );
        if is_busy && self.agent.joining == Joining::Searching(None) {
            self.agent.joining = Joining::Searching(Some(out.now + JOIN_TIMEOUT));
        }
        let is_end = report.claim.state == AgentState::Done;
        let is_shown = matches!(report.source, StateSource::Transcript | StateSource::Screen);
        if is_end && is_shown && !report.claim.is_confirmed {
            // The transcript lacks the end of the turn, or lags behind the screen.
            out.notify_turn_over();
        }
        self.read_state(report.claim.state, out);
        let is_news = matches!(
            report.claim.state,
            AgentState::Done | AgentState::Waiting | AgentState::Error | AgentState::Limited
        );
        self.views.state_changed(is_news, out.now);
        let evidence = if report.claim.is_confirmed {
            StateEvidence::Confirmed
        } else {
            StateEvidence::Inferred
        };
        let asks = report.claim.asks.as_deref();
        let before = self.agent.questions.open();
        let question_id = if report.claim.state == AgentState::Waiting {
            let dialogue = report.dialogue.as_ref();
            Some(self.agent.questions.ask(asks, dialogue))
        } else {
            self.agent.questions.close();
            None
        };
        let is_again = before.is_some() && before == question_id;
        if !is_again {
            self.listeners
                .state_reported(report.claim.state, asks.unwrap_or(""));
        }
        out.emit(TdEvent::AgentState {
            execution_id: out.execution_id.clone(),
            agent_id: None,
            pane: Some(self.id.clone()),
            state: report.claim.state.into(),
            evidence: evidence.into(),
            agent: Some(Box::new(agent)),
            source: Some(report.source.into()),
            asks: report.claim.asks.map(Box::new),
            detail: Some(report.claim.detail)
                .filter(|detail| !detail.is_empty())
                .map(Box::new),
            question_id: question_id.map(Box::new),
            dialogue: report.dialogue.map(|dialogue| {
                Box::new(Dialogue {
                    again: is_again,
                    ..dialogue
                })
            }),
        });
    }

    /// Sets the agent that runs in the pane, and where its conversation is found.
    pub fn agent_runs(
        &mut self,
        program: &AgentProgram,
        place: ConversationPlace,
        out: &mut PaneOutput<'_>,
    ) {
        // Its state may not be known for long.
        let states = self.agent.states.as_ref();
        let declared = states.and_then(AgentStates::declared).cloned();
        self.emit_conversation(declared.as_ref().unwrap_or(program).name(), None, out);
        self.agent.joining = if place == ConversationPlace::Files {
            Joining::Searching(None)
        } else {
            Joining::None
        };
        self.read_state(AgentState::Done, out);
        let markers = self.turns.as_ref().map(PaneTurns::markers);
        self.agent.reading =
            (place == ConversationPlace::Screen).then(|| Box::new(Reading::of(program, markers)));
        if let Some(states) = &mut self.agent.states {
            states.set_program(program.clone(), out.now);
            states.set_title(&self.agent.title, out.now);
        }
        self.emit_due_state(out);
        // The screen may not change any more.
        if let Some(capture) = self.shown() {
            self.judge(&capture, out);
        }
    }

    /// Returns the text of the agent's screen without what the user types.
    pub fn text_above_input(&self) -> String {
        let text = self.screen_text();
        let states = self.agent.states.as_ref();
        let Some(states) = states else { return text };
        let rows: Vec<&str> = text.split('\n').collect();
        let above = states.rows_above_input(&rows);
        rows.get(..above).unwrap_or(&rows).join("\n")
    }

    /// Notes that the agent's conversation is found, and emits it.
    pub fn agent_joined(&mut self, found: FoundConversation, out: &mut PaneOutput<'_>) {
        let agent = self.agent.states.as_ref().and_then(AgentStates::name);
        let Some(agent) = agent else {
            return;
        };
        self.emit_conversation(agent, Some(found), out);
        self.agent.joining = Joining::Joined;
    }

    /// Emits that an agent is found in the pane, or its conversation.
    fn emit_conversation(
        &self,
        agent: &str,
        found: Option<FoundConversation>,
        out: &mut PaneOutput<'_>,
    ) {
        let pane = Some(&self.id);
        let agent = agent.to_owned();
        out.emit(FoundConversation::event(
            found,
            out.execution_id,
            pane,
            agent,
        ));
    }

    /// Returns the agent that the pane declares.
    pub fn declared_agent(&self) -> Option<&AgentProgram> {
        self.agent.states.as_ref()?.declared()
    }

    /// Takes the name of the agent that the pane declares, which it is searched for if it is another one.
    pub fn declare_agent(&mut self, name: Option<&str>) {
        let agent = name.and_then(AgentProgram::declared);
        let states = self.agent.states.as_mut();
        if states.is_some_and(|states| states.declare(agent)) {
            self.agent.searched_at = None;
        }
    }

    /// Returns true if the pane was ever searched for an agent.
    pub fn was_searched_for_agent(&self) -> bool {
        self.agent.searched_at.is_some()
    }

    /// Returns the pid of the pane's program if a search for an agent is due, and notes the search.
    pub fn begin_agent_search(&mut self, now: Instant, every: Duration) -> Option<u32> {
        // The end of an agent is noticed without a search, so searches are less frequent while one runs.
        let every = if self.has_agent() { every * 8 } else { every };
        let is_due = |at: Instant| now.saturating_duration_since(at) >= every;
        let is_searchable = self.agent.states.is_some() && self.shape.dead.is_none();
        if !is_searchable || !self.agent.searched_at.is_none_or(is_due) {
            return None;
        }
        self.agent.searched_at = Some(now);
        Some(self.shape.pid).filter(|pid| *pid != 0)
    }

    /// Takes changed claims of the agent's sources.
    pub fn agent_claims(
        &mut self,
        claims: Vec<(StateSource, Option<StateClaim>)>,
        out: &mut PaneOutput<'_>,
    ) {
        // The files of an agent that has ended are read once more.
        if let Some(states) = &mut self.agent.states
            && states.program().is_some()
        {
            for (source, claim) in claims {
                states.set_claim(source, claim, out.now);
            }
        }
        self.emit_due_state(out);
    }

    /// Reads the conversation from a capture of a full-screen program; other programs print lines.
    pub(super) fn read_screen(&mut self, capture: &Capture, out: &mut PaneOutput<'_>) {
        if !capture.alternate || capture.dead.is_some() {
            return;
        }
        if let Some(reading) = &mut self.agent.reading {
            reading.hold(capture, out.now);
        }
        self.read_due(out);
    }

    pub(super) fn read_due(&mut self, out: &mut PaneOutput<'_>) {
        let now = out.now;
        while let Some(reading) = &mut self.agent.reading
            && let Some(rows) = reading.take_due(now)
        {
            let width = reading.size.0;
            self.read(out, |reader, events| {
                let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
                reader.update(&rows, width, now, events);
            });
        }
        self.read(out, |reader, events| reader.handle_timeout(now, events));
        if let Some(reading) = &self.agent.reading {
            // The status tells of a request that is tried again.
            let status = self.agent.states.as_ref().and_then(AgentStates::says);
            let says = status.map(str::to_owned);
            let says = says.or_else(|| reading.reader.says());
            self.agent.activity.shows(says, now);
            self.emit_activity(out);
        }
    }

    /// Takes a change of the agent's state, which may end its turn.
    pub(super) fn read_state(&mut self, state: AgentState, out: &mut PaneOutput<'_>) {
        // While an agent waits, its question is among the rows of its answer.
        if !matches!(state, AgentState::Working | AgentState::Waiting) {
            self.read(out, ScreenReader::end_turn);
        }
    }

    fn read(
        &mut self,
        out: &mut PaneOutput<'_>,
        how: impl FnOnce(&mut ScreenReader, &mut Vec<AgentEvent>),
    ) {
        let Some(reading) = &mut self.agent.reading else {
            return;
        };
        let mut events = Vec::new();
        how(&mut reading.reader, &mut events);
        for event in events {
            let agent = (reading.agent.name(), reading.markers.as_ref());
            if let Some(event) =
                reading
                    .converter
                    .convert(event, out.execution_id, agent, Some(&self.id))
            {
                out.emit(event);
            }
        }
    }
}
