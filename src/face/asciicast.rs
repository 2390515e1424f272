//! Exports the log of a run as an asciicast recording: its lines, each at its time (pure).
//!
//! All text passes through `sanitize`, so that a recording has no sequence of a program.

use std::time::Duration;

use super::describe::{Form, describe};
use super::lines::Survey;
use super::sanitize::one_line;
use super::text_export::TextExport;
use crate::event::{Envelope, EventKind, PaneId, TdEvent};
use crate::recording::{CastVersion, Encoder, EventCode};
use crate::track::cut;

/// Options of the export.
#[derive(Clone, Debug, Default)]
pub(crate) struct AsciicastOptions {
    /// The longest pause; longer ones are shortened. Defaults to no limit.
    pub idle_limit: Option<Duration>,
    pub title: Option<String>,
    pub version: CastVersion,
}

/// Writes the recording, one envelope at a time.
#[derive(Debug)]
pub(crate) struct AsciicastExport {
    encoder: Encoder,
    pub text: TextExport,
    /// The exported pane, whose size the recording has.
    pane: Option<PaneId>,
    exit_status: Option<i32>,
}

impl AsciicastExport {
    /// Exports a surveyed pane, or all text of the run.
    pub fn new(options: &AsciicastOptions, pane: Option<PaneId>, survey: Survey) -> Self {
        let title = options.title.as_deref().map(one_line);
        let mut encoder = Encoder::new(title, options.idle_limit);
        encoder.version = options.version;
        if pane.is_none() && !survey.panes.is_empty() {
            // Several panes have labels, which need room.
            encoder.size = (120, 40);
        }
        Self {
            encoder,
            text: TextExport::new(survey),
            pane,
            exit_status: None,
        }
    }

    /// Appends the lines and markers of the next envelope of the surveyed log, as complete lines of the
    /// format.
    pub fn push(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        // The header of a log file is not an event of the run.
        if event.kind() == EventKind::LogOpened {
            return;
        }
        self.encoder.advance_to(envelope.ts);
        let of_other_pane = |own: &PaneId| event.pane().is_some_and(|pane| pane != own);
        if !self.pane.as_ref().is_some_and(of_other_pane) {
            if let Some(marker) = marker(event) {
                self.encoder.event(EventCode::Marker, &marker, out);
            }
            self.note(event, out);
            let mut lines = String::new();
            self.text.push(envelope, &mut lines);
            self.write(&lines, out);
        }
        if self.encoder.needs_header() {
            self.encoder.write_header(out);
        }
    }

    /// Appends the end of the recording.
    pub fn finish(&mut self, out: &mut String) {
        self.encoder.write_header(out);
        let mut lines = String::new();
        self.text.finish(&mut lines);
        self.write(&lines, out);
        if let Some(status) = self.exit_status {
            self.encoder
                .event(EventCode::Exit, &status.to_string(), out);
        } else if self.encoder.has_unwritten_time() {
            // An empty event extends the recording to the end of the run.
            self.encoder.event(EventCode::Output, "", out);
        }
    }

    /// Records the size and the exit status that an event has.
    fn note(&mut self, event: &TdEvent, out: &mut String) {
        match event {
            TdEvent::PaneOpened { width, height, .. }
            | TdEvent::PaneResized { width, height, .. }
                if self.pane.is_some() =>
            {
                self.encoder.resize((*width, *height), out);
            }
            TdEvent::OutputUpdate { exit_status, .. } | TdEvent::PaneClosed { exit_status, .. }
                if self.pane.is_some() =>
            {
                self.exit_status = exit_status.or(self.exit_status);
            }
            TdEvent::ExecutionCompleted {
                exit_code,
                signal,
                pane: None,
                ..
            } if self.pane.is_none() => {
                // The same status as a shell reports for a signal.
                self.exit_status = exit_code.or(signal.map(|signal| signal.saturating_add(128)));
            }
            _ => {}
        }
    }

    fn write(&mut self, lines: &str, out: &mut String) {
        if !lines.is_empty() {
            self.encoder.write_header(out);
            let data = lines.replace('\n', "\r\n");
            self.encoder.event(EventCode::Output, &data, out);
        }
    }
}

/// Returns the marker of an event; `None` for text, and for resizes, which are events of the format.
fn marker(event: &TdEvent) -> Option<String> {
    let text = match event {
        TdEvent::OutputUpdate { .. } | TdEvent::PaneResized { .. } => return None,
        TdEvent::ScreenSnapshot { .. } => "screen snapshot".to_owned(),
        _ => describe(event, false)
            // Nothing points to a loss.
            .filter(|text| !(text.form == Form::Missing && text.is_detail))?
            .plain(),
    };
    // Players show markers in a list or on a timeline.
    Some(cut(&one_line(&text), 80).to_owned())
}

