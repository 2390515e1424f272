//! Tests of dropped bytes: lost lines are counted exactly.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::track::GapReason;

/// Returns the end of the line that contains a byte, where the drain continues.
fn end_of_line(bytes: &[u8], at: usize) -> usize {
    let end = bytes[at..].iter().position(|byte| *byte == b'\n');
    end.map_or(bytes.len(), |end| at + end + 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// A gap begins anywhere and ends with a line. Each line is reported with its number or counted as
    /// lost, including the one in which the gap begins.
    #[test]
    fn lines_are_reported_or_counted(
        width in 1_u32..40, height in 1_u32..9,
        lines in vec("[a-z]{0,3}|[a-z]{10,50}", 1..80),
        gaps in vec((any::<Index>(), 0_usize..300), 1..4),
        polls in vec((any::<Index>(), 0..4_u8), 0..12),
    ) {
        let bytes: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect();
        let mut gaps: Vec<(usize, usize)> = gaps.iter().map(|(at, length)| {
            let from = at.index(bytes.len());
            (from, end_of_line(&bytes, (from + length).min(bytes.len() - 1)))
        }).collect();
        gaps.sort_unstable();
        let mut polls: Vec<(usize, u8)> =
            polls.iter().map(|(at, times)| (at.index(bytes.len()), *times)).collect();
        polls.sort_unstable();
        let mut pane = Pane::new(width, height);
        let mut at = 0;
        let mut lost = 0;
        for (from, to) in gaps {
            if from < at {
                continue;
            }
            feed_polling(&mut pane, &bytes, at..from, &polls);
            let ends = bytes[from..to].iter().filter(|byte| **byte == b'\n').count() as u64;
            let changes = pane.stream.bytes_dropped(ends, pane.now);
            pane.changes.extend(changes);
            lost += ends;
            at = to;
        }
        feed_polling(&mut pane, &bytes, at..bytes.len(), &polls);
        pane.settle();
        let reported = pane.reported().lines().count() as u64;
        prop_assert_eq!(reported + lost, lines.len() as u64, "{:#?}", pane.changes);
        let counted: u64 = pane.changes.iter().filter_map(|change| match change {
            Change::Gap { lost_lines, reason: GapReason::Dropped, .. } => *lost_lines,
            _ => None,
        }).sum();
        prop_assert_eq!(counted, lost);
        for change in &pane.changes {
            if let Change::Lines { first_line, chunk } = change {
                for (number, line) in (*first_line as usize..).zip(chunk.lines()) {
                    prop_assert_eq!(line, &lines[number - 1], "{:#?}", pane.changes);
                }
            }
        }
    }
}

fn feed_polling(
    pane: &mut Pane,
    bytes: &[u8],
    range: std::ops::Range<usize>,
    polls: &[(usize, u8)],
) {
    let mut from = range.start;
    for (at, times) in polls.iter().filter(|(at, _)| range.contains(at)) {
        pane.feed(&bytes[from..*at]);
        from = *at;
        for _ in 0..*times {
            pane.now += Duration::from_millis(30);
            pane.poll();
        }
    }
    pane.feed(&bytes[from..range.end]);
}
