//! Screens of a simulated program that scrolls a known text.

mod opencode_screens {
    //! Recorded and composed screens of opencode.

    use std::time::{Duration, Instant};

    use super::super::align::RowPart;
    use super::super::*;
    use super::short;
    use crate::agent::KnownAgent;

    /// Returns the events of opencode's screens, one short line per event.
    fn read_opencode(screens: &[&str]) -> Vec<String> {
        let program = AgentProgram::Known(KnownAgent::Opencode);
        let (mut reader, mut events) = (ScreenReader::new(&program), Vec::new());
        let mut now = Instant::now();
        for screen in screens {
            let rows: Vec<&str> = screen.lines().collect();
            reader.update(&rows, 60, now, &mut events);
            now += Duration::from_secs(1);
            reader.handle_timeout(now, &mut events);
        }
        short(&events)
    }

    const NARROW_START: &str = include_str!("screens/opencode_narrow_start.txt");
    const NARROW_PROMPT: &str = include_str!("screens/opencode_narrow_prompt.txt");
    const NARROW_ERROR_BELOW_NOTICE: &str = include_str!("screens/opencode_narrow_notice.txt");
    const NARROW_ERROR: &str = include_str!("screens/opencode_narrow_error.txt");

    #[test]
    fn the_first_prompt_of_a_narrow_pane_is_reported() {
        let typed = NARROW_START.replace(
            "Ask anything… \"What is the tech stack of this",
            "SCN:e400 e",
        );
        let typed = typed.replace("  ┃  project?\"\n", "  ┃\n");
        assert_eq!(
            read_opencode(&[NARROW_START, &typed, NARROW_PROMPT]),
            ["prompt SCN:e400 e"]
        );
        // The prompt was not captured while it was typed.
        assert_eq!(
            read_opencode(&[NARROW_START, NARROW_PROMPT]),
            ["prompt SCN:e400 e"]
        );
    }

    #[test]
    fn a_notice_over_boxes_of_a_narrow_pane_does_not_hide_an_error() {
        assert_eq!(
            read_opencode(&[
                NARROW_START,
                NARROW_PROMPT,
                NARROW_ERROR_BELOW_NOTICE,
                NARROW_ERROR
            ]),
            [
                "prompt SCN:e400 e",
                "failed Your credit balance is too low to access the Anthropic API."
            ]
        );
    }

    /// The first screen of an observation shows a turn that has ended, and one that asks for a permission.
    #[test]
    fn an_observation_that_begins_within_a_turn_has_its_prompt_and_no_earlier_turn() {
        const ASKS: &str = "  ┃
  ┃  tell me
  ┃

     All is
     well.

     ▣  Build · Mock · 16.6s

  ┃
  ┃  do it
  ┃

     I create a file.

     ← Write made

     ▣  Build · Mock

  ┃
  ┃  △ Permission required
  ┃    # Runs a command
  ┃
  ┃   Allow once   Allow always   Reject
";
        assert_eq!(
            read_opencode(&[ASKS]),
            ["prompt do it", "token I create a file.\n"]
        );
    }

    /// The name on kilo's first screen has sixths of blocks.
    #[test]
    fn the_first_prompt_below_a_name_in_blocks_is_reported() {
        const START: &str = "
          ██  ██ ██🬺🬏   ██
          ████🬺🬏 ▀▀██   ██
          ▀▀  ▀▀ ▀▀▀▀▀▀   ▀▀▀▀

  ┃
  ┃  Ask anything... \"What is the tech stack?\"
  ┃
  ┃  Code  · Mock Mock
  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
                         tab agents  ctrl+p commands





  ● Tip Use pgup to navigate through
  /work/work-kilo:master                   7.7.7
";
        let typed = START.replace("Ask anything... \"What is the tech stack?\"", "do it");
        let box_alone = &START[START.find("  ┃").unwrap()..START.find("  ● ").unwrap()];
        let prompt = "  ┃\n  ┃  do it\n  ┃\n\n";
        let (sent, working) = (kilo(prompt, false), kilo(prompt, true));
        let screens = [START, &typed, START, box_alone, &sent, &working];
        assert_eq!(read_opencode(&screens), ["prompt do it"]);
    }

