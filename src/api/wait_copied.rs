//! `POST /api/v1/wait` for runs that are copied from other hosts: their events decide.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::http::Response;
use super::panes::{ApiContext, parsed};
use super::wait_client::{WaitClient, WaitReport};
use crate::event::AgentState;
use crate::feed::{Next, Reader};
use crate::tmux::Target;
use crate::wait::{CopiedWait, StateMatcher, WaitEnd, WaitOutcome, WaitSpec};

/// The interval at which the client is looked after.
const CHECK: Duration = Duration::from_millis(100);

/// The interval of signs of life.
const ALIVE: Duration = Duration::from_millis(500);

/// Waits, and returns the outcome; `None` if nobody awaits it any more.
///
/// # Errors
/// The response to send instead.
pub(super) fn wait(
    context: &ApiContext,
    (body, server): (&[u8], Option<&Path>),
    (begin, client): (&dyn Fn() -> io::Result<()>, &dyn WaitClient),
) -> Result<Option<WaitOutcome>, Response> {
    let clock = &context.clock;
    let (spec, mut wait) = read(context, (body, server), clock.now())?;
    // Taken before the board, so that nothing is missed in between.
    let mut reader = Reader::live(&context.feed);
    let begun = clock.now();
    let deadline = spec.timeout.and_then(|time| begun.checked_add(time));
    let met = note_board(context, &mut wait, &spec, server);
    if begin().is_err() || client.report(WaitReport::Begun).is_err() {
        return Ok(None);
    }
    let mut has_lost = false;
    let mut alive_at = begun + ALIVE;
    let mut end = met;
    while end.is_none() {
        let now = clock.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            end = Some(if has_lost {
                WaitEnd::Lost
            } else {
                WaitEnd::TimedOut
            });
            break;
        }
        if client.is_gone() {
            return Ok(None);
        }
        if now >= alive_at {
            if client.report(WaitReport::Alive).is_err() {
                return Ok(None);
            }
            alive_at = now + ALIVE;
        }
        end = wait.silence(now);
        let due = [Some(now + CHECK), deadline, wait.silent_at()];
        let due: Option<Instant> = due.into_iter().flatten().min();
        match reader.next(due) {
            _ if end.is_some() => {}
            Next::Event(event) => end = wait.handle(&event.event, clock.now()),
            Next::Missed(_) => {
                has_lost = true;
                // A client that is gone is noticed at the next look.
                let _ = client.report(WaitReport::LostLines);
            }
            Next::Timeout => {}
            Next::End => return Ok(None),
        }
    }
    let mut outcome = WaitOutcome::of_copy(
        end.unwrap_or(WaitEnd::Interrupted),
        (clock.wall(), clock.now().saturating_duration_since(begun)),
        has_lost,
        wait.last_lines.into(),
    );
    outcome.redact(&context.panes.rules);
    Ok(Some(outcome))
}

/// Reads the request.
fn read(
    context: &ApiContext,
    (body, server): (&[u8], Option<&Path>),
    now: Instant,
) -> Result<(WaitSpec, CopiedWait), Response> {
    let invalid = |error: crate::Error| Response::problem(400, &error.to_string());
    let spec: WaitSpec = parsed(body)?;
    let target = Target::parse(&spec.target).map_err(invalid)?;
    let wait = spec.wait(target, "").map_err(invalid)?;
    for (name, is_given) in [
        ("send", spec.send.is_some() || spec.sent.is_some()),
        ("channel", spec.channel.is_some()),
        ("include_existing", spec.include_existing),
    ] {
        if is_given {
            let why = format!(
                "{name}: the runs of these hosts are copied by way of Redis, which has their events, but no screens, \
                 keyboards or channels: leave it out, or use --host"
            );
            return Err(Response::problem(409, &why));
        }
    }
    let states = spec.state.iter().map(|name| {
        let unknown =
            || Response::problem(400, &format!("state: {name:?} is no state of an agent"));
        AgentState::from_name(name).ok_or_else(unknown)
    });
    let states = states.collect::<Result<Vec<_>, _>>()?;
    let states = (!states.is_empty()).then(|| StateMatcher::new(states));
    let rows = rows(context, &spec, server);
    let places = rows.filter_map(|row| Some((row.execution_id, row.pane?)));
    let places: Vec<_> = places.collect();
    if places.is_empty() {
        let why = format!("no copied run has {:?}: see /api/v1/board", spec.target);
        return Err(Response::problem(404, &why));
    }
    Ok((spec, CopiedWait::new(wait, states, places, now)))
}

/// Returns the rows of the target: a pane, or all panes of a session.
fn rows(
    context: &ApiContext,
    spec: &WaitSpec,
    server: Option<&Path>,
) -> impl Iterator<Item = crate::board::Row> {
    let target = spec.target.clone();
    let server = server.map(|server| server.to_string_lossy().into_owned());
    let rows = context.feed.rows().into_iter();
    rows.filter(move |row| {
        let is_there = server.is_none() || row.server == server;
        let is_named = row.name == target || row.pane.as_ref().is_some_and(|pane| *pane == *target);
        is_there && is_named && !row.has_ended()
    })
}

/// Notes the present states, and returns the end of the wait if one of them is wanted.
fn note_board(
    context: &ApiContext,
    wait: &mut CopiedWait,
    spec: &WaitSpec,
    server: Option<&Path>,
) -> Option<WaitEnd> {
    let states = wait.states.as_mut()?;
    for row in rows(context, spec, server) {
        if let (crate::board::RowState::Agent(state), Some(pane)) = (&row.state, &row.pane) {
            states.note_state(pane, state.known(), row.asks.as_deref().unwrap_or_default());
        }
    }
    states.met().map(WaitEnd::Matched)
}
