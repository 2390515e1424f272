//! Tests of the stream on literal bytes: properties, cuts, sync points, and effects in tmux.

mod dropped {
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
}
mod law {
    //! Properties of pane output, on random programs.

    use std::fmt::Write;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::super::super::lines::group;
    use super::super::input::Input;
    use super::super::marks::Marks;
    use super::super::terminal::Terminal;
    use super::*;
    use crate::track::TmuxVersion;

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
            let next = pane.stream.tracker.next_line();
            pane.changes.extend(pane.stream.bytes_dropped(lost, pane.now));
            prop_assert!(pane.stream.tracker.next_line() >= next + lost as i64);
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

    /// Within a synchronized update, screens are those before it; afterwards, those after it.
    #[test]
    fn a_screen_within_a_synchronized_update_is_the_one_before() {
        let mut pane = Pane::new(10, 2);
        let shown = |pane: &Pane| {
            let capture = pane.stream.complete_capture();
            let rows = capture.rows.iter().map(|row| row.text.clone());
            (capture.alternate, rows.collect::<Vec<_>>())
        };
        pane.feed(b"\x1b[?2026h\x1b[?1049h\x1b[Hone");
        pane.settle_for(Duration::from_millis(300));
        assert_eq!(shown(&pane), (false, vec![String::new(), String::new()]));
        assert_eq!(pane.changes, []);
        pane.feed(b"\r\nold\x1b[?2026l\x1b[?2026h\x1b[Htwo");
        pane.settle_for(Duration::from_millis(300));
        assert_eq!(
            shown(&pane),
            (true, vec!["one".to_owned(), "old".to_owned()])
        );
        pane.feed(b"\r\nnew\x1b[?2026l");
        pane.settle_for(Duration::from_millis(300));
        assert_eq!(
            shown(&pane),
            (true, vec!["two".to_owned(), "new".to_owned()])
        );
        // An update without an end is shown after a second.
        pane.feed(b"\x1b[?2026h\x1b[Hthree");
        pane.settle_for(Duration::from_millis(300));
        assert_eq!(shown(&pane).1[0], "two");
        pane.settle_for(Duration::from_secs(1));
        assert_eq!(shown(&pane).1[0], "three");
        let screens = pane.changes.iter().filter_map(|change| match change {
            Change::Screen { rows, .. } => Some(rows.iter().map(|row| &*row.text).collect()),
            _ => None,
        });
        let screens: Vec<Vec<&str>> = screens
            .filter(|rows: &Vec<&str>| !rows.is_empty())
            .collect();
        assert_eq!(
            screens,
            [vec!["one", "old"], vec!["two", "new"], vec!["three"]]
        );
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
}
mod numbering {
    //! Tests of captures compared with the lines reported since the last agreement.

    use super::*;
    use crate::track::GapReason;

    fn gaps(pane: &Pane) -> Vec<GapReason> {
        let reasons = pane.changes.iter().filter_map(|change| match change {
            Change::Gap { reason, .. } => Some(*reason),
            _ => None,
        });
        reasons.collect()
    }

    fn resync(pane: &mut Pane, sync_point: &SyncPoint) {
        let changes = pane.stream.resync(sync_point, pane.now);
        pane.changes.extend(changes);
        assert_eq!(pane.stream.difference(&sync_point.capture), None);
        pane.settle();
    }

    /// The last rows of a line of one character, in a pane of this width. tmux has joined `bytes` of it.
    fn uniform(width: u32, height: u32, bytes: usize, deep: usize) -> SyncPoint {
        let columns = width as usize;
        let text = "x".repeat(bytes);
        let all: Vec<&str> = (0..bytes.div_ceil(columns))
            .map(|row| &text[row * columns..bytes.min((row + 1) * columns)])
            .collect();
        let above = all.len() - height as usize;
        let mut sync_point = sync_point(width, &all[above - deep..], deep);
        sync_point.capture.numbers.history_size = above as u32;
        sync_point.capture.numbers.history_limit = 50_000;
        sync_point
    }

    /// A piece of a long line begins within a row after a resize, so that its rows hold fewer characters
    /// than rows of its own would. A capture that begins below that row shows the end of the known text.
    #[test]
    fn a_piece_that_begins_within_a_row_is_not_prolonged() {
        for more in ["", "\r\nthe end\r\n"] {
            let bytes = 100_000;
            let mut pane = Pane::new(80, 5);
            pane.feed("x".repeat(bytes).as_bytes());
            pane.settle();
            let deep = bytes / 47;
            resync(&mut pane, &uniform(47, 6, bytes, deep - 5));
            pane.feed(more.as_bytes());
            pane.settle();
            let mut shallow = uniform(47, 6, bytes, 200);
            if !more.is_empty() {
                let rows = &mut shallow.capture.rows;
                rows.extend(["the end", ""].map(|text| Row {
                    text: text.into(),
                    wrapped: false,
                }));
                shallow.capture.numbers.history_size += 2;
                shallow.capture.numbers.cursor.x = 0;
            }
            resync(&mut pane, &shallow);
            pane.end();
            let lines = pane.lines().concat();
            assert_eq!(lines.matches('x').count(), bytes, "with {more:?}");
        }
    }

    /// After a line feed behind the last column, the line begins with an empty row. In a capture, that row
    /// is the end of the line above.
    #[test]
    fn an_empty_row_at_the_top_moves_no_line() {
        let mut pane = Pane::new(4, 2);
        pane.feed(b"one\r\nabcd\nwxyz");
        pane.settle();
        let mut capture = sync_point(4, &["one", "abcd", "", "wxyz"], 2).capture;
        assert_eq!(pane.stream.difference(&capture), None);
        assert!(!pane.stream.differs_above_screen(&capture));
        pane.stream.confirm(&capture);
        pane.feed(b"\x1b[H");
        pane.settle();
        capture.cursor = crate::event::Cursor::default();
        assert_eq!(pane.stream.difference(&capture), None);
        assert!(!pane.stream.differs_above_screen(&capture));
        assert_eq!(pane.lines(), ["one", "abcd", "wxyz"]);
    }

    /// No byte shows that `send-keys -R` scrolls the screen off: the stream overwrites lines that tmux still
    /// has. tmux then has more lines than were printed.
    #[test]
    fn more_lines_than_were_printed_keep_their_places() {
        let mut pane = Pane::new(10, 3);
        pane.feed(b"x\r\ny\r\nz\x1b[H");
        pane.feed(b"0\r\n1\r\n2\r\n3\r\n4");
        pane.settle();
        let rows = ["x", "y", "z", "0", "1", "2", "3", "4"];
        resync(&mut pane, &sync_point(10, &rows, 5));
        assert_eq!(pane.lines(), rows);
        assert_eq!(gaps(&pane), []);
    }

    /// `send-keys -R` after the history was cleared, so that tmux has only the end of the first line.
    #[test]
    fn the_end_of_a_line_determines_the_place() {
        let mut pane = Pane::new(4, 2);
        pane.feed(b"abcdefghij");
        pane.settle();
        resync(&mut pane, &sync_point(4, &["efgh", "ij"], 0));
        pane.feed(b"k\r\nl\r\nm");
        pane.settle();
        assert_eq!(pane.lines(), ["abcdefghijk", "l", "m"]);
        resync(&mut pane, &sync_point(4, &["efgh", "ij", "k", "l", "m"], 3));
        assert_eq!(pane.lines(), ["abcdefghij", "k", "l", "m"]);
        assert_eq!(gaps(&pane), []);
    }
}
mod polling {
    //! Tests of switches between streaming and polling, on a model of tmux's grid.

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::event::GapEvidence;
    use crate::track::GapReason;
    use crate::track::sim::Sim;

    /// The way in which the pane is observed.
    #[derive(Debug)]
    enum Follow {
        Stream(Box<StreamTracker>),
        Captures(Box<Tracker>),
    }

    /// A pane of the model that is streamed and polled in turn.
    struct SwitchingPane {
        sim: Sim,
        follow: Follow,
        changes: Vec<Change>,
        now: Duration,
        printed: Vec<String>,
    }

    impl SwitchingPane {
        fn new(sim: Sim) -> Self {
            let (tracker, changes) = Tracker::fresh(&sim.capture(usize::MAX));
            Self {
                sim,
                follow: Follow::Captures(Box::new(tracker)),
                changes,
                now: Duration::ZERO,
                printed: vec![],
            }
        }

        fn print(&mut self, lines: &[String]) {
            for line in lines {
                self.sim.print(line);
                self.sim.print("\n");
                if let Follow::Stream(stream) = &mut self.follow {
                    let bytes = format!("{line}\r\n");
                    assert_eq!(stream.feed(bytes.as_bytes()), bytes.len());
                }
            }
            self.printed.extend_from_slice(lines);
        }

        /// Applies a capture, and a deeper one if that is too shallow.
        fn capture(&mut self, depth: usize) -> Capture {
            let Follow::Captures(tracker) = &mut self.follow else {
                panic!("a stream needs no captures")
            };
            for depth in [depth, usize::MAX] {
                let mut capture = self.sim.capture(depth);
                capture.at = self.now;
                if let Some(changes) = tracker.apply(&capture, false) {
                    self.changes.extend(changes);
                    return capture;
                }
            }
            panic!("a complete capture is never too shallow")
        }

        fn poll(&mut self) {
            self.now += LONG;
            match &mut self.follow {
                Follow::Stream(stream) => self.changes.extend(stream.changes(self.now)),
                Follow::Captures(_) => drop(self.capture(5)),
            }
        }

        /// Opens or closes the pipe.
        fn switch(&mut self) {
            self.now += LONG;
            let capture = match self.follow {
                Follow::Captures(_) => Some(self.capture(20)),
                Follow::Stream(_) => None,
            };
            let other = Tracker::baseline(&self.sim.capture(0));
            let other = Follow::Captures(Box::new(other));
            self.follow = match (std::mem::replace(&mut self.follow, other), capture) {
                (Follow::Captures(tracker), Some(capture)) => {
                    let sync_point = SyncPoint {
                        capture,
                        ..SyncPoint::default()
                    };
                    let stream = StreamTracker::new(*tracker, &sync_point);
                    assert_eq!(stream.difference(&sync_point.capture), None);
                    Follow::Stream(Box::new(stream))
                }
                (Follow::Stream(stream), _) => {
                    let (tracker, changes) = stream.into_polling(self.now);
                    self.changes.extend(changes);
                    Follow::Captures(Box::new(tracker))
                }
                (follow, None) => follow,
            };
        }

