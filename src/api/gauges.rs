//! The positions of all streams, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::thread::lock;

/// The open streams.
#[derive(Debug, Default)]
pub(super) struct StreamGauges(Mutex<Opened>);

#[derive(Debug, Default)]
struct Opened {
    count: u64,
    streams: Vec<Weak<StreamGauge>>,
}

/// The position of one stream. A stream counts as open until this is dropped.
#[derive(Debug, Default)]
pub(super) struct StreamGauge {
    /// The number of the stream, from 1.
    pub number: u64,
    position: AtomicU64,
    missed: AtomicU64,
}

impl StreamGauges {
    /// Adds a stream.
    pub fn open(&self) -> Arc<StreamGauge> {
        let mut opened = lock(&self.0);
        opened.count += 1;
        let gauge = Arc::new(StreamGauge {
            number: opened.count,
            ..StreamGauge::default()
        });
        opened.streams.retain(|stream| stream.strong_count() > 0);
        opened.streams.push(Arc::downgrade(&gauge));
        gauge
    }

    /// Returns the open streams in the order of their opening.
    pub fn all(&self) -> Vec<Arc<StreamGauge>> {
        let opened = lock(&self.0);
        opened.streams.iter().filter_map(Weak::upgrade).collect()
    }
}

impl StreamGauge {
    /// Records the position that the stream has reached.
    pub fn reach(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// Counts events that were lost to the stream.
    pub fn miss(&self, events: u64) {
        self.missed.fetch_add(events, Ordering::Relaxed);
    }

    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_counts_until_it_is_dropped() {
        let gauges = StreamGauges::default();
        let (first, second) = (gauges.open(), gauges.open());
        second.reach(7);
        second.miss(2);
        second.miss(3);
        drop(first);
        let all = gauges.all();
        let [stream] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!(
            (stream.number, stream.position(), stream.missed()),
            (2, 7, 5)
        );
        assert_eq!(gauges.open().number, 3);
    }
}
