//! Real agents in panes, against a stand-in for their APIs: states, questions and conversations.
//!
//! Runs where `$TD_LAB` names the directory in which the lab of the shared material is installed
//! (`../shared/agents-lab/lab install`), as root, in its own network namespace; elsewhere it prints a
//! notice that it is skipped. Real agents need a machine without other load: `.ci/run` tests them last.
//! `TD_LAB_AGENTS` selects the agents (`joins` for several at once, `hooks`, `told` for notifications, `phone` for the web page,
//! `mcp` for agents that supervise another one, `night` for the report of a night of five); defaults to all.
//! `TD_LAB_EVENTS` prints the reported events.

mod counts;
mod hooks;
mod install;
mod joins;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "report")]
mod night;
#[cfg(feature = "serve")]
mod phone;
mod scenes;
mod screens;
mod status;
#[cfg(feature = "notify")]
mod told;

use std::cell::RefCell;
use std::process::Command;
use std::time::{Duration, Instant};

use td_observe::TdEvent;
use td_observe::agent::StateRules;

use crate::observed::Observed;
use crate::stream::drain;
use crate::support::{TmuxServer, within};
use counts::count;
use install::{fresh_lab, is_kept, lab, lab_directory};
use scenes::{AGENTS, ANSWER, Agent, Counts, Scene, Step};
use screens::ScreenRecorder;
use status::StatusRecorder;

/// Set inside the namespace.
const INSIDE: &str = "TD_LAB_INSIDE";

/// The time that an agent has to start, and for one step: real programs on a busy machine.
const START: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_secs(90);

/// The time that a person takes from a text to the Enter key, and from a dialogue to the answer.
const TYPING: Duration = Duration::from_millis(700);

#[test]
fn real_agents_are_classified_correctly() {
    let is_installed = lab().is_file() && lab_directory().join("node_modules").is_dir();
    if !is_installed || !rustix::process::geteuid().is_root() {
        eprintln!(
            "!!! skipped: no real agents: install them with {} install, set TD_LAB, and be root",
            lab().display()
        );
        return;
    }
    let fresh = fresh_lab();
    let status = Command::new(lab())
        .arg("in")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "lab::inside", "--nocapture"])
        // A user's environment: agents behave differently under `CI`, or inside another agent.
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_kept(name)))
        .env("TERM", "xterm-256color")
        .env(INSIDE, "1")
        .env("TD_LAB", fresh.path())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        // The other test starts this one.
        return;
    }
    let wanted = std::env::var("TD_LAB_AGENTS").unwrap_or_default();
    let is_wanted = |name| wanted.is_empty() || wanted.split(',').any(|agent| agent == name);
    for agent in AGENTS.iter().filter(|agent| is_wanted(agent.lab)) {
        eprintln!("== {}", agent.lab);
        Session::new(agent).play();
    }
    if is_wanted("joins") {
        eprintln!("== several at once");
        joins::play();
    }
    if is_wanted("hooks") {
        eprintln!("== hooks");
        hooks::play();
    }
    #[cfg(feature = "mcp")]
    if is_wanted("mcp") {
        eprintln!("== mcp");
        mcp::play();
    }
    #[cfg(feature = "report")]
    if is_wanted("night") {
        eprintln!("== night");
        night::play();
    }
    #[cfg(feature = "serve")]
    if is_wanted("phone") {
        eprintln!("== phone");
        phone::play();
    }
    #[cfg(feature = "notify")]
    if is_wanted("told") {
        eprintln!("== told");
        told::play();
    }
}

struct Session<'a> {
    agent: &'a Agent,
    server: TmuxServer,
    observed: Observed,
    pane: String,
    /// The number of events already checked.
    at: usize,
    status: StatusRecorder,
    screens: ScreenRecorder,
    /// The times of typed keys, in microseconds since 1970.
    keys: RefCell<Vec<i64>>,
}

