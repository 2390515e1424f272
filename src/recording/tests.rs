//! Tapes: what comes out does not depend on how the bytes were cut, and times add up.

use proptest::prelude::*;

use super::pane_encoder::BURST_MICROS;
use super::strict::read;
use super::*;
use crate::redact::Rules;
use crate::timestamp::Timestamp;

fn output(events: &[(u64, char, String)]) -> String {
    let output = events.iter().filter(|(_, code, _)| *code == 'o');
    output.map(|(.., data)| data.as_str()).collect()
}

const BEGIN: i64 = 1_700_000_000_250_000;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(BEGIN + micros)
}

fn recording() -> Recording {
    Recording::new(Some("job %3".to_owned()), Rules::none())
}

#[test]
fn a_tape_tells_all_that_happened() {
    let (mut tape, mut out) = (recording(), String::new());
    tape.begin((80, 24), b"\x1b[Hhello", at(0), &mut out);
    tape.bytes(b"one\r\n", at(1000), &mut out);
    tape.bytes(b"two \xe6\x97", at(1000 + BURST_MICROS - 1), &mut out);
    // Another burst, which begins with the rest of a character.
    tape.bytes(b"\xa5\r\n", at(1000 + BURST_MICROS), &mut out);
    tape.resized((80, 24), at(30_000), &mut out);
    tape.resized((100, 30), at(40_000), &mut out);
    tape.bytes(b"\xf0\x9f", at(50_000), &mut out);
    let missing = Missing {
        bytes: 7000,
        line_ends: 3,
    };
    tape.missing(&missing, at(60_000), &mut out);
    // A clock that goes back takes nothing away.
    tape.bytes(b"x", at(10_000), &mut out);
    tape.ended(Some(3), at(70_000), &mut out);
    let (header, events) = read(&out);
    assert_eq!((header.term.cols, header.term.rows), (80, 24));
    assert_eq!(header.timestamp, Some(1_700_000_000));
    assert_eq!(header.title.as_deref(), Some("job %3"));
    let expected = [
        (250_000, 'o', "\x1b[Hhello"),
        (1000, 'o', "one\r\ntwo "),
        (16_000, 'o', "\u{65e5}\r\n"),
        (23_000, 'r', "100x30"),
        (10_000, 'o', "\u{fffd}"),
        (
            10_000,
            'm',
            "7000 bytes are missing here, 3 line ends among them",
        ),
        (0, 'o', "x"),
        (60_000, 'x', "3"),
    ];
    let expected = expected.map(|(micros, code, data)| (micros, code, data.to_owned()));
    assert_eq!(events, expected);
}

#[test]
fn a_flood_is_few_events_and_none_of_them_is_long() {
    let (mut tape, mut out) = (recording(), String::new());
    tape.begin((80, 24), b"", at(0), &mut out);
    for line in 0..200_000 {
        tape.bytes(b"a line that is not long\r\n", at(line), &mut out);
    }
    tape.bytes(&vec![b'x'; 1 << 20], at(200_000), &mut out);
    tape.finish(&mut out);
    let (_, events) = read(&out);
    assert!(events.len() < 200, "{}", events.len());
    assert!(events.iter().all(|(.., data)| data.len() <= 66 * 1024));
    assert_eq!(output(&events).len(), 200_000 * 25 + (1 << 20));
    let sum: u64 = events.iter().map(|(interval, ..)| interval).sum();
    assert_eq!(sum, 250_000 + 200_000);
}