        fn end(&mut self) {
            if matches!(self.follow, Follow::Stream(_)) {
                self.switch();
            }
            for _ in 0..3 {
                self.poll();
            }
            let Follow::Captures(tracker) = &mut self.follow else {
                return;
            };
            self.changes.extend(tracker.end());
        }

        fn gaps(&self) -> Vec<&Change> {
            let gap = |change: &&Change| matches!(change, Change::Gap { .. });
            self.changes.iter().filter(gap).collect()
        }

        fn reported(&self) -> Vec<&str> {
            let chunks = self.changes.iter().filter_map(|change| match change {
                Change::Lines { chunk, .. } => Some(chunk.lines()),
                _ => None,
            });
            chunks.flatten().collect()
        }
    }

    /// Printed lines; whether the pane is polled then; whether it switches between stream and polling then.
    type Step = (Vec<String>, bool, bool);

    fn steps(longest: usize) -> impl Strategy<Value = Vec<Step>> {
        let line = prop_oneof![3 => "[a-c]{1,3}", 2 => "[a-z]{4,12}", 1 => "[x-z]{15,70}"];
        let step = (vec(line, 0..longest), any::<bool>(), any::<bool>());
        vec(step, 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// As long as the history never filled, every line is reported once, with consecutive numbers.
        #[test]
        fn every_line_once_polled_or_streamed(
            width in 2_usize..20, height in 1_usize..8, steps in steps(30),
        ) {
            let mut pane = SwitchingPane::new(Sim::new(width, height, 100_000));
            for (lines, polls, switches) in &steps {
                pane.print(lines);
                if *polls {
                    pane.poll();
                }
                if *switches {
                    pane.switch();
                }
            }
            pane.end();
            prop_assert!(pane.gaps().is_empty(), "{:#?}", pane.changes);
            prop_assert_eq!(pane.reported(), pane.printed.iter().map(String::as_str).collect::<Vec<_>>());
            let replay = replay(&pane.changes);
            let expected = (1..).zip(pane.printed.iter().cloned());
            prop_assert!(replay.into_iter().eq(expected), "{:#?}", pane.changes);
        }

        /// With a history that fills, every gap is reported, and no line twice.
        #[test]
        fn every_gap_is_reported_polled_or_streamed(
            width in 8_usize..20, height in 2_usize..8, limit in 0_usize..60,
            steps in vec((0_usize..120, any::<bool>(), any::<bool>()), 0..12),
        ) {
            let mut pane = SwitchingPane::new(Sim::new(width, height, limit));
            let mut count = 0;
            for (lines, polls, switches) in &steps {
                let lines: Vec<String> = (count + 1..=count + lines).map(|n| format!("n{n}")).collect();
                count += lines.len();
                pane.print(&lines);
                if *polls {
                    pane.poll();
                }
                if *switches {
                    pane.switch();
                }
            }
            pane.end();
            replay(&pane.changes);
            prop_assert!(once_or_a_gap(&pane.changes, count), "{count}: {:#?}", pane.changes);
        }
    }

    /// A stream counts rows on after the history was cleared. Its known lines are found by their texts.
    #[test]
    fn polling_continues_after_the_history_was_cleared() {
        let lines = |numbers: std::ops::Range<usize>| -> Vec<String> {
            numbers.map(|number| format!("line {number}")).collect()
        };
        let mut pane = SwitchingPane::new(Sim::new(20, 5, 2000));
        pane.switch();
        pane.print(&lines(0..100));
        pane.poll();
        pane.sim.clear_history();
        pane.print(&lines(100..140));
        pane.poll();
        pane.switch();
        pane.print(&lines(140..150));
        pane.end();
        assert_eq!(pane.gaps(), Vec::<&Change>::new());
        assert_eq!(pane.reported(), lines(0..150));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// Wherever the history of a stream is cleared, no line is reported twice, and none is missing without a gap.
        #[test]
        fn every_line_once_or_a_gap_after_a_stream_was_cleared(
            width in 4_usize..20, height in 2_usize..8,
            before in 20_usize..100, between in 0_usize..60, after in 0_usize..8,
        ) {
            let mut pane = SwitchingPane::new(Sim::new(width, height, 2000));
            pane.switch();
            let mut count = 0;
            let mut print = |pane: &mut SwitchingPane, lines: usize| {
                let lines: Vec<String> = (count + 1..=count + lines).map(|n| format!("n{n}")).collect();
                count += lines.len();
                pane.print(&lines);
            };
            print(&mut pane, before);
            pane.poll();
            pane.sim.clear_history();
            print(&mut pane, between);
            pane.poll();
            pane.switch();
            print(&mut pane, after);
            pane.end();
            let count = before + between + after;
            prop_assert!(once_or_a_gap(&pane.changes, count), "{count}: {:#?}", pane.changes);
        }
    }

    /// Returns true if the lines `n1` to `nCOUNT` are reported once and in order, or gaps are in their places.
    fn once_or_a_gap(changes: &[Change], count: usize) -> bool {
        let (mut last, mut gap) = (0, false);
        for change in changes {
            match change {
                Change::Gap { .. } => gap = true,
                Change::Lines { chunk, .. } => {
                    for line in chunk.lines() {
                        let number = line.strip_prefix('n').and_then(|text| text.parse().ok());
                        let Some(number) = number else { return false };
                        if !(number == last + 1 || gap && number > last) {
                            return false;
                        }
                        (last, gap) = (number, false);
                    }
                }
                _ => {}
            }
        }
        last == count || gap
    }

    #[test]
    fn a_capture_of_a_stream_equals_one_of_tmux() {
        let mut pane = Pane::new(9, 3);
        pane.feed(b"one\r\ntwo\r\nthree\r\nfour");
        let capture = pane.stream.capture();
        let expected = sync_point(9, &["one", "two", "three", "four"], 1).capture;
        assert_eq!(capture.rows, expected.rows[1..]);
        assert_eq!(
            (
                capture.width,
                capture.height,
                capture.cursor,
                capture.history_size
            ),
            (9, 3, expected.cursor, 1)
        );
        pane.feed(b"\x1b[?1049hvim");
        let capture = pane.stream.capture();
        assert!(capture.alternate);
        assert_eq!(capture.saved.unwrap().rows, expected.rows[1..]);
    }

    /// After a drop without a capture, the position of the lines is unknown.
    #[test]
    fn polling_after_a_drop_begins_with_a_gap() {
        let mut pane = Pane::new(9, 3);
        pane.feed(b"one\r\ntwo\r\n");
        pane.changes.extend(pane.stream.bytes_dropped(3, pane.now));
        pane.feed(b"six\r\n");
        let (mut tracker, changes) = pane.stream.into_polling(pane.now + LONG);
        pane.changes.extend(changes);
        let later = sync_point(9, &["five", "six", "seven", ""], 1).capture;
        assert_eq!(
            tracker.apply(&later, false),
            Some(vec![
                Change::Lines {
                    first_line: 6,
                    chunk: "six\n".into()
                },
                Change::Gap {
                    first_line: 7,
                    lost_lines: None,
                    reason: GapReason::Dropped,
                    evidence: GapEvidence::Possible,
                },
            ])
        );
        assert_eq!(tracker.next_line(), 7);
    }
}
mod resyncs {
    //! Tests of resyncs with captures that differ from the stream: resized, respawned, dead panes.

    use super::*;
    use crate::event::Cursor;
    use crate::track::{GapReason, ProcessExit};

    impl Pane {
        fn resync(&mut self, sync_point: &SyncPoint) {
            let changes = self.stream.resync(sync_point, self.now);
            self.changes.extend(changes);
            assert_eq!(self.stream.difference(&sync_point.capture), None);
        }

        fn reasons(&self) -> Vec<GapReason> {
            let reasons = self.changes.iter().filter_map(|change| match change {
                Change::Gap { reason, .. } => Some(*reason),
                _ => None,
            });
            reasons.collect()
        }
    }

    /// Moves the cursor to the row below the last text.
    fn ended(mut sync_point: SyncPoint) -> SyncPoint {
        sync_point.capture.cursor.x = 0;
        sync_point.capture.cursor.y += 1;
        sync_point
    }

    /// Marks the program as ended with this status. tmux keeps the pane.
    fn over(status: i32, mut sync_point: SyncPoint) -> SyncPoint {
        sync_point.capture.dead = Some(ProcessExit {
            status: Some(status),
            signal: None,
        });
        sync_point
    }

    fn respawned(mut sync_point: SyncPoint) -> SyncPoint {
        sync_point.capture.pid += 1;
        sync_point
    }

    /// In the bytes, the first line of the new program continues the unfinished one of the old.
    #[test]
    fn the_first_line_after_a_respawn_is_corrected() {
        let mut pane = Pane::new(10, 6);
        pane.feed(b"48211\r\n48212\r\n48213");
        pane.settle();
        pane.feed(b"1\r\n2\r\n3\r\n");
        pane.settle();
        pane.resync(&respawned(ended(sync_point(
            10,
            &["1", "2", "3", "", "", ""],
            0,
        ))));
        pane.feed(b"4\r\n");
        pane.settle();
        assert_eq!(pane.lines(), ["48211", "48212", "1", "2", "3", "4"]);
        assert_eq!(pane.reasons(), [GapReason::Cleared]);
    }

    /// The screen may have scrolled since. Lines of the old program in the history are unchanged.
    #[test]
    fn a_respawned_program_may_have_scrolled() {
        let mut pane = Pane::new(10, 3);
        pane.feed(b"a\r\nb\r\nc\r\nd\r\ne");
        pane.settle();
        pane.feed(b"1\r\n2\r\n3\r\n4\r\n");
        pane.resync(&respawned(ended(sync_point(
            10,
            &["a", "b", "1", "2", "3", "4", ""],
            4,
        ))));
        pane.settle();
        assert_eq!(pane.lines(), ["a", "b", "c", "d", "1", "2", "3", "4"]);
    }

