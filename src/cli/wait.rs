//! `td-observe wait`: until a line comes, a program ends, a pane falls silent or a channel is signalled.

use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use signal_hook::consts::SIGINT;

use super::failure::Failure;
use super::known::Targets;
use super::options::Options;
use super::server_checks::{check_socket, check_targets, check_tmux};
use super::signals::Signals;
use super::wait_args::TypedWait;
use crate::agent::Markers;
use crate::clock::Clock;
use crate::face::unless_broken_pipe;
use crate::redact::Rules;
use crate::thread::stop_pair;
use crate::tmux::Target;
use crate::wait::{Pattern, Wait, WaitEnd, WaitMatch, WaitOutcome, Waiter};

/// The target failed, or ended before what was waited for.
const NOT_FOUND: u8 = 1;
/// The time was up, but lines were lost on the way.
const LOST: u8 = 3;
/// The time was up.
const TIMED_OUT: u8 = 124;

/// Reads what was typed.
pub(super) fn wait_of(typed: &TypedWait) -> Result<Wait, Failure> {
    let mut wait = Wait::at(Target::parse(&typed.target)?).interval(typed.interval);
    for text in &typed.text {
        wait = wait.pattern(Pattern::text(text).map_err(|error| of("--text", error))?);
    }
    for pattern in &typed.regex {
        wait = wait.pattern(Pattern::regex(pattern).map_err(|error| of("--regex", error))?);
    }
    for pattern in &typed.stop {
        wait = wait.stop(Pattern::regex(pattern).map_err(|error| of("--stop", error))?);
    }
    if typed.turn {
        wait = wait.turn(markers(&typed.marker)?);
    }
    if typed.exit {
        wait = wait.exit();
    }
    if let Some(idle) = typed.idle {
        wait = wait.idle(idle);
    }
    if let Some(channel) = &typed.channel {
        if channel.is_empty() {
            return Err(Failure::usage("--channel: the name is empty"));
        }
        wait = wait.channel(channel);
    }
    if let Some(timeout) = typed.timeout {
        wait = wait.timeout(timeout);
    }
    if typed.include_existing {
        wait = wait.include_existing();
    }
    if !wait.has_condition() {
        return Err(Failure::usage(
            "nothing is waited for: give --text, --regex, --turn, --exit, --idle or --channel",
        ));
    }
    Ok(wait)
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

/// Waits, prints the outcome and returns its exit code.
pub(super) fn run(options: &Options, typed: &TypedWait) -> Result<ExitCode, Failure> {
    let wait = wait_of(typed)?;
    let rules = typed.secrets.rules(options.data_path()?.as_deref())?;
    let signals = Signals::catch(|| {})?;
    let server = options.server.server();
    let clock = Clock::system();
    check_tmux(&server, &clock)?;
    let target = Target::parse(&typed.target)?;
    let version = check_socket(&server, &clock)?;
    let is_absent = |error| of_target(error, options, typed, &clock);
    check_targets(&server, version, &[target], &clock)?;
    let waiter = Waiter::new(server)?;
    let (running, stop) = stop_pair();
    let first = signals.first().clone();
    let (alive, done) = stop_pair();
    let thread = crate::thread::spawn("td-wait", move || {
        let _alive = alive;
        let outcome = waiter.wait_until_stopped(&wait, &stop);
        drop(waiter);
        outcome
    })?;
    let mut signal = None;
    crossbeam_channel::select_biased! {
        recv(done) -> _ => {}
        recv(first) -> number => {
            signal = number.ok();
            drop(running);
        }
    }
    let outcome = match thread.join() {
        Ok(outcome) => outcome.map_err(is_absent)?,
        Err(panicked) => return Err(Failure::other(panicked.to_string())),
    };
    let Some(mut outcome) = outcome else {
        // Nothing matched: a command after `&&` must not run.
        if options.json {
            print(&json!({"outcome": "interrupted"}).to_string())?;
        }
        let code = 128 + signal.unwrap_or(SIGINT);
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(NOT_FOUND)));
    };
    redact(&rules, &mut outcome);
    print_outcome(options, &outcome)?;
    Ok(ExitCode::from(code(&outcome.end)))
}