    /// Returns a screen of kilo with these rows above its empty input box.
    fn kilo(rows: &str, is_working: bool) -> String {
        let foot = if is_working {
            "   ■■■■⬝⬝⬝⬝  esc interrupt"
        } else {
            ""
        };
        let line = "▀".repeat(50);
        format!(
            "{rows}\n  ┃\n  ┃\n  ┃\n  ┃  Code  · Mock Mock\n  ╹{line}\n{foot}      150 (0%) · $0.00\n"
        )
    }

    #[test]
    fn the_prompt_in_place_of_a_failure_that_kilo_removes_is_reported() {
        let turn = "  ┃\n  ┃  tell me\n  ┃\n\n     All is well.\n\n     ▣  Code · Mock · 1.2s\n\n";
        let failed = format!("{turn}  ┃\n  ┃  do it\n  ┃\n\n");
        let next = format!("{failed}  ┃\n  ┃  do it again\n  ┃\n\n");
        let screens = [
            kilo("", false),
            kilo("  ┃\n  ┃  tell me\n  ┃\n\n", true),
            kilo(turn, false),
            kilo(&failed, true),
            // Before its first turn, it makes a copy of the directory.
            kilo(
                &format!("{failed}     ⠋ Initializing snapshot…\n\n     ▣  Code · Mock\n"),
                true,
            ),
            kilo(
                &format!("{failed}  ┃\n  ┃  invalid x-api-key\n  ┃\n\n     ▣  Code · Mock\n"),
                false,
            ),
            kilo(&failed, false),
            kilo(&next, true),
            kilo(
                &format!("{next}     → 1 answered\n\n     Good.\n\n     ▣  Code · Mock · 2.3s\n"),
                false,
            ),
        ];
        let screens: Vec<&str> = screens.iter().map(String::as_str).collect();
        let events = read_opencode(&screens);
        let events: Vec<&String> = events
            .iter()
            .filter(|event| !event.starts_with("token "))
            .collect();
        assert_eq!(
            events,
            [
                "prompt tell me",
                "turn Code · Mock · 1.2s: All is well.",
                "prompt do it",
                "failed invalid x-api-key",
                "prompt do it again",
                "tool question 1 answered",
                "ended question ",
                "turn Code · Mock · 2.3s: Good.",
            ]
        );
    }

    #[test]
    fn what_opencode_says_is_its_last_sentence_or_its_tool_and_never_the_prompt() {
        const EARLIER: &str = "  ┃
  ┃  tell me
  ┃

     All is
     well.

     ▣  Build · Mock · 16.6s

";
        const PROMPT: &str = "  ┃
  ┃  do it. Do it well
  ┃

";
        const QUEUED: &str = "  ┃
  ┃  and then this
  ┃   QUEUED
  ┃

";
        const TOOL: &str = "  ┃
  ┃  ⠧ echo step 1; sleep 1
  ┃
  ┃  step 1. Well
  ┃

";
        let step = "     Step 1. I look at
     the files. There

";
        let working = "     ▣  Build · Mock

";
        for (rows, expected) in [
            (format!("{PROMPT}{working}"), None),
            (format!("{EARLIER}{PROMPT}{working}"), None),
            (format!("{EARLIER}{PROMPT}{step}{working}"), Some("There")),
            (
                format!(
                    "{EARLIER}{PROMPT}{step}     The last. One

{working}"
                ),
                Some("One"),
            ),
            (format!("{PROMPT}{step}{working}{QUEUED}"), Some("There")),
            (
                format!("{EARLIER}{PROMPT}{step}{TOOL}{working}"),
                Some("echo step 1; sleep 1"),
            ),
            (
                format!("{PROMPT}{TOOL}{working}").replace("⠧", "$"),
                Some("echo step 1; sleep 1"),
            ),
            (
                format!(
                    "{PROMPT}{step}     → Read src/a.rs

{working}"
                ),
                Some("Read src/a.rs"),
            ),
            (format!("{PROMPT}{TOOL}{step}{working}"), Some("There")),
            (format!("{PROMPT}{EARLIER}"), None),
        ] {
            let edge = "▀".repeat(56);
            let foot = format!(
                "  ┃
  ┃
  ┃
  ┃  Build · Mock Mock
  ╹{edge}
   ⬝⬝■  esc interrupt   ctrl+p commands"
            );
            let screen = format!(
                "
{rows}{foot}"
            );
            let rows: Vec<&str> = screen.lines().collect();
            let program = AgentProgram::Known(KnownAgent::Opencode);
            let mut reader = ScreenReader::new(&program);
            reader.update(&rows, 60, Instant::now(), &mut Vec::new());
            assert_eq!(reader.says().as_deref(), expected, "{screen}");
        }
    }