    /// The new program has printed and ended before a capture. All its output has arrived, and the cursor
    /// does not determine its position.
    #[test]
    fn a_respawned_program_that_has_ended_is_not_reported_twice() {
        const NOTICE: &str = "Pane is dead (status 0)";
        let whole: &[&str] = &["1", "2", "3", "4", "", "", "", NOTICE];
        let begun = &["1", "2", "3", "4", "5", "", "", NOTICE];
        let scrolled = &["a", "1", "2", "3", "4", "", NOTICE];
        for (end, shows, history, reported) in [
            ("4\r\n", whole, 0, "a\nb\nla1\n2\n3\n4\n"),
            ("4\r\n5", begun, 0, "a\nb\nla1\n2\n3\n4\n5\n"),
            ("4\r\n", scrolled, 3, "a\nb\nla1\n2\n3\n4\n"),
        ] {
            let mut pane = Pane::new(30, (shows.len() - history) as u32);
            pane.feed(b"a\r\nb\r\nla");
            pane.settle();
            pane.feed(b"1\r\n2\r\n3\r\n");
            pane.feed(end.as_bytes());
            pane.settle();
            let dead = over(0, respawned(sync_point(30, shows, history)));
            pane.resync(&dead);
            pane.settle();
            pane.end();
            assert_eq!(pane.reported(), reported, "{:#?}", pane.changes);
            if history == 0 {
                // Its first line is corrected.
                let lines = reported.replace("la", "");
                assert_eq!(pane.lines(), lines.lines().collect::<Vec<_>>());
            }
        }
    }

    /// The new program has printed nothing yet, so the last line of the old one is complete.
    #[test]
    fn a_silent_respawned_program_begins_after_the_last_line() {
        let mut pane = Pane::new(10, 3);
        pane.feed(b"a\r\nb\r\nlast");
        pane.settle();
        pane.resync(&respawned(empty(10, 3)));
        pane.feed(b"1\r\n2\r\n3\r\n4\r\n");
        pane.settle();
        assert_eq!(pane.lines(), ["a", "b", "last", "1", "2", "3", "4"]);
        assert_eq!(pane.reported(), "a\nb\nlast\n1\n2\n3\n4\n");
    }

    /// The old program had ended, so no output is missing.
    #[test]
    fn a_dead_program_that_is_followed_by_another_leaves_no_gap() {
        let mut pane = Pane::new(30, 3);
        pane.feed(b"a\r\nb\r\n");
        pane.settle();
        let dead = over(
            0,
            sync_point(30, &["a", "b", "", "Pane is dead (status 0)"], 1),
        );
        pane.resync(&dead);
        pane.resync(&respawned(empty(30, 3)));
        pane.feed(b"1\r\n");
        pane.settle();
        assert_eq!(pane.reported(), "a\nb\n1\n");
        assert_eq!(pane.reasons(), []);
    }

    /// As with polling, tmux's notice is not a line, and the program's last line is reported. A similar
    /// text of the program is a line.
    #[test]
    fn tmux_notice_in_a_dead_pane_is_not_a_line() {
        for (notice, reported) in [
            ("Pane is dead (status 1)", "a\nb\nlast\n"),
            ("over: 1", "a\nb\nlast\nover: 1\n"),
        ] {
            let mut pane = Pane::new(30, 3);
            pane.feed(b"a\r\nb\r\nlast");
            pane.settle();
            let dead = over(1, sync_point(30, &["a", "b", "last", notice], 1));
            pane.resync(&dead);
            pane.settle();
            pane.end();
            assert_eq!(pane.reported(), reported);
            assert_eq!(pane.reasons(), []);
        }
    }

    /// The emulation of a row differs from tmux, and the pane was resized.
    #[test]
    fn a_line_between_others_is_corrected_through_a_resize() {
        let mut pane = Pane::new(10, 5);
        pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\n");
        pane.settle();
        let wider = ended(sync_point(20, &["one", "2", "three", "four", ""], 0));
        pane.resync(&wider);
        assert_eq!(pane.lines(), ["one", "2", "three", "four"]);
        assert_eq!(pane.reasons(), []);
    }

    /// tmux drops and doubles lines when it rewraps rows.
    #[test]
    fn lines_damaged_by_a_resize_are_not_repeated() {
        let damaged: [&[&str]; 3] = [
            &["one", "three", "four", "five", ""],
            &["one", "two", "three", "three", "four", "five", ""],
            &["two", "three", "five", ""],
        ];
        for rows in damaged {
            let mut pane = Pane::new(10, 4);
            pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\n");
            pane.settle();
            let mut other = sync_point(12, rows, rows.len() - 4);
            other.capture.cursor = Cursor { x: 0, y: 3 };
            pane.resync(&other);
            pane.feed(b"six\r\nseven\r\n");
            pane.settle();
            let printed = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
            assert_eq!(pane.reported(), printed, "{rows:?}: {:#?}", pane.changes);
            assert_eq!(pane.reasons(), []);
        }
    }

    /// tmux moves the cursor to the top when rewrapped rows push its line off the screen.
    #[test]
    fn a_line_continues_after_tmux_has_moved_the_cursor_to_the_top() {
        for begun in ["", "half a "] {
            let mut pane = Pane::new(10, 4);
            pane.feed(format!("one\r\ntwo\r\n{begun}").as_bytes());
            pane.settle();
            let mut other = sync_point(4, &["one", "two", begun, "", "", "", ""], 3);
            other
                .capture
                .rows
                .iter_mut()
                .for_each(|row| row.wrapped = false);
            other.capture.cursor = Cursor { x: 0, y: 0 };
            pane.resync(&other);
            pane.feed(b"line\r\nmore\r\n");
            pane.settle();
            assert_eq!(pane.reported(), format!("one\ntwo\n{begun}line\nmore\n"));
        }
    }

    /// No capture contains the saved cursor. A status below the lines is drawn there, also after a resize.
    /// Another program begins without one.
    #[test]
    fn the_saved_cursor_survives_a_resize() {
        let status = b"\x1b8\x1b[Jstatus\r\nmore\x1b8\x1b[J";
        for (other_program, lines) in [(false, &["1", "2", "3", "4"][..]), (true, &["1", "4"])] {
            let mut pane = Pane::new(10, 6);
            pane.feed(b"1\r\n2\r\n3\r\n\x1b7");
            pane.settle();
            let wider = ended(sync_point(20, &["1", "2", "3", "", "", ""], 0));
            let wider = if other_program {
                respawned(wider)
            } else {
                wider
            };
            pane.changes.extend(pane.stream.resync(&wider, pane.now));
            let top = if other_program {
                "\r\x1b[A\x1b[A\x1b[A1\r\n\x1b7"
            } else {
                ""
            };
            pane.feed(top.as_bytes());
            pane.feed(status);
            pane.feed(b"4\r\n");
            let shown = pane.stream.terminal.shown();
            let shown: Vec<&str> = shown.iter().map(|row| row.text.trim_end()).collect();
            assert_eq!(&shown[..lines.len()], lines);
        }
    }

    /// A saved cursor outside of the smaller pane is restored at its edge, and so is the one of the normal
    /// screen. A background continues.
    #[test]
    fn terminal_state_survives_a_resize() {
        let mut pane = Pane::new(10, 6);
        pane.feed(b"\x1b[6;9H\x1b7\x1b[?1049h\x1b[?1049l\x1b[H\x1b[44m");
        pane.settle();
        let mut narrow = empty(4, 3);
        narrow.capture.cursor = Cursor { x: 0, y: 0 };
        pane.resync(&narrow);
        assert!(pane.stream.terminal.pen.background);
        pane.feed(b"\x1b8x");
        assert_eq!(pane.stream.terminal.shown()[2].text, "   x");
        pane.feed(b"\x1b[H\x1b[?1049ly");
        assert_eq!(pane.stream.terminal.shown()[2].text, "   y");
        pane.resync(&respawned(empty(4, 3)));
        pane.feed(b"\x1b8z");
        assert_eq!(pane.stream.terminal.shown()[0].text, "z");
        assert!(!pane.stream.terminal.pen.background);
    }

    /// tmux cuts rows behind a full-screen program at the pane's width.
    #[test]
    fn lines_behind_a_full_screen_program_stay_whole() {
        let mut pane = Pane::new(20, 4);
        pane.feed(b"one\r\na line of some length\r\n\x1b[?1049hvim");
        pane.settle();
        let mut narrow = empty(8, 4);
        narrow.capture.alternate = true;
        narrow.capture.rows[0].text = "vim".into();
        narrow.capture.cursor = Cursor { x: 3, y: 0 };
        narrow.capture.saved = Some(crate::track::SavedScreen {
            cursor: Cursor { x: 0, y: 3 },
            rows: sync_point(20, &["one", "a line o", "th", ""], 0)
                .capture
                .rows,
        });
        pane.resync(&narrow);
        pane.feed(b"\x1b[?1049lmore\r\n");
        pane.settle();
        assert_eq!(pane.reported(), "one\na line of some length\nmore\n");
        assert_eq!(pane.lines(), ["one", "a line of some length", "more"]);
    }

    /// No byte shows that `send-keys -R` scrolls a screen off and moves the cursor to its top. Lines that
    /// the stream has reported beyond tmux's last line are blanked.
    #[test]
    fn lines_that_tmux_does_not_have_are_blanked_out() {
        let mut pane = Pane::new(20, 3);
        pane.feed(b"one\r\n\n\n\n\ntwo\r\nthree");
        pane.settle();
        pane.resync(&sync_point(20, &["one", "two", "three"], 0));
        pane.settle();
        assert_eq!(
            (pane.lines(), pane.reasons()),
            (vec_of(&["one", "two", "three"]), vec![])
        );
        pane.feed(b"\r\nfour\r\n");
        pane.settle();
        assert_eq!(pane.lines(), ["one", "two", "three", "four"]);
    }

    /// An unknown line replaces a reported one, with a possible gap before it.
    #[test]
    fn lines_with_several_explanations_follow_a_gap() {
        let mut pane = Pane::new(20, 3);
        pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive");
        pane.settle();
        pane.resync(&sync_point(20, &["other", "four", "five"], 0));
        pane.settle();
        assert_eq!(pane.lines(), ["one", "two", "other", "four", "five"]);
        assert_eq!(pane.reasons(), [GapReason::Cleared]);
    }

    /// No line of the capture was reported.
    #[test]
    fn unknown_lines_follow_a_gap() {
        let mut pane = Pane::new(20, 3);
        pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix\r\nseven\r\n");
        pane.settle();
        pane.resync(&sync_point(20, &["cc a", "cc b", ""], 0));
        pane.settle();
        let lines = pane.lines();
        assert_eq!(
            lines[..7],
            ["one", "two", "three", "four", "five", "six", "seven"]
        );
        assert_eq!(lines[7..], ["cc a", "cc b"]);
        assert_eq!(pane.reasons(), [GapReason::Cleared]);
    }

