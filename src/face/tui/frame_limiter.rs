//! Decides when to draw a frame: at once for a key, and at most 30 times a second (pure).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The maximum number of frames in a second.
const FRAMES_MAX: usize = 30;

const SECOND: Duration = Duration::from_secs(1);

/// The time between frames that show new data. A third of the frames is reserved for keys.
const DATA_PAUSE: Duration = Duration::from_millis(50);

/// The frames of the last second.
#[derive(Debug, Default)]
pub(super) struct FrameLimiter {
    drawn: VecDeque<Instant>,
}

impl FrameLimiter {
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
            let (mut frame_limiter, mut frames, mut now) = (FrameLimiter::default(), Vec::new(), start);
            for (is_for_key, wait) in steps {
                now += Duration::from_millis(wait);
                now = frame_limiter.due(is_for_key, now);
                frame_limiter.drawn(now);
                frames.push(now);
                let second = frames.iter().filter(|frame| now - **frame < SECOND).count();
                prop_assert!(second <= FRAMES_MAX);
            }
        }
    }

    #[test]
    fn a_key_is_drawn_at_once_beside_a_flood() {
        let (mut frame_limiter, mut now) = (FrameLimiter::default(), Instant::now());
        for _ in 0..100 {
            now = frame_limiter.due(false, now);
            frame_limiter.drawn(now);
            let key = now + Duration::from_millis(5);
            if frame_limiter.drawn.len() < FRAMES_MAX {
                assert_eq!(frame_limiter.due(true, key), key);
            }
            now = key;
        }
        // A flood alone draws 20 frames a second, so the 30th last frame is more than a second old.
        assert_eq!(frame_limiter.due(true, now), now);
    }
}