    #[test]
    fn output_of_a_reported_tool_is_not_an_error() {
        let conversation = |rows: &str, foot: &str| {
            let bar = "  ┃\n";
            let edge = "▀".repeat(56);
            format!(
                "\n{bar}  ┃  go on\n{bar}\n{rows}\n{bar}{bar}{bar}  ┃  Build · Mock Mock\n  ╹{edge}\n   {foot}\n"
            )
        };
        let works = "■■■⬝⬝⬝⬝⬝  esc interrupt  ctrl+p commands";
        let begun = conversation("", works);
        // The second of two tools still waits, without a box.
        let first_works = conversation(
            "     ⠋ touch a\n\n     $ touch b\n\n     ▣  Build · Mock\n",
            works,
        );
        let boxed = |name: &str| format!("  ┃\n  ┃  $ touch {name}\n  ┃\n  ┃  (no output)\n  ┃\n");
        let both = format!(
            "{}\n{}\n     ▣  Build · Mock · 3.2s\n",
            boxed("a"),
            boxed("b")
        );
        let ended = conversation(&both, "/work  ctrl+p commands");
        assert_eq!(
            read_opencode(&[NARROW_START, &begun, &first_works, &ended]),
            [
                "prompt go on",
                "tool bash touch a",
                "ended bash (no output)",
                "tool bash touch b",
                "ended bash (no output)",
                "turn Build · Mock · 3.2s: ",
            ]
        );
    }

    #[test]
    fn late_output_of_a_reported_tool_is_not_an_error() {
        let layout = Layout::of(&AgentProgram::Known(KnownAgent::Opencode));
        let (mut writer, mut events) = (ConversationWriter::default(), Vec::new());
        let mut prompt = ConversationRow::new("go on", RowPart::Boxed, true);
        prompt.is_head = true;
        let tool = ConversationRow::new("$ touch a", RowPart::Tool, true);
        let output = ConversationRow::new("(no output)", RowPart::Boxed, true);
        for row in [&prompt, &tool, &output] {
            writer.add_row(row, &layout, &mut events);
        }
        writer.end_turn(&mut events);
        assert_eq!(
            short(&events),
            ["prompt go on", "tool bash touch a", "ended bash "]
        );
    }
}

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::agent::KnownAgent;

const UNSEEN: &str = "[… rows not seen]";

/// A full-screen program that prints text above a spinner, an input box and a footer.
struct Program {
    is_opencode: bool,
    lines: Vec<String>,
    width: usize,
    height: usize,
    beat: usize,
}

impl Program {
    const FOOT: usize = 7;

    /// Returns the screen. `is_over`: the turn has ended.
    fn screen(&mut self, is_over: bool) -> Vec<String> {
        self.beat += 1;
        let indent = if self.is_opencode { 5 } else { 1 };
        let mut rows = Vec::new();
        if self.is_opencode {
            rows.extend(["", "  ┃", "  ┃  go on", "  ┃", ""].map(str::to_owned));
        }
        for line in &self.lines {
            let wrapped = wrap(line, self.width - indent - 3);
            rows.extend(
                wrapped
                    .iter()
                    .map(|row| format!("{}{row}", " ".repeat(indent))),
            );
        }
        let spinner = ['⠋', '⠙', '⠹', '⠸'][self.beat % 4];
        if self.is_opencode {
            rows.push(String::new());
            rows.push(if is_over {
                "     ▣  Build · Mock · 3.2s".to_owned()
            } else {
                "     ▣  Build · Mock".to_owned()
            });
        }
        let shown = rows.len().saturating_sub(self.height - Self::FOOT);
        let mut screen = rows.split_off(shown);
        screen.resize(self.height - Self::FOOT, String::new());
        let across = self.width - 4;
        if self.is_opencode {
            screen.extend(["", "  ┃", "  ┃", "  ┃  Build · Mock Mock"].map(str::to_owned));
            screen.push(format!("  ╹{}", "▀".repeat(across)));
            screen.push(if is_over {
                "   /work     ctrl+p commands".to_owned()
            } else {
                format!(
                    "   {} esc interrupt  ctrl+p commands",
                    "■".repeat(self.beat % 8)
                )
            });
        } else {
            screen.push(format!(" {spinner} Thinking ({}s)", self.beat));
            screen.push(format!("╭{}╮", "─".repeat(across)));
            screen.push(format!("│ > {}│", " ".repeat(across.saturating_sub(3))));
            screen.push(format!("╰{}╯", "─".repeat(across)));
            screen.push(format!("  {}k tokens · esc to interrupt", self.beat));
        }
        screen.resize(self.height, String::new());
        screen
    }