    /// The history was cleared without a byte. The first lines in tmux have their reported texts.
    #[test]
    fn lines_behind_a_cleared_history_are_found_by_their_texts() {
        let mut pane = Pane::new(20, 3);
        pane.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix\r\nseven\r\n\x1b[Hmixed");
        pane.settle();
        pane.resync(&sync_point(
            20,
            &["four", "five", "six", "seven", "", "mixed", ""],
            4,
        ));
        pane.settle();
        let all = [
            "one", "two", "three", "four", "five", "six", "seven", "", "mixed",
        ];
        assert_eq!((pane.lines(), pane.reasons()), (vec_of(&all), vec![]));
    }

    fn vec_of(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }
}
mod styles {
    //! Tests of the styles of lines through all movements of text.

    use proptest::prelude::*;

    use super::*;
    use crate::event::Styles;

    /// Line, from, to, parameters.
    type Plain = (u32, u32, u32, String);

    #[test]
    fn colours_of_reported_lines_do_not_fill_the_memory() {
        let mut pane = Pane::new(20, 4);
        for number in 0..1000 {
            let line = format!("\x1b[31mline {number}\x1b[m\r\n");
            for (_, text, styles) in reported(&mut pane, &line) {
                assert_eq!(styles.len(), text.lines().count());
            }
        }
        let is_red = |number: i64| {
            let text = format!("line {}\n", number - 1);
            !pane.stream.styles(number, &text).0.is_empty()
        };
        assert!(is_red(1000) && is_red(900));
        assert!(!is_red(600) && !is_red(1));
    }

    /// Returns the lines and revisions that bytes cause, with their styles.
    fn reported(pane: &mut Pane, bytes: &str) -> Vec<(i64, String, Vec<Plain>)> {
        let before = pane.changes.len();
        pane.feed(bytes.as_bytes());
        pane.settle();
        let mut reported = Vec::new();
        for change in &pane.changes[before..] {
            let (first, text) = match change {
                Change::Lines { first_line, chunk } => (*first_line, chunk),
                Change::Revised { line, text } => (*line, text),
                Change::Screen { .. } | Change::Gap { .. } => continue,
            };
            let styles = plain(&pane.stream.styles(first, text).0);
            reported.push((first, text.clone(), styles));
        }
        reported
    }

    fn plain(styles: &Styles) -> Vec<Plain> {
        let styles = styles.as_slice().iter();
        styles
            .map(|style| (style.line, style.from, style.to, style.sgr()))
            .collect()
    }

    /// Asserts the final text and runs of the first line in a pane of nine columns.
    #[track_caller]
    fn first_line(bytes: &str, text: &str, runs: &[(u32, u32, &str)]) {
        let mut pane = Pane::new(9, 4);
        let reported = reported(&mut pane, bytes);
        let (_, read, styles) = reported.into_iter().rfind(|(line, ..)| *line == 1).unwrap();
        let read = read.lines().next().unwrap_or_default().trim_end();
        assert_eq!(read, text, "{bytes:?}");
        let styles: Vec<_> = styles.iter().filter(|style| style.0 == 0).collect();
        let styles: Vec<_> = styles
            .iter()
            .map(|style| (style.1, style.2, &*style.3))
            .collect();
        assert_eq!(styles, runs, "{bytes:?}");
    }

    #[test]
    fn a_line_is_reported_with_its_colours() {
        let mut pane = Pane::new(20, 4);
        let reported = reported(
            &mut pane,
            "\x1b[31mred\x1b[0m plain\r\n\x1b[1;44mall\x1b[m\r\nnone\r\n",
        );
        let styles = vec![(0, 0, 3, "31".into()), (1, 0, 3, "1;44".into())];
        assert_eq!(reported, [(1, "red plain\nall\nnone\n".into(), styles)]);
    }

    #[test]
    fn colours_move_with_their_text() {
        first_line("ab\x1b[31mcd\x1b[mef\r\n", "abcdef", &[(2, 4, "31")]);
        // Overwritten in another colour and in none.
        first_line(
            "\x1b[31mabcdef\x1b[32m\x1b[3GX\x1b[m\x1b[5GY\r\n",
            "abXdYf",
            &[(0, 2, "31"), (2, 3, "32"), (3, 4, "31"), (5, 6, "31")],
        );
        // Inserted, deleted, erased.
        first_line(
            "\x1b[31mabcd\x1b[m\x1b[2G\x1b[2@\r\n",
            "a  bcd",
            &[(0, 1, "31"), (3, 6, "31")],
        );
        first_line(
            "\x1b[31mabcd\x1b[mef\x1b[2G\x1b[2P\r\n",
            "adef",
            &[(0, 2, "31")],
        );
        first_line(
            "\x1b[31mabcd\x1b[m\x1b[2G\x1b[2X\r\n",
            "a  d",
            &[(0, 1, "31"), (3, 4, "31")],
        );
        first_line(
            "\x1b[31mabcd\x1b[m\x1b[3G\x1b[K!\r\n",
            "ab!",
            &[(0, 2, "31")],
        );
        first_line(
            "\x1b[31mabcd\x1b[m\x1b[4h\x1b[1Gx\x1b[4l\r\n",
            "xabcd",
            &[(1, 5, "31")],
        );
        // Characters count, not columns.
        first_line(
            "漢\x1b[31m字e\u{301}\x1b[mx\r\n",
            "漢字e\u{301}x",
            &[(1, 4, "31")],
        );
        // Wrapped, on the screen and scrolled off.
        first_line(
            "1234567\x1b[31m890\x1b[m12\r\n",
            "123456789012",
            &[(7, 10, "31")],
        );
        first_line(
            "1234567\x1b[31m890\x1b[m12\r\n\n\n\n\n",
            "123456789012",
            &[(7, 10, "31")],
        );
        // A line is inserted above it and deleted again.
        first_line(
            "\x1b[31mab\x1b[m\r\nc\x1b[H\x1b[L\x1b[M\x1b[3H",
            "ab",
            &[(0, 2, "31")],
        );
        // Saved by ESC 7.
        first_line(
            "\x1b[31ma\x1b7\x1b[32mb\x1b8c\x1b[m\r\n",
            "ac",
            &[(0, 2, "31")],
        );
        // The alternate screen has its own style.
        first_line(
            "\x1b[31ma\x1b[?1049h\x1b[44mx\x1b[?1049lb\x1b[m\r\n",
            "ab",
            &[(0, 2, "31")],
        );
    }

    #[test]
    fn a_line_that_is_written_again_has_its_new_colours() {
        let mut pane = Pane::new(20, 4);
        reported(&mut pane, "\x1b[31mone\x1b[m\r\ntwo\r\n");
        let revised = reported(&mut pane, "\x1b[2A\x1b[32mONE\x1b[m\x1b[2B");
        assert_eq!(revised, [(1, "ONE".into(), vec![(0, 0, 3, "32".into())])]);
        // The old text has no styles any more.
        assert!(pane.stream.styles(1, "one\n").0.is_empty());
        assert!(pane.stream.styles(2, "ONE\n").0.is_empty());
        let revised = reported(&mut pane, "\x1b[2A\rtwo\x1b[2B");
        assert_eq!(revised, [(1, "two".into(), vec![])]);
    }

    #[test]
    fn a_flood_keeps_the_colours_of_its_lines_within_bounds() {
        let mut pane = Pane::new(20, 4);
        let bytes: String = (0..900)
            .map(|n| format!("{n} \x1b[3{}mx\x1b[m\r\n", n % 8))
            .collect();
        let reported = reported(&mut pane, &bytes);
        let mut count = 0;
        for (first, text, styles) in reported {
            for (line, from, to, sgr) in styles {
                let number = first + i64::from(line) - 1;
                let digits = number.to_string().len() as u32;
                assert_eq!((from, to), (digits + 1, digits + 2));
                assert_eq!(sgr, format!("3{}", number % 8), "{number} of {text:?}");
                count += 1;
            }
        }
        assert_eq!(count, 900);
    }

    #[test]
    fn a_coloured_line_without_an_end_does_not_block_input() {
        let mut pane = Pane::new(20, 4);
        let bytes: String = (0..200_000).map(|n| format!("\x1b[3{}mx", n % 8)).collect();
        pane.feed(bytes.as_bytes());
        pane.settle();
        let text: usize = pane.lines().iter().map(String::len).sum();
        assert_eq!(text, 200_000);
    }

    /// Programs that print in colours and move text.
    fn program() -> impl Strategy<Value = Vec<String>> {
        let part = prop_oneof![
            4 => "[a-z ]{1,12}",
            2 => Just("\r\n".to_owned()),
            1 => Just("漢e\u{301}".to_owned()),
            3 => (0_u8..9).prop_map(|n| format!("\x1b[{}m", if n == 8 { 0 } else { 30 + n })),
            1 => (1_u8..12, prop::sample::select(vec!["@", "P", "X", "L", "M", "S", "T", "A", "B", "C", "D", "G", "K", "J", "d"]))
                .prop_map(|(n, last)| format!("\x1b[{}{last}", if last == "K" || last == "J" { n % 3 } else { n })),
            1 => prop::sample::select(vec!["\x1b7", "\x1b8", "\x1b[4h", "\x1b[4l", "\x1b[2;3r", "\x1b[r", "\x1bM", "\t", "\x08", "\r"]).prop_map(str::to_owned),
        ];
        prop::collection::vec(part, 0..60)
    }

    proptest! {
        /// Colours do not change texts and numbers, and runs do not overlap or exceed their lines.
        #[test]
        fn colours_change_no_text(program in program()) {
            let is_colour = |part: &String| part.starts_with("\x1b[") && part.ends_with('m');
            let mut styled = Pane::new(9, 4);
            let with = reported(&mut styled, &program.concat());
            let mut bare = Pane::new(9, 4);
            // A sequence without an effect replaces each colour.
            let program: String = program.iter().map(|part| if is_colour(part) { "\x1b[22m" } else { part }).collect();
            let without = reported(&mut bare, &program);
            let texts = |reported: &[(i64, String, Vec<_>)]| -> Vec<_> {
                reported.iter().map(|(line, text, _)| (*line, text.clone())).collect()
            };
            prop_assert!(without.iter().all(|(.., styles)| styles.is_empty()));
            prop_assert_eq!(texts(&with), texts(&without));
            for (_, text, styles) in &with {
                let lines: Vec<&str> = text.split('\n').collect();
                let mut last = (0, 0);
                for (line, from, to, sgr) in styles {
                    prop_assert!(from < to && (last.0 < *line || last.1 <= *from), "{:?}", styles);
                    prop_assert!(*to as usize <= lines[*line as usize].chars().count(), "{:?} {:?}", text, styles);
                    prop_assert!(!sgr.is_empty());
                    last = (*line, *to);
                }
            }
        }
    }
}
mod links {
    //! Tests of links (OSC 8): which text has which address, whatever bytes arrive.

