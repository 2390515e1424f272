//! What had to be left out of a numbered stream, as ranges that stand in its place (pure).
//!
//! Whoever drops numbered envelopes tells it here, and takes the execution's gap out before the
//! next envelope of that execution that does go on: so numbers stay contiguous by ranges.

use rustc_hash::FxHashMap;

use crate::event::{Envelope, ExecutionId, TdEvent};
use crate::timestamp::Timestamp;

/// Numbers that are missing, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// When the last of them was emitted.
    pub(crate) ts: Timestamp,
}

impl Gap {
    /// What would be missing without this envelope: its number, or all that a gap stands for.
    /// `None` for what leaves no hole: shown live only, the header of a file, lines of older logs.
    pub(crate) fn of(envelope: &Envelope) -> Option<Self> {
        let last = envelope.seq.filter(|&seq| seq > 0)?;
        let first = match envelope.event {
            TdEvent::LogGap { first_seq, .. } => first_seq.min(last),
            _ => last,
        };
        let ts = envelope.ts;
        Some(Self { first, last, ts })
    }

    /// Takes in what is missing too, and what lies between.
    pub(crate) fn widen(&mut self, more: Self) {
        self.first = self.first.min(more.first);
        self.last = self.last.max(more.last);
        self.ts = more.ts;
    }

    /// A `LogGap` that has the last number it stands for.
    pub(crate) fn envelope(self, execution_id: ExecutionId) -> Envelope {
        let event = TdEvent::LogGap {
            execution_id,
            first_seq: self.first,
            last_seq: self.last,
        };
        Envelope::new(Some(self.last), self.ts, event)
    }
}

/// One open gap for each execution that has lost something.
#[derive(Clone, Debug, Default)]
pub(crate) struct GapMap {
    open: FxHashMap<ExecutionId, Gap>,
}

impl GapMap {
    /// Whether nothing is missing.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Notes an envelope that does not go on. A gap that is dropped itself widens the open one by
    /// all that it stood for.
    ///
    /// The answer is as for [`GapMap::drop_gap`].
    #[must_use = "an earlier gap must go on before this one"]
    pub(crate) fn drop_envelope(&mut self, envelope: &Envelope) -> Option<Envelope> {
        let gap = Gap::of(envelope)?;
        match envelope.event.execution() {
            Some(id) => self.drop_gap(id, gap),
            None => self.drop_gap(&envelope.event.execution_id().into(), gap),
        }
    }

    /// Notes missing numbers. Where they do not follow on what is open, that comes back as an
    /// envelope of its own and has to go on first.
    #[must_use = "an earlier gap must go on before this one"]
    pub(crate) fn drop_gap(&mut self, id: &ExecutionId, gap: Gap) -> Option<Envelope> {
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

    /// The numbers that an envelope stands for.
    fn range(envelope: &Envelope) -> (u64, u64) {
        let gap = Gap::of(envelope).unwrap();
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
