//! `td-observe ask`: prompts an agent, waits for its turn, and prints the answer.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};

use super::checks::{check_socket, check_targets, check_tmux};
use super::duration::parse_duration;
use super::failure::{Failure, INTERRUPTED, TIMED_OUT};
use super::options::{Options, SourceKind, TypedSecrets};
use super::signals::Signals;
use super::status::selected;
use super::{known, live, observer, output};
use crate::agent::StateRules;
use crate::api::{EventSource, Input, Observer, Unavailable};
use crate::board::{Board, Place, Row, RowState};
use crate::bus::{Delivery, RecvTimeoutError, Subscription};
use crate::clock::Clock;
use crate::engine::{Builder, Engine};
use crate::event::{AgentState, Envelope, PaneId};
use crate::face::{one_line, sanitized};
use crate::feed::Next;
use crate::observe::Watch;
use crate::thread::stop_pair;
use crate::tmux::{Server, Target, Typing};
use crate::wait::{FollowedTurn, Question, TurnEnd};

/// The agent asks back.
const ASKS: u8 = 4;

/// The time in which the state of the agent must be known.
const KNOWN_WITHIN: Duration = Duration::from_secs(8);

/// The longest time until a signal is noticed.
const CHECK: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/ask.txt").trim_end())]
pub(super) struct TypedAsk {
    /// The agent: a name on the board, a session or a pane
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(known::panes))]
    pub name: String,
    /// The prompt; with --answers, the answer: the key of a choice, or a text
    #[arg(allow_hyphen_values = true)]
    pub prompt: String,
    /// Answer the question with this id, which an agent that waits has, and wait for the rest of its turn
    #[arg(long, value_name = "ID")]
    pub answers: Option<String>,
    /// Wait at most this long for the answer [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub secrets: TypedSecrets,
}

/// Asks, prints the answer or the question, and returns the exit code.
pub(super) fn run(options: &Options, typed: &TypedAsk) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let signals = Signals::catch(|| {})?;
    let deadline = typed.timeout.map(|timeout| clock.now() + timeout);
    let mut agent = match observer::running(&options.home()?)? {
        Some(known) => Agent::of_observer(options, &Observer::At(known.socket), typed, &clock)?,
        None => Agent::of_own_watch(options, typed, &signals, &clock)?,
    };
    let code = agent.ask(options, typed, deadline, &signals, &clock);
    agent.events.end();
    code
}

/// The agent that is asked.
struct Agent {
    row: Row,
    server: Server,
    events: Events,
}

/// The events of the agent's execution.
enum Events {
    /// Of an observer.
    Observer(Box<dyn EventSource>),
    /// Of a watch of this program.
    Own(Box<(Engine, Subscription)>),
}

impl Events {
    /// Returns the next event; `None` if none arrives before the deadline.
    fn next(&mut self, deadline: Instant) -> Result<Option<Envelope>, Failure> {
        match self {
            Self::Observer(source) => match source.next(deadline) {
                Ok(Next::Event(event)) => Ok(Some(Envelope::clone(&event))),
                Ok(Next::Missed(_) | Next::Timeout) => Ok(None),
                Ok(Next::End) => Err(failure!("the observer has ended")),
                Err(Unavailable::Refused(problem)) => Err(failure!("{problem}")),
                Err(Unavailable::Broken(cause)) => {
                    Err(failure!("the observer does not answer: {cause}"))
                }
            },
            Self::Own(own) => match own.1.recv_deadline(deadline) {
                Ok(Delivery::Event(event)) => Ok(Some(Envelope::clone(&event))),
                Ok(Delivery::Lagged { .. }) | Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Closed) => Err(failure!("the watch has ended")),
            },
        }
    }

    fn end(self) {
        if let Self::Own(own) = self {
            live::report_problems(own.0.shutdown());
        }
    }
}

impl Agent {
    /// Finds the agent on the board of an observer.
    fn of_observer(
        options: &Options,
        observer: &Observer,
        typed: &TypedAsk,
        clock: &Clock,
    ) -> Result<Self, Failure> {
        let until = clock.now() + KNOWN_WITHIN;
        let mut tag = None;
        let row = loop {
            let Some((rows, next)) = observer.board(tag.as_deref(), CHECK)? else {
                if clock.now() < until {
                    continue;
                }
                return Err(not_known(&typed.name));
            };
            tag = next;
            let row = the_agent(rows, &typed.name)?;
            if is_known(&row) || clock.now() >= until {
                break row;
            }
        };
        let events = observer.events_of(&row.execution_id, None, clock)?;
        // The stream must have begun before the prompt is typed.
        let mut first = Events::Observer(events);
        first.next(clock.now())?;
        let server = match &row.server {
            Some(socket) => Server::socket(socket),
            None => options.server.server(),
        };
        Ok(Self {
            row,
            server,
            events: first,
        })
    }

