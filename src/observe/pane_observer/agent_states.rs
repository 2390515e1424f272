//! The agent in a pane: its state, weighed from files, title, notifications and screen, and its screen as the
//! conversation of an agent that keeps no transcript.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::agent_files::AgentEventConverter;
use crate::agent::{
    AgentProgram, AgentScreen, AgentState, DetectedState, KnownAgent, Markers, ProgramStatus,
    ResolvedState, ScreenReader, StateClaim, StateResolver, StateRules, StateSource, VIEWER,
    state_of_title, work_in_title,
};
use crate::event::{Background, ReportedChild};
use crate::process::Front;
use crate::track::{Capture, TerminalNotice};

/// The delay from a change to the search of the stream's screen for turns and states. States of agents
/// change within seconds, so a shorter delay gains nothing.
pub(super) const JUDGE_DELAY: Duration = Duration::from_millis(100);

/// The time in which it becomes known whether a tmux client shows observed panes: the next listing of their server
/// has it. Until then the screen shows an agent that is another pane's.
const VIEW_WAIT: Duration = Duration::from_secs(1);

/// The end of an agent.
#[derive(Debug)]
struct Over {
    /// The process group that was in the foreground, which may continue without the agent.
    group: Option<u32>,
    since: Instant,
}

/// The state of the agent in one pane.
#[derive(Debug)]
pub(in crate::observe) struct AgentStates {
    rules: StateRules,
    /// The agent whose process was found.
    program: Option<AgentProgram>,
    /// The agent that the pane declares, whose name it has.
    declared: Option<AgentProgram>,
    front: Option<Front>,
    /// Since when a tmux client is in the foreground of which it is not known whether it shows observed panes.
    client_since: Option<Instant>,
    /// The group that was last in the foreground, other than a shell that reads commands.
    last_group: Option<u32>,
    /// True while the agent's process is stopped, or its shell is in the foreground, or the last job of that shell is
    /// stopped.
    is_suspended: bool,
    /// The end of the last agent, as long as its screen may still stand.
    over: Option<Over>,
    title: String,
    /// The title that an agent has left which has ended, until another one is set.
    left_title: Option<String>,
    /// The name of the machine.
    host: String,
    /// What the programs in the pane report of themselves.
    reports: ProgramStatus,
    /// What was last reported to run in the background.
    background: Background,
    resolver: StateResolver,
}

impl AgentStates {
    /// Begins without any evidence.
    pub fn new(rules: &StateRules, host: &str) -> Self {
        Self {
            rules: rules.clone(),
            program: None,
            declared: None,
            title: String::new(),
            left_title: None,
            front: None,
            last_group: None,
            client_since: None,
            is_suspended: false,
            over: None,
            host: host.to_owned(),
            reports: ProgramStatus::default(),
            background: Background::default(),
            resolver: StateResolver::new(false),
        }
    }

    /// Sets what is in the pane's foreground. Returns true if the agent that the screen shows has ended, because
    /// a shell reads commands.
    pub fn set_front(&mut self, front: Option<Front>, now: Instant) -> bool {
        let shown = |states: &Self| {
            let view = states.view().map(str::to_owned);
            view.zip(states.front.as_ref().map(|front| front.group))
        };
        let before = shown(self);
        self.front = front;
        let now_shown = shown(self);
        if before != now_shown {
            // The last screen belongs to another program.
            self.resolver = StateResolver::new(false);
            let claim = now_shown.map(|(session, _)| {
                own_claim(AgentState::Idle, None, &format!("a view of {session}"))
            });
            self.set_claim(StateSource::Process, claim, now);
        }
        let front = self.front.as_ref();
        self.client_since = front
            .filter(|front| front.is_tmux_client && front.view.is_none())
            .map(|_| self.client_since.unwrap_or(now));
        let Some(front) = &self.front else {
            return false;
        };
        let is_successor = |over: &Over| over.group != Some(front.group);
        if !front.is_shell && self.over.as_ref().is_some_and(is_successor) {
            self.over = None;
        }
        if self.program.is_some() {
            return false;
        }
        let is_shell = front.is_shell;
        self.reports
            .set_front(front.group, is_shell, &front.stopped, now);
        if !is_shell {
            self.last_group = Some(front.group);
        }
        // The user of a shell that has run another job since knows which of his jobs are stopped.
        let is_stopped = |group: u32| front.stopped.contains(&group);
        let is_suspended = !front.stopped.is_empty() && self.last_group.is_none_or(is_stopped);
        let was_suspended = self.is_suspended;
        if is_suspended != was_suspended {
            self.set_suspended(is_suspended, now);
        }
        self.claim_reports(now);
        is_shell && !is_suspended && (was_suspended || self.is_agent_on_screen())
    }

