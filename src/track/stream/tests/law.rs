//! Properties of pane output, on random programs.

use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::super::lines::group;
use super::super::super::version::TmuxVersion;
use super::super::input::Input;
use super::super::shell_marks::Marks;
use super::super::terminal::Terminal;
use super::*;

/// The text of a line.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{0,3}",
        2 => "[a-z漢字 ]{1,12}",
        1 => Just(String::new()),
        1 => "[x-z]{15,70}",
        1 => "e\u{301}[a-c]{1,3}  ",
    ]
}

/// A step of a program.
#[derive(Clone, Debug)]
enum Step {
    Line(String),
    Coloured(String),
    Tab(String),
    /// One line that is overwritten several times.
    Progress(Vec<u32>),
    /// Several lines that are redrawn by moving the cursor up.
    Bars(usize, Vec<u32>),
    /// A full-screen program.
    Screen(String),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => text().prop_map(Step::Line),
        2 => text().prop_map(Step::Coloured),
        1 => "[a-z]{0,5}".prop_map(Step::Tab),
        2 => vec(0..=100_u32, 1..6).prop_map(Step::Progress),
        1 => (1..3_usize, vec(0..=100_u32, 1..6)).prop_map(|(bars, steps)| Step::Bars(bars, steps)),
        1 => text().prop_map(Step::Screen),
    ]
}

/// Returns the bytes of a program, and the lines that it leaves.
fn program(steps: &[Step], rewrites: bool) -> (String, Vec<String>) {
    let (mut bytes, mut lines) = (String::new(), Vec::new());
    for step in steps {
        match step {
            Step::Line(text) => {
                write!(bytes, "{text}\r\n").unwrap();
                lines.push(text.clone());
            }
            Step::Coloured(text) => {
                write!(bytes, "\x1b[1;38;5;9m{text}\x1b[0m\r\n").unwrap();
                lines.push(text.clone());
            }
            Step::Tab(text) => {
                write!(bytes, "\t{text}.\r\n").unwrap();
                lines.push(format!("        {text}."));
            }
            Step::Progress(steps) => {
                for percent in steps {
                    write!(bytes, "\r\x1b[K{percent}%").unwrap();
                }
                bytes.push_str("\r\n");
                lines.push(format!("{}%", steps.last().unwrap()));
            }
            Step::Bars(bars, steps) if rewrites => {
                bytes.push_str(&"\r\n".repeat(*bars));
                for percent in steps {
                    write!(bytes, "\x1b[{bars}A").unwrap();
                    for bar in 0..*bars {
                        write!(bytes, "\r\x1b[2K{bar}: {percent}%\x1b[1B").unwrap();
                    }
                    bytes.push('\r');
                }
                let last = steps.last().unwrap();
                lines.extend((0..*bars).map(|bar| format!("{bar}: {last}%")));
            }
            // tmux breaks a line whose beginning has scrolled off when it switches screens.
            Step::Screen(text) if steps.iter().all(|step| !is_long(step)) => {
                write!(bytes, "\x1b[?1049h\x1b[H\x1b[J{text}\r\n{text}\x1b[?1049l").unwrap();
            }
            Step::Bars(..) | Step::Screen(_) => {}
        }
    }
    (bytes, lines)
}

fn is_long(step: &Step) -> bool {
    matches!(step, Step::Line(text) | Step::Coloured(text) if text.len() > 14)
}

/// Feeds bytes cut at these places, and polls as often as given after each piece.
fn feed_cut(pane: &mut Pane, bytes: &[u8], cuts: &[(Index, u8)]) {
    let mut cuts: Vec<(usize, u8)> = cuts
        .iter()
        .map(|(at, polls)| (at.index(bytes.len() + 1), *polls))
        .collect();
    cuts.sort_unstable();
    let mut from = 0;
    for (cut, polls) in cuts {
        pane.feed(&bytes[from..cut]);
        from = cut;
        for _ in 0..polls {
            pane.now += Duration::from_millis(30);
            pane.poll();
        }
    }
    pane.feed(&bytes[from..]);
}

fn cuts() -> impl Strategy<Value = Vec<(Index, u8)>> {
    vec((any::<Index>(), 0..4_u8), 0..12)
}

