//! Tests of the console.

use super::*;
use crate::face::samples::*;

mod agents {
    //! Tests panes whose screen an agent draws.

    use super::*;

    const CLAUDE: &str = "\
❯ fix the failing test

● I will create a file.

────────────────────────────────────────
❯
────────────────────────────────────────
  ? for shortcuts
";

    #[test]
    fn the_decoration_of_agents_is_omitted() {
        let console = || Console::default().without_decoration(StateRules::builtin());
        // The first rows are held until the agent is recognized.
        let events = vec![
            (0, update(1, CLAUDE)),
            (200, revised(4, "✻ Herding… (1s · esc to interrupt)")),
            (
                1100,
                agent_state("idle", "claude empty-input (confirmed): ❯"),
            ),
            (1200, revised(4, "● All is well now.")),
            // The box moves down.
            (
                1200,
                update(
                    9,
                    "────────────────────────────────────────\n  ? for shortcuts\n",
                ),
            ),
            (9000, agent_state("idle", "shell prompt (inferred): $")),
            (9100, update(11, "──────────────────\n\nmine\n")),
        ];
        assert_eq!(
            play(console(), events.clone()),
            "x | ❯ fix the failing test\nx | ● I will create a file.\nx | ● All is well now.\n\
         x | ──────────────────\nx |\nx | mine\n"
        );
        let all = play(verbose().without_decoration(StateRules::builtin()), events);
        assert!(all.contains("x |   ? for shortcuts\n"), "{all}");
        // A box of another program is shown late.
        let events = vec![
            (
                0,
                update(1, "╭────────────────────╮\n│ a table            │\n"),
            ),
            (9000, update(3, "end\n")),
        ];
        assert_eq!(
            play(console(), events),
            "x | ╭────────────────────╮\nx | │ a table            │\nx | end\n"
        );
    }

    #[test]
    fn rows_of_an_agent_that_move_are_shown_once() {
        let console = Console::default().without_decoration(StateRules::builtin());
        let events = vec![
            (0, opened_with("%1", 80, 24, "claude")),
            (0, update(1, "● First.\n● Second.\n")),
            // A row is inserted above; the rows below are redrawn one row lower.
            (5000, revised(1, "● Before.")),
            (5000, revised(2, "● First.")),
            (5000, update(3, "● Second.\n")),
        ];
        assert_eq!(
            play(console, events),
            "x | ● First.\nx | ● Second.\nx ~ ● Before.\n"
        );
    }
}
mod lines {
    //! Tests the lines of events.

    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::event::{GapEvidence, PaneId};
    use crate::face::sanitize::tests::nasty;

    fn turn(evidence: Option<&str>) -> TdEvent {
        TdEvent::TurnCompleted {
            execution_id: "x".into(),
            marker: "END".into(),
            summary: "It is done.".into(),
            pane: Some("%1".into()),
            evidence: evidence.map(Into::into),
            agent_id: None,
        }
    }

    fn shown(events: impl IntoIterator<Item = TdEvent>) -> String {
        let mut console = Console::default();
        events
            .into_iter()
            .map(|event| show(&mut console, event))
            .collect()
    }

    #[test]
    fn each_event_has_its_line() {
        for (events, expected) in [
            (
                vec![update(1, "a\n\nb\n")],
                "job | [watching 1 pane]\njob | a\njob |\njob | b\n",
            ),
            (
                vec![gap(1, Some(12), "history_trimmed")],
                "job | [watching 1 pane]\njob | … 12 lines lost (history_trimmed)\n",
            ),
            (
                vec![gap(1, None, "history_trimmed")],
                "job | [watching 1 pane]\njob | … lines lost (history_trimmed)\n",
            ),
            (
                vec![drawn(), drawn(), update(1, "a\n"), drawn()],
                "job | [watching 1 pane]\njob | a\njob | [full-screen program]\n",
            ),
            // A changed line is held until it stays unchanged; this one vanishes earlier.
            (
                vec![
                    revised(1, "50%"),
                    update(1, "100%\n"),
                    revised(1, "done"),
                    revised(1, ""),
                ],
                "job | [watching 1 pane]\njob | 100%\n",
            ),
            (
                vec![update(1, "a\n"), turn(None), turn(Some("inferred"))],
                "job | [watching 1 pane]\njob | a\njob | [turn completed]\njob | [turn completed (inferred)]\n",
            ),
            // A session that ends with an unanswered prompt.
            (
                vec![
                    update(1, "a\n"),
                    revised(2, "Deploy? "),
                    session_ended("job"),
                ],
                "job | [watching 1 pane]\njob | a\njob | Deploy? \njob | [ended: the session was closed]\n",
            ),
        ] {
            let events = [session_started("job", &["%1"])].into_iter().chain(events);
            assert_eq!(shown(events), expected);
        }
    }