#[cfg(feature = "cli")]
#[test]
fn tapes_become_one() {
    let mut tapes = Vec::new();
    for (begin, size, status) in [
        (0, (80, 24), None),
        (10_000_000, (80, 24), Some(1)),
        (90_000_000, (90, 20), Some(2)),
    ] {
        let (mut tape, mut out) = (recording(), String::new());
        tape.begin(size, b"screen", at(begin), &mut out);
        tape.bytes(b"\xff\xc3\xa9\"\x1b", at(begin + 1_000_001), &mut out);
        tape.ended(status, at(begin + 2_000_000), &mut out);
        tapes.push(out);
    }
    // One that was cut off, and one that is none.
    tapes.push(
        "{\"version\":3,\"term\":{\"cols\":5,\"rows\":5}}\n# a comment\n[1.5,\"o\",\"a\"]\n[2,\"o"
            .to_owned(),
    );
    tapes.push("nothing\n".to_owned());
    let mut splice = Splice::new(Some("job".to_owned()), None);
    let (mut out, mut bad) = (String::new(), 0);
    for tape in &tapes {
        let mut lines = tape.lines();
        if !splice.header(lines.next().unwrap().as_bytes()) {
            bad += 1;
            continue;
        }
        bad += lines
            .filter(|line| !splice.line(line.as_bytes(), &mut out))
            .count();
    }
    splice.finish(&mut out);
    assert_eq!(bad, 2);
    let (header, events) = read(&out);
    assert_eq!(
        (header.timestamp, header.title.as_deref()),
        (Some(1_700_000_000), Some("job"))
    );
    let text = "\u{fffd}\u{e9}\"\x1b";
    let expected = [
        (0, 'o', "screen"),
        (1_000_001, 'o', text),
        (999_999, 'o', ""),
        (8_000_000, 'm', "the recording was interrupted before this"),
        (0, 'o', "screen"),
        (1_000_001, 'o', text),
        (78_999_999, 'm', "exited: 1; recorded anew from here"),
        (0, 'r', "90x20"),
        (0, 'o', "screen"),
        (1_000_001, 'o', text),
        (2_499_999, 'm', "exited: 2; recorded anew from here"),
        (0, 'r', "5x5"),
        (0, 'o', "a"),
    ];
    let expected = expected.map(|(micros, code, data)| (micros, code, data.to_owned()));
    assert_eq!(events, expected);
    // Nothing is a cast, too.
    let (mut splice, mut out) = (Splice::new(None, None), String::new());
    splice.finish(&mut out);
    assert_eq!(read(&out).1, []);
}

proptest! {
    /// However the bytes are cut and whenever they come: the text is the same, and the intervals
    /// add up to the time from the second of the beginning to the end.
    #[test]
    fn any_cuts_give_the_same_text(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x80..=0xbf_u8, 0xc2..=0xf4_u8, Just(b'\x1b')], 0..300),
        cuts in proptest::collection::vec((0..300_usize, 0..40_000_i64), 0..20),
        end in 0..100_000_i64,
    ) {
        let (mut tape, mut out) = (recording(), String::new());
        tape.begin((80, 24), b"", at(0), &mut out);
        let mut cuts: Vec<(usize, i64)> = cuts.into_iter().map(|(cut, wait)| (cut.min(bytes.len()), wait)).collect();
        cuts.push((bytes.len(), 0));
        cuts.sort_unstable();
        let (mut from, mut now) = (0, 0);
        for (cut, wait) in cuts {
            tape.bytes(&bytes[from..cut], at(now), &mut out);
            if wait % 3 == 0 {
                tape.flush_due(at(now + wait), &mut out);
            }
            (from, now) = (cut, now + wait);
        }
        tape.ended(None, at(now + end), &mut out);
        let (_, events) = read(&out);
        prop_assert_eq!(output(&events), String::from_utf8_lossy(&bytes));
        let sum: u64 = events.iter().map(|(interval, ..)| interval).sum();
        prop_assert_eq!(sum, 250_000 + (now + end) as u64);
    }

    /// A key that comes in pieces, with colours in it, does not reach the tape.
    #[test]
    fn a_key_in_pieces_is_not_on_the_tape(cuts in proptest::collection::vec((0..60_usize, 0..30_000_i64), 0..8)) {
        let key = format!("gh{}_{}", "p", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6");
        let text = format!("token {}\x1b[32m{} end\r\n", &key[..17], &key[17..]);
        let (mut tape, mut out) = (Recording::new(None, Rules::builtin()), String::new());
        let mut cuts: Vec<(usize, i64)> = cuts.into_iter().map(|(cut, wait)| (cut.min(text.len()), wait)).collect();
        cuts.push((text.len(), 0));
        cuts.sort_unstable();
        let (mut from, mut now) = (0, 0);
        for (cut, wait) in cuts {
            tape.bytes(&text.as_bytes()[from..cut], at(now), &mut out);
            (from, now) = (cut, now + wait);
        }
        tape.finish(&mut out);
        let shown = output(&read(&out).1).replace("\x1b[32m", "");
        for part in key.as_bytes().windows(12) {
            prop_assert!(!shown.contains(std::str::from_utf8(part).unwrap()), "{:?}", shown);
        }
        prop_assert!(shown.ends_with(" end\r\n"), "{:?}", shown);
    }
}