    /// Watches the target until the state of its agent is known.
    fn of_own_watch(
        options: &Options,
        typed: &TypedAsk,
        signals: &Signals,
        clock: &Clock,
    ) -> Result<Self, Failure> {
        let target = Target::parse(&typed.name)?;
        let server = options.server.server();
        check_tmux(&server, clock)?;
        let version = check_socket(&server, clock)?;
        check_targets(&server, version, std::slice::from_ref(&target), clock)?;
        let redact = typed.secrets.rules(options.data_path()?.as_deref())?;
        let mut engine = Builder::new().redact(redact).start()?;
        let events = engine.subscribe_with(live::everything());
        let rules = StateRules::builtin();
        let watch = Watch::new(server.clone())
            .target(target)
            .include_observers()
            .states(rules.clone());
        engine.watch(SourceKind::Auto.applied_to(watch)?)?;
        let mut events = Events::Own(Box::new((engine, events)));
        let mut board = Board::new(rules);
        let until = clock.now() + KNOWN_WITHIN;
        while clock.now() < until && signals.first.is_empty() {
            if let Some(envelope) = events.next(until.min(clock.now() + CHECK))? {
                board.apply(&envelope);
                if board.rows().any(is_known) {
                    break;
                }
            }
        }
        let rows: Vec<Row> = board.rows().cloned().collect();
        match one_of(rows, &typed.name) {
            Ok(row) => Ok(Self {
                row,
                server,
                events,
            }),
            Err(failure) => {
                events.end();
                Err(failure)
            }
        }
    }