    #[test]
    fn executions_have_their_lines() {
        for (events, expected) in [
            (
                vec![
                    started("make\ntest"),
                    output("stdout", "first\n\n"),
                    output("stderr", "problem\n"),
                    completed(Some(7), None),
                ],
                "make@17 | [command] make^Jtest\nmake@17 | first\nmake@17 |\nmake@17 | [stderr] problem\nmake@17 | [execution_status] FAILURE: exit code 7 after 1.5 s\n",
            ),
            // An open line is held until its end, or the end of its execution.
            (
                vec![
                    output("stdout", "10%\r"),
                    output("log", "x\n"),
                    output("stdout", "50%"),
                    completed(None, Some(9)),
                ],
                "make@17 | [log] x\nmake@17 | 50%\nmake@17 | [execution_status] FAILURE: signal 9 (KILL) after 1.5 s\n",
            ),
            (
                vec![check("no", true), checked(1, 30)],
                "make@17 | [stderr] no\nmake@17 | [validation] FAILED: exit code 1 after 0.03 s\n",
            ),
        ] {
            assert_eq!(shown(events), expected);
        }
        let mut console = coloured();
        let line = show(&mut console, output("stdout", "\u{1b}[32mgreen\u{1b}[2J\n"));
        assert!(
            line.ends_with("make@17\u{1b}[0m | \u{1b}[32mgreen\u{1b}[0m\n"),
            "{line:?}"
        );
    }

    #[test]
    fn the_open_line_of_an_execution_is_live_below_the_panes() {
        let mut console = Console::default();
        show(&mut console, session_started("job", &["%1"]));
        show(&mut console, revised(1, "10%"));
        show(&mut console, output("stderr", "a long open line"));
        assert_eq!(
            live(&console, 80).unwrap(),
            "make@17 | [stderr] a long open line"
        );
        assert_eq!(live(&console, 20).unwrap(), "make@17 | [stderr] a");
        assert_eq!(live(&console, 9).unwrap(), "job | 10%");
        show(&mut console, revised(1, "20%"));
        assert_eq!(
            console.live((80, 24), 0),
            ["job | 20%", "make@17 | [stderr] a long open line"]
        );
        show(&mut console, update(1, "all\n"));
        assert_eq!(
            live(&console, 80).unwrap(),
            "make@17 | [stderr] a long open line"
        );
        let mut out = String::new();
        console.lagged(2, &mut out);
        assert_eq!(
            out,
            "make@17 | [stderr] a long open line\n… 2 events were not shown: reading was too slow\n"
        );
        assert_eq!(live(&console, 80), None);
    }

    #[test]
    fn a_possible_gap_is_shown_only_when_verbose() {
        let possible = || TdEvent::OutputGap {
            execution_id: "x".into(),
            pane: "%1".into(),
            first_line: 7,
            lost_lines: None,
            reason: "ambiguous".into(),
            evidence: GapEvidence::Possible.into(),
        };
        assert_eq!(shown([possible()]), "");
        let mut console = verbose();
        assert_eq!(
            show(&mut console, possible()),
            "x | … lines may be missing (ambiguous)\n"
        );
        // People see the one at the end of a pane.
        let mut closed = possible();
        if let TdEvent::OutputGap { reason, .. } = &mut closed {
            *reason = "closed".into();
        }
        assert_eq!(
            shown([closed]),
            "x | … possibly the last lines are missing: the pane closed before they were read\n"
        );
    }