    /// Returns the session of observed panes that a tmux client shows in this pane. What its screen shows is theirs.
    pub fn view(&self) -> Option<&str> {
        let front = self.front.as_ref().filter(|_| self.program.is_none());
        front?.view.as_deref()
    }

    /// Returns true if the pane may be a view of observed panes, which is not known yet.
    pub fn may_be_view(&self, now: Instant) -> bool {
        let since = self.client_since.filter(|_| self.program.is_none());
        since.is_some_and(|since| now.saturating_duration_since(since) < VIEW_WAIT)
    }

    /// Returns true if a process group is in the foreground and draws an agent's screen, or is suspended.
    pub fn is_drawn_by(&self, group: u32) -> bool {
        let front = self.front.as_ref();
        let is_its = |front: &Front| {
            front.stopped.contains(&group) || front.group == group && self.is_agent_on_screen()
        };
        self.program.is_none() && front.is_some_and(is_its)
    }

    fn is_agent_on_screen(&self) -> bool {
        let mut shown = self.resolver.shown();
        shown.any(|shown| self.rules.is_agents(shown))
    }

    /// Ends the agent's state with its process, and returns the agent if its process was found, as the pane declares it.
    /// From here on its screen, title and files show nothing.
    pub fn end(&mut self, now: Instant) -> Option<AgentProgram> {
        let group = self.front.take().map(|front| front.group);
        let program = self.program.take();
        if program.is_some() {
            self.reports.clear(now);
        }
        let program = program.map(|program| self.declared.clone().unwrap_or(program));
        self.resolver = StateResolver::new(false);
        self.is_suspended = false;
        self.left_title = Some(self.title.clone());
        self.over = Some(Over { group, since: now });
        program
    }

    /// Begins with another program in the pane.
    pub fn begin(&mut self, now: Instant) {
        self.reports.clear(now);
        self.claim_reports(now);
        self.over = None;
    }

    /// Returns true if an agent has just ended, and what is in the foreground now is not known yet.
    pub fn awaits_successor(&self, now: Instant) -> bool {
        // A shell takes its terminal back at once; a busy machine may delay it.
        let is_recent =
            |over: &Over| now.saturating_duration_since(over.since) < Duration::from_secs(5);
        self.front.is_none() && self.over.as_ref().is_some_and(is_recent)
    }

    /// Suspends the agent's state, or continues it.
    pub fn set_suspended(&mut self, is_suspended: bool, now: Instant) {
        self.is_suspended = is_suspended;
        let claim = is_suspended.then(|| own_claim(AgentState::Suspended, None, ""));
        self.set_claim(StateSource::Process, claim, now);
    }

    /// Returns the agent whose process was found.
    pub fn program(&self) -> Option<&AgentProgram> {
        self.program.as_ref()
    }

    /// Returns the agent that the pane declares.
    pub fn declared(&self) -> Option<&AgentProgram> {
        self.declared.as_ref()
    }

    /// Sets the agent that the pane declares; returns true if it is another one.
    pub fn declare(&mut self, agent: Option<AgentProgram>) -> bool {
        std::mem::replace(&mut self.declared, agent) != self.declared
    }

