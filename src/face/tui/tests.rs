//! Tests the UI without a terminal: snapshots of each view and state at three sizes, terminals with fewer
//! abilities, questions and answers, older runs, and the first steps of a user who has read no help.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use ratatui::style::{Color, Modifier};
use serde_json::json;

use super::cells::{Colours, Theme};
use super::draw::{Frame, draw};
use super::effect::{Connection, Effect, Input, Place, ScanRequest, Screen};
use super::keys::NAMES;
use super::layout::{Focus, ViewKind};
use super::model::{Model, Settings};
use super::search::ScanState;
use crate::board::Row;
use crate::event::{Envelope, Link, Links, PaneId, Style as EventStyle, Styles, TdEvent};
use crate::face::local_time::LocalTime;
use crate::face::styled_text::StyledText;
use crate::history::Page;
use crate::timestamp::Timestamp;

const SIZES: [(u16, u16); 3] = [(40, 10), (80, 24), (200, 50)];

const ALL: Theme = Theme {
    colours: Colours::All,
    is_utf8: true,
};

/// 2026-01-21 10:00:00 UTC.
const NOW: i64 = 1_768_989_600_000_000;

fn at(seconds_ago: i64) -> Timestamp {
    Timestamp::from_micros(NOW - seconds_ago * 1_000_000)
}

fn row(id: &str, pane: Option<&str>, kind: &str, state: &str, ago: i64) -> Row {
    let is_agent = matches!(state, "waiting" | "done" | "working" | "idle");
    let row = json!({
        "execution_id": id,
        "name": id.split('@').next(),
        "pane": pane,
        "kind": kind,
        "agent": if is_agent { "claude" } else { "shell" },
        "state": state,
        "since": at(ago),
        "seen": null,
        "evidence": null,
        "asks": (state == "waiting").then_some("Do you want to run `rm -rf build`?"),
        "exit_status": (state == "exited").then_some(2),
        "last_line": "the last line of it",
        "last_output": at(ago),
        "turns": 3, "gaps": 0, "errors": 0,
    });
    serde_json::from_value(row).unwrap()
}

fn rows() -> Vec<Row> {
    vec![
        row("agent-7@1", Some("%7"), "pane", "waiting", 180),
        row("agent-1@1", Some("%1"), "pane", "done", 60),
        row("make test@1", None, "command", "exited", 30),
        row("agent-2@1", Some("%2"), "pane", "working", 5),
        row("build@1", Some("%0"), "pane", "running", 1),
        row("logs 漢字\u{1b}[31m@1", Some("%9"), "pane", "quiet", 4000),
    ]
}

fn envelope(seq: u64, event: TdEvent) -> Envelope {
    Envelope::new(Some(seq), at(200 - seq as i64), event)
}

fn output(seq: u64, text: &str) -> Envelope {
    let styles = match text.find("error") {
        Some(from) => vec![EventStyle::new(0, from as u32, from as u32 + 5, "1;31")],
        None => Vec::new(),
    };
    envelope(
        seq,
        TdEvent::OutputUpdate {
            execution_id: "agent-7@1".into(),
            pane: "%7".into(),
            first_line: seq as i64,
            chunk: format!("{text}\n"),
            is_complete: false,
            reason: None,
            exit_status: None,
            styles: Styles::new(styles),
            links: Default::default(),
        },
    )
}

fn events() -> Vec<Envelope> {
    let id = || crate::event::ExecutionId::from("agent-7@1");
    let mut events: Vec<Envelope> = (1..=60)
        .map(|seq| match seq {
            58 => output(seq, "an error in src/main.rs: expected `;`, found `}` and a long explanation that does not fit into the view of a narrow terminal at all, so that it is cut or wrapped"),
            seq => output(seq, &format!("line {seq} of the output")),
        })
        .collect();
    events.push(envelope(
        61,
        TdEvent::Warning {
            execution_id: id(),
            context: "pipe".into(),
            message: "is piped by another program".into(),
        },
    ));
    events.push(envelope(
        62,
        TdEvent::OutputGap {
            execution_id: id(),
            pane: "%7".into(),
            first_line: 70,
            lost_lines: Some(9),
            reason: crate::event::GapReason::HistoryTrimmed.into(),
            evidence: crate::event::GapEvidence::Confirmed.into(),
        },
    ));
    events
}

