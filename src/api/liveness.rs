//! The liveness of a WebSocket client: when to ping a silent client, and when to close the connection (pure).

use std::time::{Duration, Instant};

/// The silence after which a ping is sent. Proxies and clients treat longer ones as a broken connection.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The time that a client has to answer the first ping. A second ping is sent within this time.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Tracks the last message of a client and the pings since.
#[derive(Debug)]
pub(super) struct Liveness {
    received_at: Instant,
    /// The times of the first and the last ping since then.
    pings: Option<(Instant, Instant)>,
}

/// The next step for a silent client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ping,
    /// The client is gone.
    Close,
}

impl Liveness {
    pub fn new(now: Instant) -> Self {
        Self {
            received_at: now,
            pings: None,
        }
    }

    /// Records that the client has sent a message.
    pub fn received(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Returns the step that is due. A returned ping counts as sent.
    pub fn take_due(&mut self, now: Instant) -> Option<Step> {
        let since = |at: Instant| now.saturating_duration_since(at);
        let first = match self.pings {
            None if since(self.received_at) < KEEP_ALIVE => return None,
            None => now,
            Some((first, _)) if since(first) >= ANSWER_TIME => return Some(Step::Close),
            Some((_, last)) if since(last) < KEEP_ALIVE => return None,
            Some((first, _)) => first,
        };
        self.pings = Some((first, now));
        Some(Step::Ping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_gets_two_pings_and_then_the_end() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut client = Liveness::new(begin);
        let steps = |client: &mut Liveness, from: u64, to: u64| -> Vec<(u64, Step)> {
            let seconds = from..=to;
            let due = seconds.filter_map(|second| Some((second, client.take_due(at(second))?)));
            due.collect()
        };
        assert_eq!(
            steps(&mut client, 0, 45),
            [(15, Step::Ping), (30, Step::Ping), (45, Step::Close)]
        );
        client.received(at(46));
        assert_eq!(steps(&mut client, 47, 75), [(61, Step::Ping)]);
        client.received(at(75));
        assert_eq!(steps(&mut client, 76, 104), [(90, Step::Ping)]);
        // After the thread was blocked, the client gets a ping before the connection is closed.
        client.received(at(104));
        assert_eq!(client.take_due(at(900)), Some(Step::Ping));
        assert_eq!(client.take_due(at(901)), None);
    }
}
