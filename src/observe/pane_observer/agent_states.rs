//! The state of the agent in a pane: its own files, its title, its notifications and its screen are
//! weighed, and a change is reported.

use std::time::{Duration, Instant};

use crate::agent::{
    AgentProgram, AgentScreen, AgentState, DetectedState, KnownAgent, ResolvedState, StateClaim,
    StateDebouncer, StateResolver, StateRules, StateSource, state_of_title,
};
use crate::history::host;
use crate::tmux::foreground_program;
use crate::track::{Capture, TerminalNotice};

/// How long a state must be shown on a screen to count: agents draw their screens anew between two steps,
/// and show an empty box for a moment.
const STANDS: Duration = Duration::from_secs(1);

/// How long a question must be shown to count: a dialogue is drawn in steps.
const QUESTION_STANDS: Duration = Duration::from_millis(200);

/// The state of the agent in one pane.
#[derive(Debug)]
pub(in crate::observe) struct States {
    rules: StateRules,
    tracker: StateDebouncer,
    /// What the last screen says: it counts until another one says otherwise.
    shown: Option<DetectedState>,
    /// What the dialogue on the last screens asks, and since when.
    question: Option<(String, Instant)>,
    /// When that question will count.
    question_due: Option<Instant>,
    /// The agent whose process was found.
    program: Option<AgentProgram>,
    title: String,
    /// The name of the machine.
    host: String,
    claims: StateResolver,
    /// When there may be something to report, if nothing happens.
    next: Option<Instant>,
    /// The beginning of the clock of tracker and claims.
    began: Instant,
}

/// A state to be reported.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::observe) struct Reported {
    pub agent: String,
    pub report: ResolvedState,
}

impl States {
    /// Begins without knowing anything.
    pub fn new(rules: &StateRules, now: Instant) -> Self {
        Self {
            rules: rules.clone(),
            tracker: StateDebouncer::new(STANDS),
            shown: None,
            question: None,
            question_due: None,
            program: None,
            title: String::new(),
            host: host(),
            claims: StateResolver::default(),
            next: None,
            began: now,
        }
    }

    /// The agent whose process was found.
    pub fn program(&self) -> Option<&AgentProgram> {
        self.program.as_ref()
    }

    /// An agent runs in the pane, or none does any more.
    pub fn runs(&mut self, program: Option<AgentProgram>) {
        if self.program != program {
            self.program = program;
            self.claims = StateResolver::default();
            // What was shown is another program's.
            self.tracker = StateDebouncer::new(STANDS);
            self.shown = None;
            self.question = None;
        }
    }

    /// One of the agent's sources claims something else now.
    pub fn set_claim(&mut self, source: StateSource, claim: Option<StateClaim>, now: Instant) {
        self.claims.set_claim(source, claim, self.time(now));
        self.next = Some(now);
    }

    /// The pane's title.
    pub fn titled(&mut self, title: &str, now: Instant) {
        title.clone_into(&mut self.title);
        self.set_claim(StateSource::Title, self.of_title(), now);
    }

    /// The claim of the title: for the agent whose process was found, else for the one on the screen.
    fn of_title(&self) -> Option<StateClaim> {
        let shown = || KnownAgent::named(&self.tracker.current()?.agent);
        let (known, is_confirmed) = match &self.program {
            Some(program) => (program.known(), true),
            None => (shown(), false),
        };
        // tmux's default title is the name of the machine: the program has set none.
        let state = state_of_title(known?, &self.title).filter(|_| self.title != self.host)?;
        Some(StateClaim {
            is_confirmed,
            ..self.by_itself(state, None, &self.title)
        })
    }

    /// The program has told its terminal something.
    pub fn noticed(&mut self, notice: &TerminalNotice, now: Instant) {
        match notice {
            TerminalNotice::Title(title) => self.titled(title, now),
            // Of agents whose files and titles are known, both say more.
            TerminalNotice::Progress(is_on)
                if matches!(self.program, Some(AgentProgram::Other(_))) =>
            {
                let state = match is_on {
                    true => AgentState::Working,
                    false => AgentState::Idle,
                };
                let claim = self.by_itself(state, None, "progress");
                self.set_claim(StateSource::Notification, Some(claim), now);
            }
            TerminalNotice::Notification(text)
                if matches!(self.program, Some(AgentProgram::Other(_))) =>
            {
                let claim = self.by_itself(AgentState::Waiting, Some(text.clone()), text);
                let claim = StateClaim {
                    is_confirmed: false,
                    ..claim
                };
                self.set_claim(StateSource::Notification, Some(claim), now);
            }
            TerminalNotice::Progress(_)
            | TerminalNotice::Notification(_)
            | TerminalNotice::Bell => {}
        }
    }

