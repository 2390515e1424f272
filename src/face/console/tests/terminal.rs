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
    let style = |line, from, to, sgr: &str| Style {
        line,
        from,
        to,
        sgr: sgr.to_owned(),
    };
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