    fn rows(&self, line: &str) -> usize {
        wrap(line, self.width - 8).len()
    }
}

fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in line.split(' ') {
        let last = rows.last_mut().unwrap();
        match last.is_empty() {
            true => last.push_str(word),
            false if last.len() + 1 + word.len() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            false => rows.push(word.to_owned()),
        }
    }
    rows
}

/// An action between two captures.
#[derive(Clone, Debug)]
enum Act {
    Print(Vec<String>),
    Resize(usize, usize),
    Redraw,
    /// Erases everything, and is captured before it is redrawn.
    Wipe,
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-h]{1,9}", 0..14).prop_map(|words| words.join(" "))
}

fn act(lines_max: usize) -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => prop::collection::vec(text(), 1..lines_max).prop_map(Act::Print),
        1 => (40_usize..100, 20_usize..40).prop_map(|(width, height)| Act::Resize(width, height)),
        1 => Just(Act::Redraw),
        1 => Just(Act::Wipe),
    ]
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns the events of a program that performs these actions and prints at most `rows_max` rows
/// between two captures.
fn events_of(is_opencode: bool, acts: &[Act], rows_max: usize) -> (Vec<String>, Vec<AgentEvent>) {
    let program = if is_opencode {
        AgentProgram::Known(KnownAgent::Opencode)
    } else {
        AgentProgram::Other("crush".to_owned())
    };
    let mut reader = ScreenReader::new(&program);
    let mut model = Program {
        is_opencode,
        lines: Vec::new(),
        width: 80,
        height: 30,
        beat: 0,
    };
    let (mut now, mut events, mut number) = (Instant::now(), Vec::new(), 0);
    let mut capture = |model: &mut Program, is_over, events: &mut Vec<AgentEvent>| {
        let screen = model.screen(is_over);
        let rows: Vec<&str> = screen.iter().map(String::as_str).collect();
        now += Duration::from_millis(100);
        reader.update(&rows, u32::try_from(model.width).unwrap(), now, events);
        if is_over {
            reader.handle_timeout(now + Duration::from_secs(10), events);
            reader.end_turn(events);
        }
    };
    capture(&mut model, false, &mut events);
    model.lines.push("This is the beginning.".to_owned());
    capture(&mut model, false, &mut events);
    for act in acts {
        match act {
            Act::Print(lines) => {
                let mut rows = 0;
                for line in lines {
                    // Numbered words make each line unique.
                    number += 1;
                    let line = if !line.contains(char::is_alphanumeric) {
                        line.clone()
                    } else {
                        let words = (0..).zip(line.split(' '));
                        let words = words.map(|(at, word)| format!("{word}{number}x{at}"));
                        words.collect::<Vec<String>>().join(" ")
                    };
                    rows += model.rows(&line);
                    if rows > rows_max {
                        break;
                    }
                    if line.is_empty() && model.lines.last().is_some_and(String::is_empty) {
                        continue;
                    }
                    model.lines.push(line);
                }
            }
            Act::Resize(width, height) => (model.width, model.height) = (*width, *height),
            Act::Redraw => {}
            Act::Wipe if is_opencode => {}
            Act::Wipe => {
                let lines = std::mem::take(&mut model.lines);
                capture(&mut model, false, &mut events);
                model.lines = lines;
            }
        }
        capture(&mut model, false, &mut events);
    }
    capture(&mut model, true, &mut events);
    (model.lines, events)
}

fn print(lines: &[&str]) -> Act {
    Act::Print(lines.iter().map(|line| (*line).to_owned()).collect())
}

fn text_of(events: &[AgentEvent]) -> String {
    let tokens = events.iter().filter_map(|event| match event {
        AgentEvent::TokenReceived { token } => Some(token.as_str()),
        _ => None,
    });
    tokens.collect()
}