    /// Takes in a screen.
    pub fn sees(&mut self, look: &Capture, now: Instant) -> Option<Reported> {
        // What the screen of a program shows that has ended is no state any more.
        self.shown = match look.dead {
            Some(_) => None,
            None => self.detect(look),
        };
        let asks = self
            .shown
            .as_ref()
            .and_then(|detected| detected.asks.clone());
        let stood = self.question.take();
        self.question = asks.map(|asks| match stood {
            Some((before, since)) if before == asks => (before, since),
            _ => (asks, now),
        });
        self.due(now)
    }

    /// When [`States::due`] will have something to report, if nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        let screen = self
            .tracker
            .deadline()
            .and_then(|at| self.began.checked_add(at));
        [screen, self.next, self.question_due]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is to be reported by now.
    pub fn due(&mut self, now: Instant) -> Option<Reported> {
        let at = self.time(now);
        let stands = |since: &Instant| *since + QUESTION_STANDS <= now;
        let question = self.question.as_ref();
        let stood = question.filter(|(_, since)| stands(since));
        self.claims
            .set_screen_question(stood.map(|(asks, _)| asks.clone()));
        self.question_due = question
            .filter(|(_, since)| !stands(since))
            .map(|(_, since)| *since + QUESTION_STANDS);
        self.tracker.update(self.shown.clone(), at);
        let screen = self.tracker.current().cloned();
        let claim = screen.as_ref().map(|detected| self.of_screen(detected));
        self.claims.set_claim(StateSource::Screen, claim, at);
        if self.program.is_none() {
            self.claims
                .set_claim(StateSource::Title, self.of_title(), at);
        }
        let report = self.claims.next_change(at);
        let deadline = self.claims.deadline(at);
        self.next = deadline.and_then(|at| self.began.checked_add(at));
        let report = report?;
        let agent = match (&self.program, screen) {
            (Some(program), _) => program.name().to_owned(),
            (None, Some(detected)) => detected.agent,
            (None, None) => return None,
        };
        if let Some(text) = self.claims.disagreement(at) {
            log::debug!("{agent}: {text}");
        }
        Some(Reported { agent, report })
    }

    fn of_screen(&self, detected: &DetectedState) -> StateClaim {
        StateClaim {
            state: detected.state,
            // Without the agent's process, the screen alone says that there is one.
            is_confirmed: !detected.inferred && self.program.is_some(),
            asks: detected.asks.clone(),
            detail: format!("{}: {}", detected.rule, detected.line),
            turn: 0,
        }
    }

    fn by_itself(&self, state: AgentState, asks: Option<String>, detail: &str) -> StateClaim {
        StateClaim {
            state,
            is_confirmed: true,
            asks,
            detail: detail.trim().to_owned(),
            turn: 0,
        }
    }

    fn detect(&self, look: &Capture) -> Option<DetectedState> {
        let screen = &look.rows[look.history_rows()..];
        let mut rows: Vec<&str> = screen.iter().map(|row| row.text.as_str()).collect();
        let program = foreground_program(look.pid);
        // A tmux inside this one, or on another host, has its status line below the agent.
        rows.pop_if(|row| is_status_line(row));
        let detected = self.rules.detect(&AgentScreen {
            rows: &rows,
            cursor: Some(look.cursor),
            program: program.as_deref(),
        });
        // Once a shell was at its prompt, the program that it runs tells that it is not any more.
        let detected = detected.or_else(|| {
            let running = self.rules.detect_program(program.as_deref()?)?;
            let told = self.tracker.current()?;
            (told.agent == running.agent).then_some(running)
        });
        // Another agent's rules say nothing of this one.
        detected.filter(|detected| {
            let is_file = KnownAgent::named(&detected.agent).is_some()
                && program.as_deref().is_some_and(shows_files);
            let runs = self.program.as_ref();
            runs.map_or(!is_file, |program| program.name() == detected.agent)
        })
    }

    fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

/// Whether a program shows what is in files, which may look like an agent's screen.
fn shows_files(program: &str) -> bool {
    const PROGRAMS: &[&str] = &[
        "bat", "cat", "emacs", "grep", "head", "hx", "less", "man", "more", "most", "nano", "nvim",
        "rg", "tail", "vi", "view", "vim",
    ];
    PROGRAMS.contains(&program)
}

/// Whether a row is the status line of a tmux server: `[name] 0:window* …`.
fn is_status_line(row: &str) -> bool {
    let rest = row.strip_prefix('[').and_then(|row| row.split_once("] "));
    let window = rest.and_then(|(_, windows)| windows.trim_start().split_once(':'));
    window.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}