    /// Returns the name of the agent whose process was found: the declared one, else its own.
    pub fn name(&self) -> Option<&str> {
        let program = self.program.as_ref()?;
        Some(self.declared.as_ref().unwrap_or(program).name())
    }

    /// Returns what the agent in the pane has set as its title.
    pub fn work_in_title<'a>(&self, title: &'a str) -> Option<&'a str> {
        let agent = match &self.program {
            Some(program) => program.name(),
            None => self.agent_on_screen()?.name(),
        };
        work_in_title(agent, title).filter(|work| *work != self.host)
    }

    /// Returns true if the process of an agent was found, or the screen shows a known agent.
    pub fn shows_agent(&self) -> bool {
        self.program.is_some() || self.agent_on_screen().is_some()
    }

    /// Returns the agent that the screen shows.
    fn agent_on_screen(&self) -> Option<KnownAgent> {
        KnownAgent::named(&self.resolver.settled.as_ref()?.agent)
    }

    /// Sets the agent that runs in the pane.
    pub fn set_program(&mut self, program: AgentProgram, now: Instant) {
        if self.program.as_ref() != Some(&program) {
            // The last screen belongs to another program.
            self.resolver = StateResolver::new(true);
            self.program = Some(program);
            (self.is_suspended, self.over) = (false, None);
            self.claim_reports(now);
        }
    }

    /// Takes over what the programs in the pane report of themselves. Where nothing else is known at its end, what is in
    /// the foreground shows what goes on.
    pub fn claim_reports(&mut self, now: Instant) {
        let claim = self.reports.claim();
        let has_ended = claim.is_none() && self.resolver.has_claim(StateSource::Report);
        if has_ended && !self.resolver.has_claim(StateSource::Screen) {
            let front = self.front.as_ref().filter(|_| self.program.is_none());
            let after = front.and_then(|front| self.rules.after_agent(&front.name, front.is_shell));
            let state = after.map_or(AgentState::Unknown, |after| after.state);
            let claim = StateClaim {
                is_confirmed: false,
                ..own_claim(state, None, "")
            };
            self.set_claim(StateSource::Screen, Some(claim), now);
        }
        if claim.is_some() || has_ended {
            self.set_claim(StateSource::Report, claim, now);
        }
    }

    /// Returns true if a program has reported, and it is not known which one.
    pub fn awaits_front(&self) -> bool {
        self.program.is_none() && self.reports.awaits_front()
    }

    /// Returns what the program reports of its progress and its children, if that is due and has changed.
    pub fn take_progress(&mut self, now: Instant) -> Option<(Option<u32>, Vec<ReportedChild>)> {
        self.reports.take_progress(now)
    }

    pub fn set_claim(&mut self, source: StateSource, claim: Option<StateClaim>, now: Instant) {
        self.resolver.set_claim(source, claim, now);
    }

    /// Returns what the agent has left running in the background, if it has changed since the last call.
    pub fn background_change(&mut self) -> Option<Background> {
        let now = self.resolver.background();
        (std::mem::replace(&mut self.background, now) != now).then_some(now)
    }

    /// Sets the pane's title.
    pub fn set_title(&mut self, title: &str, now: Instant) {
        title.clone_into(&mut self.title);
        self.left_title.take_if(|left| left != title);
        self.set_claim(StateSource::Title, self.title_claim(), now);
    }

    /// Returns the claim of the title, for the agent whose process was found, else for the one on the
    /// screen.
    fn title_claim(&self) -> Option<StateClaim> {
        let (known, is_confirmed) = match &self.program {
            Some(program) => (program.known(), true),
            None => (self.agent_on_screen(), false),
        };
        // tmux's default title is the name of the machine.
        let is_own = self.title != self.host && self.left_title.is_none();
        let state = state_of_title(known?, &self.title).filter(|_| is_own)?;
        Some(StateClaim {
            is_confirmed,
            ..own_claim(state, None, &self.title)
        })
    }

    /// Takes a message of the program to its terminal.
    pub fn handle_notice(&mut self, notice: &TerminalNotice, now: Instant) {
        match notice {
            TerminalNotice::Title(title) => {
                self.left_title = None;
                self.set_title(title, now);
            }
            // Files and titles are the better evidence for known agents.
            TerminalNotice::Progress(is_on)
                if matches!(self.program, Some(AgentProgram::Other(_))) =>
            {
                let state = if *is_on {
                    AgentState::Working
                } else {
                    AgentState::Idle
                };
                let claim = own_claim(state, None, "progress");
                self.set_claim(StateSource::Notification, Some(claim), now);
            }
            TerminalNotice::Notification(text)
                if matches!(self.program, Some(AgentProgram::Other(_))) =>
            {
                let claim = StateClaim {
                    is_confirmed: false,
                    ..own_claim(AgentState::Waiting, Some(text.clone()), text)
                };
                self.set_claim(StateSource::Notification, Some(claim), now);
            }
            TerminalNotice::Report(report) => {
                if self.reports.take(report, now) {
                    self.claim_reports(now);
                }
            }
            TerminalNotice::Prompt => {
                self.reports.end_work(now);
                self.claim_reports(now);
            }
            TerminalNotice::Reset => {
                self.reports.clear(now);
                self.claim_reports(now);
            }
            TerminalNotice::Progress(_)
            | TerminalNotice::Notification(_)
            | TerminalNotice::Bell => {}
        }
    }

    /// Takes a screen.
    pub fn handle_screen(
        &mut self,
        capture: &Capture,
        now: Instant,
    ) -> Option<(String, ResolvedState)> {
        // The last screen of a program that has ended shows no state.
        let shows_none = capture.dead.is_some() || self.view().is_some() || self.may_be_view(now);
        let detected = (!shows_none).then(|| self.detect(capture)).flatten();
        self.resolver.set_screen(detected, now);
        self.handle_timeout(now)
    }

    /// Returns what the agent says or does, as it reports it, else as the last screen shows it.
    pub fn says(&self) -> Option<&str> {
        let shown = || self.resolver.shown_now()?.says.as_deref();
        self.reports.says().or_else(shown)
    }

    /// Returns the number of rows of the agent's screen above its input box.
    pub fn rows_above_input(&self, rows: &[&str]) -> usize {
        let agent = self.program.as_ref().map_or("", AgentProgram::name);
        self.rules.rows_above_input(agent, rows)
    }

    /// Returns true if the agent is reported to work.
    pub fn is_working(&self) -> bool {
        self.resolver.state() == Some(AgentState::Working)
    }

    /// Returns true if the agent is reported to rest, and no turn to have ended.
    pub fn is_at_prompt(&self) -> bool {
        self.resolver.state() == Some(AgentState::Idle)
    }

    /// Returns true if the screen may show words that the agent has not written yet: while it works, and at the end of a
    /// turn of which it has not recorded the end. Qwen Code 0.24 writes an answer seconds later, or with the next key.
    pub fn may_be_ahead(&self) -> bool {
        self.is_working() || self.resolver.infers_end()
    }

    /// Returns when [`AgentStates::handle_timeout`] is due if no evidence arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let progress = self.reports.deadline();
        self.resolver.deadline.into_iter().chain(progress).min()
    }

    /// Returns the change of state to report by now, with the name of the agent.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<(String, ResolvedState)> {
        self.resolver.settle_screen(now);
        if self.program.is_none() {
            self.set_claim(StateSource::Title, self.title_claim(), now);
        }
        let report = self.resolver.next_change(now)?;
        let agent = match self.name() {
            Some(name) => name.to_owned(),
            None if self.view().is_some() => VIEWER.to_owned(),
            None => self.name_without_program().to_owned(),
        };
        Some((agent, report))
    }

    /// Returns the name of the agent on the screen, else the one that the program gives itself.
    fn name_without_program(&self) -> &str {
        let shown = self.resolver.settled.as_ref();
        let agent = shown.filter(|shown| self.rules.is_agents(shown));
        let agent = agent.map(|shown| shown.agent.as_str());
        let shown = shown.map(|shown| shown.agent.as_str());
        let name = agent.or_else(|| self.reports.app()).or(shown);
        name.unwrap_or("shell")
    }

    fn detect(&self, capture: &Capture) -> Option<DetectedState> {
        // A suspended agent draws nothing, and nor does a program that has ended.
        if self.is_suspended || self.over.is_some() && self.front.is_none() {
            return None;
        }
        let screen = &capture.rows[capture.history_rows()..];
        let mut rows: Vec<&str> = screen.iter().map(|row| row.text.as_str()).collect();
        let front = self.front.as_ref();
        let program = front.map(|front| front.name.as_str());
        // Below a shell that reads commands, the screen of an agent is what has remained of it.
        let is_left = self.program.is_none()
            && (self.over.is_some() || front.is_some_and(|front| front.is_shell));
        // A nested tmux, or one on another host, draws its status line below the agent.
        rows.pop_if(|row| is_status_line(row));
        let screen = AgentScreen {
            rows: &rows,
            cursor: Some(capture.cursor),
            program,
            is_full: capture.alternate,
        };
        let settled = self.resolver.settled.as_ref();
        let detected = if is_left {
            self.rules.detect_without_agents(&screen)
        } else {
            let running = self.program.as_ref().map(AgentProgram::name);
            let is_same = |shown: &&DetectedState| {
                shown.is_general && shown.agent == self.rules.agent_of(program)
            };
            let shown = settled.filter(is_same);
            let running = running.or(shown.map(|shown| shown.agent.as_str()));
            let whole = self.rules.detect_running(running, &screen);
            // The status lines of another tmux may have any form.
            let lines = front.map_or(0, status_lines_max);
            let without = (1..=lines).filter_map(|lines| {
                let rows = rows.get(..rows.len().checked_sub(lines)?)?;
                let inner = AgentScreen { rows, ..screen };
                self.rules.detect_running(running, &inner)
            });
            // With these lines, a known agent's dialogue may be one that only general rules know.
            let is_known = |shown: &DetectedState| self.rules.is_agents(shown) && !shown.is_general;
            let mut all = whole.clone().into_iter().chain(without);
            all.find(is_known).or(whole)
        };
        let is_answered = |shown: &DetectedState| {
            settled.is_some_and(|before| self.rules.is_answered(before, shown))
        };
        let detected = detected.filter(|shown| !is_answered(shown));
        // After a shell showed its prompt, the foreground program shows that the shell runs one.
        let detected = detected.or_else(|| {
            let running = self.rules.detect_program(program?)?;
            let current = self.resolver.settled.as_ref()?;
            (current.agent == running.agent).then_some(running)
        });
        let detected = detected.or_else(|| {
            let current = self.resolver.settled.as_ref()?;
            self.rules.detect_answered(current, &screen)
        });
        let detected = detected.or_else(|| {
            let front = front.filter(|_| self.over.is_some())?;
            self.rules.after_agent(&front.name, front.is_shell)
        });
        let detected = detected.or_else(|| {
            let has_program = self.program.is_some();
            self.rules.unknown_after(settled?, has_program)
        });
        // The rules of other agents do not apply to this one, unless only a declared name of it is known.
        detected.filter(|detected| {
            let is_agents = self.rules.is_agents(detected);
            let is_file = is_agents && program.is_some_and(shows_files);
            let Some(agent) = &self.program else {
                return !is_file;
            };
            let is_only_named = agent.known().is_none() && self.declared.as_ref() == Some(agent);
            agent.name() == detected.agent || is_only_named && is_agents
        })
    }
}