/// Returns the UI after its first page.
fn model(size: (u16, u16)) -> Model {
    let settings = Settings {
        data_dir: "/home/me/.taskdaemon".to_owned(),
        allows_input: true,
        local: LocalTime::in_zone(TimeZone::UTC),
    };
    let mut model = Model::new(settings, size, at(0));
    let effects = model.update(Input::Board(rows()));
    let load = effects.iter().find_map(|effect| match effect {
        Effect::Load(request) => Some((request.generation, request.place)),
        _ => None,
    });
    let (generation, place) = load.unwrap();
    assert_eq!(place, Place::Last);
    model.update(Input::Page {
        generation,
        place,
        page: Page {
            events: events(),
            is_first: true,
            is_last: true,
            last_seq: Some(62),
            ..Page::default()
        },
    });
    model
}

fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '←' => KeyCode::Left,
            c => KeyCode::Char(c),
        };
        let more = model.update(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        // Scans complete at once, over the same events.
        for effect in more {
            match effect {
                Effect::Scan(ScanRequest::Lines(mut scan)) => {
                    events().iter().for_each(|event| scan.take(event));
                    scan.end(ScanState::Done);
                    effects.extend(model.update(Input::Scanned(scan)));
                }
                effect => effects.push(effect),
            }
        }
    }
    effects
}