impl<'a> Session<'a> {
    fn new(agent: &'a Agent) -> Self {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        let mut observed = Observed::start(&server, |watch| {
            watch.stream(drain()).states(StateRules::builtin())
        });
        observed.until_started(1);
        let home = lab_directory().join(format!("home-{}", agent.lab));
        let status = StatusRecorder::start(home.join(".claude/sessions"));
        let command = format!("exec {} agent {}", lab().display(), agent.lab);
        let pane = server.new_session("agent", 110, 36, &command);
        // An agent that ends leaves its reason on the screen.
        server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
        let screens = ScreenRecorder::start(server.socket(), pane.clone());
        let session = Self {
            agent,
            server,
            observed,
            pane,
            at: 0,
            status,
            screens,
            keys: RefCell::default(),
        };
        session.start();
        session
    }

    /// Waits until the agent is ready; answers a question at its first start.
    fn start(&self) {
        let shows = || match self.screen() {
            screen if screen.contains(self.agent.ready) => Ok(screen),
            screen => {
                if screen.contains("Do you trust the files in this folder?") {
                    self.key("Enter");
                }
                Err(screen)
            }
        };
        let screen = within(START, shows)
            .unwrap_or_else(|screen| panic!("{} starts: {screen}", self.agent.lab));
        // Some agents ask a question once they are ready.
        let asks = || {
            if self.screen().contains("(Y)es/(N)o") {
                Ok(())
            } else {
                Err(())
            }
        };
        if self.agent.lab == "aider" && within(3 * TYPING, asks).is_ok() {
            self.server
                .tmux(&["send-keys", "-t", &self.pane, "n", "Enter"]);
        }
        drop(screen);
    }

    fn play(mut self) {
        self.settle();
        let begun = self.at;
        for scene in self.agent.scenes {
            self.scene(scene);
        }
        self.observed.stop();
        self.check();
        if std::env::var_os("TD_LAB_EVENTS").is_some() {
            eprintln!("{}", self.events());
        }
        let seen = &self.observed.seen[begun..];
        let keys = self.keys.borrow();
        self.screens.check(self.agent.lab, seen, &self.pane, &keys);
        let changes = self.status.stop();
        status::check(self.agent.lab, &changes, &self.observed.seen, &self.pane);
    }

    /// Skips the states during the start, which are no scene.
    fn settle(&mut self) {
        let observed = &mut self.observed;
        let mut rests_since = None;
        // Codex turns its spinner while it starts, and accepts no prompt then: the agent must have been
        // idle for some time.
        let idle = within(START, || {
            observed.take_ready();
            let mut states = observed
                .seen
                .iter()
                .filter_map(|envelope| Some(new_state(&envelope.event)?.0));
            let now = (
                states.clone().count(),
                states.next_back().map(str::to_owned),
            );
            match &rests_since {
                Some((seen, since)) if *seen == now => {
                    let since: &Instant = since;
                    let is_idle = now.1.as_deref() == Some("idle");
                    (is_idle && since.elapsed() > 5 * TYPING)
                        .then_some(())
                        .ok_or(())
                }
                _ => {
                    rests_since = Some((now, Instant::now()));
                    Err(())
                }
            }
        });
        assert!(idle.is_ok(), "{}: {}", self.agent.lab, self.events());
        self.at = self.observed.seen.len();
    }

    fn scene(&mut self, scene: &Scene) {
        let begun = self.at;
        self.type_in(scene.text);
        let mut may = Vec::new();
        let mut answered = Vec::new();
        for step in scene.steps {
            let questions = match step {
                Step::Asks(question) => std::slice::from_ref(question),
                Step::AsksOneOf(questions) => questions,
                _ => &[],
            };
            match *step {
                Step::May(state) => may.push(state),
                Step::Is(state) => {
                    self.next_state(scene, &[state], &may);
                    may.clear();
                }
                Step::Ends(states) => {
                    self.next_state(scene, states, &may);
                    may.clear();
                }
                Step::Asks(_) | Step::AsksOneOf(_) => {
                    let question = self.next_state(scene, &["waiting"], &may);
                    may.clear();
                    let is_right =
                        questions.contains(&question.as_str()) && !answered.contains(&question);
                    let lab = self.agent.lab;
                    assert!(is_right, "{lab} asks {questions:?}: {}", self.events());
                    // The question is on the screen: an agent that reports it by itself may draw it just after that.
                    self.until(&question, |session| session.screen().contains(&question));
                    answered.push(question);
                    pause(TYPING);
                    self.key("Enter");
                }
                Step::Shows(text) => {
                    self.until(text, |session| session.screen().contains(text));
                }
                Step::Key(key) => {
                    // Two keys in quick succession are parsed as a different key.
                    pause(TYPING);
                    self.key(key);
                }
            }
        }
        self.until_counted(scene, begun, &may);
        // An interrupted agent puts the prompt back into its input box.
        self.key("C-u");
    }

    /// Waits until exactly the events of the scene are reported.
    fn until_counted(&mut self, scene: &Scene, begun: usize, may: &[&str]) {
        let mut counted = Counts::default();
        let observed = &mut self.observed;
        let is_all = within(STEP, || {
            observed.take_ready();
            counted = count(&observed.seen[begun..]);
            let is_all = scene.counts.is_none_or(|counts| counts == counted);
            is_all.then_some(()).ok_or(())
        });
        assert!(
            is_all.is_ok(),
            "{} {}: {counted:?} is not {:?}: {}",
            self.agent.lab,
            scene.text,
            scene.counts,
            self.events()
        );
        // Surplus events arrive soon.
        pause(2 * TYPING);
        self.observed.take_ready();
        let seen = &self.observed.seen[begun..];
        let counted = count(seen);
        let is_right = scene.counts.is_none_or(|counts| counts == counted);
        assert!(is_right, "{counted:?}: {}", self.events());
        let prompts = seen.iter().filter(|envelope| {
            matches!(&envelope.event, TdEvent::PromptSent { prompt_summary, .. } if prompt_summary == scene.text)
        });
        let expected = usize::from(scene.text.starts_with("SCN:"));
        assert_eq!(
            prompts.count(),
            expected,
            "{}: {}",
            scene.text,
            self.events()
        );
        let later = self.observed.seen[self.at..].iter();
        for (state, _) in later.filter_map(|envelope| new_state(&envelope.event)) {
            assert!(
                may.contains(&state),
                "{} {}: {state}: {}",
                self.agent.lab,
                scene.text,
                self.events()
            );
        }
        // States that may follow end with that of the last step, too.
        let ends = scene.steps.iter().rev().find_map(|step| match step {
            Step::Is(state) => Some(std::slice::from_ref(state)),
            Step::Ends(states) => Some(*states),
            _ => None,
        });
        let states = seen.iter().rev();
        let last = states
            .filter_map(|envelope| new_state(&envelope.event))
            .next();
        if let (Some(ends), Some((state, _))) = (ends, last) {
            let (lab, text) = (self.agent.lab, scene.text);
            assert!(ends.contains(&state), "{lab} {text}: {}", self.events());
        }
        self.at = self.observed.seen.len();
    }

    /// Checks that every event is of this agent in this pane, and that none contains a row of its screen.
    fn check(&self) {
        let lab = self.agent.lab;
        for envelope in &self.observed.seen {
            match &envelope.event {
                TdEvent::PromptSent { pane, .. } | TdEvent::TurnCompleted { pane, .. } => {
                    let pane = pane.as_ref().map(|pane| pane.as_str());
                    assert_eq!(pane, Some(self.pane.as_str()), "{lab}");
                }
                TdEvent::AgentState { agent, .. } => {
                    let agent = agent.as_deref().map(String::as_str);
                    assert_eq!(agent, Some(self.agent.name), "{lab}");
                }
                TdEvent::OutputUpdate { pane, chunk, .. } if pane.as_str() == self.pane => {
                    assert!(!chunk.contains(ANSWER), "{lab}: its screen: {chunk:?}");
                }
                _ => {}
            }
        }
    }

    fn type_in(&self, text: &str) {
        self.server
            .tmux(&["send-keys", "-t", &self.pane, "-l", text]);
        let last = text.rsplit(' ').next().unwrap_or(text);
        self.until("the text in its input", |session| {
            session.screen().contains(last)
        });
        // Agents take fast input for a paste, in which Enter is a line end.
        pause(TYPING);
        self.key("Enter");
    }

    fn key(&self, key: &str) {
        self.keys.borrow_mut().push(screens::now());
        self.server.tmux(&["send-keys", "-t", &self.pane, key]);
    }

    fn screen(&self) -> String {
        self.server.screen(&self.pane)
    }

    #[track_caller]
    fn until(&self, what: &str, is_met: impl Fn(&Self) -> bool) {
        let shows = || is_met(self).then_some(()).ok_or_else(|| self.screen());
        within(STEP, shows).unwrap_or_else(|screen| panic!("{}: {what}: {screen}", self.agent.lab));
    }

    /// Waits for the agent's next state, which must be one of `expected`; states in `may` are skipped.
    /// Returns its question.
    #[track_caller]
    fn next_state(&mut self, scene: &Scene, expected: &[&str], may: &[&str]) -> String {
        let (lab, text) = (self.agent.lab, scene.text);
        loop {
            let at = self.at;
            let observed = &mut self.observed;
            let next = within(STEP, || {
                observed.take_ready();
                let mut later = observed.seen.iter().enumerate().skip(at);
                let next = later.find_map(|(at, envelope)| {
                    let (state, asks) = new_state(&envelope.event)?;
                    Some((at, state.to_owned(), asks.to_owned()))
                });
                next.ok_or(())
            });
            let Ok((at, state, asks)) = next else {
                let (events, screen) = (self.events(), self.screen());
                panic!("{lab} {text}: waited for {expected:?}: {events}\n{screen}");
            };
            self.at = at + 1;
            if expected.contains(&state.as_str()) {
                return asks;
            }
            assert!(
                may.contains(&state.as_str()),
                "{lab} {text}: {state} {asks}, not {expected:?}: {}\n{}",
                self.events(),
                self.screen()
            );
        }
    }

    fn events(&self) -> String {
        let events = self
            .observed
            .seen
            .iter()
            .filter_map(|envelope| match &envelope.event {
                TdEvent::AgentState {
                    state,
                    source,
                    asks,
                    detail,
                    ..
                } => Some(format!(
                    "{} {state} {source:?} {asks:?} {detail:?}",
                    envelope.ts
                )),
                TdEvent::PromptSent { prompt_summary, .. } => {
                    Some(format!("{} > {prompt_summary}", envelope.ts))
                }
                TdEvent::TurnCompleted { marker, .. } => {
                    Some(format!("{} turn: {marker}", envelope.ts))
                }
                TdEvent::TokenReceived { token, .. } => Some(format!(
                    "{} {:?}",
                    envelope.ts,
                    token.chars().take(60).collect::<String>()
                )),
                TdEvent::ToolCallStarted { tool_name, .. } => {
                    Some(format!("{} * {tool_name}", envelope.ts))
                }
                TdEvent::Error { message, .. } | TdEvent::Warning { message, .. } => {
                    Some(format!("{} ! {message}", envelope.ts))
                }
                _ => None,
            });
        events.collect::<Vec<String>>().join("\n")
    }
}

/// Returns the state that an event reports, and its question; none if it only adds to a question that was
/// reported before: its choices, or another selected one.
fn new_state(event: &TdEvent) -> Option<(&str, &str)> {
    match event {
        TdEvent::AgentState {
            state,
            asks,
            dialogue,
            ..
        } if !dialogue.as_ref().is_some_and(|dialogue| dialogue.again) => {
            Some((state.as_str(), asks.as_deref().map_or("", String::as_str)))
        }
        _ => None,
    }
}

fn pause(time: Duration) {
    let _ = within(time, || Err::<(), ()>(()));
}