/// The state of reading the conversation of the agent in a pane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Joining {
    /// No agent runs whose conversation could be read.
    #[default]
    None,
    /// The conversation is not found yet. An agent without a prompt has none; once the agent works,
    /// the search ends at this time.
    Searching(Option<Instant>),
    /// The conversation is found.
    Joined,
}

/// The time for which a screen is held before it is read. An agent draws at its pane's new size before
/// that size is known here; such screens are discarded.
const HOLD_TIME: Duration = Duration::from_millis(300);

/// The reader of one agent's screen.
#[derive(Debug)]
pub(super) struct Reading {
    pub agent: AgentProgram,
    /// The markers that end a turn, if configured.
    pub markers: Option<Markers>,
    pub reader: ScreenReader,
    /// The columns and rows of the held screens.
    pub size: (u32, u32),
    /// Screens that are not read yet, and the times of their captures.
    held: VecDeque<(Instant, Vec<String>)>,
    pub converter: AgentEventConverter,
}

impl Reading {
    pub fn of(program: &AgentProgram, markers: Option<&Markers>) -> Self {
        Self {
            agent: program.clone(),
            markers: markers.cloned(),
            reader: ScreenReader::new(program),
            size: (0, 0),
            held: VecDeque::new(),
            converter: AgentEventConverter::for_screen(),
        }
    }