    fn played(events: impl IntoIterator<Item = (i64, TdEvent)>) -> String {
        play(Console::default(), events)
    }

    #[test]
    fn a_full_screen_program_is_reported_once_after_its_command_line() {
        for (events, expected) in [
            // The command line settles while the program draws.
            (
                vec![
                    (0, revised(1, "$ vi")),
                    (100, drawn()),
                    (200, update(1, "$ vim x\n")),
                    (300, drawn()),
                    (400, drawn()),
                ],
                "x | $ vim x\nx | [full-screen program]\n",
            ),
            // The command line settles too late, and is not printed twice.
            (
                vec![
                    (0, update(1, "above\n")),
                    (10, revised(2, "$ less x")),
                    (100, drawn()),
                    (900, drawn()),
                    (950, update(2, "$ less x\n")),
                    (999, drawn()),
                ],
                "x | above\nx | $ less x\nx | [full-screen program]\n",
            ),
            // The program ends earlier, and another one starts.
            (
                vec![
                    (0, revised(1, "$ top")),
                    (100, drawn()),
                    (200, revised(2, "$ ")),
                    (300, update(1, "$ top\n")),
                    (310, revised(2, "$ vi")),
                    (400, drawn()),
                    (9000, drawn()),
                ],
                "x | $ top\nx | [full-screen program]\nx | $ vi\nx | [full-screen program]\n",
            ),
            // Everything in one chunk.
            (
                vec![
                    (0, revised(3, "$ git log")),
                    (100, drawn()),
                    (200, update(1, "a\nb\n$ git log\n$ ls\nc\n")),
                ],
                "x | a\nx | b\nx | $ git log\nx | [full-screen program]\nx | $ ls\nx | c\n",
            ),
        ] {
            assert_eq!(played(events), expected);
        }
    }

    #[test]
    fn a_changed_line_is_printed_again_once_it_stays_unchanged() {
        for (events, expected) in [
            // Intermediate states and revisions without a change are omitted.
            (
                vec![
                    (0, update(1, "a: 0%\nb\n")),
                    (100, revised(1, "a: 10%")),
                    (200, revised(1, "a: 90%")),
                    (300, revised(1, "a: done")),
                    (1300, revised(1, "a: done")),
                    (4000, update(3, "c\n")),
                    (4100, revised(1, "a: done")),
                    (4200, revised(2, "b")),
                    (9000, update(4, "d\n")),
                ],
                "x | a: 0%\nx | b\nx ~ a: done\nx | c\nx | d\n",
            ),
            // A reverted change is not printed.
            (
                vec![
                    (0, update(1, "a\n")),
                    (10, revised(1, "b")),
                    (20, revised(1, "a")),
                ],
                "x | a\n",
            ),
            // At the end, the last states and the open lines are printed, with the blank lines between them.
            (
                vec![
                    (0, update(1, "a\n")),
                    (10, revised(1, "b")),
                    (20, revised(2, "Which?")),
                    (20, revised(3, "")),
                    (20, revised(4, "  1. this")),
                    (20, revised(5, "")),
                ],
                "x | a\nx ~ b\nx | Which?\nx |\nx |   1. this\n",
            ),
        ] {
            assert_eq!(played(events), expected);
        }
    }

    #[test]
    fn labels_name_the_pane_in_a_session_of_several() {
        let events = [session_started("job", &["%1", "%2"]), update(1, "a\n")];
        assert_eq!(shown(events), "job | [watching 2 panes]\njob %1 | a\n");
    }