#[cfg(test)]
mod tests {
    //! Tests recordings of sample events, of a real pane, and of hostile text.

    use avt::Terminal;
    use proptest::prelude::*;

    use super::*;
    use crate::face::samples::*;
    use crate::face::sanitize::tests::nasty;
    use crate::recording::strict_reader::{Event, Header, read};
    use crate::timestamp::Timestamp;

    /// A parsed recording.
    #[derive(Debug)]
    struct Recorded {
        header: Header,
        events: Vec<Event>,
    }

    impl Recorded {
        /// Renders and reads a recording.
        #[track_caller]
        fn of(options: &AsciicastOptions, pane: Option<&str>, envelopes: &[Envelope]) -> Self {
            let pane = pane.map(PaneId::from);
            let mut survey = Survey::new(pane.clone());
            envelopes.iter().for_each(|envelope| survey.note(envelope));
            let mut export = AsciicastExport::new(options, pane, survey);
            let mut text = String::new();
            for envelope in envelopes {
                let before = text.len();
                export.push(envelope, &mut text);
                assert!(text.len() == before || text.ends_with('\n'));
            }
            export.finish(&mut text);
            let (header, events) = read(&text);
            Self { header, events }
        }

        fn duration_micros(&self) -> u64 {
            self.events.iter().map(|(interval, ..)| interval).sum()
        }

        fn all(&self, of: char) -> Vec<&str> {
            let events = self.events.iter().filter(|(_, code, _)| *code == of);
            events.map(|(.., data)| data.as_str()).collect()
        }

        /// Returns the terminal at the end.
        #[track_caller]
        fn play(&self) -> Terminal {
            let (columns, rows) = (self.header.term.cols.into(), self.header.term.rows.into());
            let mut terminal = Terminal::with_scrollback(columns, rows, None).unwrap();
            for (_, code, data) in &self.events {
                match code {
                    'o' => terminal.feed(data.as_str()),
                    'r' => {
                        let (columns, rows) = data.split_once('x').unwrap();
                        terminal.resize(columns.parse().unwrap(), rows.parse().unwrap());
                    }
                    'm' => assert!(!data.contains(char::is_control), "{data:?}"),
                    _ => assert!(data.parse::<i32>().is_ok(), "{data:?}"),
                }
            }
            terminal
        }

        /// Returns the lines at the end, including those that scrolled off.
        fn text(&self) -> Vec<String> {
            trimmed(self.play().screen().text())
        }
    }

