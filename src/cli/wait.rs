//! `td-observe wait`: until a line comes, an agent is in a state, a program ends, a pane falls silent or a
//! channel is signalled.

use std::io::Write;
use std::process::ExitCode;

use serde_json::json;
use signal_hook::consts::SIGINT;

use super::failure::Failure;
use super::known::Targets;
use super::nearest;
use super::options::Options;
use super::server_checks::{check_socket, check_targets, check_tmux};
use super::signals::Signals;
use super::wait_args::TypedWait;
use super::wait_observer::ObserverOfStates;
use super::wait_state::StateCondition;
use super::wait_targets::{TargetWait, TargetWaits, WaitProblem, Wanted};
use crate::agent::{AgentState, Markers};
use crate::clock::Clock;
use crate::face::unless_broken_pipe;
use crate::redact::Rules;
use crate::tmux::{Target, Typing};
use crate::wait::{Wait, WaitEnd, WaitOutcome, WaitSpec};

/// The target failed, or ended before what was waited for.
const NOT_FOUND: u8 = 1;
/// The time was up, but lines were lost on the way.
const LOST: u8 = 3;
/// The time was up.
const TIMED_OUT: u8 = 124;

/// Reads what was typed for one target.
fn wait_of(typed: &TypedWait, target: Target) -> Result<Wait, Failure> {
    let spec = WaitSpec {
        target: target.as_str().to_owned(),
        text: typed.text.clone(),
        regex: typed.regex.clone(),
        stop: typed.stop.clone(),
        state: typed.state.clone(),
        turn: typed.turn,
        marker: typed.marker.clone(),
        exit: typed.exit,
        idle: typed.idle,
        channel: typed.channel.clone(),
        timeout: typed.timeout,
        interval: Some(typed.interval),
        include_existing: typed.include_existing,
        send: typed.send.clone(),
        enter: None,
    };
    let wait = spec.wait(target, "--");
    wait.map_err(|error| Failure::usage(error.to_string()))
}

/// The states that were typed.
fn states_of(typed: &TypedWait) -> Result<Vec<AgentState>, Failure> {
    let states = typed.state.iter().map(|name| {
        AgentState::from_name(name).ok_or_else(|| {
            let names = AgentState::ALL.map(AgentState::as_str);
            let meant = nearest::nearest(name, names);
            let hint = meant.map_or(String::from(";"), |meant| {
                format!("; did you mean {meant:?}?")
            });
            Failure::usage(format!(
                "--state: no state of an agent is called {name:?}{hint} there are {}",
                names.join(", ")
            ))
        })
    });
    states.collect()
}

/// The markers that were typed, or the default one.
pub(super) fn markers(typed: &[String]) -> Result<Markers, Failure> {
    match typed {
        [] => Ok(Markers::default()),
        typed => Markers::new(typed).map_err(|error| of("--marker", error)),
    }
}

fn of(option: &str, error: crate::Error) -> Failure {
    Failure::usage(format!("{option}: {error}"))
}

/// TargetWaits, prints the outcome and returns its exit code.
pub(super) fn run(options: &Options, typed: &TypedWait) -> Result<ExitCode, Failure> {
    let targets: Result<Vec<Target>, _> = typed
        .targets
        .iter()
        .map(|text| Target::parse(text))
        .collect();
    let targets = targets?;
    let wanted = match (typed.any, typed.all, targets.len()) {
        (_, true, _) => Wanted::All,
        (true, _, _) | (_, _, 0 | 1) => Wanted::Any,
        (false, false, count) => {
            return Err(Failure::usage(format!(
                "there are {count} targets: --any waits for one of them, --all for each"
            )));
        }
    };
    let rules = typed.secrets.rules(options.data_path()?.as_deref())?;
    let states = states_of(typed)?;
    let (mut condition, mut observer) = (None, None);
    if !states.is_empty() {
        let (state_rules, own) = super::states::read(options, &typed.rules)?;
        observer = ObserverOfStates::of(options, typed, !own.is_empty())?;
        condition = Some(StateCondition {
            states,
            rules: state_rules,
            redact: rules.clone(),
            is_sent: typed.send.is_some(),
        });
    }
    let typing = typed.send.as_ref();
    let typing = typing.map(|text| Typing::text(text, !typed.no_enter));
    let typing = typing.transpose()?;
    let waits: Result<Vec<TargetWait>, Failure> = targets
        .iter()
        .map(|target| {
            Ok(TargetWait {
                target: target.clone(),
                wait: wait_of(typed, target.clone())?,
                typing: typing.clone(),
                state: condition.clone(),
                observer: observer.clone(),
                hints: !options.quiet && typed.send.is_none(),
            })
        })
        .collect();
    let waits = waits?;
    let signals = Signals::catch(|| {})?;
    let server = options.server.server();
    let clock = Clock::system();
    check_tmux(&server, &clock)?;
    let version = check_socket(&server, &clock)?;
    check_targets(&server, version, &targets, &clock)?;
    let waits = TargetWaits::start(waits, &server, &clock)?;
    let ended = until_done(options, typed, &waits, wanted, (&signals, &rules, &clock));
    waits.stop()?;
    ended.map(ExitCode::from)
}

