//! `td-observe wait`: waits until a line appears, an agent is in a state, a program ends, a pane falls silent
//! or a channel is signalled.

use std::process::ExitCode;

use serde_json::json;
use signal_hook::consts::SIGINT;

use super::failure::{Failure, TIMED_OUT};
use super::known::Targets;
use super::nearest;
use super::options::Options;
use super::output;
use super::server_checks::{check_socket, check_targets, check_tmux};
use super::signals::Signals;
use super::wait_args::TypedWait;
use super::wait_observer::ObserverOfStates;
use super::wait_state::StateCondition;
use super::wait_targets::{TargetWait, TargetWaits, WaitProblem, Wanted};
use crate::agent::Markers;
use crate::clock::Clock;
use crate::event::AgentState;
use crate::redact::Rules;
use crate::tmux::{Target, Typing};
use crate::wait::{Wait, WaitEnd, WaitOutcome, WaitSpec};

/// The target failed, or ended before a condition was met.
const NOT_FOUND: u8 = 1;
/// The timeout passed, and lines were lost.
const LOST: u8 = 3;

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

fn states_of(typed: &TypedWait) -> Result<Vec<AgentState>, Failure> {
    let states = typed.state.iter().map(|name| {
        AgentState::from_name(name).ok_or_else(|| {
            let names = AgentState::ALL.map(AgentState::as_str);
            let hint = nearest::suggestion(name, names);
            usage!(
                "--state: there is no agent state {name:?}{hint} there are {}",
                names.join(", ")
            )
        })
    });
    states.collect()
}

/// Returns the typed markers, or the default marker.
pub(super) fn markers(typed: &[String]) -> Result<Markers, Failure> {
    match typed {
        [] => Ok(Markers::default()),
        typed => Markers::new(typed).map_err(|error| usage!("--marker: {error}")),
    }
}

/// Waits, prints the outcomes and returns the exit code.
pub(super) fn run(options: &Options, typed: &TypedWait) -> Result<ExitCode, Failure> {
    let targets = typed.targets.iter().map(|text| Target::parse(text));
    let targets = targets.collect::<Result<Vec<Target>, _>>()?;
    let wanted = match (typed.any, typed.all, targets.len()) {
        (_, true, _) => Wanted::All,
        (true, _, _) | (_, _, 0 | 1) => Wanted::Any,
        (false, false, count) => {
            return Err(usage!(
                "there are {count} targets: give --any to wait for one of them, or --all for each"
            ));
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
    let mut waits = Vec::new();
    for target in &targets {
        waits.push(TargetWait {
            target: target.clone(),
            wait: wait_of(typed, target.clone())?,
            typing: typing.clone(),
            state: condition.clone(),
            observer: observer.clone(),
            hints: !options.quiet && typed.send.is_none(),
        });
    }
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

/// Prints outcomes as they arrive until the wait is decided; returns the exit code.
fn until_done(
    options: &Options,
    typed: &TypedWait,
    waits: &TargetWaits,
    wanted: Wanted,
    (signals, rules, clock): (&Signals, &Rules, &Clock),
) -> Result<u8, Failure> {
    // The exit codes of targets without a match. Lost lines take precedence over a timeout, and a timeout over
    // an end.
    let mut missed = Vec::new();
    while let Some(next) = waits.next(signals) {
        let (number, outcome) = match next {
            Ok((number, outcome)) => (number, outcome),
            Err(signal) => {
                // Nothing matched: a command after `&&` must not run.
                if options.json {
                    let interrupted = json!({"outcome": "interrupted"});
                    output::print(&output::json_lines([&interrupted]))?;
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
            // This target can no longer match.
            (_, Wanted::All) => return Ok(code),
        }
    }
    let worst = [LOST, TIMED_OUT, NOT_FOUND];
    let worst = worst.into_iter().find(|code| missed.contains(code));
    Ok(worst.unwrap_or(0))
}

/// Returns the failure for a target. A missing server or target is bad input for a wait.
fn of_target(error: crate::Error, options: &Options, target: &str, clock: &Clock) -> Failure {
    if error.is_gone() {
        return usage!("{error}: there is nothing to wait for");
    }
    if error.is_invalid_input() {
        let hint = Targets::of(&options.server, clock).hint(target);
        return usage!("{error:?}{hint}");
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

/// Prints an outcome. `target` names its target if there are several.
fn print_outcome(
    options: &Options,
    target: Option<&str>,
    outcome: &WaitOutcome,
) -> Result<(), Failure> {
    let named = |text: &str, separator: &str| {
        let target = target.map(|target| format!("{}{separator}", crate::face::one_line(target)));
        target.unwrap_or_default() + text
    };
    let print = |text: &str| output::print(text).map(|_| ());
    if options.json {
        return print(&output::json_lines([&outcome.to_json(target)]));
    }
    if options.quiet {
        return Ok(());
    }
    let problem = match &outcome.end {
        // Printed on standard output, so that a script can use the match.
        WaitEnd::Matched(found) | WaitEnd::Stopped(found) => match &found.text {
            Some(text) => return print(&(named(&crate::face::one_line(text), " | ") + "\n")),
            None => return Ok(()),
        },
        WaitEnd::Interrupted => return Ok(()),
        WaitEnd::Ended(why) => format!("{} before a match", why.as_str()),
        WaitEnd::TimedOut => format!("no match within {:.1} s", outcome.elapsed.as_secs_f64()),
        WaitEnd::Lost => {
            "no match, but lines were lost, so a match may have been missed".to_owned()
        }
    };
    output::print_message(&named(&problem, ": "));
    Ok(())
}
