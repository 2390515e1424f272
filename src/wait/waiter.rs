//! The waiter: starts waits for the panes of one tmux server, which share one gateway.

use crossbeam_channel::never;

use super::config::{Wait, WaitOutcome};
use super::started_wait::ChannelWait;
use super::started_wait::StartedWait;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::observe::ObservedSessions;
use crate::thread::Stop;
use crate::tmux::{ForegroundPrograms, Gateway, PollSchedule, Server};

/// Waits for the panes of one tmux server. Simultaneous waits share one gateway and thereby its tmux
/// processes.
///
/// ```no_run
/// use td_observe::tmux::{Server, Target};
/// use td_observe::wait::{Pattern, Wait, WaitEnd, Waiter};
///
/// # fn main() -> td_observe::Result<()> {
/// let waiter = Waiter::new(Server::default())?;
/// let build = Wait::at(Target::parse("build")?).pattern(Pattern::text("BUILD SUCCESS")?);
/// if let WaitEnd::Matched(line) = waiter.wait(&build)?.end {
///     println!("line {:?}: {:?}", line.line, line.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Waiter {
    server: Server,
    gateway: Gateway,
    clock: Clock,
    /// The sessions that an engine observes.
    sessions: Option<ObservedSessions>,
}

impl Waiter {
    /// Creates a waiter. The server must run when a wait is started.
    ///
    /// # Errors
    /// When the system has no threads left.
    pub fn new(server: Server) -> Result<Self> {
        Self::start_with(server, Clock::system(), None)
    }

    /// Creates a waiter that hears the panes which an engine streams, and captures the others.
    pub(crate) fn beside(server: Server, sessions: ObservedSessions, clock: Clock) -> Result<Self> {
        Self::start_with(server, clock, Some(sessions))
    }

    fn start_with(
        server: Server,
        clock: Clock,
        sessions: Option<ObservedSessions>,
    ) -> Result<Self> {
        let gateway = Gateway::start(server.clone(), clock.clone())?;
        Ok(Self {
            server,
            gateway,
            clock,
            sessions,
        })
    }

    /// Waits in this thread until a condition is met. Output before the first capture does not match; a
    /// caller that causes the output uses [`Waiter::start`].
    ///
    /// # Errors
    /// `is_invalid_input()` when the target does not exist, or the wait has no condition; `is_gone()` without
    /// a server, or when the wait is cancelled before its start; `is_timeout()` when the server is hung.
    pub fn wait(&self, wait: &Wait) -> Result<WaitOutcome> {
        self.start(wait)?.finish()
    }

    /// Starts a wait and returns when the content of the panes is known: everything printed from then on is
    /// new. A command that the caller sends before [`StartedWait::finish`] cannot be too fast for the wait.
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use std::time::Duration;
    /// use td_observe::tmux::{Server, Target};
    /// use td_observe::wait::{Pattern, Wait, Waiter};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let waiter = Waiter::new(Server::default())?;
    /// let tested = Wait::at(Target::parse("build")?)
    ///     .pattern(Pattern::regex("^test result:")?)
    ///     .timeout(Duration::from_secs(600));
    /// let started = waiter.start(&tested)?;
    /// Command::new("tmux")
    ///     .args(["send-keys", "-t", "=build:", "cargo test", "Enter"])
    ///     .status()?;
    /// println!("{:?}", started.finish()?.end);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Waiter::wait`].
    pub fn start(&self, wait: &Wait) -> Result<StartedWait<'_>> {
        let cancel = wait.cancel.as_ref();
        let stop = cancel.map_or_else(never, |cancel| cancel.stop().clone());
        let started = self.start_until_stopped(wait, &stop)?;
        started.ok_or_else(|| Error::gone("the wait was cancelled"))
    }

    /// Starts a wait as [`Waiter::start`] does; returns `None` once `stop` is closed.
    pub(crate) fn start_until_stopped(
        &self,
        wait: &Wait,
        stop: &Stop,
    ) -> Result<Option<StartedWait<'_>>> {
        if !wait.has_condition() {
            return Err(Error::invalid("the wait has no condition"));
        }
        if !wait.states.is_empty() && self.sessions.is_none() {
            return Err(Error::invalid(
                "only a waiter of an engine knows states: use Engine::waiter",
            ));
        }
        PollSchedule::Fixed(wait.interval).check()?;
        let began = self.clock.now();
        let gateway = self.gateway.handle();
        let pending = gateway.request_listing(ForegroundPrograms::Omitted)?;
        let Some(listing) = pending.wait_or(stop) else {
            return Ok(None);
        };
        let listing = listing?;
        let sessions = listing.sessions().map(|session| (session.id, session.name));
        if let Some(why) = wait.target.conflict(sessions) {
            return Err(Error::invalid(why));
        }
        if wait.target.resolve(&listing).is_empty() {
            return Err(Error::invalid(format!(
                "{} has no {:?}: see tmux list-panes -a",
                self.server,
                wait.target.as_str(),
            )));
        }
        let channel = match &wait.channel {
            Some(name) => Some(ChannelWait::start(&self.server, name, &self.clock)?),
            None => None,
        };
        let observed = (&*listing, self.sessions.as_ref());
        StartedWait::start(wait, channel, observed, gateway, &self.clock, began, stop).map(Some)
    }
}