/// Returns the text of a screen, and its styles in words if there are any.
fn text(drawn: &Frame) -> String {
    let area = drawn.buffer.area;
    let mut out = String::new();
    for y in 0..area.height {
        let mut skip = 0;
        let mut line = String::new();
        for x in 0..area.width {
            let symbol = drawn.buffer[(x, y)].symbol();
            if skip == 0 {
                line.push_str(symbol);
                skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
            } else {
                skip -= 1;
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Returns the screen of a model as text.
fn shown(model: &Model) -> String {
    text(&draw(model, &ALL))
}

fn snapshot(name: &str, keys: &str, prepare: impl Fn(&mut Model)) {
    for size in SIZES {
        let mut model = model(size);
        prepare(&mut model);
        press(&mut model, keys);
        let drawn = draw(&model, &ALL);
        assert_eq!(drawn.buffer.area.as_size(), size.into());
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../../tests/snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| {
            insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), text(&drawn));
        });
    }
}

#[test]
fn views() {
    snapshot("board", "", |_| {});
    snapshot("output", "\to", |_| {});
    snapshot("output_wrapped", "\tw", |_| {});
    snapshot("logs", "\tl", |_| {});
    snapshot("events", "\te", |_| {});
    snapshot("screen", "\ts", |model| {
        let mut lines = vec![Default::default(); 24];
        lines[0] = StyledText::painted("\x1b[1mClaude Code\x1b[0m v2");
        lines[23] = StyledText::painted("❯ 1. Yes");
        model.screen = Some(Screen {
            cursor: (2, 23),
            rows: lines,
        });
    });
    snapshot("screen_none", "\ts", |_| {});
    snapshot("timeline", "t", |model| model.timeline.is_loaded = true);
    snapshot("timeline_cursor", "t<<<", |_| {});
}

#[test]
fn states() {
    snapshot("paused", "\tkkk", |_| {});
    snapshot("search", "\t/line 5\n", |_| {});
    snapshot("search_none", "\t/nowhere\n", |_| {});
    snapshot("filter", "\tferror\n", |_| {});
    snapshot("filter_inverted", "\tf!line\n", |_| {});
    snapshot("prompt", "\tfabc", |_| {});
    snapshot("answer", "ry", |_| {});
    snapshot("help", "?", |_| {});
    snapshot("help_search", "?time", |_| {});
    snapshot("zoomed", "z", |_| {});
    snapshot("message", "B", |_| {});
    snapshot("lagged", "\t", |model| {
        let stream = model.log.stream;
        let events = vec![output(900, "after the flood")];
        model.update(Input::Live {
            stream,
            missed: 837,
            events,
        });
    });
    snapshot("lost", "", |model| {
        let why = "no observer runs: td-observe start begins one".to_owned();
        model.connection = Connection::Lost(why);
    });
    snapshot("empty", "", |model| {
        model.update(Input::Board(Vec::new()));
    });
}

#[test]
fn the_ui_is_readable_without_colours_and_without_utf8() {
    let mut model = model((120, 30));
    press(&mut model, "\t/error\n");
    for colours in [Colours::None, Colours::Sixteen, Colours::All] {
        for is_utf8 in [true, false] {
            let drawn = draw(&model, &Theme { colours, is_utf8 });
            let text = text(&drawn);
            // Marks distinguish the groups without colours.
            assert!(
                text.contains("NEEDS YOU 1") && text.contains("! agent-7"),
                "{text}"
            );
            assert!(is_utf8 || text.is_ascii(), "{text}");
            for cell in &drawn.buffer.content {
                let is_plain = |colour: Color| match colours {
                    Colours::None => colour == Color::Reset,
                    Colours::Sixteen => !matches!(colour, Color::Rgb(..) | Color::Indexed(_)),
                    Colours::All => true,
                };
                assert!(is_plain(cell.fg) && is_plain(cell.bg), "{cell:?}");
                // White, black and yellow text is unreadable on some backgrounds.
                let is_risky = matches!(
                    cell.fg,
                    Color::White | Color::Black | Color::Yellow | Color::Gray
                );
                assert!(!is_risky, "{cell:?}");
            }
            // Attributes mark the selected row and the match.
            let reversed = drawn
                .buffer
                .content
                .iter()
                .any(|cell| cell.modifier.contains(Modifier::REVERSED));
            assert!(reversed);
        }
    }
}

#[test]
fn text_of_panes_and_names_has_no_control_characters() {
    let drawn = draw(&model((80, 50)), &ALL);
    let has_control = |symbol: &str| symbol.chars().any(char::is_control);
    assert!(
        drawn
            .buffer
            .content
            .iter()
            .all(|cell| !has_control(cell.symbol()))
    );
    assert!(text(&drawn).contains("^[[31m"), "{}", text(&drawn));
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    for width in (0..130).step_by(7) {
        for height in 0..12 {
            for keys in ["", "\to", "t", "\ts", "?", "\tfx", "r", "\te"] {
                let mut model = model((80, 24));
                press(&mut model, keys);
                model.update(Input::Resize(width, height));
                draw(&model, &ALL);
            }
        }
    }
}

const QUESTION: &str = "Remove the generated files of the last build, and all caches that belong to them, \
                        before the next build begins? [y/N]";

/// Returns a model whose first row waits with a long question.
fn asked(size: (u16, u16), asks: bool) -> Model {
    let mut model = model(size);
    let mut rows = rows();
    if asks {
        rows[0].asks = Some(QUESTION.to_owned());
    } else {
        rows[0].asks = None;
        rows[0].last_line = QUESTION.to_owned();
    }
    model.update(Input::Board(rows));
    model
}

/// Returns the text without line ends.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_complete_question_is_shown_above_the_answer() {
    for asks in [true, false] {
        let mut model = asked((80, 24), asks);
        press(&mut model, "\n");
        let view = shown(&model);
        assert!(
            joined(&view).contains(&format!("asks: {QUESTION}")),
            "{view}"
        );
        assert!(
            view.contains("9 lines lost"),
            "the end of the output: {view}"
        );
        press(&mut model, "\u{1b}r");
        let prompt = shown(&model);
        assert!(
            joined(&prompt).contains(&format!("agent-7 asks: {QUESTION}")),
            "{prompt}"
        );
    }
    // At most three lines, with an ellipsis if the question is cut.
    let mut model = asked((40, 10), true);
    press(&mut model, "r");
    let prompt = shown(&model);
    let lines: Vec<&str> = prompt.lines().collect();
    assert!(
        lines[6].starts_with("agent-7 asks: ") && lines[8].ends_with('…'),
        "{prompt}"
    );
    // The question is hidden from a reader of older lines, and in other rows.
    let mut model = asked((80, 24), true);
    press(&mut model, "\ng");
    assert!(!shown(&model).contains("asks: "));
    press(&mut model, "\u{1b}\u{1b}j\n");
    assert!(!shown(&model).contains("asks: "));
}

#[test]
fn a_narrow_board_gives_the_question_more_room_than_the_name() {
    let board = shown(&asked((40, 10), true));
    let line = board.lines().find(|line| line.contains("agent-7")).unwrap();
    let (_, question) = line.split_once("Remove").unwrap();
    assert!("Remove".len() + question.chars().count() > 15, "{board}");
}

