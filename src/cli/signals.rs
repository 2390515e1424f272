//! Signals: the first of INT, TERM, QUIT and HUP asks for the end, a second INT takes it.
//!
//! `td-signals` blocks on signal-hook's pipe and sends one message for the first signal. On a second
//! INT, which a person types, it does the last act that it was given and ends the process with 130. A
//! terminal that closes and a service manager send several signals, which change nothing. The thread
//! ends when [`Signals`] is dropped.

use std::fs;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator;

use super::failure::Failure;
use crate::clock::Clock;
use crate::thread::{self, Handle};

/// The time between two INT that a person types; closer ones have one cause.
const TYPED_AGAIN: Duration = Duration::from_millis(300);

/// Interrupted twice.
const INTERRUPTED: i32 = 130;

/// Catches signals until it is dropped.
pub(super) struct Signals {
    first: Receiver<i32>,
    source: iterator::Handle,
    thread: Option<Handle<()>>,
}

impl Signals {
    /// Starts to catch them. `last_act` is what a second INT leaves time for.
    pub fn catch(last_act: impl FnOnce() + Send + 'static) -> Result<Self, Failure> {
        let mut caught = vec![SIGINT, SIGTERM, SIGQUIT];
        // `nohup` is to be left its way. A shell's background jobs ignore INT as well, but there
        // it is the only way to stop in order.
        if !is_ignored(SIGHUP) {
            caught.push(SIGHUP);
        }
        let mut source = iterator::Signals::new(caught)
            .map_err(|error| Failure::other(format!("cannot catch signals: {error}")))?;
        let handle = source.handle();
        // One message: the first signal.
        let (sender, first) = bounded(1);
        let thread = thread::spawn("td-signals", move || {
            let clock = Clock::system();
            let mut interrupted: Option<Instant> = None;
            for signal in source.forever() {
                // Only the first one finds room.
                let _ = sender.try_send(signal);
                if signal != SIGINT {
                    continue;
                }
                let now = clock.now();
                let first = *interrupted.get_or_insert(now);
                if now.saturating_duration_since(first) >= TYPED_AGAIN {
                    last_act();
                    // At once: nothing that could block is run on the way out.
                    signal_hook::low_level::exit(INTERRUPTED);
                }
            }
        })?;
        Ok(Self {
            first,
            source: handle,
            thread: Some(thread),
        })
    }

    /// Gets the first signal's number.
    pub fn first(&self) -> &Receiver<i32> {
        &self.first
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.source.close();
        if let Some(thread) = self.thread.take()
            && let Err(panicked) = thread.join()
        {
            log::error!("{panicked}");
        }
    }
}

/// Returns true if the program was started with the signal ignored, where the system reports it (Linux).
fn is_ignored(signal: i32) -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return false;
    };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
