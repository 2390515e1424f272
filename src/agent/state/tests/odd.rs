//! Unusual screens: other widths, text above, shells below, other programs, huge screens.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

proptest! {
    #[test]
    fn odd_screens_are_handled(
        rows in proptest::collection::vec(
            prop_oneof![
                any::<String>(),
                "[ │┃─╭╰>❯›⏺✻•0-9a-z()…]{0,40}",
                select(vec![RULE, "❯", "│ > │", "┃", "› ", "✻ Baked for 3s"]).prop_map(str::to_owned),
            ],
            0..40,
        ),
        x: u32,
        y in 0..50_u32,
    ) {
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let _ = StateRules::builtin().detect(&AgentScreen { cursor: Some(Cursor { x, y }), ..AgentScreen::of(&rows) });
    }

    #[test]
    fn blanks_and_widths_do_not_matter(
        blanks in 0..30_usize,
        width in 4..200_usize,
        foot in 0..20_usize,
        above in select(vec!["⏺ It is.", "✻ Baked for 3s", "✽ Herding… (3s)", "❯ a\n  ⎿  API Error: 1"]),
    ) {
        let (line, blank) = ("─".repeat(width), " ".repeat(blanks));
        let plain = claude(above, "❯ ", "  ? for shortcuts");
        let mut other = plain.replace(RULE, &line).replace('\n', &format!("{blank}\n"));
        other.push_str(&format!("{blank}\n").repeat(foot));
        prop_assert_eq!(detect(&plain), detect(&other));
        let boxed = format!("{above}\n╭{line}╮\n│ > {blank} │\n╰{line}╯\n  ? for shortcuts");
        let state = |screen: &str| detect(screen).map(|detected| detected.state);
        prop_assert_eq!(state(&plain), state(&boxed));
    }

    /// Text of any agent that has scrolled off never makes a working or waiting agent done.
    #[test]
    fn scrolled_off_text_is_not_done(
        busy in select(screens::busy()),
        above in proptest::collection::vec(
            prop_oneof![
                select(screens::all().flat_map(|(_, _, screen)| screen.lines()).collect::<Vec<_>>())
                    .prop_map(str::to_owned),
                "[ │┃─╭╰>❯›⏺✻•0-9a-z()…]{0,40}",
            ],
            0..60,
        ),
    ) {
        let screen = format!("{}\n\n{busy}", above.join("\n"));
        let state = detect(&screen).map(|detected| detected.state);
        prop_assert_ne!(state, Some(AgentState::Done), "{}", screen);
    }
}

/// Of several complete screens, the lowest counts, and the ones above never make it done.
#[test]
fn a_quoted_screen_is_not_done() {
    let mut wrong = String::new();
    for (agent, _, above) in screens::all() {
        for busy in screens::busy() {
            let detected = detect(&format!("{above}\n{busy}"));
            if detected.is_some_and(|detected| detected.state == AgentState::Done) {
                wrong.push_str(&format!("{agent}: {above}\n{busy}\n{}\n", "=".repeat(40)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Below any screen, the prompt of a shell belongs to the shell.
#[test]
fn a_shell_below_any_screen_is_a_shell() {
    for (_, _, above) in screens::all() {
        for prompt in [
            "me@host:~/a$ ",
            "[me@host a]# ",
            "➜  a git:(main) ✗ ",
            "me@host ~/a> ",
            "bash-5.2$ ",
            "(venv) me@host:/a$ ",
        ] {
            assert_eq!(detected_name(&format!("{above}\n{prompt}")), "shell idle?");
        }
    }
}

#[test]
fn the_running_program_counts() {
    let screen = claude("⏺ It is.\n\n✻ Baked for 3s", "❯ ", "  ? for shortcuts");
    let with = |screen: &str, program, cursor: Option<(u32, u32)>| {
        let rows: Vec<&str> = screen.lines().collect();
        let cursor = cursor.map(|(x, y)| Cursor { x, y });
        let program = Some(program);
        let detected = StateRules::builtin().detect(&AgentScreen {
            rows: &rows,
            cursor,
            program,
        });
        detected.map_or("none".to_owned(), |detected| {
            format!("{} {}", detected.agent, detected.state)
        })
    };
    // The name of a program alone proves nothing, but file viewers show quoted screens.
    for (program, expected) in [
        ("claude", "claude done"),
        ("node", "claude done"),
        ("2.1.29", "claude done"),
        ("bash", "claude done"),
        ("-zsh", "claude done"),
        ("vim", "none"),
        ("less", "none"),
        ("/usr/bin/man", "none"),
    ] {
        assert_eq!(with(&screen, program, None), expected, "{program}");
        // The cursor is after the prompt in the box, which resembles the prompt of some shells.
        assert_eq!(with(&screen, program, Some((2, 5))), expected, "{program}");
    }
    // An agent's last screen above a shell prompt that only the name of the program distinguishes
    // from the agent's prompt.
    let below_agent = format!("{screen}\n❯ ");
    assert_eq!(with(&below_agent, "zsh", Some((2, 9))), "shell idle");
    assert_eq!(
        with("me@host:~$ \n\n  text of another", "fish", Some((11, 0))),
        "shell idle"
    );
}

#[test]
fn a_huge_screen_is_cut() {
    let row = "✻ Herding… (3s · ".repeat(100_000);
    let rows = vec![row.as_str(); 3_000];
    let detected = StateRules::builtin().detect(&AgentScreen::of(&rows));
    assert!(detected.is_none_or(|detected| detected.line.chars().count() <= 200));
    let claude = claude("✽ Herding… (3s)", "❯ ", "  ? for shortcuts");
    let mut tall = vec!["x"; 100_000];
    tall.extend(claude.lines());
    let detected = StateRules::builtin().detect(&AgentScreen::of(&tall));
    assert_eq!(
        detected.map(|detected| detected.state),
        Some(AgentState::Working)
    );
}