    use proptest::prelude::*;

    use super::*;

    /// Line, start, end, address.
    type Plain = (i64, u32, u32, String);

    /// Returns the links of the lines that bytes cause, by pieces.
    fn links_of(pane: &mut Pane, pieces: &[&[u8]]) -> Vec<Plain> {
        let mut links = Vec::new();
        for piece in pieces {
            let before = pane.changes.len();
            pane.feed(piece);
            pane.poll();
            links.extend(links_since(pane, before));
        }
        let before = pane.changes.len();
        pane.settle();
        links.extend(links_since(pane, before));
        links
    }

    fn links_since(pane: &Pane, before: usize) -> Vec<Plain> {
        let mut links = Vec::new();
        for change in &pane.changes[before..] {
            let Change::Lines { first_line, chunk } = change else {
                continue;
            };
            let (_, more) = pane.stream.styles(*first_line, chunk);
            let more = more.as_slice().iter().cloned();
            links.extend(more.map(|link| (link.line, link.start, link.end, link.url)));
        }
        links
    }

    /// Asserts the links of the lines of a pane of nine columns.
    #[track_caller]
    fn links(bytes: &[u8], expected: &[(i64, u32, u32, &str)]) {
        let expected: Vec<Plain> = expected
            .iter()
            .map(|(line, start, end, url)| (*line, *start, *end, (*url).to_owned()))
            .collect();
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(
            links_of(&mut Pane::new(9, 4), &[bytes]),
            expected,
            "{shown:?}"
        );
        // Split at each byte.
        for at in 0..bytes.len() {
            let (one, two) = bytes.split_at(at);
            let found = links_of(&mut Pane::new(9, 4), &[one, two]);
            assert_eq!(found, expected, "{shown:?} at {at}");
        }
    }

    #[test]
    fn text_has_the_address_that_was_set() {
        let url = "http://x/1";
        links(
            b"a\x1b]8;;http://x/1\x1b\\bc\x1b]8;;\x1b\\d\r\n",
            &[(1, 1, 3, url)],
        );
        links(
            b"\x1b]8;id=a:b=c;http://x/1\x07bc\x1b]8;;\x07\r\n",
            &[(1, 0, 2, url)],
        );
        links(
            b"\x1b]8;;http://x/?a;b=c\x07bc\x1b]8;;\x07\r\n",
            &[(1, 0, 2, "http://x/?a;b=c")],
        );
        // A link over wrapped rows, and over lines.
        links(
            b"12345\x1b]8;;http://x/1\x0767890123\x1b]8;;\x07\r\n",
            &[(1, 5, 13, url)],
        );
        links(
            b"\x1b]8;;http://x/1\x07a\r\nb\x1b]8;;\x07\r\n",
            &[(1, 0, 1, url), (2, 0, 1, url)],
        );
        // Characters count, not columns.
        links(
            "漢\x1b]8;;http://x/1\x07字\x1b]8;;\x07\r\n".as_bytes(),
            &[(1, 1, 2, url)],
        );
        // Colours within a link, and their reset, do not divide or end it.
        links(
            b"\x1b]8;;http://x/1\x07a\x1b[31mb\x1b[mc\x1b]8;;\x07d\r\n",
            &[(1, 0, 3, url)],
        );
        // Another link, the reset of the terminal, and an address that is none end it.
        links(
            b"\x1b]8;;http://x/1\x07a\x1b]8;;http://x/2\x07b\x1bcc\r\n",
            &[(1, 0, 1, url), (1, 1, 2, "http://x/2")],
        );
        links(
            b"\x1b]8;;http://x/1\x07a\x1b]8;;http://x/2\x07b\x1b]8;;file:///x\x07c\r\n",
            &[(1, 0, 1, url), (1, 1, 2, "http://x/2")],
        );
        // Overwritten and erased.
        links(
            b"\x1b]8;;http://x/1\x07abc\x1b]8;;\x07\x1b[2GX\r\n",
            &[(1, 0, 1, url), (1, 2, 3, url)],
        );
        links(
            b"\x1b]8;;http://x/1\x07abc\x1b]8;;\x07\x1b[2G\x1b[K\r\n",
            &[(1, 0, 1, url)],
        );
    }

    #[test]
    fn hostile_links_are_text() {
        let plain = |bytes: &[u8]| links(bytes, &[]);
        plain(b"\x1b]8;;javascript:alert(1)\x07a\r\n");
        plain(b"\x1b]8;;https://a b\x07a\r\n");
        plain(b"\x1b]8;;https://\xff\xfe\x07a\r\n");
        plain("\x1b]8;;https://ä\x07a\r\n".as_bytes());
        // Malformed: without its second `;`. An unterminated one swallows what follows, as in tmux.
        plain(b"\x1b]8;https://a\x07a\r\n");
        plain(b"a\r\n\x1b]8;;https://a\r\nb\r\n");
        // Cancelled.
        plain(b"\x1b]8;;https://a\x18a\r\n");
        let long = |bytes: usize| format!("https://{}", "x".repeat(bytes - 8));
        let of = |url: &str| {
            links_of(
                &mut Pane::new(9, 4),
                &[format!("\x1b]8;;{url}\x07a\x1b]8;;\x07\r\n").as_bytes()],
            )
        };
        assert_eq!(of(&long(2083)), [(1, 0, 1, long(2083))]);
        assert_eq!(of(&long(2084)), []);
        assert_eq!(of(&long(100_000)), []);
        // Controls in an address are dropped, as tmux drops them.
        links(
            b"\x1b]8;;http://x\x01/\x0a1\x07a\x1b]8;;\x07\r\n",
            &[(1, 0, 1, "http://x/1")],
        );
    }

    /// Of ten thousand addresses at once, the last ones are known; one by one, all are.
    #[test]
    fn a_flood_of_links_is_bounded_and_right() {
        let line = |n: usize| format!("\x1b]8;;http://x/{n}\x07{n}\x1b]8;;\x07\r\n");
        let lines: Vec<String> = (1..=10_000).map(line).collect();
        let all = lines.concat();
        let whole: Vec<&[u8]> = vec![all.as_bytes()];
        let single: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        for (pieces, count) in [(whole, 1..=1024), (single, 10_000..=10_000)] {
            let found = links_of(&mut Pane::new(9, 4), &pieces);
            assert!(count.contains(&found.len()), "{}", found.len());
            for (line, start, end, url) in found {
                assert_eq!(url, format!("http://x/{line}"));
                assert_eq!((start, end as usize), (0, line.to_string().len()));
            }
        }
    }

    proptest! {
        /// Any bytes of links leave the text as it is, and links are within their lines, in order and valid.
        #[test]
        fn links_change_no_text(parts in prop::collection::vec(prop_oneof![
            3 => "[a-z ]{1,12}".prop_map(String::into_bytes),
            2 => Just(b"\r\n".to_vec()),
            1 => Just("漢e\u{301}".as_bytes().to_vec()),
            2 => "(id=[a-z]{0,3}|)".prop_flat_map(|id| "[ -~]{0,9}".prop_map(move |path| format!("\x1b]8;{id};https://{path}\x07").into_bytes())),
            1 => prop::collection::vec(0x20_u8..=0xff, 0..9).prop_map(|bytes| [b"\x1b]8;;http://", &*bytes, b"\x07"].concat()),
            2 => Just(b"\x1b]8;;\x1b\\".to_vec()),
            1 => prop::sample::select(vec!["\x1b[A", "\x1b[3D", "\x1b[P", "\x1b[@", "\x1b[K", "\x1b[L", "\x1b7", "\x1b8", "\x1bM", "\t", "\r"]).prop_map(|it| it.as_bytes().to_vec()),
        ], 0..50)) {
            let is_link = |part: &&Vec<u8>| !part.starts_with(b"\x1b]8;");
            let (mut linked, mut bare) = (Pane::new(9, 4), Pane::new(9, 4));
            let found = links_of(&mut linked, &[&parts.concat()]);
            let without: Vec<u8> = parts.iter().filter(is_link).flatten().copied().collect();
            prop_assert_eq!(links_of(&mut bare, &[&without]), []);
            prop_assert_eq!(linked.lines(), bare.lines());
            let mut last = (i64::MIN, 0);
            for (line, start, end, url) in found {
                prop_assert!(start < end && last <= (line, start), "{last:?} {line} {start}");
                prop_assert!(crate::event::is_address(&url));
                last = (line, end);
            }
        }
    }
}
mod sync_points {
    //! Tests of sync points: where a stream begins, and where it is resynced.

    use super::super::tracker::Difference;
    use super::*;
    use crate::event::Cursor;
    use crate::track::TerminalModes;

    #[test]
    fn a_stream_continues_within_lines_and_sequences() {
        // A line whose beginning has scrolled off, a pending wrap, and an unfinished sequence.
        let mut sync_point = sync_point(4, &["old", "abcd", "efgh", "ijkl"], 2);
        sync_point.capture.rows[3].wrapped = false;
        sync_point.pending = b"\x1b[3".to_vec();
        let mut pane = Pane {
            stream: StreamTracker::new(Tracker::baseline(&sync_point.capture), &sync_point),
            now: Duration::ZERO,
            changes: vec![],
        };
        // The rest of the sequence, and of a character whose beginning tmux had.
        pane.feed(b"1m\xa2m\r\nnext\r\n");
        pane.settle();
        assert_eq!(pane.reported(), "abcdefghijklm\nnext\n");
        assert_eq!(pane.lines()[0], "abcdefghijklm");
    }

    /// tmux reports an abandoned string as pending until the next sequence.
    #[test]
    fn an_abandoned_string_stays_so_through_a_resync() {
        let mut pane = Pane::new(9, 3);
        pane.feed(b"one\r\n\x1bkfoo");
        pane.now += Duration::from_secs(4);
        let mut other = sync_point(20, &["one", "", ""], 0);
        other.capture.cursor = crate::event::Cursor { x: 0, y: 1 };
        other.pending = b"\x1bkfoo".to_vec();
        pane.changes.extend(pane.stream.resync(&other, pane.now));
        // The five seconds count from the beginning of the string.
        pane.now += Duration::from_secs(1);
        pane.feed(b"two");
        let mut other = sync_point(9, &["one", "two", ""], 0);
        other.pending = b"\x1bkfoo".to_vec();
        pane.changes.extend(pane.stream.resync(&other, pane.now));
        pane.feed(b" three\r\n");
        pane.settle();
        assert_eq!(pane.lines(), ["one", "two three"]);
    }

