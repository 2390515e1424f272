//! An observer within the process of a face, which only this face uses.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Sender, bounded};

use super::args::TypedStart;
use super::foreground::{Audience, observe};
use crate::api::{ApiContext, Observer};
use crate::cli::failure::Failure;
use crate::cli::options::Options;
use crate::thread::{self, Handle};

/// A running observer on the thread `td-observer`, whose feed the face reads in memory.
#[derive(Debug)]
pub(in crate::cli) struct PrivateObserver {
    context: Arc<OnceLock<ApiContext>>,
    end: Sender<i32>,
    thread: Handle<Result<ExitCode, Failure>>,
}

impl PrivateObserver {
    /// Starts the observer, which is found shortly afterwards.
    pub fn start(options: Arc<Options>, typed: TypedStart) -> Result<Self, Failure> {
        let context = Arc::new(OnceLock::new());
        let (end, ended) = bounded(1);
        let slot = Arc::clone(&context);
        let thread = thread::spawn("td-observer", move || {
            observe(&options, &typed, Audience::Face(slot), &ended)
        })?;
        Ok(Self {
            context,
            end,
            thread,
        })
    }

    /// Returns a function that finds the observer once it observes.
    pub fn finder(&self) -> impl Fn() -> Option<Observer> + Send + Sync + use<> {
        let context = Arc::clone(&self.context);
        move || context.get().cloned().map(Observer::Here)
    }

    /// Returns true if the observer has ended by itself: it could not begin, or its data directory is gone.
    #[cfg(any(feature = "mcp", feature = "serve"))]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the observer, and waits until its runs are written.
    pub fn end(self) -> Result<ExitCode, Failure> {
        drop(self.end);
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panicked) => Err(Failure::other(panicked.to_string())),
        }
    }
}
