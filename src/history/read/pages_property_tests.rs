//! A page of any log equals the page taken from a full read.

use proptest::prelude::*;

use super::tests::{Ask, Line, Run, query, read, seqs};
use super::*;

/// Returns the page by definition, taken from all records of the log.
fn expected(
    all: &[(Envelope, usize)],
    ask: Ask,
    query: &PageQuery<'_>,
) -> (Vec<Envelope>, bool, bool) {
    let split = match ask {
        Ask::Last => None,
        Ask::Before(seq) => all.iter().position(|(event, _)| event.seq >= Some(seq)),
        Ask::Until(ts) => all.iter().position(|(event, _)| event.ts.micros() > ts),
        Ask::After(seq) => Some(
            all.iter()
                .rposition(|(event, _)| event.seq.is_some_and(|found| found <= seq))
                .map_or(0, |at| at + 1),
        ),
    };
    let (behind, ahead) = all.split_at(split.unwrap_or(all.len()));
    let selected = |part: &[(Envelope, usize)]| -> Vec<(Envelope, usize)> {
        let found = part.iter().filter(|(event, _)| (query.selects)(event));
        found.cloned().collect()
    };
    let (mut behind, mut ahead) = (selected(behind), selected(ahead));
    let is_forwards = matches!(ask, Ask::After(_));
    if !is_forwards {
        behind.reverse();
    }
    let from = if is_forwards { &mut ahead } else { &mut behind };
    let (mut count, mut bytes) = (0, 0);
    for (_, len) in from.iter() {
        bytes += len;
        if count > 0 && (count == query.records_max || bytes > query.bytes_max) {
            break;
        }
        count += 1;
    }
    let is_more = count < from.len();
    let mut page: Vec<Envelope> = from.drain(..count).map(|(event, _)| event).collect();
    if !is_forwards {
        page.reverse();
    }
    match is_forwards {
        true => (page, behind.is_empty(), !is_more),
        false => (page, !is_more, ahead.is_empty()),
    }
}

fn line() -> impl Strategy<Value = Line> {
    let pad = prop_oneof![
        20 => 0..300_usize,
        4 => 3_000..20_000_usize,
        1 => Just(70_000_usize),
        1 => Just(300_000_usize),
    ];
    prop_oneof![
        20 => (1..4_u64, 0..3_i64, pad).prop_map(|(seq, ts, pad)| Line::Record(seq, ts, pad)),
        1 => Just(Line::Unknown),
        1 => Just(Line::Unnumbered),
        1 => Just(Line::Header),
        1 => "[a-z{\" ]{0,40}".prop_map(Line::Broken),
        1 => Just(Line::Broken("y".repeat(100_000))),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        Just(Ask::Last),
        (0..300_u64).prop_map(Ask::Before),
        (0..300_u64).prop_map(Ask::After),
        (-2..150_i64).prop_map(|later| Ask::Until(1_700_000_000_000_000 + later)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_page_is_that_of_a_full_read(
        files in proptest::collection::vec((proptest::collection::vec(line(), 0..40), any::<bool>()), 0..5),
        torn in prop_oneof![Just(""), Just("{\"seq\":9999,\"ts\":\"20"), Just("\n\n ")],
        is_whole: bool,
        asks in proptest::collection::vec(
            (ask(), 1..60_usize, prop_oneof![Just(usize::MAX), 1..100_000_usize], 1..6_u64), 1..30),
    ) {
        let mut run = Run::new();
        for (number, (lines, is_packed)) in (1..).zip(&files) {
            run.append(lines);
            if (number as usize) < files.len() || is_whole {
                run.close(number);
                if *is_packed {
                    run.compress(number);
                }
            }
        }
        if !is_whole {
            run.append_bytes(torn.as_bytes());
        }
        let all = run.all();
        let mut pages = run.pages();
        for (ask, records_max, bytes_max, every) in asks {
            let query = PageQuery {
                bytes_max,
                selects: &|event| event.seq.is_none_or(|seq| seq % every == 0),
                ..query(records_max)
            };
            let page = read(&mut pages, ask, &query);
            let (events, is_first, is_last) = expected(&all, ask, &query);
            prop_assert_eq!(&page.events, &events, "{:?}", ask);
            // True means that there are no further records. In the reading direction, this is known if the
            // page has room; on the other side, at the end of the log.
            prop_assert!(is_first || !page.is_first, "{ask:?}");
            prop_assert!(is_last || !page.is_last, "{ask:?}");
            let is_full = events.len() == records_max;
            match ask {
                Ask::After(_) => prop_assert!(page.is_last == is_last || is_full, "{ask:?}"),
                _ => prop_assert!(page.is_first == is_first || is_full, "{ask:?}"),
            }
            if matches!(ask, Ask::Last | Ask::Before(1000..)) {
                prop_assert!(page.is_last);
            }
        }
    }

    /// The log contains numbers twice and in any order.
    #[test]
    fn turning_pages_ends(numbers in proptest::collection::vec(1..12_u64, 0..60), records_max in 1..8_usize) {
        let mut run = Run::new();
        for (at, seq) in numbers.iter().enumerate() {
            run.writer.seq = *seq;
            run.append(&[Line::Record(0, 1, 5000)]);
            if at == 20 {
                run.close(1);
            }
        }
        let order = |page: &Page| page.events.windows(2).all(|two| two[0].ts < two[1].ts);
        let mut pages = run.pages();
        let mut page = pages.last(&query(records_max)).unwrap();
        prop_assert!(order(&page));
        for turn in 0.. {
            let Some(first) = page.events.first() else { break };
            prop_assert!(turn < 13);
            let seq = first.seq.unwrap();
            page = pages.before(seq, &query(records_max)).unwrap();
            prop_assert!(order(&page) && seqs(&page).iter().all(|&found| found < seq));
        }
        let mut seq = 0;
        for turn in 0.. {
            page = pages.after(seq, &query(records_max)).unwrap();
            prop_assert!(order(&page) && seqs(&page).iter().all(|&found| found > seq));
            let Some(last) = page.events.last() else { break };
            prop_assert!(turn < 13);
            seq = last.seq.unwrap();
        }
    }
}