#[test]
fn an_empty_answer_needs_a_second_enter() {
    let answer = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Answer {
                text,
                presses_enter,
                ..
            } => Some((text.clone(), *presses_enter)),
            _ => None,
        })
    };
    let mut model = model((80, 24));
    let sent = press(&mut model, "r\n");
    assert_eq!(answer(&sent), None);
    let screen = shown(&model);
    assert!(
        screen.contains("nothing was sent: type an answer, or Esc; Enter again"),
        "{screen}"
    );
    // Any other key withdraws the confirmation.
    let sent = press(&mut model, "n");
    assert_eq!(answer(&sent), None);
    let mut prompt = model;
    prompt.update(Input::Key(KeyEvent::new(
        KeyCode::Backspace,
        KeyModifiers::NONE,
    )));
    let sent = press(&mut prompt, "\n");
    assert_eq!(answer(&sent), None);
    let sent = press(&mut prompt, "\n");
    assert_eq!(answer(&sent), Some((String::new(), true)));
    assert!(prompt.input.prompt.is_none());
}

#[test]
fn a_dialogue_is_shown_in_full_and_an_answer_is_for_it_alone() {
    let mut model = model((80, 24));
    let mut rows = rows();
    rows[0].question_id = Some("one".to_owned());
    rows[0].dialogue = serde_json::from_value(serde_json::json!({
        "text": "Bash command\n\n  rm -rf build\n\nUntrusted Command Flags",
        "choices": [
            {"key": "1", "label": "Yes", "selected": true},
            {"key": "2", "label": "No, and say why", "selected": false},
        ],
    }))
    .unwrap();
    model.update(Input::Board(rows.clone()));
    press(&mut model, "r");
    let screen = shown(&model);
    for line in [
        "agent-7 asks:",
        "Bash command",
        "rm -rf build",
        "Untrusted Command Flags",
        "> 1  Yes",
        "  2  No, and say why",
    ] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    // Another question: nothing is sent, and it is shown.
    rows[0].question_id = Some("two".to_owned());
    rows[0].asks = Some("git push --force".to_owned());
    rows[0].dialogue = None;
    model.update(Input::Board(rows.clone()));
    let sent = press(&mut model, "1\n");
    assert!(
        !sent
            .iter()
            .any(|effect| matches!(effect, Effect::Answer { .. }))
    );
    let screen = shown(&model);
    assert!(
        screen.contains("nothing was typed: the question has changed")
            && screen.contains("git push --force"),
        "{screen}"
    );
    let sent = press(&mut model, "\n");
    let row = sent.iter().find_map(|effect| match effect {
        Effect::Answer { row, .. } => Some(row),
        _ => None,
    });
    assert_eq!(row.unwrap().question_id.as_deref(), Some("two"));
}

#[test]
fn the_key_a_answers_a_waiting_row() {
    let mut model = model((80, 24));
    press(&mut model, "a");
    assert!(shown(&model).contains("to agent-7 %7, typed"));
    press(&mut model, "\u{1b}ja");
    assert!(shown(&model).contains("a has no meaning here"));
}

#[test]
fn enter_on_an_ended_row_opens_its_output() {
    let mut model = model((200, 50));
    press(&mut model, "jjs\u{1b}");
    assert_eq!(model.layout.focus, Focus::Board);
    let effects = press(&mut model, "\n");
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Jump(_)))
    );
    assert!(model.layout.focus == Focus::View && model.view.kind == ViewKind::Output);
    assert_eq!(model.input.message, None);
    press(&mut model, "\n");
    assert!(shown(&model).contains("make test has ended: there is no pane to go to"));
}

#[test]
fn a_command_stands_for_its_pane_unless_that_is_selected_and_enter_goes_to_the_pane() {
    let mut model = model((200, 50));
    let mut all = rows();
    for row in &mut all {
        row.server = row.pane.as_ref().map(|_| "/tmp/s".to_owned());
    }
    let mut command = row("make all@1", None, "command", "running", 2);
    command.in_pane = serde_json::from_value(json!({"server": "/tmp/s", "pane": "%0"})).unwrap();
    all.insert(0, command);
    model.update(Input::History(vec![older("build@1", 0, 30)]));
    model.update(Input::Board(all.clone()));
    let names = |model: &Model| -> Vec<String> {
        let rows = model.board.rows.iter();
        rows.map(|row| row.name.clone()).collect()
    };
    let is_listed = |model: &Model| names(model).contains(&"build".to_owned());
    assert!(!is_listed(&model), "{:?}", names(&model));
    model.board.select(Some(all[0].key()));
    let effects = press(&mut model, "\n");
    let goes = |effect: &Effect| matches!(effect, Effect::Jump(row) if row.in_pane.is_some());
    assert!(effects.iter().any(goes), "{:?}", names(&model));
    // The pane in which the user is stays.
    all[0].in_pane = None;
    model.update(Input::Board(all.clone()));
    let build = all.iter().find(|row| row.name == "build").map(Row::key);
    model.board.select(build);
    all[0].in_pane = serde_json::from_value(json!({"server": "/tmp/s", "pane": "%0"})).unwrap();
    model.update(Input::Board(all.clone()));
    assert_eq!(
        model.board.row().map(|row| row.name.as_str()),
        Some("build")
    );
    model.board.select(Some(all[0].key()));
    model.update(Input::Board(all));
    assert!(!is_listed(&model), "{:?}", names(&model));
}

