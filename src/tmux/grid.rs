//! The grid of ticks, on which pollers with the same interval wake together and share one query (pure).

use std::time::{Duration, Instant};

/// Returns the first tick after `now` on the grid of multiples of `interval` since `epoch`.
pub(super) fn next_tick(now: Instant, epoch: Instant, interval: Duration) -> Instant {
    // A zero interval would never advance.
    let interval_ns = interval.as_nanos().max(1);
    let Some(since) = now.checked_duration_since(epoch) else {
        return epoch;
    };
    let left_ns = interval_ns - since.as_nanos() % interval_ns;
    // 64 bits of nanoseconds cover 584 years.
    now + Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_tick_is_on_the_grid_and_at_most_one_interval_ahead(since in 0_u64..1 << 50, interval in 1_u64..1 << 40) {
            let epoch = Instant::now();
            let now = epoch + Duration::from_nanos(since);
            let tick = next_tick(now, epoch, Duration::from_nanos(interval));
            prop_assert!(tick > now && tick - now <= Duration::from_nanos(interval));
            prop_assert_eq!((tick - epoch).as_nanos() % u128::from(interval), 0);
        }
    }

    #[test]
    fn ticks_are_multiples_of_the_interval() {
        let epoch = Instant::now();
        let ms = Duration::from_millis;
        assert_eq!(next_tick(epoch + ms(450), epoch, ms(200)), epoch + ms(600));
        assert_eq!(next_tick(epoch + ms(600), epoch, ms(200)), epoch + ms(800));
    }

    #[test]
    fn before_the_epoch_the_epoch_is_next() {
        let now = Instant::now();
        let epoch = now + Duration::from_secs(1);
        assert_eq!(next_tick(now, epoch, Duration::from_millis(200)), epoch);
        assert!(next_tick(epoch, epoch, Duration::ZERO) > epoch);
    }
}