#[track_caller]
fn assert_each_line_once(is_opencode: bool, acts: &[Act]) {
    let (lines, events) = events_of(is_opencode, acts, 6);
    assert_eq!(letters(&text_of(&events)), letters(&lines.concat()));
}

#[test]
fn rows_that_a_larger_screen_shows_again_are_not_reported_after_it_is_erased() {
    let mut acts = vec![Act::Resize(53, 20)];
    acts.extend((0..4).map(|_| print(&["word ".repeat(30).trim()])));
    acts.extend([Act::Resize(72, 26), Act::Resize(72, 40), Act::Wipe]);
    assert_each_line_once(false, &acts);
}

#[test]
fn a_row_that_is_wrapped_to_one_word_is_reported_after_two_resizes() {
    let acts = [
        print(&["", ""]),
        print(&["", "", ""]),
        print(&["", "a a", "aaaaa"]),
        print(&["aaaaa", "a aaaaa aaaaaaa a aaaaaaa aa aaaaaaa aaaa a"]),
        print(&[""]),
        print(&[
            "aaaaaa aaaaaa aa aaaaaaa a aaaaaaaaa aaaaaaaa a",
            "aaaaaa aaa aaaaaaa aaaaa aaaaaaa aaaa aaaaa aaa",
            "",
        ]),
        print(&[
            "aaaa aaaaaa aaaaaaa aaaaa aaaaaaaa a aaaaaa aaa",
            "",
            "a aaaaaaaa aaaaaa aaaaa aaa f bb acgfb dgbd",
        ]),
        print(&["eccab bdhfg fgadhc aghefegee fghbaghcc fdhhed hc gbdbgdge"]),
        Act::Resize(86, 23),
        Act::Resize(86, 30),
        print(&["caccc fhedbcgf", ""]),
    ];
    assert_each_line_once(true, &acts);
}

#[test]
fn a_larger_screen_that_begins_within_a_known_row_is_not_reported_after_it_is_erased() {
    let acts = [
        print(&["aaaa aaaa aaaaaa aaa aaa", ""]),
        print(&[
            "aaaaa aaaaa aaaaaa aaaaaaaa aa a aaaa aaaaa a a a aaaa a",
            "aaa aaa aa aaa aaaaaaaaa aaaaaa aa aaaaaaaa",
            "",
            "a aaaaaa aaaaaaa a aaaaa",
        ]),
        print(&["aa aaaaa aa aaaa aaaaaaa"]),
        print(&[
            "aaaaaa aaa aaaaaaaa aaaaaaa",
            "aa aaaaaaa aaaaaaaa aaa aaaa aaaaa aaaaaaaa aaaaaaaaa aaaaaaaa",
        ]),
        Act::Resize(42, 25),
        Act::Resize(42, 28),
        Act::Wipe,
    ];
    assert_each_line_once(false, &acts);
}

#[test]
fn equal_rows_without_letters_do_not_hide_the_rows_above_them() {
    let acts = [
        Act::Resize(46, 20),
        print(&["}", "", "}", ""]),
        print(&["}"]),
        print(&["word ".repeat(10).trim(), "word ".repeat(10).trim()]),
    ];
    let (_, events) = events_of(true, &acts, 6);
    let text = text_of(&events);
    assert!(text.contains("This is the beginning."), "{text}");
    assert_eq!(text.matches('}').count(), 3, "{text}");
}

#[test]
fn a_short_row_on_both_sides_of_lost_rows_is_reported_once() {
    // The row above a screenful.
    let acts = [print(&["a"]), print(&["a long row"; 20])];
    let (_, events) = events_of(true, &acts, usize::MAX);
    let text = text_of(&events);
    assert_eq!(text.matches("a1x0").count(), 1, "{text}");
    assert!(text.contains("a2x0 long2x1 row2x2"), "{text}");
    assert!(text.contains(UNSEEN), "{text}");
}

#[test]
fn a_page_of_repetitive_text_continues_at_the_end_of_the_known_text() {
    let paragraph =
        |number: u32| format!("Paragraph{number}:all is well with the files in this place.");
    let letters = |text: &str| letters(text).chars().collect::<Vec<char>>();
    let known: String = (3..6).map(paragraph).collect();
    let page: String = (5..9).map(paragraph).collect();
    // The page begins within the last known paragraph.
    let start = "Paragraph5:all is".len();
    let before = align::letters_before(&letters(&known), &letters(&page[start..]));
    let above = letters(&known).len() - letters(&paragraph(5)[start..]).len();
    assert_eq!(before, Some(above));
}

