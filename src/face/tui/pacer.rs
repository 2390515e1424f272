//! Decides when a frame is drawn: at once for a key, and at most 30 times a second (pure).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The most frames in a second.
const FRAMES_MAX: usize = 30;

const SECOND: Duration = Duration::from_secs(1);

/// The time between frames that show new data. A third of the frames is left for keys.
const DATA_PAUSE: Duration = Duration::from_millis(50);

/// The frames of the last second.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    drawn: VecDeque<Instant>,
}

impl Pacer {
    /// Returns the earliest time of the next frame.
    pub fn due(&self, is_for_key: bool, now: Instant) -> Instant {
        let mut due = now;
        if let Some(first) = self.drawn.front()
            && self.drawn.len() >= FRAMES_MAX
        {
            due = due.max(*first + SECOND);
        }
        if let Some(last) = self.drawn.back()
            && !is_for_key
        {
            due = due.max(*last + DATA_PAUSE);
        }
        due
    }

    pub fn drawn(&mut self, now: Instant) {
        self.drawn.push_back(now);
        if self.drawn.len() > FRAMES_MAX {
            self.drawn.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_second_has_more_than_30_frames(steps in prop::collection::vec((any::<bool>(), 0_u64..60), 1..300)) {
            let start = Instant::now();
            let (mut pacer, mut frames, mut now) = (Pacer::default(), Vec::new(), start);
            for (is_for_key, wait) in steps {
                now += Duration::from_millis(wait);
                now = pacer.due(is_for_key, now);
                pacer.drawn(now);
                frames.push(now);
                let second = frames.iter().filter(|frame| now - **frame < SECOND).count();
                prop_assert!(second <= FRAMES_MAX);
            }
        }
    }

    #[test]
    fn a_key_is_drawn_at_once_beside_a_flood() {
        let (mut pacer, mut now) = (Pacer::default(), Instant::now());
        for _ in 0..100 {
            now = pacer.due(false, now);
            pacer.drawn(now);
            let key = now + Duration::from_millis(5);
            if pacer.drawn.len() < FRAMES_MAX {
                assert_eq!(pacer.due(true, key), key);
            }
            now = key;
        }
        // A flood alone takes 20 frames a second: the 30th last is more than a second old.
        assert_eq!(pacer.due(true, now), now);
    }
}
