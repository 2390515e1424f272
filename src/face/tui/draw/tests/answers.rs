//! Tests questions and their answers.

use super::*;
use crate::face::tui::layout::Focus;

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
    assert!(prompt.prompt.is_none());
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
    assert_eq!(model.focus, Focus::Board);
    let effects = press(&mut model, "\n");
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Jump(_)))
    );
    assert!(model.focus == Focus::View && model.view == ViewKind::Output);
    assert_eq!(model.message, None);
    press(&mut model, "\n");
    assert!(shown(&model).contains("make test has ended: there is no pane to go to"));
}