/// Random bytes with many sequences.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => text().prop_map(String::into_bytes),
        3 => Just(b"\r\n".to_vec()),
        6 => ("[0-9]{0,2}(;[0-9]{0,2})?", "[@A-Pa-hlmrsuSTXZ`]")
            .prop_map(|(numbers, last)| format!("\x1b[{numbers}{last}").into_bytes()),
        2 => prop::sample::select(vec![
            "\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[?47l", "\x1b[H\x1b[J", "\x1b[2J", "\x1b[3J",
            "\x1bc", "\x1b#8", "\x1bM", "\x1bD", "\x1b7", "\x1b8", "\x1b[?7l", "\x1b[?7h", "\x1b[4h",
            "\x1b[4l", "\x1b[?6h", "\x1b[?6l", "\x1b[2;4r", "\x1b[r", "\x1bkname\x1b\\", "\x1bPtmux;\x1b\x1b[J\x1b\\",
            "\x1b]133;A\x07", "\x1b]133;B\x07", "\x1b]133;C\x07", "\x1b]133;D;1\x07", "\u{200d}", "\t",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        2 => vec(any::<u8>(), 0..6),
    ];
    vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Every line of a program that only prints lines is reported once, in order, to the last blank.
    #[test]
    fn every_line_once(
        width in 17_u32..60, height in 3_u32..9, steps in vec(step(), 0..60), cuts in cuts(),
    ) {
        let (bytes, lines) = program(&steps, false);
        let mut pane = Pane::new(width, height);
        feed_cut(&mut pane, bytes.as_bytes(), &cuts);
        pane.settle();
        let printed: String = lines.iter().map(|line| format!("{line}\n")).collect();
        prop_assert_eq!(pane.reported(), printed);
    }

    /// With redrawn lines, replaying gives the final lines.
    #[test]
    fn replay_equals_the_lines_left(
        width in 17_u32..60, height in 3_u32..9, steps in vec(step(), 0..60), cuts in cuts(),
    ) {
        let (bytes, lines) = program(&steps, true);
        let mut pane = Pane::new(width, height);
        feed_cut(&mut pane, bytes.as_bytes(), &cuts);
        pane.settle();
        let lines = lines.iter().map(|line| line.trim_end_matches(' ').to_owned());
        prop_assert_eq!(pane.lines(), trimmed(lines));
    }

    /// Cuts between bytes have no effect, except on blanks at the ends of rows: tmux writes more or
    /// fewer of them over erased cells, depending on the bytes that it has read together.
    #[test]
    fn cuts_change_nothing(width in 1_u32..40, height in 1_u32..9, bytes in noise(), cuts in cuts()) {
        let mut whole = Pane::new(width, height);
        let mut cut = Pane::new(width, height);
        whole.feed(&bytes);
        let silent: Vec<_> = cuts.iter().map(|(at, _)| (*at, 0)).collect();
        feed_cut(&mut cut, &bytes, &silent);
        let shown = |pane: &Pane| -> Vec<(String, bool)> {
            let rows = pane.stream.terminal.shown().into_iter();
            rows.map(|row| (row.text.trim_end_matches(' ').to_owned(), row.wrapped)).collect()
        };
        prop_assert_eq!(shown(&whole), shown(&cut));
        prop_assert_eq!(whole.stream.shell_marks(), cut.stream.shell_marks());
        for pane in [&mut whole, &mut cut] {
            pane.settle();
            pane.end();
        }
        prop_assert_eq!(whole.lines(), cut.lines());
        let reported = |pane: &Pane| -> Vec<String> {
            let reported = pane.reported();
            reported.lines().map(|line| line.trim_end_matches(' ').to_owned()).collect()
        };
        prop_assert_eq!(reported(&whole), reported(&cut));
    }

    /// Printing plain lines in bulk has the same effect as printing them one by one.
    #[test]
    fn lines_in_bulk_print_like_single_lines(
        width in 1_usize..30, height in 1_usize..9,
        parts in vec((noise(), vec("[ -~]{0,40}(\r[a-c]{0,9})?(\r\n|\r\n|\r\r\n|\n)", 0..40)), 1..4),
    ) {
        let mut bytes = Vec::new();
        for (noise, lines) in parts {
            bytes.extend(noise);
            // Otherwise the noise would mostly leave the cursor where lines are not printed in bulk.
            bytes.extend(b"\x18\x1b[r\x1b[m\x1b[999;1H\r\n");
            lines.iter().for_each(|line| bytes.extend(line.as_bytes()));
        }
        let (mut whole, mut each) = (Terminal::new(width, height, TmuxVersion::default()), Terminal::new(width, height, TmuxVersion::default()));
        let mut marks = Marks::default();
        Input::default().feed(&bytes, &mut whole, &mut marks, |_, _| false);
        let mut input = Input::default();
        for part in bytes.chunk_by(|_, next| *next != b'\r') {
            input.feed(part, &mut each, &mut marks, |_, _| false);
        }
        prop_assert_eq!(format!("{:?}", whole), format!("{:?}", each));
    }

    /// For any bytes, replaying gives the lines on the terminal and those that have scrolled off.
    #[test]
    fn replay_equals_the_terminal(
        width in 1_u32..40, height in 1_u32..9, bytes in noise(), cuts in cuts(),
    ) {
        let mut pane = Pane::new(width, height);
        feed_cut(&mut pane, &bytes, &cuts);
        pane.settle();
        let mut terminal = Terminal::new(width as usize, height as usize, TmuxVersion::default());
        let mut marks = Marks::default();
        Input::default().feed(&bytes, &mut terminal, &mut marks, |_, _| false);
        let open = terminal.grid.scrolled.open().map(|(text, _)| text.to_owned());
        let mut lines: Vec<String> =
            terminal.grid.scrolled.take().text.lines().map(str::to_owned).collect();
        let mut screen = group(&terminal.normal().0, 0).into_iter().map(|line| line.text);
        lines.extend(open.map(|open| open + &screen.next().unwrap_or_default()));
        lines.extend(screen);
        let lines = lines.iter().map(|line| line.trim_end_matches(' ').to_owned());
        prop_assert_eq!(pane.lines(), trimmed(lines), "{:#?}", pane.changes);
    }

    /// No input panics, and dropped lines are counted.
    #[test]
    fn anything_may_come(
        width in 0_u32..20, height in 1_u32..5, before in noise(), lost in 0_u64..99, after in noise(),
    ) {
        let mut pane = Pane::new(width, height);
        pane.feed(&before);
        pane.poll();
        let next = pane.stream.tracker().next_line();
        pane.changes.extend(pane.stream.bytes_dropped(lost, pane.now));
        prop_assert!(pane.stream.tracker().next_line() >= next + lost as i64);
        pane.feed(&after);
        pane.settle();
        let capture = empty(width, height).capture;
        let _ = pane.stream.difference(&capture);
        pane.changes.extend(pane.stream.resync(&empty(width, height), pane.now));
        pane.feed(&before);
        pane.settle();
        pane.end();
        pane.replay();
    }
}

