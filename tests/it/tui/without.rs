//! Starts without arguments, and without a terminal that can show the UI.

use std::fs;

use super::Stage;

#[test]
fn without_arguments_on_a_terminal_the_program_shows_the_ui() {
    let mut stage = Stage::new();
    // Without an option, the variable names the server.
    let socket = stage.home.server.socket();
    stage.home.server.new_session("job", 80, 24, "exec cat");
    stage.run((120, 30), &format!("TMUX={},1,0", socket.display()), "");
    stage.shows("output job %0");
    stage.types("q");
    stage.ended(0);
    stage.left_nothing();
}

#[test]
fn without_a_terminal_there_is_one_line() {
    let usage = String::from_utf8(Stage::new().home.run(&[]).stderr).unwrap();
    assert_eq!(usage.lines().count(), 1, "{usage}");
    let refused = "td-observe: tui: standard input and output are no terminal";
    for (environment, line, expected) in [
        ("TERM=dumb", "td-observe", usage.trim()),
        ("", "td-observe | cat", usage.trim()),
        ("TERM=dumb", "td-observe tui", refused),
        ("", "td-observe tui | cat", refused),
    ] {
        let mut stage = Stage::new();
        let script = format!(
            "cd $HOME; bash -c 'exec 2> complaints; set -o pipefail; {line}'; echo code=$?; echo over; exec cat"
        );
        fs::write(stage.home.directory().join("script.sh"), script).unwrap();
        stage.run((120, 30), environment, "");
        let screen = stage.shows("over");
        let is_help = screen.contains("Exit codes:") && !line.contains(" tui");
        assert!(
            screen.ends_with("code=2\nover") && (is_help || line.contains(" tui")),
            "{screen}"
        );
        let complaints = fs::read_to_string(stage.home.directory().join("complaints")).unwrap();
        assert_eq!(complaints.lines().count(), 1, "{line}: {complaints}");
        assert!(complaints.starts_with(expected), "{line}: {complaints}");
        stage.left_nothing();
    }
}
