//! Listeners of streamed panes: they read a pane beside its events, before anything is redacted (pure).
//!
//! A listener runs in the thread of the pane's poller, so that nothing between them can overflow.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use crate::event::{AgentState, PaneId};
use crate::track::{Change, StreamTracker, Tracker};

/// A streamed pane, as it is now.
pub(crate) struct StreamedView<'a> {
    /// The lines of the pane, and its terminal.
    pub stream: &'a StreamTracker,
    pub now: Instant,
}

/// Reads a streamed pane. Dropped when it is not wanted any more, or when the pane cannot be heard.
pub(crate) trait PaneListener: fmt::Debug + Send {
    /// Begins with the present state of the pane, which contains everything that tmux had read from it when the
    /// listener was added. Returns true if the listener wants what follows.
    fn begin(&mut self, pane: StreamedView<'_>) -> bool;

    /// Handles changes, and the present state that has all of them. Returns true if the listener wants what
    /// follows.
    fn changed(&mut self, pane: StreamedView<'_>, changes: &[Change]) -> bool;

    /// Handles changes of a pane that has just opened, from its first line on, before its stream begins.
    fn awaited(&mut self, _changes: &[Change]) {}

    /// Handles the end of the stream and the last changes that it reveals.
    fn end(&mut self, end: StreamEnd<'_>);
}

/// Listens to panes that open in a session, from their first lines on.
pub(crate) trait OpeningListener: fmt::Debug + Send {
    /// Returns false once nobody wants to hear of further panes.
    fn is_wanted(&self) -> bool;

    /// Returns the listeners of a pane that opens.
    fn opens(&self, pane: &PaneId) -> OpenedListeners;
}

/// The listeners of a pane that opens.
#[derive(Debug)]
pub(crate) struct OpenedListeners {
    pub lines: Option<Box<dyn PaneListener>>,
    pub states: Option<Box<dyn StateListener>>,
}

/// The end of a stream.
#[derive(Clone, Copy)]
pub(crate) enum StreamEnd<'a> {
    /// The pane continues, and can be polled with a copy of this tracker.
    Polled {
        tracker: &'a Tracker,
        changes: &'a [Change],
        now: Instant,
    },
    /// The pane is gone; `is_complete` if it printed nothing that was not heard.
    Closed { is_complete: bool },
}

/// Reads the states of a pane's agent. Dropped when it is not wanted any more, or when states are not observed.
pub(crate) trait StateListener: fmt::Debug + Send {
    /// Handles the present state, if there is one, and what the agent asks. Returns true if the listener wants what
    /// follows.
    fn present(&mut self, state: AgentState, asks: &str) -> bool;

    /// Handles a later state. Returns true if the listener wants what follows.
    fn changed(&mut self, state: AgentState, asks: &str) -> bool;
}

/// The listeners of one pane.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    listeners: Vec<Box<dyn PaneListener>>,
    /// Those who begin when the pane is streamed.
    awaiting: Vec<Box<dyn PaneListener>>,
    /// The marks that were requested from the drain, oldest first: for the listener that begins there, or for a
    /// comparison.
    marks: VecDeque<Option<Box<dyn PaneListener>>>,
    of_states: Vec<Box<dyn StateListener>>,
    /// The last reported state, and what the agent asks.
    state: Option<(AgentState, String)>,
}

impl Listeners {
    /// Adds a listener of states.
    pub fn add_state_listener(&mut self, mut listener: Box<dyn StateListener>) {
        let mut state = self.state.iter();
        if state.all(|(state, asks)| listener.present(*state, asks)) {
            self.of_states.push(listener);
        }
    }

    /// Passes a state on.
    pub fn state_reported(&mut self, state: AgentState, asks: &str) {
        self.of_states
            .retain_mut(|listener| listener.changed(state, asks));
        self.state = Some((state, asks.to_owned()));
    }

    /// Adds a listener that begins when the pane is streamed.
    pub fn await_stream(&mut self, listener: Box<dyn PaneListener>) {
        self.awaiting.push(listener);
    }

    /// Drops those who await the stream, because none begins soon.
    pub fn give_up_stream(&mut self) {
        self.awaiting.clear();
    }

    /// Passes changes on to those who await the stream.
    pub fn awaited(&mut self, changes: &[Change]) {
        for listener in &mut self.awaiting {
            listener.awaited(changes);
        }
    }

    /// Adds a listener that begins at the mark that the caller requests.
    pub fn await_mark(&mut self, listener: Box<dyn PaneListener>) {
        self.marks.push_back(Some(listener));
    }

    /// Notes that the caller requests a mark for a comparison.
    pub fn comparison_requested(&mut self) {
        self.marks.push_back(None);
    }

    /// Takes a mark. Returns true if it was requested for a comparison.
    pub fn mark_arrived(&mut self, pane: StreamedView<'_>) -> bool {
        match self.marks.pop_front() {
            Some(Some(listener)) => {
                self.begin(listener, pane);
                false
            }
            Some(None) | None => true,
        }
    }

    /// Begins with the present state of a pane.
    pub fn begin(&mut self, mut listener: Box<dyn PaneListener>, pane: StreamedView<'_>) {
        if listener.begin(pane) {
            self.listeners.push(listener);
        }
    }

    /// Begins what has awaited the stream.
    pub fn stream_begins(&mut self, stream: &StreamTracker, now: Instant) {
        for listener in std::mem::take(&mut self.awaiting) {
            self.begin(listener, StreamedView { stream, now });
        }
    }

    /// Passes changes on.
    pub fn changed(&mut self, stream: &StreamTracker, changes: &[Change], now: Instant) {
        self.listeners
            .retain_mut(|listener| listener.changed(StreamedView { stream, now }, changes));
    }

    /// Ends the listeners of a stream. Those that have not begun are dropped.
    pub fn end(&mut self, end: StreamEnd<'_>) {
        self.marks.clear();
        for mut listener in std::mem::take(&mut self.listeners) {
            listener.end(end);
        }
    }
}
