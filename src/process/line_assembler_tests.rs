//! Tests that the text does not depend on the cuts and the timing of its bytes.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::clock::Clock;

fn now() -> Instant {
    Clock::system().now()
}

/// Returns the lines that a reader of the text sees. The last line is open.
fn read(texts: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.rsplit('\r').next().unwrap_or_default().to_owned()
    };
    texts.split('\n').map(line).collect()
}

/// Returns the text of pieces that are pushed at the same time.
fn pushed(is_terminal: bool, pieces: &[&[u8]]) -> String {
    let mut lines = LineAssembler::new(is_terminal);
    let now = Clock::system().now();
    for piece in pieces {
        lines.push(piece, now);
    }
    lines.finish(now);
    lines.take_ready()
}

#[test]
fn text_is_reported_as_it_was_printed() {
    for (bytes, expected) in [
        (&b"one\ntwo\n"[..], "one\ntwo\n"),
        (b"one\r\n\r\n", "one\r\n\r\n"),
        (b"no end", "no end"),
        ("ünï 漢字\n".as_bytes(), "ünï 漢字\n"),
        (b"\xff\xfe\n", "\u{fffd}\u{fffd}\n"),
        (b"cut \xe6\xbc", "cut \u{fffd}"),
        (b"\xe6\xbcx\n", "\u{fffd}x\n"),
        (b"10%\r20%\r100%\n", "100%\n"),
        (b"abcdef\rxy\n", "xycdef\n"),
        (b"abcdef\rxy\rz\n", "zycdef\n"),
        ("abcdef\rü\n".as_bytes(), "ü\n"),
        (b"\x1b[31mred\x1b[m\r\x1b[Kshort\n", "\x1b[Kshort\n"),
        (b"gone\r", "gone"),
        (b"\r\r\n", "\r\n"),
        (b"nul\0l\n", "nul\0l\n"),
        (b"", ""),
    ] {
        assert_eq!(pushed(false, &[bytes]), expected, "{bytes:?}");
    }
    assert_eq!(
        pushed(true, &[b"one\r\ntwo\r\r\nt", b"hree\r", b"\n"]),
        "one\ntwo\nthree\n"
    );
}

#[test]
fn an_open_line_is_reported_after_a_delay() {
    let (mut lines, start) = (LineAssembler::new(false), now());
    lines.push(b"Password: ", start);
    assert_eq!(lines.ready(), "");
    let due = lines.due().unwrap();
    assert_eq!(due, start + OPEN_LINE_DELAY);
    assert_eq!(lines.tick(due - Duration::from_millis(1)), None);
    assert_eq!(lines.ready(), "");
    assert_eq!(lines.tick(due), None);
    assert_eq!(lines.take_ready(), "Password: ");
    assert_eq!(lines.due(), None);
    lines.push(b"accepted\nnext", due);
    assert_eq!(lines.take_ready(), "accepted\n");
}

#[test]
fn progress_is_kept_once_a_second_and_at_its_end() {
    let (mut lines, start) = (LineAssembler::new(false), now());
    let (mut kept, mut transient) = (String::new(), 0);
    // A hundred seconds in steps of 10 ms; then a pause before the line ends.
    let at = |step: u32| start + Duration::from_millis(10) * step;
    for step in 0..10_000 {
        lines.push(format!("\r{step} of 10000").as_bytes(), at(step));
        transient += usize::from(lines.tick(at(step)).is_some());
        kept += &lines.take_ready();
    }
    assert!((850..=1000).contains(&transient), "{transient}");
    let states = kept.matches('\r').count();
    assert!((90..=101).contains(&states), "{states}");
    while let Some(due) = lines.due() {
        lines.tick(due);
        kept += &lines.take_ready();
    }
    assert_eq!(read(&kept), ["9999 of 10000"]);
    lines.push(b"\rdone\n", at(10_100));
    kept += &lines.take_ready();
    assert_eq!(read(&kept), ["done of 10000", ""]);
}

#[test]
fn a_long_line_is_reported_in_parts() {
    let mut lines = LineAssembler::new(false);
    let now = Clock::system().now();
    let mut text = String::new();
    for _ in 0..1000 {
        lines.push(&[b'x'; 1000], now);
        text += &lines.take_ready();
        assert!(lines.line.len() <= LINE_BYTES_MAX);
    }
    assert!(text.len() > 900_000);
    lines.push(b"\rover it\n", now);
    text += &lines.take_ready();
    assert!(read(&text) == ["over it", ""], "{} bytes", text.len());
}

fn printed() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        6 => "[a-c ]{1,6}".prop_map(String::into_bytes),
        3 => Just(b"\n".to_vec()),
        3 => Just(b"\r".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => "[ü漢\u{1b}]".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..3),
    ];
    prop::collection::vec(one, 0..40).prop_map(|parts| parts.concat())
}

fn cuts(bytes: &[u8], at: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = at.iter().map(|at| at.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2)
        .map(|pair| bytes[pair[0]..pair[1]].to_vec())
        .collect()
}

proptest! {
    #[test]
    fn cuts_do_not_change_the_text(
        bytes in printed(),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        is_terminal in any::<bool>(),
    ) {
        let whole = pushed(is_terminal, &[&bytes]);
        let pieces = cuts(&bytes, &at);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(pushed(is_terminal, &pieces), whole);
    }

    #[test]
    fn pauses_do_not_change_the_lines(
        bytes in printed(),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        waits in prop::collection::vec(0_u64..1500, 14),
    ) {
        let expected = read(&pushed(false, &[&bytes]));
        let (mut lines, mut now) = (LineAssembler::new(false), now());
        let (mut kept, mut shown) = (String::new(), String::new());
        for (piece, wait) in cuts(&bytes, &at).iter().zip(waits) {
            lines.push(piece, now);
            now += Duration::from_millis(wait);
            let transient = lines.tick(now);
            let ready = lines.take_ready();
            kept += &ready;
            shown += &ready;
            shown += &transient.unwrap_or_default();
        }
        lines.finish(now);
        let ready = lines.take_ready();
        kept += &ready;
        shown += &ready;
        prop_assert_eq!(read(&kept), expected.clone());
        prop_assert_eq!(read(&shown), expected);
    }

    #[test]
    fn text_without_carriage_returns_is_unchanged(
        text in "[a-zü漢\u{0}\n]{0,80}",
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let pieces = cuts(text.as_bytes(), &at);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(pushed(false, &pieces), text);
    }
}
