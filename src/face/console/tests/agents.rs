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
