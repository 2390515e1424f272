//! Ranges of dropped sequence numbers, emitted as `LogGap` in place of the envelopes (pure).
//!
//! A stage that drops numbered envelopes records them in [`LogGaps`]. It emits the gap of an execution before
//! the next envelope of that execution, so that the numbers stay contiguous.

use rustc_hash::FxHashMap;

use super::envelope::Envelope;
use super::ids::ExecutionId;
use super::td_event::TdEvent;
use crate::timestamp::Timestamp;

/// A range of missing sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogGapRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The time at which the last of them was emitted.
    pub(crate) ts: Timestamp,
}

impl LogGapRange {
    /// Returns the numbers that would be missing without this envelope: its own, or all numbers of a
    /// `LogGap`. `None` for an envelope whose absence leaves no gap: a live-only event, the header of a file,
    /// or a line of an older log.
    pub(crate) fn of(envelope: &Envelope) -> Option<Self> {
        let last = envelope.seq.filter(|&seq| seq > 0)?;
        let first = match envelope.event {
            TdEvent::LogGap { first_seq, .. } => first_seq.min(last),
            _ => last,
        };
        let ts = envelope.ts;
        Some(Self { first, last, ts })
    }

    /// Extends the range to include another one and everything between them.
    pub(crate) fn widen(&mut self, more: Self) {
        self.first = self.first.min(more.first);
        self.last = self.last.max(more.last);
        self.ts = more.ts;
    }

    /// Returns a `LogGap` numbered with the last missing number.
    pub(crate) fn envelope(self, execution_id: ExecutionId) -> Envelope {
        let event = TdEvent::LogGap {
            execution_id,
            first_seq: self.first,
            last_seq: self.last,
        };
        Envelope::new(Some(self.last), self.ts, event)
    }
}

/// The open gap of each execution that has lost envelopes.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogGaps {
    open: FxHashMap<ExecutionId, LogGapRange>,
}

impl LogGaps {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Records a dropped envelope. A dropped `LogGap` adds its whole range.
    ///
    /// Returns the same as [`LogGaps::drop_gap`].
    #[must_use = "an earlier gap must be emitted before this one"]
    pub(crate) fn drop_envelope(&mut self, envelope: &Envelope) -> Option<Envelope> {
        let gap = LogGapRange::of(envelope)?;
        self.drop_gap(&envelope.event.cloned_execution(), gap)
    }

    /// Records missing numbers. If they do not continue the open gap, returns that gap, which must be emitted
    /// first.
    #[must_use = "an earlier gap must be emitted before this one"]
    pub(crate) fn drop_gap(&mut self, id: &ExecutionId, gap: LogGapRange) -> Option<Envelope> {
        let Some(open) = self.open.get_mut(id.as_str()) else {
            self.open.insert(id.clone(), gap);
            return None;
        };
        if Some(gap.first) == open.last.checked_add(1) {
            open.widen(gap);
            return None;
        }
        let earlier = std::mem::replace(open, gap);
        Some(earlier.envelope(id.clone()))
    }

    /// Takes the execution's gap.
    pub(crate) fn take(&mut self, execution_id: &str) -> Option<Envelope> {
        let (id, gap) = self.open.remove_entry(execution_id)?;
        Some(gap.envelope(id))
    }

    /// Takes all gaps.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Envelope> + '_ {
        self.open.drain().map(|(id, gap)| gap.envelope(id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(id: &str, seq: Option<u64>) -> Envelope {
        let event = TdEvent::TokenReceived {
            execution_id: id.into(),
            iteration: 1,
            token: "x".into(),
            pane: None,
        };
        Envelope::new(seq, Timestamp::from_micros(seq.unwrap_or(0) as i64), event)
    }

    /// Returns the numbers that an envelope represents.
    fn range(envelope: &Envelope) -> (u64, u64) {
        let gap = LogGapRange::of(envelope).unwrap();
        if let TdEvent::LogGap {
            first_seq,
            last_seq,
            ..
        } = envelope.event
        {
            assert_eq!((gap.first, gap.last), (first_seq, last_seq));
        }
        (gap.first, gap.last)
    }

    proptest! {
        /// Each execution's numbers stay contiguous through two stages that drop envelopes.
        #[test]
        fn numbers_stay_contiguous(
            steps in prop::collection::vec((0_usize..3, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let ids = ["a", "b", "c"];
            let (mut first, mut second) = (LogGaps::default(), LogGaps::default());
            let mut next = [1_u64; 3];
            let mut kept: [Vec<Envelope>; 3] = Default::default();
            fn pass(gaps: &mut LogGaps, drops: bool, envelope: Envelope) -> Vec<Envelope> {
                if drops {
                    return gaps.drop_envelope(&envelope).into_iter().collect();
                }
                gaps.take(envelope.event.execution_id()).into_iter().chain([envelope]).collect()
            }
            for (run, first_drops, second_drops) in steps {
                let envelope = token(ids[run], Some(next[run]));
                next[run] += 1;
                for envelope in pass(&mut first, first_drops, envelope) {
                    kept[run].extend(pass(&mut second, second_drops, envelope));
                }
            }
            for gap in first.drain() {
                let run = ids.iter().position(|id| *id == gap.event.execution_id()).unwrap();
                kept[run].extend(pass(&mut second, false, gap));
            }
            for gap in second.drain() {
                let run = ids.iter().position(|id| *id == gap.event.execution_id()).unwrap();
                kept[run].push(gap);
            }
            for run in 0..3 {
                let mut expected = 1;
                for envelope in &kept[run] {
                    let (from, to) = range(envelope);
                    prop_assert_eq!(from, expected);
                    expected = to + 1;
                }
                prop_assert_eq!(expected, next[run]);
            }
        }
    }

    #[test]
    fn an_envelope_without_a_number_leaves_no_gap() {
        let mut gaps = LogGaps::default();
        assert_eq!(gaps.drop_envelope(&token("a", None)), None);
        assert!(gaps.is_empty());
    }

    #[test]
    fn ranges_that_are_not_adjacent_stay_apart() {
        let mut gaps = LogGaps::default();
        assert_eq!(gaps.drop_envelope(&token("a", Some(3))), None);
        let earlier = gaps.drop_envelope(&token("a", Some(7))).unwrap();
        assert_eq!(range(&earlier), (3, 3));
        assert_eq!(range(&gaps.take("a").unwrap()), (7, 7));
    }
}