#[test]
fn the_only_active_row_is_followed_when_it_begins_and_else_the_user_chooses() {
    let mut model = model((120, 30));
    let selected = |model: &Model| model.board.row().map(|row| row.name.clone());
    let ended = || row("first@1", None, "command", "exited", 9);
    let runs = |name: &str| row(name, None, "loop", "running", 1);
    model.update(Input::Board(vec![ended()]));
    assert_eq!(selected(&model).as_deref(), Some("first"));
    model.update(Input::Board(vec![ended(), runs("second@1")]));
    assert_eq!(selected(&model).as_deref(), Some("second"));
    // Beside another active row, a new one is only listed.
    model.update(Input::Board(vec![
        ended(),
        runs("second@1"),
        runs("third@1"),
    ]));
    assert_eq!(selected(&model).as_deref(), Some("second"));
    // Who reads an earlier place is not moved away from it.
    model.view.is_following = false;
    model.update(Input::Board(vec![ended(), runs("fourth@1"), {
        let mut second = row("second@1", None, "loop", "exited", 0);
        second.ended = true;
        second
    }]));
    assert_eq!(selected(&model).as_deref(), Some("second"));
}

const DAY: i64 = 24 * 3600;

fn older(id: &str, status: i32, ago: i64) -> Row {
    let mut row = row(id, None, "command", "exited", ago);
    row.exit_status = Some(status);
    row
}

fn with_history(size: (u16, u16)) -> Model {
    let mut model = model(size);
    // The first run is on the board.
    let history = vec![
        older("make test@1", 2, 30),
        older("nightly@1", 3, DAY),
        older("release@4", 0, 9 * DAY),
    ];
    model.update(Input::History(history));
    model
}

#[test]
fn older_runs_are_a_group_below_the_board() {
    let mut model = with_history((80, 24));
    let screen = shown(&model);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("6 rows"), "{screen}");
    let heading = lines.iter().position(|line| *line == "OLDER 2").unwrap();
    assert!(
        lines[heading - 1].contains("logs"),
        "below the quiet rows: {screen}"
    );
    let (nightly, release) = (lines[heading + 1], lines[heading + 2]);
    assert!(nightly.starts_with("  x nightly"), "{screen}");
    assert!(
        nightly.contains("failed 3") && nightly.contains(" 1d "),
        "{screen}"
    );
    assert!(
        release.starts_with("  · release") && release.contains(" 9d "),
        "{screen}"
    );

    // Older runs are shown like other rows, but without live events, and never need the user.
    let effects = press(&mut model, "G");
    assert_eq!(model.board.row().unwrap().name, "release");
    let is_load =
        |effect: &Effect| matches!(effect, Effect::Load(page) if page.row.name == "release");
    assert!(effects.iter().any(is_load));
    let last_page = |model: &mut Model| {
        model.update(Input::Page {
            generation: model.log.generation,
            place: Place::Last,
            page: Page {
                is_last: true,
                ..Page::default()
            },
        })
    };
    let is_follow = |effect: &Effect| matches!(effect, Effect::Follow(_));
    assert!(!effects.iter().any(is_follow));
    assert!(!last_page(&mut model).iter().any(is_follow));
    press(&mut model, "]");
    assert_eq!(model.board.row().unwrap().name, "agent-7");
    // A run that continues is on the board, and is followed.
    press(&mut model, "Gk");
    let mut rows = rows();
    rows.push(row("nightly@1", None, "command", "running", 0));
    model.update(Input::Board(rows));
    assert!(last_page(&mut model).iter().any(is_follow));
    assert!(shown(&model).contains("OLDER 1") && shown(&model).contains("7 rows"));
    assert_eq!(model.board.row().unwrap().name, "nightly");
}

#[test]
fn the_latest_200_are_shown() {
    let mut model = model((80, 24));
    let history = (0..300).map(|number| older(&format!("run-{number}@1"), 0, DAY + number));
    model.update(Input::History(history.collect()));
    press(&mut model, "G");
    assert_eq!(model.board.row().unwrap().name, "run-199");
}

