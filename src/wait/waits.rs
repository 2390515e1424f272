//! Waiting: panes are looked at through one gateway, by as many threads as wait, until something
//! decides.
//!
//! Each wait runs in the thread that asks for it, and blocks on the gateway's answer, on its
//! deadlines and on its channel.

use crossbeam_channel::never;

use super::channel::Channel;
use super::config::{Wait, WaitEnd, Waited};
use super::work::Work;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::Stop;
use crate::tmux::{ForegroundPrograms, Gateway, PollSchedule, Server};

/// Waits at the panes of one tmux server. All that wait at the same time share its one gateway, and
/// with it the tmux processes.
///
/// ```no_run
/// use td_observe::tmux::{Server, Target};
/// use td_observe::wait::{Needle, Wait, WaitEnd, Waits};
///
/// # fn main() -> td_observe::Result<()> {
/// let waits = Waits::new(Server::default())?;
/// let build = Wait::at(Target::parse("build")?).needle(Needle::text("BUILD SUCCESS")?);
/// if let WaitEnd::Found(found) = waits.wait(&build)?.end {
///     println!("line {:?}: {:?}", found.line, found.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Waits {
    server: Server,
    gateway: Gateway,
    clock: Clock,
}

impl Waits {
    /// Waits at this server, which must be there when something is waited for.
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

    /// Waits, in this thread. Whoever makes a program print what is waited for wants
    /// [`Waits::begin`] instead: what is printed before this has looked for the first time does not
    /// match.
    ///
    /// # Errors
    /// `is_invalid_input()` when there is no such target, or nothing is waited for; `is_gone()`
    /// without a server; `is_timeout()` when it is hung.
    pub fn wait(&self, wait: &Wait) -> Result<Waited> {
        self.begin(wait)?.finish()
    }

    /// Begins to wait, and comes back once it is known what stands on the panes: all that is
    /// printed from now on is new. Between this and [`Begun::finish`] a command is sent whose
    /// answer is waited for, however fast it comes.
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use std::time::Duration;
    /// use td_observe::tmux::{Server, Target};
    /// use td_observe::wait::{Needle, Wait, Waits};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let waits = Waits::new(Server::default())?;
    /// let tested = Wait::at(Target::parse("build")?)
    ///     .needle(Needle::regex("^test result:")?)
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
    /// As for [`Waits::wait`].
    pub fn begin(&self, wait: &Wait) -> Result<Begun<'_>> {
        self.begin_or_stop(wait, &never())?.ok_or_else(stopped)
    }

    /// Waits until it is stopped; `None` then.
    #[cfg(feature = "cli")]
    pub(crate) fn wait_or_stop(&self, wait: &Wait, stop: &Stop) -> Result<Option<Waited>> {
        match self.begin_or_stop(wait, stop)? {
            Some(begun) => begun.finish_or_stop(),
            None => Ok(None),
        }
    }

    fn begin_or_stop(&self, wait: &Wait, stop: &Stop) -> Result<Option<Begun<'_>>> {
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
            Some(name) => Some(Channel::wait_for(&self.server, name, &self.clock)?),
            None => None,
        };
        let mut work = Work::new(wait, &listing, gateway, &self.clock, stop, began);
        Ok(work.begin()?.map(|decided| Begun {
            work,
            channel,
            decided,
        }))
    }
}

/// A wait that has begun: see [`Waits::begin`]. Its time, and its timeout, run since then. Dropped,
/// it waits no longer.
#[derive(Debug)]
#[must_use = "what came of it, its finish tells"]
pub struct Begun<'a> {
    work: Work<'a>,
    channel: Option<Channel>,
    /// What the first look decided already.
    decided: Option<WaitEnd>,
}

impl Begun<'_> {
    /// Waits, in this thread.
    ///
    /// # Errors
    /// `is_gone()` when what it waits with has ended; `is_timeout()` or another when tmux gives no
    /// answer that can be read.
    pub fn finish(self) -> Result<Waited> {
        self.finish_or_stop()?.ok_or_else(stopped)
    }

    fn finish_or_stop(mut self) -> Result<Option<Waited>> {
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
