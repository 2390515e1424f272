//! Tests snapshots of each view and state at three sizes, and terminals with fewer abilities.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier};
use serde_json::json;

mod answers;
mod older;
mod stranger;

use super::*;
use crate::board::Row;
use crate::event::{Envelope, Style as EventStyle, Styles, TdEvent};
use crate::face::local_time::LocalTime;
use crate::face::tui::effect::Connection;
use crate::face::tui::effect::{Effect, Input, Place, ScanRequest};
use crate::face::tui::model::Settings;
use crate::face::tui::theme::Colours;
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
        Some(from) => vec![EventStyle {
            line: 0,
            from: from as u32,
            to: from as u32 + 5,
            sgr: "1;31".to_owned(),
        }],
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
                    scan.end(crate::face::tui::searching::ScanState::Done);
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
        settings.set_snapshot_path("../../../../tests/snapshots");
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
        lines[0] = crate::face::tui::painted::StyledText::painted("\x1b[1mClaude Code\x1b[0m v2");
        lines[23] = crate::face::tui::painted::StyledText::painted("❯ 1. Yes");
        model.screen = Some(crate::face::tui::effect::Screen {
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
    snapshot("message", "x", |_| {});
    snapshot("lagged", "\t", |model| {
        let generation = model.generation;
        let events = vec![output(900, "after the flood")];
        model.update(Input::Live {
            generation,
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
    let drawn = draw(&model((200, 50)), &ALL);
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