/// A line that never ends is reported in pieces, and memory stays bounded.
#[test]
fn a_line_without_an_end_is_cut() {
    let mut pane = Pane::new(80, 24);
    let text = "0123456789abcdef".repeat(4096);
    for _ in 0..64 {
        pane.feed(text.as_bytes());
        pane.poll();
        let (open, _) = pane
            .stream
            .terminal
            .grid
            .scrolled
            .open()
            .unwrap_or_default();
        assert!(open.len() <= 64 * 1024 + 80);
    }
    pane.settle();
    pane.end();
    let reported = pane.reported();
    assert!(reported.lines().count() >= 64);
    assert!(reported.lines().all(|line| line.len() <= 66 * 1024));
    assert!(
        reported.replace('\n', "") == text.repeat(64),
        "all of it, in order"
    );
}

/// A few bytes can print a screen, so bytes are taken only as long as there is room for their output.
#[test]
fn bytes_that_print_much_are_taken_in_pieces() {
    let mut pane = Pane::new(200, 50);
    let bytes = b"\x1b#8\x1b[2J".repeat(1000);
    let taken = pane.stream.feed(&bytes);
    assert!(taken < bytes.len());
    assert!(pane.stream.terminal.grid.scrolled.bytes() < 2 * 1024 * 1024);
    pane.feed(&bytes[taken..]);
    pane.settle();
    assert_eq!(pane.reported().lines().count(), 50_000);
}

/// Revisions of progress are throttled, and the last state is reported.
#[test]
fn progress_is_throttled() {
    let mut pane = Pane::new(40, 5);
    for step in 0..1000 {
        pane.feed(format!("\r{step}").as_bytes());
        pane.now += Duration::from_millis(1);
        pane.poll();
    }
    assert!(
        pane.changes.len() <= 22,
        "{} revisions in a second",
        pane.changes.len()
    );
    let deadline = pane.stream.deadline().expect("the last state waits");
    assert!(deadline <= pane.now + Duration::from_millis(50));
    pane.settle();
    assert_eq!(pane.lines(), ["999"]);
    assert_eq!(pane.stream.deadline(), None);
}

/// A line whose end is erased after its beginning has scrolled off is revised in spite of the throttle,
/// because it is not known afterwards.
#[test]
fn a_line_that_loses_its_end_is_revised() {
    let mut pane = Pane::new(2, 7);
    for part in ["\n", "\x1b[Hxxx\x1b[S", "\x1b[H\x1b[2X", " "] {
        pane.feed(part.as_bytes());
        pane.now += Duration::from_millis(30);
        pane.poll();
    }
    pane.settle();
    assert_eq!(pane.lines(), ["xx"], "{:#?}", pane.changes);
}
