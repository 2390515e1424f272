//! What goes wrong, reported once, and again only after it was well in between (pure).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time for which something must be well to be reported again: a Redis that is full or restarts may change its
/// mind with each batch.
const WELL: Duration = Duration::from_secs(60);

/// The most troubles that are remembered, of which each foreign stream is one. Further ones are not reported.
const KNOWN_MAX: usize = 10_000;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// It cannot be connected to, or does not answer.
    Unreachable,
    /// Its certificate is not known.
    Certificate,
    /// It is not ready yet: it loads its data.
    NotReady,
    /// It does not know the user or the password, or lets the user do too little.
    Password,
    /// It has no memory left.
    Full,
    /// It accepts no writes: it is the replica of another one, or cannot write to its disk.
    ReadOnly,
    /// Another error of it.
    Refused,
    /// A key has something else than this program keeps there.
    Foreign(String),
    /// The clock of a host went back.
    ClockWentBack(String),
    /// Events were trimmed before they were read.
    Trimmed(String),
    /// A log, or a run of the replica, cannot be read or written.
    Log(String),
}

impl Trouble {
    /// Returns true for what prevents all work.
    fn is_general(&self) -> bool {
        !matches!(
            self,
            Self::Foreign(_) | Self::ClockWentBack(_) | Self::Trimmed(_) | Self::Log(_)
        )
    }
}

/// The troubles so far, each with the time at which it was last met.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    known: BTreeMap<Trouble, Instant>,
    /// True if something that prevents all work was reported, and nothing has worked since.
    is_down: bool,
}

impl Troubles {
    /// Notes a trouble; returns true if it must be reported.
    pub fn is_news(&mut self, trouble: Trouble, now: Instant) -> bool {
        self.known.retain(|_, met| now < *met + WELL);
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&trouble) {
            return false;
        }
        let is_general = trouble.is_general();
        let is_news = self.known.insert(trouble, now).is_none();
        self.is_down |= is_news && is_general;
        is_news
    }

    /// Notes that the work goes on; returns true if that must be reported.
    pub fn has_recovered(&mut self) -> bool {
        std::mem::take(&mut self.is_down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_trouble_is_reported_again_only_after_it_was_well() {
        let mut troubles = Troubles::default();
        let start = Clock::system().now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(troubles.is_news(Trouble::Full, at(0)));
        assert!(troubles.has_recovered() && !troubles.has_recovered());
        assert!(!troubles.is_news(Trouble::Full, at(50)));
        assert!(!troubles.has_recovered());
        assert!(troubles.is_news(Trouble::Unreachable, at(50)));
        assert!(!troubles.is_news(Trouble::Full, at(100)));
        assert!(troubles.is_news(Trouble::Full, at(160)));
        assert!(troubles.is_news(Trouble::Foreign("a".into()), at(160)));
        assert!(troubles.is_news(Trouble::Foreign("b".into()), at(160)));
    }
}
