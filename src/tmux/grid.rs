//! The grid of ticks, on which pollers with the same interval wake together and share one query (pure).

use std::time::Duration;

/// Returns the first tick after a time, on the grid of multiples of `interval`.
pub(super) fn next_tick(after: Duration, interval: Duration) -> Duration {
    // A zero interval would never advance.
    let interval_ns = interval.as_nanos().max(1);
    let left_ns = interval_ns - after.as_nanos() % interval_ns;
    // 64 bits of nanoseconds cover 584 years.
    after + Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_tick_is_on_the_grid_and_at_most_one_interval_ahead(after in 0_u64..1 << 50, interval in 1_u64..1 << 40) {
            let (after, interval) = (Duration::from_nanos(after), Duration::from_nanos(interval));
            let tick = next_tick(after, interval);
            prop_assert!(tick > after && tick - after <= interval);
            prop_assert_eq!(tick.as_nanos() % interval.as_nanos(), 0);
        }
    }

    #[test]
    fn ticks_are_multiples_of_the_interval() {
        let ms = Duration::from_millis;
        assert_eq!(next_tick(ms(450), ms(200)), ms(600));
        assert_eq!(next_tick(ms(600), ms(200)), ms(800));
        assert!(next_tick(ms(1), Duration::ZERO) > ms(1));
    }
}