    #[test]
    fn modes_and_screens_are_those_of_the_sync_point() {
        let mut sync_point = sync_point(9, &["a", "b", "c", "d"], 0);
        sync_point.modes = TerminalModes {
            region: (1, 2),
            tabs: Some(vec![3]),
            ..TerminalModes::default()
        };
        sync_point.capture.cursor = crate::event::Cursor { x: 0, y: 2 };
        let mut pane = Pane::at(&sync_point);
        pane.feed(b"\n\tx");
        let shown = pane.stream.terminal.shown();
        let shown: Vec<&str> = shown.iter().map(|row| row.text.trim_end()).collect();
        assert_eq!(shown, ["a", "c", "   x", "d"]);

        let mut full = empty(9, 3);
        full.capture.alternate = true;
        full.capture.rows[0].text = "vim".into();
        full.capture.saved = Some(crate::track::SavedScreen {
            cursor: crate::event::Cursor { x: 2, y: 1 },
            rows: super::sync_point(9, &["$ vim", "$ ", ""], 0).capture.rows,
        });
        let mut pane = Pane::at(&full);
        pane.feed(b"\x1b[?1049lexit\r\n");
        pane.settle();
        assert_eq!(pane.lines(), ["$ vim", "$ exit"]);
    }

    /// With the option `alternate-screen` off, lines of a full-screen program are ordinary lines.
    #[test]
    fn without_an_alternate_screen_all_lines_are_reported() {
        let mut sync_point = empty(20, 5);
        sync_point.modes.alternates = false;
        let mut pane = Pane::at(&sync_point);
        pane.feed(b"before\r\n\x1b[?1049h");
        let lines: Vec<String> = (1..=30).map(|line| format!("line {line}")).collect();
        pane.feed(
            lines
                .iter()
                .map(|line| format!("{line}\r\n"))
                .collect::<String>()
                .as_bytes(),
        );
        pane.feed(b"\x1b[?1049lafter\r\n");
        pane.settle();
        let before = std::iter::once("before".to_owned());
        let all = before.chain(lines).chain(["after".to_owned()]);
        assert_eq!(pane.lines(), all.collect::<Vec<_>>());
    }

    #[test]
    fn a_resync_that_agrees_reports_nothing() {
        let mut pane = Pane::new(9, 4);
        pane.feed(b"one\r\ntwo\r\nthree");
        pane.settle();
        let same = sync_point(9, &["one", "two", "three", ""], 0);
        assert_eq!(pane.stream.difference(&same.capture), None);
        let before = pane.changes.clone();
        let now = pane.now;
        let changes = pane.stream.resync(&same, now);
        pane.changes.extend(changes);
        pane.settle();
        assert_eq!(pane.changes, before);
    }

    #[test]
    fn tmux_wins_where_screens_differ() {
        let mut pane = Pane::new(9, 4);
        pane.feed(b"one\r\ntwo\r\nthree");
        pane.settle();
        let other = sync_point(9, &["one", "2", "three", ""], 0);
        let difference = Difference::Row {
            row: 1,
            stream: "two".into(),
            tmux: "2".into(),
        };
        assert_eq!(pane.stream.difference(&other.capture), Some(difference));
        let changes = pane.stream.resync(&other, pane.now);
        assert_eq!(
            changes,
            [Change::Revised {
                line: 2,
                text: "2".into()
            }]
        );
        assert_eq!(pane.stream.difference(&other.capture), None);
    }

    /// No byte shows that `send-keys -R` scrolls the screen off and moves the cursor to its top.
    #[test]
    fn a_line_that_was_cut_from_outside_is_two_lines() {
        let mut pane = Pane::new(9, 4);
        pane.feed(b"one\r\ntwo\r\nthree");
        pane.settle();
        pane.feed(b"four\r\nfive\r\n");
        pane.settle();
        assert_eq!(pane.lines(), ["one", "two", "threefour", "five"]);
        let mut reset = sync_point(9, &["one", "two", "three", "four", "five", "", ""], 3);
        reset.capture.cursor = Cursor { x: 0, y: 2 };
        let changes = pane.stream.resync(&reset, pane.now);
        pane.changes.extend(changes);
        pane.settle();
        assert_eq!(pane.lines(), ["one", "two", "three", "four", "five"]);
        assert_eq!(pane.stream.difference(&reset.capture), None);
    }

    /// A line that was reset, and that was reported while it was unfinished, is corrected after it has
    /// scrolled off, too.
    #[test]
    fn lines_that_have_scrolled_off_are_corrected() {
        let mut pane = Pane::new(9, 3);
        pane.feed(b"one\r\ntwo");
        pane.settle();
        pane.feed(b"three\r\n");
        let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
        pane.feed((numbers.join("\r\n") + "\r\n").as_bytes());
        pane.settle();
        let numbers = numbers.iter().map(String::as_str);
        let lines: Vec<&str> = ["one", "two", "three"].into_iter().chain(numbers).collect();
        let mut rows = lines.clone();
        rows.push("");
        let mut reset = sync_point(9, &rows, rows.len() - 3);
        reset.capture.cursor = Cursor { x: 0, y: 2 };
        assert!(pane.stream.rows_to_compare() as usize >= rows.len() - 3);
        assert!(pane.stream.differs_above_screen(&reset.capture));
        let changes = pane.stream.resync(&reset, pane.now);
        pane.changes.extend(changes);
        pane.settle();
        assert_eq!(pane.lines(), lines);
    }

    /// Equal lines are found again in rewrapped rows.
    #[test]
    fn a_resize_loses_and_repeats_nothing() {
        let mut pane = Pane::new(10, 4);
        let line = "same text in each line";
        for _ in 0..20 {
            pane.feed(format!("{line}\r\n").as_bytes());
        }
        pane.poll();
        // Twenty columns: two rows a line.
        let mut rows = Vec::new();
        for _ in 0..20 {
            rows.extend(["same text in each li", "ne"]);
        }
        rows.push("");
        let mut wider = sync_point(20, &rows, rows.len() - 4);
        wider.capture.cursor = crate::event::Cursor { x: 0, y: 3 };
        let changes = pane.stream.resync(&wider, pane.now);
        pane.changes.extend(changes);
        pane.feed(b"after\r\n");
        pane.settle();
        assert_eq!(pane.reported(), format!("{line}\n").repeat(20) + "after\n");
    }

    /// tmux damages text when it rewraps rows. The stream has all lines, so unknown ones are not reported,
    /// and numbers continue at the cursor.
    #[test]
    fn lines_not_found_after_a_resize_are_no_gap() {
        let mut pane = Pane::new(10, 3);
        pane.feed(b"one\r\ntwo\r\nthree\r\n");
        pane.settle();
        let other = sync_point(20, &["something", "else", "entirely", ""], 1);
        let changes = pane.stream.resync(&other, pane.now);
        assert_eq!(changes, []);
        pane.feed(b"\r\nfour\r\n");
        pane.settle();
        assert_eq!(pane.reported(), "one\ntwo\nthree\nentirely\nfour\n");
    }

    /// Dropped lines are counted and later ones are known, so there is no other gap.
    #[test]
    fn lines_on_the_screen_after_a_drop_are_known() {
        let mut pane = Pane::new(10, 3);
        pane.feed(b"one\r\ntwo");
        pane.settle();
        let changes = pane.stream.bytes_dropped(5, pane.now);
        pane.changes.extend(changes);
        pane.feed(b"six\r\nseven");
        pane.settle();
        let other = sync_point(10, &["something", "else", "entirely"], 1);
        let changes = pane.stream.resync(&other, pane.now);
        // Line 8 was unfinished, and reported.
        assert_eq!(pane.stream.tracker.cursor_line(), 9);
        assert!(
            !changes
                .iter()
                .any(|change| matches!(change, Change::Gap { .. })),
            "{changes:?}"
        );
    }

    /// Lines that the stream missed are reported, because their position is unambiguous.
    #[test]
    fn missed_lines_are_reported() {
        let mut pane = Pane::new(10, 3);
        pane.feed(b"one\r\ntwo\r\nthree\r\n");
        pane.settle();
        let more = sync_point(12, &["one", "two", "three", "four", "five", "six"], 3);
        let changes = pane.stream.resync(&more, pane.now);
        pane.changes.extend(changes);
        pane.feed(b"\r\n");
        pane.settle();
        assert_eq!(pane.reported(), "one\ntwo\nthree\nfour\nfive\nsix\n");
    }

    /// Every printed line is reported, or counted as lost.
    #[test]
    fn dropped_lines_are_counted() {
        let printed: String = (1..=500).map(|n| format!("line {n}\r\n")).collect();
        for (from, to) in [(100, 100), (1003, 1005), (1003, 1014), (7, 2000), (0, 5)] {
            let mut pane = Pane::new(30, 5);
            pane.feed(&printed.as_bytes()[..from]);
            pane.poll();
            let lost = printed[from..to].matches('\n').count() as u64;
            let changes = pane.stream.bytes_dropped(lost, pane.now);
            pane.changes.extend(changes);
            pane.feed(&printed.as_bytes()[to..]);
            pane.settle();
            let reported = pane.reported().lines().count() as u64;
            assert_eq!(reported + lost, 500, "{from}..{to}");
            let last = pane.replay().into_iter().next_back().unwrap();
            assert_eq!(last, (500, "line 500".to_owned()), "{from}..{to}");
        }
    }

    /// Polling continues where the stream ended.
    #[test]
    fn polling_continues_with_the_same_numbers() {
        let mut pane = Pane::new(9, 3);
        pane.feed(b"one\r\ntwo\r\nthree\r\nfour");
        pane.settle();
        let capture = sync_point(9, &["one", "two", "three", "four"], 1).capture;
        assert_eq!(pane.stream.difference(&capture), None);
        let (mut tracker, changes) = pane.stream.into_polling(pane.now);
        assert_eq!(changes, []);
        let later = sync_point(9, &["one", "two", "three", "four", "five", ""], 3).capture;
        let mut reported = Vec::new();
        for _ in 0..2 {
            match tracker.apply(&later, false) {
                Some(changes) => reported.extend(changes),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            reported.first(),
            Some(&Change::Lines {
                first_line: 4,
                chunk: "four\n".into()
            })
        );
    }
}
mod terminal {
    //! The effects of a pane's bytes, as measured on tmux 3.3a.