    fn ask(
        &mut self,
        options: &Options,
        typed: &TypedAsk,
        deadline: Option<Instant>,
        signals: &Signals,
        clock: &Clock,
    ) -> Result<ExitCode, Failure> {
        self.check(typed)?;
        let Some(pane) = self.row.pane.clone() else {
            return Err(not_known(&typed.name));
        };
        let since = clock.wall();
        let input = Input {
            typing: Typing::text(&typed.prompt, true)?,
            may_leave_enter: true,
            answers: typed.answers.as_deref(),
        };
        let (_running, stop) = stop_pair();
        let row_of = |_: &PaneId| Ok(Some(self.row.clone()));
        let panes = std::slice::from_ref(&pane);
        let sent = input.send((&self.server, panes), &row_of, (&stop, clock));
        sent.map_err(|error| {
            if error.is_invalid_input() {
                usage!("{error}")
            } else {
                error.into()
            }
        })?;
        let mut turn = FollowedTurn::begin(pane, since, typed.answers.clone());
        loop {
            let now = clock.now();
            if !signals.first.is_empty() {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            if let Some(end) = turn.end(now).cloned() {
                return self.report(options, &turn, &end);
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                let seconds = typed.timeout.unwrap_or_default().as_secs_f64();
                let message = format!("no answer within {seconds:.1} s; the agent goes on");
                self.print(options, &turn, Some(&message))?;
                return Ok(ExitCode::from(TIMED_OUT));
            }
            let next = [turn.deadline(), deadline].into_iter().flatten();
            let until = next.fold(now + CHECK, Instant::min);
            if let Some(envelope) = self.events.next(until)? {
                turn.note(&envelope, clock.now());
            }
        }
    }

    /// Refuses an agent that would take the prompt for something else.
    fn check(&self, typed: &TypedAsk) -> Result<(), Failure> {
        let row = &self.row;
        let (name, agent) = (one_line(&typed.name), row.agent.as_deref().unwrap_or("it"));
        let RowState::Agent(state) = &row.state else {
            return Err(usage!(
                "{name} runs no agent that could be asked; its state is {}",
                one_line(row.state.as_str())
            ));
        };
        match (state.known(), &typed.answers) {
            (Some(AgentState::Idle | AgentState::Done), None) if agent == "shell" => Err(usage!(
                "{name} is a shell; td-observe wait {name} --send runs a command in it"
            )),
            (Some(AgentState::Idle), None) if row.is_view() => Err(usage!(
                "{name} is {}: ask the agent there",
                one_line(&row.last_line)
            )),
            (Some(AgentState::Idle | AgentState::Done), None)
            | (Some(AgentState::Waiting), Some(_)) => Ok(()),
            (Some(AgentState::Waiting), None) => {
                let id = row.question_id.as_deref().unwrap_or_default();
                Err(usage!(
                    "{agent} in {name} waits for an answer to {:?}: answer it with --answers {id}",
                    one_line(row.asks.as_deref().unwrap_or("a question"))
                ))
            }
            (_, None) => Err(usage!(
                "{agent} in {name} is {}: only an agent that is idle or done is asked",
                one_line(state.as_str())
            )),
            (_, Some(_)) => Err(usage!(
                "{agent} in {name} is {}: it has no question that could be answered",
                one_line(state.as_str())
            )),
        }
    }

    fn report(
        &self,
        options: &Options,
        turn: &FollowedTurn,
        end: &TurnEnd,
    ) -> Result<ExitCode, Failure> {
        let agent = self.row.agent.as_deref().unwrap_or("the agent");
        Ok(match end {
            TurnEnd::Answered => {
                let is_unread = turn.answer().is_empty();
                let problem = format!("{agent} is done, and its answer was not read: see its pane");
                self.print(options, turn, is_unread.then_some(&*problem))?;
                ExitCode::SUCCESS
            }
            TurnEnd::Asks(question) => {
                let message = in_words(agent, question);
                self.print(options, turn, Some(&message))?;
                ExitCode::from(ASKS)
            }
            TurnEnd::Failed(reason) => {
                let message = format!("{agent} did not end its turn: {}", one_line(reason));
                self.print(options, turn, Some(&message))?;
                ExitCode::FAILURE
            }
        })
    }

    /// Prints the answer so far, and the reason why it is not the whole one.
    fn print(
        &self,
        options: &Options,
        turn: &FollowedTurn,
        problem: Option<&str>,
    ) -> Result<(), Failure> {
        if options.json {
            let mut value = turn.json();
            if let (Some(problem), Value::Object(fields)) = (problem, &mut value) {
                fields.insert("problem".to_owned(), json!(problem));
            }
            output::print(&output::json_lines([&value]))?;
            return Ok(());
        }
        if options.quiet {
            return Ok(());
        }
        let answer = turn.answer();
        if !answer.is_empty() {
            output::print(&if std::io::stdout().is_terminal() {
                answer_lines(answer)
            } else {
                format!("{answer}\n")
            })?;
        }
        if let Some(problem) = problem {
            output::print_message(problem);
        }
        Ok(())
    }
}

/// Returns the answer as lines for a terminal.
fn answer_lines(answer: &str) -> String {
    let lines = answer.lines().map(|line| sanitized(line) + "\n");
    lines.collect()
}

/// Returns a question with its choices, and how to answer it, in words.
fn in_words(agent: &str, question: &Question) -> String {
    let mut words = format!("{agent} asks: {}", one_line(&question.asks));
    let choices = question
        .dialogue
        .iter()
        .flat_map(|dialogue| &dialogue.choices);
    let choices: Vec<String> = choices
        .map(|choice| format!("{} {}", choice.key, one_line(&choice.label)))
        .collect();
    if !choices.is_empty() {
        words += &format!(" [{}]", choices.join(" | "));
    }
    if let Some(id) = &question.id {
        words += &format!("; answer it with --answers {id}");
    }
    words
}

/// Returns true if the state of a row's agent is known.
fn is_known(row: &Row) -> bool {
    matches!(&row.state, RowState::Agent(state) if *state != AgentState::Unknown)
}

/// Returns the row of the agent that a name denotes.
fn the_agent(rows: Vec<Row>, name: &str) -> Result<Row, Failure> {
    let mut chosen = selected(rows.clone(), &[name.to_owned()])?.rows;
    // The agent that a command runs is asked in the command's pane.
    let panes = chosen.iter().filter_map(|row| row.in_pane.clone());
    let panes: Vec<Place> = panes.collect();
    let is_new = |row: &Row| !chosen.iter().any(|chosen| chosen.key() == row.key());
    let behind = rows.into_iter().filter(|row| {
        let is_behind = row.place().is_some_and(|place| panes.contains(&place));
        is_behind && is_new(row)
    });
    let behind: Vec<Row> = behind.collect();
    chosen.extend(behind);
    one_of(chosen, name)
}

/// Returns the only pane with an agent among rows, or else the only pane.
fn one_of(rows: Vec<Row>, name: &str) -> Result<Row, Failure> {
    let mut panes: Vec<Row> = rows
        .into_iter()
        .filter(|row| row.pane.is_some() && !row.has_ended())
        .collect();
    if panes.len() > 1 {
        panes.retain(|row| is_known(row) && row.agent.as_deref() != Some("shell"));
    }
    let mut panes = panes.into_iter();
    match (panes.next(), panes.next()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(not_known(name)),
        (Some(first), Some(second)) => {
            let pane = |row: &Row| row.pane.as_ref().map_or(String::new(), ToString::to_string);
            Err(usage!(
                "{} has several agents: give the pane, such as {} or {}",
                one_line(name),
                pane(&first),
                pane(&second)
            ))
        }
    }
}

fn not_known(name: &str) -> Failure {
    usage!(
        "there is no agent in {}: td-observe status shows them",
        one_line(name)
    )
}