    proptest! {
        /// Names and lines add no control characters, except line ends.
        #[test]
        fn no_control_character_reaches_the_terminal(name in nasty(), pane in nasty(), text in nasty()) {
            let pane = PaneId::from(pane);
            let id = crate::event::ExecutionId::from(name.as_str());
            let mut console = Console::new(ConsoleOptions { verbose: true, ..ConsoleOptions::default() });
            let events = [
                TdEvent::SessionStarted { execution_id: id.clone(), session: name.clone(), panes: vec![pane.clone(), "%9".into()] },
                TdEvent::PaneOpened { execution_id: id.clone(), pane: pane.clone(), width: 1, height: 1, command: text.clone(), is_new: None },
                TdEvent::OutputUpdate {
                    execution_id: id.clone(), pane: pane.clone(), first_line: 1, chunk: text.clone(),
                    is_complete: true, reason: Some(text.as_str().into()), exit_status: Some(3),
                    styles: Default::default(), links: Default::default() },
                TdEvent::Warning { execution_id: id.clone(), context: text.clone(), message: text.clone() },
                TdEvent::ExecutionStarted { execution_id: id.clone(), command: text.clone(), cwd: text.clone(), pane: None, pid: None, cell: None, verification: None },
                TdEvent::ExecutionOutput { execution_id: id.clone(), stream: text.as_str().into(), text: text.clone() },
                TdEvent::ValidationOutput { execution_id: id.clone(), iteration: 1, line: text.clone(), is_stderr: true },
                TdEvent::OutputRevised { execution_id: id.clone(), pane: pane.clone(), line: 99, text: text.clone(), styles: Default::default() },
            ];
            let mut out = String::new();
            for event in events {
                out.push_str(&show(&mut console, event));
            }
            let live = live(&console, 40).unwrap_or_default();
            out.push_str(&show(&mut console, TdEvent::SessionEnded {
                execution_id: id, session: name, reason: text.as_str().into(), exit_status: None,
            }));
            prop_assert!(!live.contains(char::is_control), "{:?}", live);
            prop_assert!(!out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", out);
            prop_assert!(live.width() <= 40);
        }
    }
}
mod pipe {
    //! Tests lines that are held without a terminal.

    use std::mem::take;

    use super::*;

    /// Renders events without a terminal.
    fn piped(events: impl IntoIterator<Item = (i64, TdEvent)>) -> String {
        play(
            Console::default().holding(),
            [(0, opened("%1", 80, 8))].into_iter().chain(events),
        )
    }

    #[test]
    fn a_pipe_gets_a_display_once_in_its_final_state() {
        for (events, expected) in [
            // Lines after the display are held until it stays unchanged.
            (
                vec![
                    (0, update(1, "title\na 0\nb 0\n")),
                    (100, revised(2, "a 1")),
                    (200, revised(3, "b 2")),
                    (300, revised(2, "a 3")),
                    (310, update(4, "done\n")),
                    (2000, update(5, "more\n")),
                ],
                "x | title\nx | a 3\nx | b 2\nx | done\nx | more\n",
            ),
            // The display grows, changes rarely, and removes a row at its end.
            (
                vec![
                    (0, update(1, "a 0\nb\n")),
                    (150, revised(1, "a 1")),
                    (700, update(3, "c 0\n")),
                    (850, revised(3, "c 1")),
                    (2000, revised(1, "a 2")),
                    (2100, revised(1, "all")),
                    (2100, revised(3, "")),
                ],
                "x | all\nx | b\n",
            ),
            // An intermediate state outlasts the hold; the final one is printed again, before the next line.
            (
                vec![
                    (0, update(1, "a 0\nb 0\n")),
                    (1000, revised(1, "a 1")),
                    (1900, revised(2, "b 2")),
                    (2000, update(3, "done\n")),
                    (9000, update(4, "more\n")),
                ],
                "x | a 0\nx | b 0\nx ~ a 1\nx ~ b 2\nx | done\nx | more\n",
            ),
            // Lines that scroll off the screen are not held, and neither are lines before a gap.
            (
                vec![
                    (0, update(1, "a 0\n")),
                    (100, revised(1, "a 1")),
                    (100, update(2, "2\n3\n4\n")),
                    (110, gap(5, Some(2), "dropped")),
                    (120, update(7, "7\n8\n")),
                ],
                "x | a 1\nx | 2\nx | 3\nx | 4\nx | … 2 lines lost (dropped)\nx | 7\nx | 8\n",
            ),
            // A printed line that is erased later stays.
            (
                vec![
                    (0, update(1, "a\n\nb\n")),
                    (100, revised(1, "")),
                    (100, revised(3, "")),
                ],
                "x | a\nx |\nx | b\n",
            ),
        ] {
            assert_eq!(piped(events), expected);
        }
    }