    use super::super::ShellMark;
    use super::*;

    /// Asserts the final rows of the screen, and the number of rows that have scrolled off.
    #[track_caller]
    fn shows(width: u32, height: u32, bytes: &str, rows: &[&str], scrolled: i64) {
        let mut pane = Pane::new(width, height);
        pane.feed(bytes.as_bytes());
        let shown = pane.stream.terminal.shown();
        let shown: Vec<&str> = shown.iter().map(|row| row.text.trim_end()).collect();
        assert_eq!(shown, rows, "{bytes:?}");
        assert_eq!(
            pane.stream.terminal.grid.scrolled.total, scrolled,
            "{bytes:?}"
        );
    }

    #[test]
    fn erasing_the_screen_keeps_its_rows_in_the_history() {
        for erases in [
            "\x1b[H\x1b[J",
            "\x1b[2J\x1b[H",
            "\x1bc",
            "\x1b[?3h",
            "\x1b[?3;4l",
            "\x1b[?25;03h",
        ] {
            shows(9, 4, &format!("a\r\nb{erases}c"), &["c", "", "", ""], 2);
        }
        shows(9, 3, "a\r\nb\x1b[1;2H\x1b[J", &["a", "", ""], 0);
        shows(9, 3, "\x1b[?1049ha\r\nb\x1b[H\x1b[J", &["", "", ""], 0);
    }

    #[test]
    fn a_region_scrolls_into_the_history_wherever_it_begins() {
        shows(
            9,
            4,
            "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nx",
            &["a", "c", "x", "d"],
            1,
        );
        shows(
            9,
            4,
            "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2S",
            &["a", "", "", "d"],
            2,
        );
        shows(
            9,
            4,
            "\x1b[?47ha\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nx",
            &["a", "c", "x", "d"],
            0,
        );
        // Deleted rows do not go to the history.
        shows(9, 3, "a\r\nb\r\nc\x1b[H\x1b[2M", &["c", "", ""], 0);
    }

    #[test]
    fn wide_characters_and_marks_are_in_their_places() {
        shows(4, 3, "abc漢d", &["abc", "漢d", ""], 0);
        shows(6, 2, "漢字字\x1b[1;4Hx", &["漢 x字", ""], 0);
        // A wide character in the first column stays whole.
        shows(6, 2, "漢字\x1b[1;2Hx", &["漢x字", ""], 0);
        shows(
            9,
            2,
            "e\u{301}x\u{301}\u{302}y",
            &["e\u{301}x\u{301}\u{302}y", ""],
            0,
        );
        shows(9, 2, "👩\u{200d}💻x", &["👩\u{200d}💻x", ""], 0);
        shows(1, 2, "漢a", &["a", ""], 0);
    }

    /// Before 3.4, tmux writes plain text in runs, and forgets a joiner at the end of the bytes that it has
    /// read together.
    #[test]
    fn a_joiner_waits_for_what_is_not_plain_text() {
        shows(9, 2, "ab\u{200d}\r\ncd💻e", &["ab", "cd\u{200d}💻e"], 0);
        shows(9, 1, "ab\u{200d}\x1b[?7lcd", &["ab\u{200d}cd"], 0);
        shows(9, 1, "ab\u{200d}\r💻c", &["cb"], 0);
        for (pause, shown) in [(0, "abcd\u{200d}💻"), (100, "abcd💻")] {
            let mut pane = Pane::new(9, 1);
            pane.feed("ab\u{200d}cd".as_bytes());
            pane.now += Duration::from_millis(pause);
            pane.feed("💻".as_bytes());
            assert_eq!(pane.stream.terminal.shown()[0].text, shown);
        }
    }

    #[test]
    fn strings_that_are_not_text_are_not_printed() {
        shows(30, 1, "\x1bktitle\x1b\\a", &["a"], 0);
        shows(30, 1, "\x1bPtmux;\x1b\x1b]0;b\x07c\x1b\\a", &["a"], 0);
        shows(
            30,
            1,
            "\x1b]8;;https://é.example\x1b\\a\x1b]8;;\x07",
            &["a"],
            0,
        );
        shows(30, 1, "a\u{85}b\u{9b}c\0\x7f", &["abc"], 0);
        // Letters, as captures have them.
        shows(30, 1, "\x1b(0lqk\x1b(B", &["lqk"], 0);
    }