/// Redacts the text of an outcome: the last lines together, since a secret may go over two.
fn redact(rules: &Rules, outcome: &mut WaitOutcome) {
    let lines = outcome.last_lines.join("\n");
    if let Cow::Owned(redacted) = rules.text(&lines) {
        outcome.last_lines = redacted.split('\n').map(str::to_owned).collect();
    }
    if let WaitEnd::Matched(found) | WaitEnd::Stopped(found) = &mut outcome.end {
        for text in [&mut found.text, &mut found.pattern].into_iter().flatten() {
            *text = rules.text(text).into_owned();
        }
    }
}

/// A server or a target that is not there is bad input here: nothing is there to wait at.
fn of_target(error: crate::Error, options: &Options, typed: &TypedWait, clock: &Clock) -> Failure {
    if error.is_gone() {
        return Failure::usage(format!("{error}: nothing is there to wait at"));
    }
    if error.is_invalid_input() {
        let hint = Targets::of(&options.server, clock).hint(&typed.target);
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

fn print_outcome(options: &Options, outcome: &WaitOutcome) -> Result<(), Failure> {
    let line = if options.json {
        as_json(outcome).to_string()
    } else if options.quiet {
        return Ok(());
    } else {
        match &outcome.end {
            // A script continues with the match.
            WaitEnd::Matched(found) | WaitEnd::Stopped(found) => match &found.text {
                Some(text) => crate::face::one_line(text),
                None => return Ok(()),
            },
            WaitEnd::Ended(why) => {
                super::output::say(&format!("{}, and it did not come", why.as_str()));
                return Ok(());
            }
            WaitEnd::Interrupted => return Ok(()),
            WaitEnd::TimedOut => {
                super::output::say(&format!(
                    "it did not come within {:.1} s",
                    outcome.elapsed.as_secs_f64()
                ));
                return Ok(());
            }
            WaitEnd::Lost => {
                super::output::say(
                    "it was not seen, and lines were lost on the way: it may have been there",
                );
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

fn as_json(outcome: &WaitOutcome) -> Value {
    let (name, found) = match &outcome.end {
        WaitEnd::Matched(found) => ("found", found_json(found)),
        WaitEnd::Stopped(found) => ("stopped", found_json(found)),
        WaitEnd::Ended(why) => (
            "ended",
            Map::from_iter([("reason".to_owned(), json!(why.as_str()))]),
        ),
        WaitEnd::TimedOut => ("timed_out", Map::new()),
        WaitEnd::Lost => ("lost", Map::new()),
        WaitEnd::Interrupted => ("interrupted", Map::new()),
    };
    let mut all = Map::new();
    all.insert("outcome".to_owned(), json!(name));
    all.extend(found);
    all.insert("ts".to_owned(), json!(outcome.ts.to_string()));
    let elapsed = u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX);
    all.insert("elapsed_ms".to_owned(), json!(elapsed));
    all.insert("lost_lines".to_owned(), json!(outcome.lost_lines));
    all.insert("last_lines".to_owned(), json!(outcome.last_lines));
    Value::Object(all)
}

fn found_json(found: &WaitMatch) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("condition".to_owned(), json!(found.condition.as_str()));
    for (name, value) in [
        ("pane", found.pane.as_ref().map(|pane| json!(pane.as_str()))),
        ("line", found.line.map(|line| json!(line))),
        ("text", found.text.as_ref().map(|text| json!(text))),
        ("needle", found.pattern.as_ref().map(|text| json!(text))),
        ("exit_status", found.exit_status.map(|status| json!(status))),
    ] {
        if let Some(value) = value {
            map.insert(name.to_owned(), value);
        }
    }
    map
}