    /// Returns true if the reader recognizes the ends of the agent's turns.
    pub fn has_turns(&self) -> bool {
        self.agent.known().is_some()
    }

    /// Returns when the next screen is due, or when the reader reports what has settled.
    pub fn next_due(&self) -> Option<Instant> {
        let held = self.held.front().map(|(shown, _)| *shown + HOLD_TIME);
        [self.reader.deadline(), held].into_iter().flatten().min()
    }

    pub fn hold(&mut self, capture: &Capture, now: Instant) {
        let size = (capture.width, capture.height);
        if std::mem::replace(&mut self.size, size) != size {
            self.held.clear();
        }
        let rows = capture.rows[capture.history_rows()..].iter();
        let rows = rows.map(|row| row.text.clone()).collect();
        self.held.push_back((now, rows));
    }

    pub fn take_due(&mut self, now: Instant) -> Option<Vec<String>> {
        let front = self.held.front();
        let is_due = front.is_some_and(|(shown, _)| *shown + HOLD_TIME <= now);
        is_due.then(|| self.held.pop_front())?.map(|(_, rows)| rows)
    }
}

/// Returns the claim of a source that the agent itself writes.
fn own_claim(state: AgentState, asks: Option<String>, detail: &str) -> StateClaim {
    StateClaim {
        state,
        is_confirmed: true,
        asks,
        detail: detail.trim().to_owned(),
        turn: 0,
        background: Background::default(),
    }
}