    /// tmux waits for five seconds from the beginning of the string.
    #[test]
    fn a_string_without_an_end_is_abandoned() {
        for begins in [
            "\x1bk", "\x1bP", "\x1bPq", "\x1b]0;", "\x1b_", "\x1b^", "\x1bX",
        ] {
            let mut pane = Pane::new(9, 2);
            let shown = |pane: &Pane| pane.stream.terminal.shown()[0].text.trim_end().to_owned();
            pane.feed(format!("a\x1b[1;4H\x1b7\x1b[7;42m{begins}foo").as_bytes());
            pane.now += Duration::from_millis(4999);
            pane.feed(b"bar");
            assert_eq!(shown(&pane), "a", "{begins:?}");
            pane.now += Duration::from_millis(1);
            pane.feed(b"b");
            assert_eq!(shown(&pane), "a  b", "{begins:?}");
            // Saved cursor and background are reset.
            pane.feed(b"\x1b8c\x1b[K");
            assert_eq!(shown(&pane), "c", "{begins:?}");
            // A string that has ended does not count.
            pane.feed(b"\x1bkname\x1b\\");
            pane.now += Duration::from_secs(9);
            pane.feed(b"\x1bkna");
            pane.now += Duration::from_secs(1);
            pane.feed(b"me\x1b\\d");
            assert_eq!(shown(&pane), "cd", "{begins:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_dropped() {
        let mut pane = Pane::new(20, 1);
        pane.feed(b"a\xffb\xc3(c\xe6\xbcd\x80e");
        assert_eq!(pane.stream.terminal.shown()[0].text, "ab(cde");
    }

    #[test]
    fn sequences_unknown_to_tmux_do_nothing() {
        shows(9, 2, "ab\x1b[2aC\x1b[!p\x1b[5Wd", &["abCd", ""], 0);
        shows(9, 2, "x\x1b[3bz", &["xxxxz", ""], 0);
        shows(4, 2, "x\x1b[99b", &["xxxx", ""], 0);
        // Unknown sequences keep the character that REP repeats, too.
        for unknown in ["[?9z", "[3 z", "[!p", "#9", "##8", "[2147483648D"] {
            shows(9, 1, &format!("x\x1b{unknown}\x1b[3by"), &["xxxxy"], 0);
        }
        for known in ["[c", "[>1;2q", "[m", "[2 q", "(B", "=", "[?2004h"] {
            shows(9, 1, &format!("x\x1b{known}\x1b[3by"), &["xy"], 0);
        }
        shows(9, 1, "a\x1b##8b", &["ab"], 0);
    }

    #[test]
    fn a_control_within_a_sequence_ends_a_character() {
        let mut pane = Pane::new(20, 1);
        pane.feed(b"ab\xe2\x82\x1b[1\0m\xacX");
        assert_eq!(pane.stream.terminal.shown()[0].text, "abX");
        shows(9, 2, "ab\x1b[1\nC\x1b[4\rCx", &["ab", "    x"], 0);
    }

    #[test]
    fn numbers_are_taken_as_tmux_takes_them() {
        shows(9, 1, "a\x1b[65537Cb", &["a       b"], 0);
        shows(9, 1, "abcdef\x1b[5:3Dx", &["abcdefx"], 0);
        shows(9, 1, "abc\x1b[1;2:3Hx", &["abcx"], 0);
        // Parameters of sequences that have none are ignored.
        shows(9, 1, "ab\x1b[1:2scd\x1b[3:4ux", &["abxd"], 0);
        shows(9, 1, "abc\x1b[2147483648Dx", &["abcx"], 0);
        shows(9, 1, "abc\x1b[65536Jx", &["abcx"], 0);
        shows(9, 1, &format!("abc\x1b[{}Hx", ";".repeat(23)), &["abcx"], 0);
        shows(9, 1, &format!("abc\x1b[{}Hx", ";".repeat(22)), &["xbc"], 0);
        shows(9, 1, &format!("abc\x1b[{:064}Dx", 2), &["abcx"], 0);
        shows(9, 1, &format!("abc\x1b[{:063}Dx", 2), &["axc"], 0);
    }

    /// A region's end may be left out; zero is the first row.
    #[test]
    fn a_region_that_ends_in_row_zero_is_none() {
        shows(
            20,
            3,
            "one\r\ntwo\x1b[0;0rthree",
            &["one", "twothree", ""],
            0,
        );
        shows(
            20,
            5,
            "\x1b[2;4r\x1b[1;0rab\x1b[5;1H\ncd\r\nef",
            &["ab", "", "", "", "ef"],
            0,
        );
        shows(9, 3, "a\x1b[2rb\x1b[;2rc", &["c", "", ""], 0);
    }

    #[test]
    fn lines_end_where_tmux_ends_them() {
        let wrapped = |bytes: &str| {
            let mut pane = Pane::new(4, 3);
            pane.feed(bytes.as_bytes());
            pane.stream.terminal.shown()[0].wrapped
        };
        assert!(wrapped("abcdef"));
        assert!(wrapped("abcdef\r\n"));
        assert!(wrapped("abcdef\x1b[2;2H\x1b[K"));
        assert!(!wrapped("abcdef\r\x1b[K"));
        assert!(!wrapped("abcdef\x1b[H\x1b[2K"));
        // Deleting all cells of a row ends the line, too; deleting some does not.
        assert!(!wrapped("abcdef\x1b[2;1H\x1b[4P"));
        assert!(!wrapped("abcdef\x1b[H\x1b[9P"));
        assert!(wrapped("abcdef\x1b[H\x1b[3P"));
        assert!(!wrapped("abcd"));
    }

    #[test]
    fn shell_marks_delimit_commands() {
        let mut pane = Pane::new(12, 5);
        pane.feed(b"\x1b]133;A\x07$ \x1b]133;B\x07echo one two\r\n\x1b]133;C\x1b\\one two\r\n\x1b]133;D;3\x07");
        pane.feed(
            b"\x1b]133;A\x07$ \x1b]133;B\x07for a in b\r\n> do x\r\n\x1b]133;C\x07\x1b]133;D\x07",
        );
        pane.feed(b"\x1b]133;B\x07long gone\x1b[2J\x1b[H\x1b]133;C\x07\x1b]133;Z\x07");
        let started = |command: Option<&str>| ShellMark::Started {
            command: command.map(str::to_owned),
        };
        let finished = |exit_status| ShellMark::Finished { exit_status };
        let marks = [
            ShellMark::Prompt,
            ShellMark::Input,
            started(Some("echo one two")),
            finished(Some(3)),
            ShellMark::Prompt,
            ShellMark::Input,
            started(Some("for a in b\n> do x")),
            finished(None),
            ShellMark::Input,
            started(None),
        ];
        assert_eq!(pane.stream.shell_marks(), marks);
        assert_eq!(pane.stream.shell_marks(), []);
    }

    #[test]
    fn only_an_ed_3_without_another_parameter_clears_the_history() {
        for (order, left) in [("\x1b[3J", 0), ("\x1b[3;0J", 0), ("\x1b[3;7J", 1)] {
            let mut pane = Pane::new(4, 2);
            pane.feed(format!("a\r\nb\r\nc{order}").as_bytes());
            let history = &pane.stream.terminal.grid.scrolled.history;
            assert_eq!(history.size, left, "{order:?}");
        }
    }
}

use std::collections::BTreeMap;
mod long_lines {
    //! Lines of more than 64 KiB, beside checks and resizes: each character is reported once.

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::track::sim::Sim;

    #[derive(Clone, Debug)]
    enum Step {
        /// Prints this many bytes of the line.
        Print(usize),
        /// Prints one character many times, so that no text shows a position.
        Repeat(usize),
        Check,
        Resize(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1_usize..90_000).prop_map(Step::Print),
            2 => (1_usize..90_000).prop_map(Step::Repeat),
            2 => (1_usize..400).prop_map(Step::Print),
            4 => Just(Step::Check),
            3 => (8_usize..200, 1_usize..50).prop_map(|(width, height)| Step::Resize(width, height)),
        ]
    }

    struct Watched {
        sim: Sim,
        pane: Pane,
        printed: String,
    }

    impl Watched {
        fn print(&mut self, text: &str) {
            self.sim.print(text);
            self.printed.push_str(&text.replace('\n', ""));
            self.pane.feed(text.replace('\n', "\r\n").as_bytes());
            self.pane.now += Duration::from_millis(20);
            self.pane.poll();
        }

        /// Compares the screen, as the observer does.
        fn check(&mut self, is_urgent: bool) {
            let depth = self.pane.stream.rows_to_compare();
            let mut sync_point = SyncPoint {
                capture: self.sim.capture(depth as usize),
                ..SyncPoint::default()
            };
            sync_point.capture.at = self.pane.now;
            let capture = &sync_point.capture;
            assert!(
                is_urgent || !self.pane.stream.is_behind(capture),
                "nothing is in transit"
            );
            let difference = self.pane.stream.difference(capture);
            let differs = self.pane.stream.differs_above_screen(capture);
            assert!(
                is_urgent || difference.is_none() && !differs,
                "{difference:?} {differs}"
            );
            if is_urgent {
                let changes = self.pane.stream.resync(&sync_point, self.pane.now);
                self.pane.changes.extend(changes);
            } else {
                self.pane.stream.confirm(capture);
            }
        }
    }

    /// Without a history, tmux loses rows at a resize that is over before the next comparison.
    #[test]
    fn two_resizes_between_comparisons_lose_and_repeat_nothing() {
        for (width, height) in [(80, 10), (40, 24), (30, 8), (200, 24)] {
            for is_long in [false, true] {
                let sim = Sim::new(80, 24, 0);
                let start = SyncPoint {
                    capture: sim.capture(0),
                    ..SyncPoint::default()
                };
                let mut watched = Watched {
                    sim,
                    pane: Pane::at(&start),
                    printed: String::new(),
                };
                for number in 0..50 {
                    watched.print(&format!("line {number}\n"));
                }
                if is_long {
                    watched.print(&"0123456789-".repeat(150));
                }
                watched.sim.set_height(height);
                watched.sim.set_width(width);
                watched.print("");
                watched.sim.set_height(24);
                watched.sim.set_width(80);
                watched.check(true);
                watched.print("more");
                watched.pane.settle();
                watched.pane.end();
                let settled = watched.pane.reported().replace('\n', "");
                let replayed: String = watched.pane.replay().into_values().collect();
                let place = format!("through {width}x{height}");
                assert!(settled == watched.printed, "{place}: {settled}");
                assert!(replayed == watched.printed, "{place}: {replayed}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 60, ..ProptestConfig::default() })]

        #[test]
        fn each_character_is_reported_once(
            limit in prop_oneof![Just(0_usize), Just(50), Just(2000), Just(50_000)],
            steps in vec(step(), 1..14),
        ) {
            let sim = Sim::new(80, 24, limit);
            let mut start = SyncPoint { capture: sim.capture(0), ..SyncPoint::default() };
            start.capture.at = Duration::ZERO;
            let mut watched = Watched { sim, pane: Pane::at(&start), printed: String::new() };
            for step in &steps {
                match *step {
                    Step::Print(bytes) => {
                        let from = watched.printed.len();
                        let text: String = (from..from + bytes).map(|at| {
                            // Numbers of seven digits.
                            char::from(format!("{:07}-", at / 8).as_bytes()[at % 8])
                        }).collect();
                        watched.print(&text);
                    }
                    Step::Repeat(times) => watched.print(&"x".repeat(times)),
                    Step::Check => watched.check(false),
                    Step::Resize(width, height) => {
                        watched.sim.set_width(width);
                        watched.sim.set_height(height);
                        watched.check(true);
                    }
                }
            }
            watched.pane.settle();
            watched.pane.end();
            let gaps = watched.pane.changes.iter().filter(|change| matches!(change, Change::Gap { .. }));
            prop_assert_eq!(gaps.count(), 0);
            let settled = watched.pane.reported().replace('\n', "");
            prop_assert!(settled == watched.printed, "{} of {}", settled.len(), watched.printed.len());
            let replayed: String = watched.pane.replay().into_values().collect();
            prop_assert!(replayed == watched.printed, "{} of {}", replayed.len(), watched.printed.len());
        }
    }
}
use std::time::Duration;

use super::super::{Capture, Change, PaneNumbers, Row, Tracker};
use super::{StreamTracker, SyncPoint};

/// Longer than any change waits to be reported.
const LONG: Duration = Duration::from_millis(500);

/// A streamed pane and its changes.
struct Pane {
    stream: StreamTracker,
    now: Duration,
    changes: Vec<Change>,
}

impl Pane {
    /// A pane that has just appeared.
    fn new(width: u32, height: u32) -> Self {
        Self::at(&empty(width, height))
    }

    /// A pane that has just appeared, with the content of a sync point.
    fn at(sync_point: &SyncPoint) -> Self {
        let (tracker, changes) = Tracker::fresh(&sync_point.capture);
        Self {
            stream: StreamTracker::new(tracker, sync_point),
            now: Duration::ZERO,
            changes,
        }
    }

    /// Feeds bytes, and takes changes when the stream is full.
    fn feed(&mut self, mut bytes: &[u8]) {
        self.stream.advance_clock(self.now);
        loop {
            let taken = self.stream.feed(bytes);
            bytes = &bytes[taken..];
            if bytes.is_empty() {
                return;
            }
            self.poll();
            self.stream.shell_marks();
        }
    }

    fn poll(&mut self) {
        self.changes.extend(self.stream.changes(self.now));
    }

    /// Takes changes until none are pending.
    fn settle(&mut self) {
        for _ in 0..3 {
            self.now += LONG;
            self.poll();
        }
    }

    /// Takes changes for this long, whenever some are due.
    fn settle_for(&mut self, period: Duration) {
        let end = self.now + period;
        self.poll();
        while let Some(due) = self.stream.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.poll();
        }
        self.now = end;
        self.stream.advance_clock(end);
        self.poll();
    }

    fn end(&mut self) {
        self.changes.extend(self.stream.end(self.now));
    }

    /// Returns the last texts of all lines by number.
    fn replay(&self) -> BTreeMap<i64, String> {
        replay(&self.changes)
    }

    /// Returns the last texts from line 1 on, without blank lines at the end.
    fn lines(&self) -> Vec<String> {
        let replay = self.replay();
        let lines = replay.range(1..).map(|(_, text)| text);
        trimmed(lines.map(|text| text.trim_end_matches(' ').to_owned()))
    }

    /// Returns the settled lines.
    fn reported(&self) -> String {
        let chunks = self.changes.iter().filter_map(|change| match change {
            Change::Lines { chunk, .. } => Some(chunk.as_str()),
            _ => None,
        });
        chunks.collect()
    }
}

fn replay(changes: &[Change]) -> BTreeMap<i64, String> {
    let mut lines = BTreeMap::new();
    let mut next = i64::MIN;
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                assert!(*first_line >= next, "numbers continue: {changes:#?}");
                assert!(chunk.ends_with('\n'), "{chunk:?}");
                lines.extend((*first_line..).zip(chunk.lines().map(str::to_owned)));
                next = first_line + chunk.lines().count() as i64;
            }
            Change::Revised { line, text } => {
                lines.insert(*line, text.clone());
            }
            Change::Gap {
                first_line,
                lost_lines,
                ..
            } => {
                assert!(*first_line >= next, "numbers continue: {changes:#?}");
                next = first_line + lost_lines.unwrap_or(0) as i64;
            }
            Change::Screen { .. } => {}
        }
    }
    lines
}

fn trimmed(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn empty(width: u32, height: u32) -> SyncPoint {
    sync_point(width, &vec![""; height as usize], 0)
}

/// A sync point with these rows, of which `history` are above the screen. Rows as wide as the pane
/// continue in the next one. The cursor is behind the last text.
fn sync_point(width: u32, rows: &[&str], history: usize) -> SyncPoint {
    let wraps = |row: &str| row.chars().count() == width as usize;
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row {
            text: (*row).into(),
            wrapped: wraps(row),
        })
        .collect();
    let last = rows.iter().rposition(|row| !row.text.is_empty());
    let last = last.unwrap_or(history).max(history);
    let capture = Capture {
        numbers: PaneNumbers {
            width,
            height: (rows.len() - history) as u32,
            history_size: history as u32,
            history_limit: 2000,
            cursor: crate::event::Cursor {
                x: rows[last].text.chars().count() as u32,
                y: (last - history) as u32,
            },
            ..PaneNumbers::default()
        },
        rows,
        ..Capture::default()
    };
    SyncPoint {
        capture,
        ..SyncPoint::default()
    }
}
