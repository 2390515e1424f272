//! Tests of the pane encoder and the joiner: the result does not depend on the cuts, and times add up.

use proptest::prelude::*;

#[cfg(feature = "cli")]
use super::RecordingJoiner;
use super::pane_encoder::{BURST_MICROS, MissingOutput, PaneEncoder};
use super::strict_reader::read;
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

fn encoder() -> PaneEncoder {
    PaneEncoder::new(Some("job %3".to_owned()), Rules::none())
}

#[test]
fn every_input_is_recorded() {
    let (mut encoder, mut out) = (encoder(), String::new());
    encoder.begin((80, 24), b"\x1b[Hhello", at(0), &mut out);
    encoder.bytes(b"one\r\n", at(1000), &mut out);
    encoder.bytes(b"two \xe6\x97", at(1000 + BURST_MICROS - 1), &mut out);
    // Another burst, which begins with the rest of a character.
    encoder.bytes(b"\xa5\r\n", at(1000 + BURST_MICROS), &mut out);
    encoder.resized((80, 24), at(30_000), &mut out);
    encoder.resized((100, 30), at(40_000), &mut out);
    encoder.bytes(b"\xf0\x9f", at(50_000), &mut out);
    let missing = MissingOutput {
        bytes: 7000,
        line_ends: 3,
    };
    encoder.missing(missing, at(60_000), &mut out);
    // A clock that is set back subtracts nothing.
    encoder.bytes(b"x", at(10_000), &mut out);
    encoder.ended(Some(3), at(70_000), &mut out);
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
fn a_flood_becomes_few_events_of_limited_length() {
    let (mut encoder, mut out) = (encoder(), String::new());
    encoder.begin((80, 24), b"", at(0), &mut out);
    for line in 0..200_000 {
        encoder.bytes(b"a line that is not long\r\n", at(line), &mut out);
    }
    encoder.bytes(&vec![b'x'; 1 << 20], at(200_000), &mut out);
    encoder.finish(&mut out);
    let (_, events) = read(&out);
    assert!(events.len() < 200, "{}", events.len());
    assert!(events.iter().all(|(.., data)| data.len() <= 66 * 1024));
    assert_eq!(output(&events).len(), 200_000 * 25 + (1 << 20));
    let sum: u64 = events.iter().map(|(interval, ..)| interval).sum();
    assert_eq!(sum, 250_000 + 200_000);
}

#[cfg(feature = "cli")]
#[test]
fn recordings_are_joined() {
    let mut recordings = Vec::new();
    for (begin, size, status) in [
        (0, (80, 24), None),
        (10_000_000, (80, 24), Some(1)),
        (90_000_000, (90, 20), Some(2)),
    ] {
        let (mut encoder, mut out) = (encoder(), String::new());
        encoder.begin(size, b"screen", at(begin), &mut out);
        encoder.bytes(b"\xff\xc3\xa9\"\x1b", at(begin + 1_000_001), &mut out);
        encoder.ended(status, at(begin + 2_000_000), &mut out);
        recordings.push(out);
    }
    // A truncated recording, and a file that is none.
    recordings.push(
        "{\"version\":3,\"term\":{\"cols\":5,\"rows\":5}}\n# a comment\n[1.5,\"o\",\"a\"]\n[2,\"o"
            .to_owned(),
    );
    recordings.push("nothing\n".to_owned());
    let mut joiner = RecordingJoiner::new(Some("job".to_owned()), None);
    let (mut out, mut bad) = (String::new(), 0);
    for recording in &recordings {
        let mut lines = recording.lines();
        if !joiner.header(lines.next().unwrap().as_bytes()) {
            bad += 1;
            continue;
        }
        bad += lines
            .filter(|line| !joiner.line(line.as_bytes(), &mut out))
            .count();
    }
    joiner.finish(&mut out);
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
    // Joining nothing gives an empty recording.
    let (mut joiner, mut out) = (RecordingJoiner::new(None, None), String::new());
    joiner.finish(&mut out);
    assert_eq!(read(&out).1, []);
}

proptest! {
    /// The cuts and times of the bytes do not change the text, and the intervals add up to the time
    /// from the whole second of the beginning to the end.
    #[test]
    fn any_cuts_give_the_same_text(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x80..=0xbf_u8, 0xc2..=0xf4_u8, Just(b'\x1b')], 0..300),
        cuts in proptest::collection::vec((0..300_usize, 0..40_000_i64), 0..20),
        end in 0..100_000_i64,
    ) {
        let (mut encoder, mut out) = (encoder(), String::new());
        encoder.begin((80, 24), b"", at(0), &mut out);
        let mut cuts: Vec<(usize, i64)> = cuts.into_iter().map(|(cut, wait)| (cut.min(bytes.len()), wait)).collect();
        cuts.push((bytes.len(), 0));
        cuts.sort_unstable();
        let (mut from, mut now) = (0, 0);
        for (cut, wait) in cuts {
            encoder.bytes(&bytes[from..cut], at(now), &mut out);
            if wait % 3 == 0 {
                encoder.flush_due(at(now + wait), &mut out);
            }
            (from, now) = (cut, now + wait);
        }
        encoder.ended(None, at(now + end), &mut out);
        let (_, events) = read(&out);
        prop_assert_eq!(output(&events), String::from_utf8_lossy(&bytes));
        let sum: u64 = events.iter().map(|(interval, ..)| interval).sum();
        prop_assert_eq!(sum, 250_000 + (now + end) as u64);
    }

    /// A key that arrives in pieces, with colours in it, is redacted.
    #[test]
    fn a_key_in_pieces_is_redacted(cuts in proptest::collection::vec((0..60_usize, 0..30_000_i64), 0..8)) {
        let key = format!("gh{}_{}", "p", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6");
        let text = format!("token {}\x1b[32m{} end\r\n", &key[..17], &key[17..]);
        let (mut encoder, mut out) = (PaneEncoder::new(None, Rules::builtin()), String::new());
        let mut cuts: Vec<(usize, i64)> = cuts.into_iter().map(|(cut, wait)| (cut.min(text.len()), wait)).collect();
        cuts.push((text.len(), 0));
        cuts.sort_unstable();
        let (mut from, mut now) = (0, 0);
        for (cut, wait) in cuts {
            encoder.bytes(&text.as_bytes()[from..cut], at(now), &mut out);
            (from, now) = (cut, now + wait);
        }
        encoder.finish(&mut out);
        let shown = output(&read(&out).1).replace("\x1b[32m", "");
        for part in key.as_bytes().windows(12) {
            prop_assert!(!shown.contains(std::str::from_utf8(part).unwrap()), "{:?}", shown);
        }
        prop_assert!(shown.ends_with(" end\r\n"), "{:?}", shown);
    }
}