/// Returns true if a program shows files, whose text may resemble an agent's screen.
fn shows_files(program: &str) -> bool {
    const PROGRAMS: &[&str] = &[
        "bat", "cat", "emacs", "grep", "head", "hx", "less", "man", "more", "most", "nano", "nvim",
        "rg", "tail", "vi", "view", "vim",
    ];
    PROGRAMS.contains(&program)
}

/// Returns the most rows below an agent's screen that may be another tmux's. It may run on another host.
fn status_lines_max(front: &Front) -> usize {
    if front.is_tmux_client || ["ssh", "mosh-client"].contains(&front.name.as_str()) {
        2
    } else {
        0
    }
}

/// Returns true if a row is the status line of a tmux server: `[name] 0:window* …`.
fn is_status_line(row: &str) -> bool {
    let rest = row.strip_prefix('[').and_then(|row| row.split_once("] "));
    let window = rest.and_then(|(_, windows)| windows.trim_start().split_once(':'));
    window.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn the_title_that_an_agent_has_left_says_nothing_of_the_next_one() {
        let start = Clock::system().now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut states = AgentStates::new(&StateRules::builtin(), "host");
        let begin = |states: &mut AgentStates, seconds: u64| {
            states.set_program(AgentProgram::Known(KnownAgent::Codex), at(seconds));
            states.set_title("[ ! ] Action Required | work", at(seconds));
        };
        let state = |states: &mut AgentStates, seconds: u64| {
            let report = states.handle_timeout(at(seconds));
            report.map(|(_, report)| report.claim.state)
        };
        begin(&mut states, 0);
        assert_eq!(state(&mut states, 2), Some(AgentState::Waiting));
        states.end(at(3));
        begin(&mut states, 4);
        assert_eq!(state(&mut states, 6), None);
        // It may set the same one.
        let title = TerminalNotice::Title("[ ! ] Action Required | work".into());
        states.handle_notice(&title, at(7));
        assert_eq!(state(&mut states, 9), Some(AgentState::Waiting));
        states.end(at(10));
        begin(&mut states, 11);
        states.set_title("⠙ work", at(12));
        assert_eq!(state(&mut states, 13), Some(AgentState::Working));
    }

    #[test]
    fn a_dialogue_that_has_gone_waits_no_longer_where_only_the_screen_is_known() {
        use crate::track::{PaneNumbers, Row};
        const DIALOGUE: &[&str] = &[
            "╭──────────────────────────────────────╮",
            "│ Bash command                         │",
            "│                                      │",
            "│   touch made.txt                     │",
            "│                                      │",
            "│ Do you want to proceed?              │",
            "│ ❯ 1. Yes                             │",
            "│   2. No                              │",
            "╰──────────────────────────────────────╯",
        ];
        let start = Clock::system().now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let show = |states: &mut AgentStates, rows: &[&str], ms: u64| {
            let rows = rows.iter().map(|text| Row {
                text: (*text).to_owned(),
                wrapped: false,
            });
            let rows: Vec<Row> = rows.collect();
            let numbers = PaneNumbers {
                width: 80,
                height: u32::try_from(rows.len()).unwrap(),
                ..PaneNumbers::default()
            };
            let capture = Capture {
                numbers,
                rows,
                ..Capture::default()
            };
            let report = states.handle_screen(&capture, at(ms));
            report.map(|(agent, report)| (agent, report.claim.state))
        };
        let claude = |state| Some(("claude".to_owned(), state));
        let mut states = AgentStates::new(&StateRules::builtin(), "host");
        assert_eq!(show(&mut states, DIALOGUE, 0), None);
        let waits = show(&mut states, DIALOGUE, 300);
        assert_eq!(waits, claude(AgentState::Waiting));
        // It is drawn again.
        assert_eq!(show(&mut states, &["", ""], 1_000), None);
        assert_eq!(show(&mut states, &["", ""], 1_299), None);
        assert_eq!(show(&mut states, DIALOGUE, 1_299), None);
        assert_eq!(show(&mut states, DIALOGUE, 2_000), None);
        assert_eq!(show(&mut states, &["working on"], 3_000), None);
        let later = show(&mut states, &["working on"], 3_300);
        assert_eq!(later, claude(AgentState::Unknown));
        assert_eq!(show(&mut states, &["still on"], 9_000), None);
        let again = [
            show(&mut states, DIALOGUE, 9_100),
            show(&mut states, DIALOGUE, 9_400),
        ];
        assert_eq!(again, [None, claude(AgentState::Waiting)]);
        // A process whose files and title say more may show anything.
        let mut states = AgentStates::new(&StateRules::builtin(), "host");
        states.set_program(AgentProgram::Known(KnownAgent::Claude), at(0));
        show(&mut states, DIALOGUE, 0);
        let waits = show(&mut states, DIALOGUE, 300);
        assert_eq!(waits, claude(AgentState::Waiting));
        assert_eq!(show(&mut states, &["working on"], 3_000), None);
        assert_eq!(show(&mut states, &["working on"], 9_000), None);
    }
}