    /// Trims blanks at the ends of lines, and empty lines at the end.
    fn trimmed(lines: impl IntoIterator<Item = String>) -> Vec<String> {
        let lines = lines.into_iter().map(|line| line.trim_end().to_owned());
        let mut lines: Vec<String> = lines.collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    fn played(events: impl IntoIterator<Item = TdEvent>) -> Recorded {
        Recorded::of(&AsciicastOptions::default(), Some("%1"), &log(events))
    }

    #[test]
    fn lines_progress_and_revisions_end_with_the_text() {
        for (events, expected) in [
            (vec![update(1, "a\nb\n")], vec!["a", "b"]),
            // A progress line, and its final text.
            (
                vec![
                    revised(1, "10%"),
                    revised(1, "50%"),
                    update(1, "100%\nok\n"),
                    revised(3, "$ "),
                ],
                vec!["100%", "ok", "$"],
            ),
            // A line that settles with its open text.
            (
                vec![revised(1, "abc"), update(1, "abc\n"), update(2, "d\n")],
                vec!["abc", "d"],
            ),
            // Changes of earlier lines, some of them unknown.
            (
                vec![
                    update(1, "a\nb\nc\n"),
                    revised(2, "B"),
                    revised(-1, "old"),
                    revised(0, ""),
                ],
                vec!["old", "a", "B", "c"],
            ),
            // Open lines further down.
            (
                vec![
                    revised(1, "one"),
                    revised(3, "three"),
                    revised(3, ""),
                    update(1, "1\n"),
                ],
                vec!["1"],
            ),
            (
                vec![revised(1, "one"), revised(3, "three"), update(1, "1\n2\n")],
                vec!["1", "2", "three"],
            ),
            // A line that is wider than the screen, and gets shorter.
            (
                vec![
                    update(1, "abcdefghijklmnopqrstuvwxyz\nx\n"),
                    revised(1, "short"),
                ],
                vec!["short", "x"],
            ),
            (
                vec![revised(1, "漢字漢字漢字漢字漢字"), update(1, "漢字\n")],
                vec!["漢字"],
            ),
            // A gap is a line.
            (
                vec![
                    update(1, "a\n"),
                    gap(2, Some(3), "history_trimmed"),
                    update(5, "e\n"),
                ],
                vec!["a", "[3 lines lost (history_trimmed)]", "e"],
            ),
        ] {
            let shown = format!("{events:?}");
            let recording = played([opened("%1", 10, 6)].into_iter().chain(events));
            assert_eq!(recording.text(), expected, "{shown}");
        }
    }

    #[test]
    fn the_header_has_the_size_of_the_pane_and_markers_describe_events() {
        let options = AsciicastOptions {
            title: Some("a\u{1b}[31m \u{9b}title".into()),
            ..AsciicastOptions::default()
        };
        let started = session_started("job", &["%1"]);
        let events = [
            started,
            opened("%2", 33, 11),
            opened("%1", 100, 30),
            resized(90, 20),
            gap(1, Some(1), "cleared"),
            update(1, "a\n"),
            closed(Some(3)),
        ];
        let recording = Recorded::of(&options, Some("%1"), &log(events));
        assert_eq!(
            (recording.header.term.cols, recording.header.term.rows),
            (100, 30)
        );
        assert_eq!(recording.header.timestamp, Some(1_700_000_000));
        assert_eq!(recording.header.title.as_deref(), Some("a^[[31m <9b>title"));
        assert_eq!(
            recording.all('m'),
            [
                "watching 1 pane",
                "pane %1 opened: sh, 100x30",
                "1 line lost (cleared)",
                "pane %1 exited, exit status 3"
            ]
        );
        assert_eq!(
            (recording.all('r'), recording.all('x')),
            (vec!["90x20"], vec!["3"])
        );
        assert_eq!(recording.duration_micros(), 6 * 100_003);
        // A log without events also gives a recording.
        let recording = Recorded::of(&AsciicastOptions::default(), Some("%1"), &[]);
        assert_eq!(
            (recording.header.term.cols, recording.header.term.rows),
            (80, 24)
        );
        assert_eq!(recording.events, []);
    }

    #[test]
    fn intervals_match_the_log() {
        let at = |seconds: f64, event| {
            let ts = Timestamp::from_micros((seconds * 1e6) as i64);
            Envelope::new(None, ts, event)
        };
        let envelopes = [
            at(10.0, opened("%1", 10, 4)),
            at(10.000001, update(1, "a\n")),
            at(70.0, update(2, "b\n")),
            // The clock goes back, then advances.
            at(20.0, update(3, "c\n")),
            at(20.5, update(4, "d\n")),
            at(21.0, opened("%2", 10, 4)),
        ];
        let recording = Recorded::of(&AsciicastOptions::default(), Some("%1"), &envelopes);
        let times = |recording: &Recorded| -> Vec<u64> {
            let drawn = recording.events.iter().filter(|(_, code, _)| *code == 'o');
            drawn.map(|(interval, ..)| *interval).collect()
        };
        assert_eq!(times(&recording), [1, 59_999_999, 0, 500_000, 500_000]);
        let limited = AsciicastOptions {
            idle_limit: Some(Duration::from_secs(2)),
            ..AsciicastOptions::default()
        };
        let recording = Recorded::of(&limited, Some("%1"), &envelopes);
        assert_eq!(times(&recording), [1, 2_000_000, 0, 500_000, 500_000]);
    }

    #[test]
    fn lines_of_several_panes_have_labels() {
        let other = update_of(
            "%2",
            1,
            "other
",
            Vec::new(),
        );
        let started = session_started("job", &["%1", "%2"]);
        let events = [
            started,
            update(1, "one\n"),
            other,
            update(2, "two\n"),
            gap(3, None, "ambiguous"),
        ];
        let recording = Recorded::of(&AsciicastOptions::default(), None, &log(events));
        assert_eq!(
            (recording.header.term.cols, recording.header.term.rows),
            (120, 40)
        );
        assert_eq!(
            recording.text(),
            [
                "job %1 | one",
                "job %2 | other",
                "job %1 | two",
                "job %1 | [lines lost (ambiguous)]",
            ]
        );
        assert_eq!(
            recording.all('m'),
            ["watching 2 panes", "lines lost (ambiguous)"]
        );
    }

    #[test]
    fn text_outside_of_panes_is_unchanged() {
        // A log of a version without sequence numbers.
        let lines = r#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"IterationStarted","execution_id":"a","iteration":1}}
{"ts":"2026-01-21T10:00:01Z","event":{"type":"TokenReceived","execution_id":"a","iteration":1,"token":"he"}}
{"ts":"2026-01-21T10:00:01Z","event":{"type":"TokenReceived","execution_id":"a","iteration":1,"token":"llo"}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"ValidationOutput","execution_id":"a","iteration":1,"line":"FAILED","is_stderr":true}}
{"ts":"2026-01-21T10:00:04Z","event":{"type":"IterationCompleted","execution_id":"a","iteration":1,"outcome":{"ValidationFailed":{"exit_code":1}}}}
{"ts":"2026-01-21T10:00:05Z","event":{"type":"ExecutionOutput","execution_id":"a","stream":"stdout","text":"x\r\ny"}}
{"ts":"2026-01-21T10:00:06Z","event":{"type":"ExecutionCompleted","execution_id":"a","signal":9,"duration_ms":1}}"#;
        let log: Vec<Envelope> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let recording = Recorded::of(&AsciicastOptions::default(), None, &log);
        assert_eq!(
            (recording.header.term.cols, recording.header.term.rows),
            (80, 24)
        );
        assert_eq!(recording.text(), ["hello", "FAILED", "x", "y"]);
        assert_eq!(
            recording.all('m'),
            [
                "iteration 1 begins",
                "iteration 1: not done: the check failed with exit code 1",
                "execution_status FAILURE: signal 9 (KILL) after 0.00 s"
            ]
        );
        assert_eq!(
            (recording.all('x'), recording.duration_micros()),
            (vec!["137"], 6_000_000)
        );
    }