    #[test]
    fn lines_that_may_be_rewritten_are_held_on_a_pipe() {
        let mut console = Console::default().holding();
        let mut out = String::new();
        let event = |ms: i64, event| envelope(ms * 1000, event);
        console.event(&event(0, opened("%1", 80, 4)), &mut out);
        console.event(&event(0, update(1, "1\n2\n3\n4\n5\n6\n")), &mut out);
        // The cursor is in the last of four rows.
        assert_eq!(take(&mut out), "x | 1\nx | 2\nx | 3\n");
        assert_eq!(console.deadline(0), Some(250_000));
        console.release_due(249_999, &mut out);
        assert_eq!(out, "");
        console.release_due(250_000, &mut out);
        assert_eq!(take(&mut out), "x | 4\nx | 5\nx | 6\n");
        assert_eq!(console.deadline(250_000), None);
        // A message above a constantly changing display is not held forever.
        console.event(&event(1000, update(7, "a\nb\n")), &mut out);
        console.event(&event(1100, revised(7, "message")), &mut out);
        for ms in (1100..9000).step_by(100) {
            console.event(&event(ms, revised(8, &format!("at {ms}"))), &mut out);
        }
        assert_eq!(take(&mut out), "x | message\n");
        console.release_due(8_900_000 + 1_500_000, &mut out);
        assert_eq!(out, "x | at 8900\n");
    }
}
mod terminal {
    //! Tests live rows, rewritten rows and colours on a terminal.

    use super::*;
    use crate::event::Style;

    /// A console on a terminal, and its output.
    struct Terminal {
        console: Console,
        out: String,
    }

    impl Terminal {
        fn new(rows: usize) -> Self {
            let mut console = Console::default();
            console.fit((79, rows));
            let out = String::new();
            Self { console, out }
        }

        fn at(&mut self, ms: i64, event: TdEvent) {
            self.console
                .event(&envelope(ms * 1000, event), &mut self.out);
            self.console.mark_written(0);
        }
    }

    #[test]
    fn a_terminal_rewrites_several_rows_in_place() {
        let mut terminal = Terminal::new(24);
        terminal.at(0, update(1, "a: 0%\nb: 0%\n"));
        terminal.at(100, revised(1, "a: 10%"));
        terminal.at(100, revised(2, "b: 20%"));
        terminal.at(100, revised(3, "in all: 15%"));
        assert_eq!(
            terminal.console.live((79, 24), 200_000),
            ["x | in all: 15%"]
        );
        assert_eq!(
            terminal.console.rewrite().unwrap(),
            "\r\x1b[2A\x1b[2Kx | a: 10%\n\x1b[2Kx | b: 20%\n"
        );
        // A row that is blank briefly stays; a row that stays blank is removed.
        terminal.at(200, revised(1, ""));
        assert_eq!(terminal.console.rewrite(), None);
        terminal.at(300, revised(1, "a: 11%"));
        terminal.at(300, revised(2, ""));
        assert_eq!(
            terminal.console.rewrite().unwrap(),
            "\r\x1b[2A\x1b[2Kx | a: 11%\n\x1b[1B"
        );
        terminal.at(5000, update(3, "all done\n"));
        assert_eq!(
            terminal.console.rewrite().unwrap(),
            "\r\x1b[2A\x1b[Jx | all done\n"
        );
        assert_eq!(terminal.out, "x | a: 0%\nx | b: 0%\nx | all done\n");
        // A line that was printed and then erased stays.
        terminal.at(6000, revised(3, ""));
        terminal.at(9000, update(4, "more\n"));
        assert_eq!(terminal.console.rewrite(), None);
    }

