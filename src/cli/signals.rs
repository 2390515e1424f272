//! Catches signals: the first INT, TERM, QUIT or HUP requests the end, a second INT forces it. USR1, USR2 and WINCH
//! are passed on where there is a command that they may be meant for.
//!
//! `td-signals` blocks on signal-hook's pipe and sends one message for the first signal. On a second INT that
//! the user types, it runs the cleanup and exits with 130. Further signals of a closing terminal or of a
//! service manager have no effect. The thread ends when [`Signals`] is dropped.

use std::fs;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator;

use super::failure::{Failure, INTERRUPTED};
use crate::clock::Clock;
use crate::thread::{self, Handle};

/// Minimum time between two INT that the user types. Closer signals have the same cause.
const TYPED_AGAIN: Duration = Duration::from_millis(300);

/// The signals that a program may answer, and that end one that does not, except for WINCH.
const PASSED: [i32; 3] = [SIGUSR1, SIGUSR2, SIGWINCH];

/// Catches signals until it is dropped.
pub(super) struct Signals {
    /// Receives the number of the first signal.
    pub first: Receiver<i32>,
    source: iterator::Handle,
    thread: Option<Handle<()>>,
}

impl Signals {
    /// Starts to catch signals. A second INT runs `cleanup` before the exit.
    pub fn catch(cleanup: impl FnOnce() + Send + 'static) -> Result<Self, Failure> {
        Self::catch_all(cleanup, None)
    }

    /// Starts to catch signals as [`Signals::catch`] does, and passes on those that programs answer.
    pub fn catch_and_pass(
        cleanup: impl FnOnce() + Send + 'static,
        pass: impl Fn(i32) + Send + 'static,
    ) -> Result<Self, Failure> {
        Self::catch_all(cleanup, Some(Box::new(pass)))
    }

    fn catch_all(
        cleanup: impl FnOnce() + Send + 'static,
        pass: Option<Box<dyn Fn(i32) + Send>>,
    ) -> Result<Self, Failure> {
        let mut caught = vec![SIGINT, SIGTERM, SIGQUIT];
        // `nohup` must keep its effect. Background jobs of a shell also ignore INT, but catching it allows
        // them to be stopped in order.
        let mut unless_ignored = vec![SIGHUP];
        if pass.is_some() {
            unless_ignored.extend(PASSED);
        }
        let ignored = ignored();
        let is_ignored = |signal: &i32| ignored >> (signal - 1) & 1 == 1;
        caught.extend(
            unless_ignored
                .into_iter()
                .filter(|signal| !is_ignored(signal)),
        );
        let mut source = iterator::Signals::new(caught)
            .map_err(|error| failure!("cannot catch signals: {error}"))?;
        let handle = source.handle();
        // Room for one message: the first signal.
        let (sender, first) = bounded(1);
        let thread = thread::spawn("td-signals", move || {
            let clock = Clock::system();
            let mut interrupted: Option<Instant> = None;
            for signal in source.forever() {
                if let Some(pass) = pass.as_ref().filter(|_| PASSED.contains(&signal)) {
                    pass(signal);
                    continue;
                }
                // Only the first signal finds room.
                let _ = sender.try_send(signal);
                if signal != SIGINT {
                    continue;
                }
                let now = clock.now();
                let first = *interrupted.get_or_insert(now);
                if now.saturating_duration_since(first) >= TYPED_AGAIN {
                    cleanup();
                    // Exits at once, because exit handlers could block.
                    signal_hook::low_level::exit(INTERRUPTED.into());
                }
            }
        })?;
        Ok(Self {
            first,
            source: handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.source.close();
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}

/// Returns a bit for each signal that the program was started with ignored, the lowest for signal 1; none outside of
/// Linux.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
