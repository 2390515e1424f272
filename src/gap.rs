//! What had to be left out of a numbered stream, as ranges that stand in its place (pure).
//!
//! Whoever drops numbered envelopes tells it here, and takes the execution's gap out before the
//! next envelope of that execution that does go on: so numbers stay contiguous by ranges.

use rustc_hash::FxHashMap;

use crate::event::{Envelope, ExecutionId, TdEvent};
use crate::stamp::Timestamp;

/// One open range of dropped numbers for each execution that has lost something.
#[derive(Clone, Debug, Default)]
pub(crate) struct GapMap {
    open: FxHashMap<ExecutionId, Range>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    last: u64,
    ts: Timestamp,
}

impl GapMap {
    /// Whether nothing is missing.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Notes an envelope that does not go on. One without a number is shown live only and leaves
    /// no hole; a gap that is dropped itself widens the range by all that it stood for.
    ///
    /// The answer is as for [`GapMap::drop_range`].
    #[must_use = "an earlier range must go on before this one"]
    pub(crate) fn drop_envelope(&mut self, envelope: &Envelope) -> Option<Envelope> {
        let last = envelope.seq?;
        let first = match envelope.event {
            TdEvent::LogGap { first_seq, .. } => first_seq,
            _ => last,
        };
        match envelope.event.execution() {
            Some(id) => self.drop_range(id, first, last, envelope.ts),
            None => self.drop_range(
                &ExecutionId::from(envelope.event.execution_id()),
                first,
                last,
                envelope.ts,
            ),
        }
    }

    /// Notes the numbers `first..=last`. Where they do not follow on what is open, that comes back
    /// as a gap of its own and has to go on first.
    #[must_use = "an earlier range must go on before this one"]
    pub(crate) fn drop_range(
        &mut self,
        id: &ExecutionId,
        first: u64,
        last: u64,
        ts: Timestamp,
    ) -> Option<Envelope> {
        if let Some(open) = self.open.get_mut(id.as_str()) {
            if first == open.last + 1 {
                open.last = last;
                open.ts = ts;
                return None;
            }
            let earlier = std::mem::replace(open, Range { first, last, ts });
            return Some(earlier.envelope(id.clone()));
        }
        self.open.insert(id.clone(), Range { first, last, ts });
        None
    }

    /// Takes the execution's gap: a `LogGap` that has the last number it stands for.
    pub(crate) fn take(&mut self, execution_id: &str) -> Option<Envelope> {
        let (id, range) = self.open.remove_entry(execution_id)?;
        Some(range.envelope(id))
    }

    /// Takes all gaps.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Envelope> + '_ {
        self.open.drain().map(|(id, range)| range.envelope(id))
    }
}

impl Range {
    fn envelope(self, execution_id: ExecutionId) -> Envelope {
        let event = TdEvent::LogGap {
            execution_id,
            first_seq: self.first,
            last_seq: self.last,
        };
        Envelope::new(Some(self.last), self.ts, event)
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
        };
        Envelope::new(seq, Timestamp::from_micros(seq.unwrap_or(0) as i64), event)
    }

    /// The numbers that an envelope stands for.
    fn range(envelope: &Envelope) -> (u64, u64) {
        match envelope.event {
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => {
                assert_eq!(envelope.seq, Some(last_seq));
                (first_seq, last_seq)
            }
            _ => (envelope.seq.unwrap(), envelope.seq.unwrap()),
        }
    }

    proptest! {
        /// Whatever is dropped, twice in a row too, each execution's numbers stay contiguous.
        #[test]
        fn numbers_stay_contiguous(
            steps in prop::collection::vec((0_usize..3, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let ids = ["a", "b", "c"];
            let (mut first, mut second) = (GapMap::default(), GapMap::default());
            let mut next = [1_u64; 3];
            let mut kept: [Vec<Envelope>; 3] = Default::default();
            fn pass(gaps: &mut GapMap, drops: bool, envelope: Envelope) -> Vec<Envelope> {
                if drops {
                    return gaps.drop_envelope(&envelope).into_iter().collect();
                }
                gaps.take(envelope.event.execution_id()).into_iter().chain([envelope]).collect()
            }
            for (who, first_drops, second_drops) in steps {
                let envelope = token(ids[who], Some(next[who]));
                next[who] += 1;
                for envelope in pass(&mut first, first_drops, envelope) {
                    kept[who].extend(pass(&mut second, second_drops, envelope));
                }
            }
            for gap in first.drain() {
                let who = ids.iter().position(|id| *id == gap.event.execution_id()).unwrap();
                kept[who].extend(pass(&mut second, false, gap));
            }
            for gap in second.drain() {
                let who = ids.iter().position(|id| *id == gap.event.execution_id()).unwrap();
                kept[who].push(gap);
            }
            for who in 0..3 {
                let mut expected = 1;
                for envelope in &kept[who] {
                    let (from, to) = range(envelope);
                    prop_assert_eq!(from, expected);
                    expected = to + 1;
                }
                prop_assert_eq!(expected, next[who]);
            }
        }
    }

    #[test]
    fn what_has_no_number_leaves_no_hole() {
        let mut gaps = GapMap::default();
        assert_eq!(gaps.drop_envelope(&token("a", None)), None);
        assert!(gaps.is_empty());
    }

    #[test]
    fn ranges_that_do_not_follow_on_are_two() {
        let mut gaps = GapMap::default();
        assert_eq!(gaps.drop_envelope(&token("a", Some(3))), None);
        let earlier = gaps.drop_envelope(&token("a", Some(7))).unwrap();
        assert_eq!(range(&earlier), (3, 3));
        assert_eq!(range(&gaps.take("a").unwrap()), (7, 7));
    }
}
