//! Tests the first steps of a user who has read no help.

use proptest::prelude::*;

use super::*;
use crate::event::PaneId;
use crate::face::tui::layout::Focus;

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
            let lines = model.board_line_of(model.rows.len() - 1) + 1;
            let room = usize::from(model.size.1).saturating_sub(2).max(1);
            let top = model.board_top;
            prop_assert!(top == 0 || top + room <= lines, "{top} of {lines} in {room}");
            let selected = model.board_line_of(model.selected_index().unwrap());
            prop_assert!((top..top + room).contains(&selected));
        }
    }
}

#[test]
fn a_time_before_the_first_event_shows_nothing() {
    let mut model = model((80, 24));
    press(&mut model, "\n:at 2h\n");
    let generation = model.generation;
    let page = |events| Page {
        events,
        is_first: true,
        ..Page::default()
    };
    let place = Place::Until(model.at.unwrap());
    let effects = model.update(Input::Page {
        generation,
        place,
        page: page(Vec::new()),
    });
    assert!(
        effects.is_empty(),
        "nothing after it is loaded: {effects:?}"
    );
    assert!(model.update(Input::Followed { generation }).is_empty());
    for seq in 63..70 {
        let events = vec![output(seq, "live")];
        model.update(Input::Live {
            generation,
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
        model.focus = Focus::Board;
        press(&mut model, keys);
        press(&mut model, "\u{1b}");
        assert_eq!(model.focus, Focus::Board, "{keys:?}");
        assert!(model.prompt.is_none() && model.search.is_none());
    }
    // A view without lines is left only for a search.
    press(&mut model, "t/\u{1b}");
    assert_eq!(model.view, ViewKind::Timeline);
    // A message does not capture keys.
    press(&mut model, "o\tGx");
    assert!(model.focus == Focus::View && model.message.is_some());
    press(&mut model, "\u{1b}");
    assert!(model.focus == Focus::Board && model.message.is_none());
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
    for _ in 0..crate::face::tui::commands::NAMES.len() {
        press(&mut model, "\t");
        typed.push(model.prompt.as_ref().unwrap().text().trim().to_owned());
    }
    for name in &typed {
        assert!(line.contains(name.as_str()), "{name}: {line}");
    }
    press(&mut model, "\t");
    assert_eq!(model.prompt.as_ref().unwrap().text().trim(), typed[0]);
    typed.sort();
    typed.dedup();
    assert_eq!(typed.len(), crate::face::tui::commands::NAMES.len());
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
    assert!(model.help.is_none());
}

#[test]
fn a_search_without_a_match_names_the_searched_view() {
    let mut model = model((120, 30));
    press(&mut model, "/zebra\n");
    assert!(shown(&model).contains("no line in agent-7's output has zebra"));
    // The message does not follow to a row in which the search did not begin.
    press(&mut model, "x");
    press(&mut model, "\tj");
    model.message = None;
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
    let y = model.cursor - model.top + 1;
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
        let generation = model.generation;
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

#[test]
fn a_key_without_a_meaning_is_reported() {
    let mut model = model((80, 24));
    for key in ["h", "←", "x", "a"] {
        press(&mut model, "j");
        press(&mut model, key);
        assert!(
            shown(&model).contains("has no meaning here"),
            "{key}: {}",
            shown(&model)
        );
    }
    press(&mut model, "\nh");
    assert_eq!(model.message, None);
    press(&mut model, "sj");
    assert!(shown(&model).contains("the screen does not scroll"));
}
