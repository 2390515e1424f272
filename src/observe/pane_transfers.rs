//! Panes that move from one session to another: handed over with everything that is known of them, so
//! that no line is reported twice or missed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::event::PaneId;
use crate::observe::pane_observer::Pane;
use crate::observe::resume_point::ResumePoint;
use crate::thread::lock;
use crate::tmux::SessionId;

/// The session that owns each pane. Shared by all pollers of one tmux server, and locked briefly.
#[derive(Clone, Debug, Default)]
pub(super) struct PaneTransfers(Arc<Mutex<HashMap<PaneId, Holder>>>);

#[derive(Debug)]
enum Holder {
    /// A session's poller observes the pane.
    Session(SessionId),
    /// The former session has released the pane, and no other one has taken it yet.
    Released(Box<Moving>),
}

/// A pane between two sessions.
#[derive(Debug)]
pub(super) struct Moving {
    pub pane: Pane,
    pub resume_point: ResumePoint,
}

/// The reply to a poller that finds a pane.
#[derive(Debug)]
pub(super) enum Arrival {
    /// No session has observed the pane before.
    New,
    /// Another session has observed the pane, and hands it over.
    Moved(Box<Moving>),
    /// Another session's poller has not released the pane yet.
    Held,
}

impl PaneTransfers {
    /// Notes that a session's poller observes a pane from now on.
    pub fn hold(&self, pane: &PaneId, by: SessionId) {
        self.holders().insert(pane.clone(), Holder::Session(by));
    }

    /// Returns how a session's poller must treat a pane that it finds.
    pub fn arrive(&self, pane: &PaneId, at: SessionId) -> Arrival {
        let mut holders = self.holders();
        match holders.remove(pane) {
            None => Arrival::New,
            // After a panic, the poller resumes its own panes from their resume points.
            Some(Holder::Session(holder)) if holder == at => Arrival::New,
            Some(Holder::Released(moving)) => Arrival::Moved(moving),
            Some(held @ Holder::Session(_)) => {
                holders.insert(pane.clone(), held);
                Arrival::Held
            }
        }
    }

    /// Hands over a pane that left its session for another.
    pub fn leave(&self, id: &PaneId, pane: Pane, resume_point: ResumePoint) {
        let moving = Box::new(Moving { pane, resume_point });
        self.holders().insert(id.clone(), Holder::Released(moving));
    }

    /// Forgets a pane that is not watched any more.
    pub fn forget(&self, pane: &PaneId) {
        self.holders().remove(pane);
    }

    /// Forgets the panes that are gone.
    pub fn retain(&self, is_there: impl Fn(&PaneId) -> bool) {
        self.holders().retain(|pane, _| is_there(pane));
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<PaneId, Holder>> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::pane_observer::PaneOutput;
    use crate::observe::pane_observer::{Begin, PaneOptions, PaneRules};
    use crate::tmux::PaneCapture;

    fn pane() -> Pane {
        let execution_id = "one".into();
        let out = &mut PaneOutput::new(&execution_id, std::time::Instant::now());
        let options = PaneOptions {
            begin: &Begin::Baseline,
            rules: &PaneRules::default(),
            front: None,
            streams: false,
            pipe_after: None,
            listeners: Vec::new(),
        };
        Pane::open(&mut PaneCapture::default(), options, out)
    }

    #[test]
    fn a_pane_is_owned_held_or_free() {
        let (transfers, id) = (PaneTransfers::default(), PaneId::from("%1"));
        let [one, two] = ["$1", "$2"].map(|id| SessionId::parse(id).unwrap());
        assert!(matches!(transfers.arrive(&id, one), Arrival::New));
        transfers.hold(&id, one);
        assert!(matches!(transfers.arrive(&id, two), Arrival::Held));
        assert!(
            matches!(transfers.arrive(&id, two), Arrival::Held),
            "it is asked again"
        );
        transfers.leave(&id, pane(), ResumePoint::default());
        assert!(
            matches!(transfers.arrive(&id, two), Arrival::Moved(_)),
            "once"
        );
        assert!(matches!(transfers.arrive(&id, one), Arrival::New));
        transfers.hold(&id, two);
        assert!(
            matches!(transfers.arrive(&id, two), Arrival::New),
            "its own, after a crash"
        );
        transfers.hold(&id, two);
        transfers.retain(|_| false);
        assert!(matches!(transfers.arrive(&id, one), Arrival::New), "gone");
    }
}
