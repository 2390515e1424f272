//! Waiting: panes are looked at through one gateway, by as many threads as wait, until something
//! decides.
//!
//! Each wait runs in the thread that asks for it, and blocks on the gateway's answer, on its
//! deadlines and on its channel.

use crossbeam_channel::never;

use super::channel_wait::ChannelWait;
use super::config::{Wait, WaitEnd, WaitOutcome};
use super::driver::WaitDriver;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::Stop;
use crate::tmux::{ForegroundPrograms, Gateway, PollSchedule, Server};

/// Waiter at the panes of one tmux server. All that wait at the same time share its one gateway, and
/// with it the tmux processes.
///
/// ```no_run
/// use td_observe::tmux::{Server, Target};
/// use td_observe::wait::{Pattern, Wait, WaitEnd, Waiter};
///
/// # fn main() -> td_observe::Result<()> {
/// let waits = Waiter::new(Server::default())?;
/// let build = Wait::at(Target::parse("build")?).pattern(Pattern::text("BUILD SUCCESS")?);
/// if let WaitEnd::Matched(found) = waits.wait(&build)?.end {
///     println!("line {:?}: {:?}", found.line, found.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Waiter {
    server: Server,
    gateway: Gateway,
    clock: Clock,
}

impl Waiter {
    /// Waiter at this server, which must be there when something is waited for.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn new(server: Server) -> Result<Self> {
        let clock = Clock::system();
        let gateway = Gateway::start(server.clone(), clock.clone())?;
        Ok(Self {
            server,
            gateway,
            clock,
        })
    }

    /// Waiter, in this thread. Whoever makes a program print what is waited for wants
    /// [`Waiter::begin`] instead: what is printed before this has looked for the first time does not
    /// match.
    ///
    /// # Errors
    /// `is_invalid_input()` when there is no such target, or nothing is waited for; `is_gone()`
    /// without a server; `is_timeout()` when it is hung.
    pub fn wait(&self, wait: &Wait) -> Result<WaitOutcome> {
        self.begin(wait)?.finish()
    }

    /// Begins to wait, and comes back once it is known what stands on the panes: all that is
    /// printed from now on is new. Between this and [`StartedWait::finish`] a command is sent whose
    /// answer is waited for, however fast it comes.
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use std::time::Duration;
    /// use td_observe::tmux::{Server, Target};
    /// use td_observe::wait::{Pattern, Wait, Waiter};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let waits = Waiter::new(Server::default())?;
    /// let tested = Wait::at(Target::parse("build")?)
    ///     .pattern(Pattern::regex("^test result:")?)
    ///     .timeout(Duration::from_secs(600));
    /// let begun = waits.begin(&tested)?;
    /// Command::new("tmux")
    ///     .args(["send-keys", "-t", "=build:", "cargo test", "Enter"])
    ///     .status()?;
    /// println!("{:?}", begun.finish()?.end);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Waiter::wait`].
    pub fn begin(&self, wait: &Wait) -> Result<StartedWait<'_>> {
        self.begin_or_stop(wait, &never())?.ok_or_else(stopped)
    }

    /// Waiter until it is stopped; `None` then.
    #[cfg(feature = "cli")]
    pub(crate) fn wait_or_stop(&self, wait: &Wait, stop: &Stop) -> Result<Option<WaitOutcome>> {
        match self.begin_or_stop(wait, stop)? {
            Some(begun) => begun.finish_or_stop(),
            None => Ok(None),
        }
    }

    fn begin_or_stop(&self, wait: &Wait, stop: &Stop) -> Result<Option<StartedWait<'_>>> {
        if !wait.waits_for_anything() {
            return Err(Error::invalid("nothing is waited for"));
        }
        PollSchedule::Fixed(wait.interval).check()?;
        let began = self.clock.now();
        let gateway = self.gateway.handle();
        let asked = gateway.request_listing(ForegroundPrograms::Omitted)?;
        let Some(listing) = asked.wait_or(stop) else {
            return Ok(None);
        };
        let listing = listing?;
        if wait.target.resolve(&listing).is_empty() {
            return Err(Error::invalid(format!(
                "there is no {:?} at {}: see tmux list-panes -a",
                wait.target.as_str(),
                self.server
            )));
        }
        let channel = match &wait.channel {
            Some(name) => Some(ChannelWait::wait_for(&self.server, name, &self.clock)?),
            None => None,
        };
        let mut work = WaitDriver::new(wait, &listing, gateway, &self.clock, stop, began);
        Ok(work.begin()?.map(|decided| StartedWait {
            work,
            channel,
            decided,
        }))
    }
}

/// A wait that has begun: see [`Waiter::begin`]. Its time, and its timeout, run since then. Dropped,
/// it waits no longer.
#[derive(Debug)]
#[must_use = "what came of it, its finish tells"]
pub struct StartedWait<'a> {
    work: WaitDriver<'a>,
    channel: Option<ChannelWait>,
    /// What the first look decided already.
    decided: Option<WaitEnd>,
}

impl StartedWait<'_> {
    /// Waiter, in this thread.
    ///
    /// # Errors
    /// `is_gone()` when what it waits with has ended; `is_timeout()` or another when tmux gives no
    /// answer that can be read.
    pub fn finish(self) -> Result<WaitOutcome> {
        self.finish_or_stop()?.ok_or_else(stopped)
    }

    fn finish_or_stop(mut self) -> Result<Option<WaitOutcome>> {
        let end = match self.decided {
            Some(end) => Some(end),
            None => self.work.run(self.channel.as_ref())?,
        };
        drop(self.channel);
        Ok(end.map(|end| self.work.waited(end)))
    }
}

fn stopped() -> Error {
    Error::gone("the wait was stopped")
}