#[test]
fn a_row_or_run_is_opened_by_its_name() {
    for (typed, opened) in [
        (":open nightly\n", "nightly"),
        (":open ni\t\n", "nightly"),
        (":open agent-2 %2\n", "agent-2"),
        (":open build\n", "build"),
        (":open release@4\n", "release"),
    ] {
        let mut model = with_history((80, 24));
        press(&mut model, typed);
        assert_eq!(model.board.row().unwrap().name, opened, "{typed}");
        assert!(
            shown(&model).starts_with(&format!("output {opened}")),
            "{}",
            shown(&model)
        );
    }
    let mut model = with_history((80, 24));
    press(&mut model, ":open nothing\n");
    assert!(shown(&model).contains("open nothing: no row or older run has this name"));
}

#[test]
fn a_hidden_board_is_not_scrolled() {
    let mut model = model((80, 24));
    let before = shown(&model);
    press(&mut model, "↓↓\n\u{1b}");
    let after = shown(&model);
    assert!(
        after.contains("NEEDS YOU 1") && after.starts_with("6 rows"),
        "{after}"
    );
    assert_eq!(before.lines().count(), after.lines().count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_board_never_scrolls_further_than_needed(
        keys in prop::collection::vec(0_usize..10, 0..40),
        width in prop_oneof![30_u16..60, 90_u16..120],
        height in 1_u16..20,
    ) {
        let mut model = model((80, 24));
        for key in keys {
            match key {
                8 => drop(model.update(Input::Resize(width, height))),
                9 => drop(model.update(Input::Resize(80, 24))),
                key => drop(press(&mut model, ["↓", "↑", "\n", "\u{1b}", "\t", "G", "g", "z"][key])),
            }
            let lines = model.board.line_of(model.board.rows.len() - 1) + 1;
            let room = usize::from(model.layout.size.1).saturating_sub(2).max(1);
            let top = model.board.top;
            prop_assert!(top == 0 || top + room <= lines, "{top} of {lines} in {room}");
            let selected = model.board.line_of(model.board.index().unwrap());
            prop_assert!((top..top + room).contains(&selected));
        }
    }
}

#[test]
fn a_time_before_the_first_event_shows_nothing() {
    let mut model = model((80, 24));
    press(&mut model, "\n:at 2h\n");
    let generation = model.log.generation;
    let page = |events| Page {
        events,
        is_first: true,
        ..Page::default()
    };
    let place = Place::Until(model.view.at.unwrap());
    let effects = model.update(Input::Page {
        generation,
        place,
        page: page(Vec::new()),
    });
    assert!(
        effects.is_empty(),
        "nothing after it is loaded: {effects:?}"
    );
    let stream = model.log.stream;
    for seq in 63..70 {
        let events = vec![output(seq, "live")];
        model.update(Input::Live {
            stream,
            missed: 0,
            events,
        });
        press(&mut model, "jgk");
        let screen = shown(&model);
        assert!(
            screen.contains("nothing was recorded before this time"),
            "{screen}"
        );
        assert!(
            !screen.contains("live") && !screen.contains("new"),
            "{screen}"
        );
        assert!(
            screen.contains("AT 2026-01-21 08:00:00, Esc: now"),
            "{screen}"
        );
    }
    // Earlier recorded lines stay unchanged.
    let page = page(events());
    model.update(Input::Page {
        generation,
        place,
        page: Page {
            is_last: true,
            ..page
        },
    });
}

#[test]
fn escape_restores_the_focus() {
    let mut model = model((200, 50));
    for keys in ["/", "/line 5\n", "/nowhere\n", "t/"] {
        press(&mut model, "t");
        model.set_focus(Focus::Board);
        press(&mut model, keys);
        press(&mut model, "\u{1b}");
        assert_eq!(model.layout.focus, Focus::Board, "{keys:?}");
        assert!(model.input.prompt.is_none() && model.view.search.is_none());
    }
    // A view without lines is left only for a search.
    press(&mut model, "t/\u{1b}");
    assert_eq!(model.view.kind, ViewKind::Timeline);
    // A message does not capture keys.
    press(&mut model, "o\tGB");
    assert!(model.layout.focus == Focus::View && model.input.message.is_some());
    press(&mut model, "\u{1b}");
    assert!(model.layout.focus == Focus::Board && model.input.message.is_none());
}

#[test]
fn the_focused_part_is_marked_without_attributes() {
    let mut model = model((120, 30));
    let title = |model: &Model| shown(model).lines().next().unwrap_or_default().to_owned();
    let board = title(&model);
    press(&mut model, "\t");
    let view = title(&model);
    let (left, right) = board.split_once('│').unwrap();
    assert!(left.ends_with('◂') && !right.contains('◂'), "{board}");
    let (left, right) = view.split_once('│').unwrap();
    assert!(right.ends_with('◂') && !left.contains('◂'), "{view}");
}

#[test]
fn the_bottom_line_has_the_most_useful_keys() {
    let mut model = model((120, 30));
    let bottom = |model: &Model| shown(model).lines().last().unwrap_or_default().to_owned();
    let waiting = bottom(&model);
    assert!(
        waiting.ends_with("r answer  Enter jump  ] next  / search  ? help"),
        "{waiting}"
    );
    press(&mut model, "j");
    let working = bottom(&model);
    assert!(
        working.ends_with("Enter jump  / search  f filter  t timeline  ? help"),
        "{working}"
    );
    press(&mut model, "j");
    assert!(bottom(&model).contains("Enter open"), "{}", bottom(&model));
    model.update(Input::Resize(40, 10));
    assert!(bottom(&model).ends_with("? help"), "{}", bottom(&model));
    model.update(Input::Resize(16, 10));
    assert_eq!(bottom(&model), "following");
}

#[test]
fn commands_are_shown_and_completed_in_turn() {
    let mut model = model((200, 50));
    press(&mut model, ":");
    let screen = shown(&model);
    let line = screen.lines().last().unwrap();
    let mut typed = Vec::new();
    for _ in 0..NAMES.len() {
        press(&mut model, "\t");
        typed.push(
            model
                .input
                .prompt
                .as_ref()
                .unwrap()
                .text()
                .trim()
                .to_owned(),
        );
    }
    for name in &typed {
        assert!(line.contains(name.as_str()), "{name}: {line}");
    }
    press(&mut model, "\t");
    assert_eq!(model.input.prompt.as_ref().unwrap().text().trim(), typed[0]);
    typed.sort();
    typed.dedup();
    assert_eq!(typed.len(), NAMES.len());
}

#[test]
fn the_help_shows_that_there_is_more_and_scrolls_to_its_end() {
    let mut model = model((80, 24));
    press(&mut model, "?");
    let first = shown(&model);
    assert!(
        first.contains("more below") && first.contains("Who needs you"),
        "{first}"
    );
    for _ in 0..99 {
        press(&mut model, "↓");
    }
    let last = shown(&model);
    assert!(
        !last.contains("more below") && last.contains("↑ more above"),
        "{last}"
    );
    let end = last.lines().rev().nth(1).unwrap();
    assert!(
        end.contains("quit; nothing that is observed stops"),
        "{last}"
    );
    press(&mut model, "\u{1b}");
    assert!(model.input.help.is_none());
}

#[test]
fn a_search_without_a_match_names_the_searched_view() {
    let mut model = model((120, 30));
    press(&mut model, "/zebra\n");
    assert!(shown(&model).contains("no line in agent-7's output has zebra"));
    // The message does not follow to a row in which the search did not begin.
    press(&mut model, "B");
    press(&mut model, "\tj");
    model.input.message = None;
    let screen = shown(&model);
    assert!(
        !screen.contains("zebra") && !screen.contains("0 of 0"),
        "{screen}"
    );
}

#[test]
fn a_match_is_marked_and_has_context() {
    let mut model = model((80, 24));
    press(&mut model, "\n/line 2\\d\nNNNN");
    let drawn = draw(
        &model,
        &Theme {
            colours: Colours::None,
            ..ALL
        },
    );
    let screen = text(&drawn);
    let y = model.view.cursor - model.view.top + 1;
    assert!(y > 3 && y < 20, "{y}: {screen}");
    let is_underlined = |x: u16| {
        let cell = &drawn.buffer[(x, u16::try_from(y).unwrap())];
        cell.modifier.contains(Modifier::UNDERLINED)
    };
    assert!(
        (0..7).all(is_underlined) && !(7..20).any(is_underlined),
        "{screen}"
    );
}

#[test]
fn the_title_of_a_loop_has_the_phases_ahead() {
    for (size, task) in [
        ((120, 24), "Add OAuth"),
        ((80, 24), "Add OAuth to all of the services that we have"),
    ] {
        let mut model = model(size);
        let mut row = row("loop@1", None, "loop", "running", 1);
        row.name = task.to_owned();
        row.phases = Some(vec![
            "Storage".into(),
            "Routes\u{1b}[2J".into(),
            "Docs".into(),
        ]);
        model.update(Input::Board(vec![row]));
        press(&mut model, "\n");
        let screen = shown(&model);
        let title = screen.lines().next().unwrap();
        assert!(title.contains("Storage → Routes^[[2J → Docs"), "{screen}");
        assert!(title.contains("output Add OAuth"), "{screen}");
    }
}

#[test]
fn output_begins_with_the_start_of_observation() {
    let pane = PaneId::from("%7");
    let started = |panes: Vec<PaneId>| {
        let started = TdEvent::SessionStarted {
            execution_id: "agent-7@1".into(),
            session: "agent-7".into(),
            panes,
        };
        Envelope::new(Some(1), at(3600), started)
    };
    let shown_with = |panes: Vec<PaneId>, lines: u64, keys: &str| {
        let mut model = model((80, 24));
        model.reload();
        let generation = model.log.generation;
        let lines = (2..2 + lines).map(|seq| output(seq, "something"));
        let page = Page {
            events: std::iter::once(started(panes)).chain(lines).collect(),
            is_first: true,
            is_last: true,
            last_seq: Some(99),
            ..Page::default()
        };
        model.update(Input::Page {
            generation,
            place: Place::Last,
            page,
        });
        press(&mut model, keys);
        shown(&model)
    };
    let since = "observed since 09:00:00; earlier output was not recorded";
    for (lines, keys) in [(0, "\n"), (3, "\n"), (90, "\ng")] {
        let screen = shown_with(vec![pane.clone()], lines, keys);
        assert_eq!(screen.lines().nth(1), Some(since), "{screen}");
    }
    let empty = shown_with(vec![pane.clone()], 0, "\n");
    assert!(empty.contains("nothing was printed since"), "{empty}");
    // The line is not shown in the middle, in other views, or for a pane that was opened later.
    for (panes, lines, keys) in [
        (vec![pane.clone()], 90, "\n"),
        (vec![pane], 3, "\nl"),
        (vec![PaneId::from("%1")], 3, "\n"),
    ] {
        let screen = shown_with(panes, lines, keys);
        assert!(!screen.contains("observed since"), "{screen}");
    }
}

/// The text of a link is underlined, in its colours, and a key copies its address.
#[test]
fn the_address_of_a_link_is_copied() {
    let mut model = model((120, 40));
    let mut linked = output(900, "an error: see E0308");
    if let TdEvent::OutputUpdate { links, .. } = &mut linked.event {
        let link = |start, end, url: &str| Link {
            line: 900,
            start,
            end,
            url: url.to_owned(),
        };
        *links = Links::new(vec![
            link(5, 9, "https://x/1"),
            link(14, 19, "mailto:a@b.c"),
        ]);
    }
    let stream = model.log.stream;
    model.update(Input::Live {
        stream,
        missed: 0,
        events: vec![linked],
    });
    let line = model.view.lines().back().unwrap();
    let underlined: Vec<&str> = (line.text.runs.iter())
        .filter(|(_, ink)| ink.has(4))
        .map(|(range, _)| &line.text.text[range.clone()])
        .collect();
    assert_eq!(underlined, ["ror", ":", "E0308"]);
    let copied = |effects: &[Effect]| match effects {
        [Effect::Copy(text)] => text.clone(),
        other => panic!("{other:?}"),
    };
    let effects = press(&mut model, "\tU");
    assert_eq!(copied(&effects), "https://x/1\nmailto:a@b.c");
    let effects = press(&mut model, "gU");
    assert!(
        !effects.iter().any(|it| matches!(it, Effect::Copy(_))),
        "{effects:?}"
    );
    assert!(shown(&model).contains("the line has no link"));
}

#[test]
fn a_key_without_a_meaning_is_reported() {
    let mut model = model((80, 24));
    for key in ["h", "←", "B", "a"] {
        press(&mut model, "j");
        press(&mut model, key);
        assert!(
            shown(&model).contains("has no meaning here"),
            "{key}: {}",
            shown(&model)
        );
    }
    press(&mut model, "\nh");
    assert_eq!(model.input.message, None);
    press(&mut model, "sj");
    assert!(shown(&model).contains("the screen does not scroll"));
}
