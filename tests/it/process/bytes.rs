//! Bytes that are not text, split characters and NUL bytes in outputs.

use std::io::Write;

use td_observe::Envelope;
use td_observe::event::OutputStream;
use td_observe::process::Command;

use super::{observed, text_of, warnings};

fn events_of(script: &str) -> Vec<Envelope> {
    let (outcome, events) = observed(Command::shell(script));
    assert!(outcome.is_success(), "{outcome:?}");
    events
}

#[test]
fn invalid_utf_8_is_marked_and_causes_one_warning() {
    let events =
        events_of(r"printf 'a\377\376b\n'; sleep 0.05; printf '\377\n\200\n' >&2; printf '\303'");
    assert_eq!(text_of(&events, "stdout"), "a\u{fffd}\u{fffd}b\n\u{fffd}");
    assert_eq!(text_of(&events, "stderr"), "\u{fffd}\n\u{fffd}\n");
    let warned = warnings(&events);
    assert_eq!(warned.len(), 1, "{events:#?}");
    assert!(warned[0].contains("UTF-8"), "{warned:?}");
}

#[test]
fn a_split_character_is_joined() {
    // The pauses are longer than the delay of open lines.
    let events = events_of(
        r"printf 'a\303'; sleep 0.15; printf '\274\n\346'; sleep 0.15; printf '\274'; sleep 0.15
        printf '\242\360\237'; sleep 0.15; printf '\246\200\n'",
    );
    assert_eq!(text_of(&events, "stdout"), "aü\n漢🦀\n");
    assert!(warnings(&events).is_empty(), "{events:#?}");
}

#[test]
fn nul_bytes_and_control_sequences_are_kept() {
    let events = events_of(r"printf 'a\000b\n\033[31mred\033[m\t\007\177\n'");
    assert_eq!(
        text_of(&events, "stdout"),
        "a\0b\n\u{1b}[31mred\u{1b}[m\t\u{7}\u{7f}\n"
    );
    assert!(warnings(&events).is_empty(), "{events:#?}");
}

#[test]
fn collected_output_is_exact_and_the_callback_gets_text() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let output =
        Command::shell(r"printf 'a\377\000\303'; sleep 0.15; printf '\274\r\n'; echo e >&2")
            .on_output(move |stream, text| drop(sender.send((stream, text.to_owned()))))
            .output()
            .unwrap();
    assert_eq!(output.stdout, b"a\xff\0\xc3\xbc\r\n");
    assert_eq!(output.stderr, b"e\n");
    assert_eq!(output.lost_bytes, 0);
    let received: Vec<_> = receiver.iter().collect();
    let of = |of| {
        let texts = received.iter().filter(|(stream, _)| *stream == of);
        texts.map(|(_, text)| text.as_str()).collect::<String>()
    };
    assert_eq!(of(OutputStream::Stdout), "a\u{fffd}\0ü\r\n");
    assert_eq!(of(OutputStream::Stderr), "e\n");
}

/// Stores a number of bytes, then fails.
struct Mirror(std::sync::Arc<std::sync::Mutex<Vec<u8>>>, usize);

impl Write for Mirror {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = self.0.lock().unwrap();
        if kept.len() + bytes.len() > self.1 {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_mirror_gets_every_byte_and_may_fail() {
    for (room, expected) in [
        (1000, &b"\x1b[31ma\xff\rb\n2\n"[..]),
        (11, b"\x1b[31ma\xff\rb\n"),
    ] {
        let screen = std::sync::Arc::default();
        let output = Command::shell(r"printf '\033[31ma\377\rb\n'; sleep 0.2; echo 2; exit 3")
            .mirror(Mirror(std::sync::Arc::clone(&screen), room))
            .output()
            .unwrap();
        assert_eq!(*screen.lock().unwrap(), expected);
        // The mirror does not affect the events.
        assert_eq!(output.stdout, b"\x1b[31ma\xff\rb\n2\n");
        assert_eq!(output.outcome.code(), 3);
    }
}

#[test]
fn the_beginning_and_the_end_of_a_long_output_are_collected() {
    let command = Command::shell("seq 1 100000; seq 1 3 >&2").collect(1000);
    let output = command.output().unwrap();
    let all: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(
        output.stdout,
        [&all.as_bytes()[..500], &all.as_bytes()[all.len() - 500..]].concat()
    );
    assert_eq!(output.lost_bytes, all.len() as u64 - 1000);
    assert_eq!(output.stderr, b"1\n2\n3\n");
}