    #[test]
    fn rows_out_of_reach_are_live_and_printed_again() {
        let mut terminal = Terminal::new(3);
        terminal.at(0, update(1, "a: 0%\nb: 0%\nc\nd\n"));
        terminal.at(100, revised(1, "a: 10%"));
        terminal.at(100, revised(2, "b: 20%"));
        terminal.at(100, revised(3, "C"));
        let foot = |terminal: &Terminal, rows| terminal.console.live((79, rows), 200_000);
        assert_eq!(foot(&terminal, 24), ["x | a: 10%", "x | b: 20%"]);
        terminal.at(200, revised(1, "a: 11%"));
        // A low terminal shows the row that changed last.
        assert_eq!(foot(&terminal, 3), ["x | a: 11%"]);
        assert_eq!(terminal.console.deadline(200_000), Some(1_600_000));
        terminal.at(5000, update(5, "all done\n"));
        assert_eq!(foot(&terminal, 24), [""; 0]);
        assert_eq!(
            terminal.out,
            "x | a: 0%\nx | b: 0%\nx | c\nx | d\nx ~ a: 11%\nx ~ b: 20%\nx | all done\n"
        );
    }

    #[test]
    fn alerts_are_live_rows() {
        let mut console = Console::default();
        console.fit((79, 24));
        show(&mut console, session_started("job", &["%1"]));
        show(&mut console, update(1, "make: *** [all] Error 2\n"));
        let foot = |console: &Console, at| console.live((40, 24), at);
        let heading = format!("── 1 needs you {}", "─".repeat(25));
        assert_eq!(
            foot(&console, 0),
            [heading.as_str(), "job ! make: *** [all] Error 2"]
        );
        show(
            &mut console,
            agent_state("waiting", "claude choice (confirmed): ❯ 1. Yes"),
        );
        assert_eq!(
            foot(&console, 0),
            [heading.as_str(), "job ! claude waits for you: ❯ 1. Yes"]
        );
        show(
            &mut console,
            agent_state("working", "claude status (confirmed): ✻ Herding…"),
        );
        assert_eq!(foot(&console, 29_000_000).len(), 2);
        assert_eq!(console.deadline(0), Some(30_000_000));
        assert_eq!(foot(&console, 30_000_000), [""; 0]);
        show(
            &mut console,
            agent_state("limited", "codex limit (confirmed): ■ Quota exceeded."),
        );
        show(&mut console, session_ended("job"));
        assert_eq!(foot(&console, 0), [""; 0]);
    }

    #[test]
    fn wide_lines_keep_their_label_and_colour() {
        let mut console = coloured();
        console.fit((20, 24));
        show(&mut console, session_started("job", &["%1"]));
        let label = |line: &str| line[..line.find(" ").unwrap()].to_owned();
        let lines = show(&mut console, update(1, "0123456789abcdefghij漢字\nshort\n"));
        let lines: Vec<&str> = lines.lines().collect();
        let texts: Vec<&str> = lines
            .iter()
            .map(|line| line.split_once(' ').unwrap().1)
            .collect();
        assert_eq!(texts, ["| 0123456789abcd", "┆ efghij漢字", "| short"]);
        assert!(lines.iter().all(|line| label(line) == label(lines[0])));
        let lines = show(&mut console, update(3, "error: not found, nothing\n"));
        let red = "\u{1b}[1m\u{1b}[31m";
        assert_eq!(lines.matches(red).count(), 2, "{lines:?}");
        // Coloured output of a command.
        let lines = show(
            &mut console,
            output("stdout", "\u{1b}[32mgreen is the colour of it\n"),
        );
        let texts: Vec<&str> = lines
            .lines()
            .map(|line| line.split_once(' ').unwrap().1)
            .collect();
        assert_eq!(
            texts,
            [
                "| \u{1b}[32mgreen is t\u{1b}[0m",
                "┆ \u{1b}[32mhe colour \u{1b}[0m",
                "┆ \u{1b}[32mof it\u{1b}[0m"
            ]
        );
    }