    #[test]
    fn a_line_is_shown_when_it_is_complete() {
        let wide = "x".repeat(100);
        let events = [
            output("stdout", "Compi"),
            output("stdout", "ling\n10%"),
            output("stdout", "\r50%"),
            output("stderr", "oh\n"),
            output("stdout", "\r\u{1b}[1m100%\n"),
            output("stdout", &wide),
        ];
        let recording = Recorded::of(&AsciicastOptions::default(), None, &log(events));
        assert_eq!(
            recording.all('o'),
            [
                "Compiling\r\n",
                "oh\r\n",
                "100%\r\n",
                &format!("{wide}\r\n")
            ]
        );
        assert_eq!(recording.text(), ["Compiling", "oh", "100%", &wide]);
    }

    /// Recorded from a real pane on tmux 3.3a: `recorded/program.sh` in a session of 80x24 on its own server,
    /// observed with `--interval 100ms`; then `capture-pane -p -J -S -`.
    #[test]
    fn a_recorded_pane_ends_with_the_lines_of_tmux() {
        let log = include_str!("asciicast/recorded/pane.jsonl").lines();
        let log: Vec<Envelope> = log
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let recording = Recorded::of(&AsciicastOptions::default(), Some("%0"), &log);
        // The first line is the baseline.
        let joined = trimmed(
            include_str!("asciicast/recorded/joined.txt")
                .lines()
                .skip(1)
                .map(str::to_owned),
        );
        assert_eq!(recording.text(), joined);
        assert_eq!(recording.all('r'), ["50x12", "100x30"]);
        let duration = log[log.len() - 1].ts.micros() - log[1].ts.micros();
        assert_eq!(recording.duration_micros(), duration as u64);
    }

    proptest! {
        /// Names and lines add no sequences to a recording.
        #[test]
        fn hostile_text_adds_no_sequence(text in nasty(), name in nasty(), number in any::<i64>(), size in any::<(u32, u32)>()) {
            let started = TdEvent::SessionStarted { execution_id: "x".into(), session: name.clone(), panes: vec!["%1".into(), "%2".into()] };
            let output = TdEvent::ExecutionOutput { execution_id: "x".into(), stream: text.as_str().into(), text: text.clone() };
            let warning = TdEvent::Warning { execution_id: "x".into(), context: text.clone(), message: text.clone() };
            let events = [
                started, output, warning, opened("%1", 20, 5), update(1, &text), revised(2, &text), revised(1, &name),
                screen(20, 5, &[(0, &text), (4, &name)]), gap(9, Some(u64::MAX), &text), revised(0, &name),
                revised(number, &text), update(number, &format!("{text}\n{name}\n")), gap(number, Some(7), &text),
                resized(size.0 % 300, size.1 % 300), screen(size.0, size.1 % 2000, &[(size.0, &text), (size.1, &text)]),
                revised(i64::MAX, &text), update(i64::MAX, "a\nb\n"), update(i64::MIN, &text), closed(Some(-1)),
            ];
            let options = AsciicastOptions { title: Some(text.clone()), ..AsciicastOptions::default() };
            for pane in [Some("%1"), None] {
                let recording = Recorded::of(&options, pane, &log(events.clone()));
                for data in recording.all('o') {
                    prop_assert!(!data.replace("\r\n", "").contains(char::is_control), "{:?}", data);
                }
                for data in recording.all('m') {
                    prop_assert!(!data.contains(char::is_control), "{:?}", data);
                }
            }
        }
    }
}
