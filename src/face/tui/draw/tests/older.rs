//! Tests runs of the history that are no longer on the board.

use super::*;

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
    assert_eq!(model.selected_row().unwrap().name, "release");
    let is_load =
        |effect: &Effect| matches!(effect, Effect::Load(page) if page.row.name == "release");
    assert!(effects.iter().any(is_load));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Follow(_)))
    );
    press(&mut model, "]");
    assert_eq!(model.selected_row().unwrap().name, "agent-7");
    // A run that continues is on the board, and is followed.
    press(&mut model, "Gk");
    let mut rows = rows();
    rows.push(row("nightly@1", None, "command", "running", 0));
    let effects = model.update(Input::Board(rows));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Follow(_)))
    );
    assert!(shown(&model).contains("OLDER 1") && shown(&model).contains("7 rows"));
    assert_eq!(model.selected_row().unwrap().name, "nightly");
}

#[test]
fn the_latest_200_are_shown() {
    let mut model = model((80, 24));
    let history = (0..300).map(|number| older(&format!("run-{number}@1"), 0, DAY + number));
    model.update(Input::History(history.collect()));
    press(&mut model, "G");
    assert_eq!(model.selected_row().unwrap().name, "run-199");
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
        assert_eq!(model.selected_row().unwrap().name, opened, "{typed}");
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