#[test]
fn rows_without_letters_are_reported_once() {
    let print = || print(&["word ".repeat(18).trim(), "}"]);
    for is_opencode in [true, false] {
        let mut acts: Vec<Act> = (0..9).map(|_| print()).collect();
        acts.extend([Act::Resize(60, 24), Act::Resize(86, 30), Act::Redraw]);
        acts.extend((0..4).map(|_| print()));
        acts.extend([Act::Resize(50, 20), print(), Act::Resize(50, 32)]);
        let (_, events) = events_of(is_opencode, &acts, 6);
        let text = text_of(&events);
        assert_eq!(text.matches("}").count(), 14, "{text}");
    }
}

proptest! {
    #[test]
    fn each_line_is_reported_once_and_in_order(
        acts in prop::collection::vec(act(5), 0..30),
        is_opencode in any::<bool>(),
    ) {
        let (lines, events) = events_of(is_opencode, &acts, 6);
        let text = text_of(&events);
        prop_assert!(!text.contains(UNSEEN), "{}", text);
        prop_assert_eq!(letters(&text), letters(&lines.concat()));
        if is_opencode {
            let short = short(&events);
            prop_assert_eq!(short.iter().filter(|event| event.starts_with("prompt")).count(), 1);
            prop_assert_eq!(short.iter().filter(|event| event.starts_with("turn")).count(), 1);
        }
    }

    #[test]
    fn rows_lost_between_two_captures_are_reported(
        acts in prop::collection::vec(act(60), 0..12),
        is_opencode in any::<bool>(),
    ) {
        let acts: Vec<Act> = acts
            .into_iter()
            .filter(|act| !matches!(act, Act::Resize(..)))
            .collect();
        let (lines, events) = events_of(is_opencode, &acts, usize::MAX);
        let text = text_of(&events);
        let mut rest = letters(&lines.concat());
        let mut pieces = text.split(UNSEEN);
        let first = letters(pieces.next().unwrap_or_default());
        prop_assert!(rest.starts_with(&first), "{}", text);
        rest.drain(..first.len());
        let mut is_cut = false;
        for piece in pieces.map(letters).filter(|piece| !piece.is_empty()) {
            is_cut = true;
            let at = rest.find(&piece);
            prop_assert!(at.is_some(), "{piece} in {rest}");
            rest.drain(..at.unwrap() + piece.len());
        }
        prop_assert!(rest.is_empty(), "{} {}", is_cut, rest);
    }

    #[test]
    fn any_screens_are_accepted(
        screens in prop::collection::vec((prop::collection::vec("[ ┃╹▀│─▣⠋$→a-c·s3.]{0,30}", 0..20), 0_u32..200), 0..12),
        is_opencode in any::<bool>(),
    ) {
        let program = if is_opencode { AgentProgram::Known(KnownAgent::Opencode) } else { AgentProgram::Other("crush".to_owned()) };
        let (mut reader, mut events, now) = (ScreenReader::new(&program), Vec::new(), Instant::now());
        for (screen, width) in &screens {
            let rows: Vec<&str> = screen.iter().map(String::as_str).collect();
            reader.update(&rows, *width, now, &mut events);
        }
        reader.handle_timeout(now + Duration::from_secs(10), &mut events);
        reader.end_turn(&mut events);
    }
}

fn short(events: &[AgentEvent]) -> Vec<String> {
    let short = events.iter().map(|event| match event {
        AgentEvent::PromptSent { prompt_summary, .. } => format!("prompt {prompt_summary}"),
        AgentEvent::TokenReceived { token } => format!("token {token}"),
        AgentEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
        } => format!("tool {tool_name} {tool_args_summary}"),
        AgentEvent::ToolCallCompleted {
            tool_name,
            result_summary,
            ..
        } => format!("ended {tool_name} {result_summary}"),
        AgentEvent::TurnCompleted { marker, summary } => format!("turn {marker}: {summary}"),
        AgentEvent::AgentFailed { error, .. } => format!("failed {error}"),
        event => format!("{event:?}"),
    });
    short.collect()
}