    #[test]
    fn the_live_row_is_the_open_line() {
        let mut console = Console::new(ConsoleOptions {
            aligned: true,
            ..ConsoleOptions::default()
        });
        show(&mut console, session_started("job", &["%1"]));
        assert_eq!(live(&console, 80), None);
        show(&mut console, revised(1, "10%"));
        show(&mut console, revised(1, "[####      ] 40%"));
        assert_eq!(live(&console, 80).unwrap(), "job | [####      ] 40%");
        assert_eq!(live(&console, 10).unwrap(), "job | [###");
        assert_eq!(live(&console, 3), None);
        show(&mut console, update(1, "all\n"));
        assert_eq!(live(&console, 80), None);
    }

    #[test]
    fn a_label_has_the_colour_of_its_session() {
        let mut console = coloured();
        show(&mut console, session_started("job", &["%1"]));
        let line = show(&mut console, update(1, "a\n"));
        assert!(
            line.starts_with("\u{1b}[") && line.ends_with("job\u{1b}[0m | a\n"),
            "{line:?}"
        );
        assert_eq!(line, show(&mut console, update(2, "a\n")));
    }

    #[test]
    fn lines_have_the_colours_of_their_program() {
        let style = |line, from, to, sgr: &str| Style::new(line, from, to, sgr);
        let event = || {
            let styles = vec![style(0, 0, 3, "31"), style(2, 0, 6, "1;32")];
            update_of("%1", 1, "red plain\nnone\nabcdefghijkl\n", styles)
        };
        let options = ConsoleOptions {
            coloured: true,
            ..ConsoleOptions::default()
        };
        let mut console = Console::new(options);
        let shown = show(&mut console, event());
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[0].ends_with(" | \x1b[31mred\x1b[0m plain"),
            "{shown:?}"
        );
        assert!(lines[1].ends_with(" | none"), "{shown:?}");
        assert!(
            lines[2].ends_with(" | \x1b[1;32mabcdef\x1b[0mghijkl"),
            "{shown:?}"
        );
        // The open line has its colours as well.
        show(
            &mut console,
            revised_with(4, "go on", vec![style(0, 3, 5, "4")]),
        );
        let foot = live(&console, 40).unwrap();
        assert!(foot.ends_with(" | go \x1b[4mon\x1b[0m"), "{foot:?}");
        // Without colours, styles change nothing.
        let mut plain = Console::new(ConsoleOptions::default());
        let mut bare = Console::new(ConsoleOptions::default());
        let without = update(1, "red plain\nnone\nabcdefghijkl\n");
        assert_eq!(show(&mut plain, event()), show(&mut bare, without));
        // A wrapped line keeps its colour in each row.
        let mut narrow = Console::new(options);
        narrow.fit((24, 24));
        let wrapped = show(
            &mut narrow,
            update_of(
                "%1",
                1,
                &format!("{}\n", "abcd".repeat(10)),
                vec![style(0, 0, 40, "35")],
            ),
        );
        let rows: Vec<&str> = wrapped.lines().collect();
        assert!(
            rows.len() > 1 && rows.iter().all(|row| row.ends_with("\x1b[0m")),
            "{wrapped:?}"
        );
        assert!(
            rows.iter().all(|row| row.contains("\x1b[35m")),
            "{wrapped:?}"
        );
    }
}

fn coloured() -> Console {
    Console::new(ConsoleOptions {
        coloured: true,
        ..ConsoleOptions::default()
    })
}

fn verbose() -> Console {
    Console::new(ConsoleOptions {
        verbose: true,
        ..ConsoleOptions::default()
    })
}

fn show(console: &mut Console, event: TdEvent) -> String {
    let mut out = String::new();
    console.event(&envelope(0, event), &mut out);
    out
}

/// Returns the last live row.
fn live(console: &Console, columns: usize) -> Option<String> {
    console.live((columns, 24), 0).pop()
}

/// Renders events at these times in milliseconds, then finishes.
fn play(mut console: Console, events: impl IntoIterator<Item = (i64, TdEvent)>) -> String {
    let mut out = String::new();
    for (ms, event) in events {
        console.event(&envelope(ms * 1000, event), &mut out);
    }
    console.finish(&mut out);
    out
}

/// Returns an update of a full-screen program.
fn drawn() -> TdEvent {
    screen(80, 24, &[])
}