/// Prints outcomes as they come until they are what is wanted; returns the exit code.
fn until_done(
    options: &Options,
    typed: &TypedWait,
    waits: &TargetWaits,
    wanted: Wanted,
    (signals, rules, clock): (&Signals, &Rules, &Clock),
) -> Result<u8, Failure> {
    // The reasons why targets are not done: lost lines say more than a timeout, and that more than an end.
    let mut missed = Vec::new();
    while let Some(next) = waits.next(signals) {
        let (number, outcome) = match next {
            Ok((number, outcome)) => (number, outcome),
            Err(signal) => {
                // Nothing matched: a command after `&&` must not run.
                if options.json {
                    print(&json!({"outcome": "interrupted"}).to_string())?;
                }
                return Ok(u8::try_from(128 + signal).unwrap_or(NOT_FOUND));
            }
        };
        let target = typed.targets.get(number).map_or("", String::as_str);
        let outcome = outcome.map_err(|problem| match problem {
            WaitProblem::Waiting(error) => of_target(error, options, target, clock),
            WaitProblem::Other(failure) => failure,
        })?;
        let Some(mut outcome) = outcome else {
            return Ok(u8::try_from(128 + SIGINT).unwrap_or(NOT_FOUND));
        };
        outcome.redact(rules);
        let several = (typed.targets.len() > 1).then_some(target);
        print_outcome(options, several, &outcome)?;
        let code = code(&outcome.end);
        match (&outcome.end, wanted) {
            (WaitEnd::Stopped(_), _) => return Ok(code),
            (WaitEnd::Matched(_), Wanted::Any) => return Ok(code),
            (WaitEnd::Matched(_), Wanted::All) if code == 0 => {}
            (WaitEnd::TimedOut | WaitEnd::Lost, _) | (_, Wanted::Any) => missed.push(code),
            // Not all can be done any more.
            (_, Wanted::All) => return Ok(code),
        }
    }
    let worst = [LOST, TIMED_OUT, NOT_FOUND];
    let worst = worst.into_iter().find(|code| missed.contains(code));
    Ok(worst.unwrap_or(0))
}

/// A server or a target that is not there is bad input here: nothing is there to wait at.
fn of_target(error: crate::Error, options: &Options, target: &str, clock: &Clock) -> Failure {
    if error.is_gone() {
        return Failure::usage(format!("{error}: nothing is there to wait at"));
    }
    if error.is_invalid_input() {
        let hint = Targets::of(&options.server, clock).hint(target);
        return Failure::usage(format!("{error:?}{hint}"));
    }
    error.into()
}

fn code(end: &WaitEnd) -> u8 {
    match end {
        WaitEnd::Matched(found) if found.exit_status.unwrap_or(0) == 0 => 0,
        WaitEnd::Matched(_) | WaitEnd::Stopped(_) | WaitEnd::Ended(_) | WaitEnd::Interrupted => {
            NOT_FOUND
        }
        WaitEnd::TimedOut => TIMED_OUT,
        WaitEnd::Lost => LOST,
    }
}

/// Prints an outcome; of several targets, with the name of its own.
fn print_outcome(
    options: &Options,
    target: Option<&str>,
    outcome: &WaitOutcome,
) -> Result<(), Failure> {
    let named = |text: &str, separator: &str| {
        let target = target.map(|target| format!("{}{separator}", crate::face::one_line(target)));
        target.unwrap_or_default() + text
    };
    let line = if options.json {
        outcome.to_json(target).to_string()
    } else if options.quiet {
        return Ok(());
    } else {
        match &outcome.end {
            // A script continues with the match.
            WaitEnd::Matched(found) | WaitEnd::Stopped(found) => match &found.text {
                Some(text) => named(&crate::face::one_line(text), " | "),
                None => return Ok(()),
            },
            WaitEnd::Ended(why) => {
                let text = format!("{}, and it did not come", why.as_str());
                super::output::print_message(&named(&text, ": "));
                return Ok(());
            }
            WaitEnd::Interrupted => return Ok(()),
            WaitEnd::TimedOut => {
                let seconds = outcome.elapsed.as_secs_f64();
                let text = format!("it did not come within {seconds:.1} s");
                super::output::print_message(&named(&text, ": "));
                return Ok(());
            }
            WaitEnd::Lost => {
                super::output::print_message(&named(
                    "it was not seen, and lines were lost on the way: it may have been there",
                    ": ",
                ));
                return Ok(());
            }
        }
    };
    print(&line)
}

fn print(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    unless_broken_pipe(writeln!(out, "{line}").and_then(|()| out.flush()))
        .map_err(|error| Failure::other(format!("cannot write to standard output: {error}")))
}
