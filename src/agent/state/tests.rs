//! Screens as agents draw them, and the rules that detect their states.

use super::*;

mod odd {
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
                ..AgentScreen::default()
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
        // So is the question in the row of the cursor. Pagers wait by their own row.
        for (rows, program, expected) in [
            ("Remove it? [y/n]\nand more", "vim", "none"),
            ("Remove it? [y/n]\nand more", "tail", "none"),
            ("Remove it? [y/n]\nand more", "apt-get", "shell waiting"),
            (":", "vim", "none"),
            (":", "less", "shell waiting"),
            (":", "batcat", "shell waiting"),
        ] {
            assert_eq!(with(rows, program, Some((0, 0))), expected, "{program}");
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
}
mod own {
    //! The rules of a user: their precedence and their errors.

    use super::*;

    #[test]
    fn user_rules_replace_built_in_ones() {
        let own = "agent = \"shell\"\nfallback = true\n[[rule]]\nid = \"mine\"\nstate = \"working\"\nwhere = \"bottom\"\nlines = 1\npattern = 'busy'";
        let rules = StateRules::builtin().with_toml(own).unwrap();
        assert_eq!(rules.detect(&AgentScreen::of(&["me@host:~$"])), None);
        let detected = rules.detect(&AgentScreen::of(&["  busy "])).unwrap();
        assert_eq!(detected.evidence(), "shell mine (confirmed): busy");
    }

    #[test]
    fn rules_build_on_those_of_another_agent() {
        let own = "agent = \"mine\"\nlike = \"opencode\"\n[[sign]]\nwhere = \"screen\"\npattern = '^mine'";
        let rules = StateRules::builtin().with_toml(own).unwrap();
        let rows = |above| {
            let asks = [
                "  ┃  △ Permission required",
                "  ┃  $ make",
                "  ┃  Allow once   Allow always   Reject",
            ];
            [above].into_iter().chain(asks).collect::<Vec<_>>()
        };
        for (above, running, expected) in [
            ("mine", None, "mine"),
            ("", None, "opencode"),
            ("", Some("kilo"), "kilo"),
            ("", Some("mine"), "mine"),
            ("mine", Some("opencode"), "opencode"),
        ] {
            let rows = rows(above);
            let detected = rules
                .detect_running(running, &AgentScreen::of(&rows))
                .unwrap();
            assert_eq!(detected.agent, expected, "{above} {running:?}");
            assert_eq!(detected.asks.as_deref(), Some("make"));
            assert_eq!(detected.dialogue.unwrap().choices.len(), 3);
        }
        let error = StateRules::builtin()
            .with_toml("agent = \"a\"\nlike = \"nobody\"")
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("\"nobody\" has no built-in rules"),
            "{error}"
        );
    }

    #[test]
    fn an_error_names_the_rule_and_what_to_do() {
        let file = |rule: &str| {
            let rule = format!("agent = \"a\"\nfallback = true\n[[rule]]\nid = \"r\"\n{rule}");
            StateRules::builtin()
                .with_toml(&rule)
                .unwrap_err()
                .to_string()
        };
        for (rule, expected) in [
            (
                "state = \"idle\"\nwhere = \"input\"\npattern = ''",
                "describe it in [input]",
            ),
            (
                "state = \"idle\"\nwhere = \"bottom\"\npattern = ''",
                "write the number of lines",
            ),
            (
                "state = \"idle\"\nwhere = \"screen\"\nlines = 3\npattern = ''",
                "leave them out",
            ),
            (
                "state = \"idle\"\nwhere = \"screen\"\npattern = '('",
                "is not a regular expression: unclosed group: correct it",
            ),
            (
                "state = \"idle\"\nwhere = \"screen\"\npattern = '\\w{1000}{1000}'",
                "pattern:",
            ),
            (
                "state = \"done\"\nwhere = \"screen\"\npattern = ''",
                "add input = \"empty\"",
            ),
        ] {
            let error = file(rule);
            let names = error.contains("\"a\": rule 1 (r): ");
            assert!(names && error.contains(expected), "{error}");
        }
        for text in [
            "",
            "agent = \"a\"",
            "agent = \"A b\"\nfallback = true",
            &"#".repeat(70_000),
        ] {
            assert!(
                StateRules::builtin()
                    .with_toml(text)
                    .unwrap_err()
                    .is_invalid_input()
            );
        }
    }

    /// Each error is one line with the position and the fix.
    #[test]
    fn an_error_is_one_line() {
        let head = "agent = \"a\"\nfallback = true\n";
        let rule = "[[rule]]\nid = \"r\"\nstate = \"idle\"\nwhere = \"screen\"\npattern = ''\n";
        for (text, expected) in [
            (format!("{head}{rule}colour = 1"), "line 8: unknown field"),
            (format!("{head}[[rule]]\nid = \"r"), "line 4: "),
            (
                format!("{head}{rule}also = '(?<'"),
                "rule 1 (r): also: \"(?<\" is not",
            ),
            (
                format!("{head}{}", rule.replace("idle", "busy")),
                "line 5: unknown variant",
            ),
            (format!("{head}[shell]\n"), "line 3: missing field"),
            (
                format!(
                    "agent = \"a\"\n[shell]\nprograms = []\nreaders = []\nprompt = ''\ncommand = ''\n[[sign]]\nwhere = \"screen\"\npattern = ''\n{rule}"
                ),
                "[shell] is for the fallback",
            ),
            (format!("{head}left = '['\n{rule}"), "left: \"[\" is not"),
            (
                format!("agent = \"a\"\n[[sign]]\nwhere = \"input\"\npattern = ''\n{rule}"),
                "sign 1: it uses the input box",
            ),
            (
                format!("{head}{rule}{rule}"),
                "another rule has this id: choose",
            ),
        ] {
            let error = StateRules::builtin().with_toml(&text).unwrap_err();
            let mut message = error.to_string();
            let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
            while let Some(error) = cause {
                message.push_str(&error.to_string());
                cause = error.source();
            }
            assert!(
                message.contains(expected) && !message.contains('\n'),
                "{message}"
            );
            assert!(message.len() < 400 && message.contains(':'), "{message}");
        }
    }
}
mod rows {
    //! The kinds of rows on agents' screens, as the programs draw them.

    use crate::agent::{RowKind, StateRules};

    const TEXT: &[(&str, &str)] = &[
        ("claude", "❯ SCN:bash fix the failing test"),
        ("claude", "● Bash(touch made-by-agent.txt && ls)"),
        ("claude", "  ⎿  Waiting…"),
        ("claude", " Do you want to proceed?"),
        ("claude", " ❯ 1. Yes"),
        ("claude", "   4. No"),
        ("claude", "  [Output Complete]"),
        ("claude", "✻ Cogitated for 11s · done 4:05 PM"),
        (
            "claude",
            "  there are several files ; second , they look fine . All is well with them .",
        ),
        ("claude", "  - a list ─ with a dash"),
        ("claude", "  │ name │ size │"),
        (
            "codex",
            "  Paragraph 8: I will now describe what I have found in this directory",
        ),
        ("codex", "• Ran cargo test"),
        ("codex", "  └ test result: ok. 12 passed"),
        ("codex", "  Worked for 20s • 16:05"),
        ("codex", "› fix the lost row"),
        ("gemini", "✦ I will create a file."),
        ("gemini", " > SCN:bash fix the failing test"),
        (
            "gemini",
            "│ ? Shell  touch made-by-agent.txt && ls                  │",
        ),
        (
            "gemini",
            "│ Allow execution of [Shell]?                             │",
        ),
        (
            "gemini",
            "│ ● 1. Allow once                                         │",
        ),
        ("aider", "Repo-map: using 1024 tokens, auto refresh"),
        (
            "aider",
            "Would you like to see what's new in this version? (Y)es/(N)o [Yes]: ",
        ),
        ("aider", "> fix the lost row"),
        ("nobody", "────────────────────────"),
        ("nobody", ""),
    ];

    const STATUS: &[(&str, &str)] = &[
        (
            "claude",
            "✻ Herding… (12s · ↓ 300 tokens · esc to interrupt)",
        ),
        ("codex", "• Working (1m 03s • esc to interrupt)"),
        (
            "gemini",
            " ⠼ Reading the Parser (esc to cancel, 1m 12s)     ? for shortcuts",
        ),
        ("aider", "░█        Waiting for gpt-4.1"),
    ];

    const DECORATION: &[(&str, &str)] = &[
        ("claude", ""),
        (
            "claude",
            "────────────────────────────────────────────────────────────",
        ),
        (
            "claude",
            "──────────────────────────────────────────────── ultracode ─",
        ),
        ("claude", "╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌"),
        ("claude", "❯ "),
        ("claude", "  ⏸ manual mode on · ? for shortcuts"),
        ("claude", "  ⏵⏵ accept edits on (shift+tab to cycle)"),
        ("claude", " Esc to cancel · Tab to amend"),
        ("claude", "│                    │"),
        ("codex", "› Ask Codex to do anything"),
        (
            "codex",
            "  mock-model default · /tmp/td-view-lab/work-codex",
        ),
        (
            "codex",
            "  ← for agents · ? for shortcuts                      ⚠ 2 warnings · f2 to view",
        ),
        ("codex", "╭─────────────────────────────────────────────╮"),
        ("gemini", "▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄"),
        ("gemini", " >   Type your message or @path/to/file"),
        (
            "gemini",
            "                                                                ? for shortcuts",
        ),
        ("gemini", " Shift+Tab to accept edits"),
        (
            "gemini",
            " workspace (/directory)                       sandbox                    /model",
        ),
        (
            "gemini",
            " /tmp/td-view-lab/work-gemini                 no sandbox                   Auto",
        ),
        (
            "gemini",
            "│ ╰──────────────────────────────────────────────────────╯ │",
        ),
        (
            "aider",
            "────────────────────────────────────────────────────────────",
        ),
        ("aider", "> "),
    ];

    #[test]
    fn text_is_distinguished_from_progress_and_decoration() {
        let rules = StateRules::builtin();
        let kinds = [
            (RowKind::Text, TEXT),
            (RowKind::Status, STATUS),
            (RowKind::Decoration, DECORATION),
        ];
        for (kind, rows) in kinds {
            for (agent, row) in rows {
                assert_eq!(rules.row_kind(agent, row), kind, "{agent}: {row:?}");
            }
        }
    }
}
mod screens {
    //! Complete screens of each agent in each state, modelled on the output of its program.
    //!
    //! The screens are in `screens/`, one file for each agent, whose head names the sources of the
    //! layouts; the texts are invented. A line `=== NAME = AGENT STATE` precedes each screen, followed
    //! by `: QUESTION` if a dialogue shows one. A name that begins with a version marks a screen that
    //! was captured from that version of the program and shortened.

    use super::{detect, detected_name};

    const FILES: &[&str] = &[
        include_str!("tests/screens/claude.txt"),
        include_str!("tests/screens/codex.txt"),
        include_str!("tests/screens/gemini.txt"),
        include_str!("tests/screens/qwen.txt"),
        include_str!("tests/screens/copilot.txt"),
        include_str!("tests/screens/opencode.txt"),
        include_str!("tests/screens/kilo.txt"),
        include_str!("tests/screens/cline.txt"),
        include_str!("tests/screens/vibe.txt"),
        include_str!("tests/screens/kimi.txt"),
        include_str!("tests/screens/cn.txt"),
        include_str!("tests/screens/aider.txt"),
        include_str!("tests/screens/pi.txt"),
        include_str!("tests/screens/agy.txt"),
        include_str!("tests/screens/cursor.txt"),
        include_str!("tests/screens/nobody.txt"),
    ];

    /// Returns each screen with its name and its expected state.
    pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        let cases = FILES.iter().flat_map(|file| file.split("=== ").skip(1));
        cases.map(|case| {
            let (head, screen) = case.split_once('\n').unwrap();
            let (name, detected_name) = head.split_once(" = ").unwrap();
            (name, detected_name, screen)
        })
    }

    /// Returns the screens of agents that work or wait.
    pub(super) fn busy() -> Vec<&'static str> {
        let is_busy = |detected_name: &str| {
            detected_name.contains("working") || detected_name.contains("waiting")
        };
        let busy = all().filter(|(_, detected_name, _)| is_busy(detected_name));
        busy.map(|(_, _, screen)| screen).collect()
    }

    #[test]
    fn screens_are_read() {
        for (name, expected, screen) in all() {
            let asks = detect(screen).and_then(|detected| detected.asks);
            let asks = asks.map_or(String::new(), |asks| format!(": {asks}"));
            let found = format!("{}{asks}", detected_name(screen));
            assert_eq!(found, expected, "{name}\n{screen}");
            // A capture of a taller pane has blank rows at the bottom, and trailing blanks in all rows.
            let blank = " ".repeat(7);
            let wide: String = screen
                .lines()
                .map(|row| format!("{row}{blank}\n"))
                .collect();
            let tall = format!("{wide}{}", format!("{blank}\n").repeat(9));
            assert_eq!(detect(&tall), detect(screen), "{name}, tall");
        }
    }
}
use crate::event::Cursor;

const RULE: &str = "────────────────────────────────────────";

fn detect(screen: &str) -> Option<DetectedState> {
    let rows: Vec<&str> = screen.lines().collect();
    StateRules::builtin().detect(&AgentScreen::of(&rows))
}

/// Returns `agent state`, with a `?` if the state is inferred.
fn detected_name(screen: &str) -> String {
    detect(screen).map_or("none".to_owned(), |detected| {
        let mark = if detected.inferred { "?" } else { "" };
        format!("{} {}{mark}", detected.agent, detected.state)
    })
}

fn claude(above: &str, input: &str, foot: &str) -> String {
    format!("{above}\n\n{RULE}\n{input}\n{RULE}\n{foot}\n")
}

#[test]
fn claude_is_read() {
    let keys = "  ? for shortcuts";
    let modes = "  ⏵⏵ accept edits on (shift+tab to cycle) · esc to interrupt";
    for (screen, expected) in [
        (claude("⏺ It is.", "❯ ", keys), "claude idle"),
        (claude("⏺ It is.", "❯ but", keys), "claude idle?"),
        (claude("⏺ It is.\n\n✻ Baked for 1m 3s", "❯", keys), "claude done"),
        (claude("✻ Baked for 3s", "❯ and", keys), "claude idle?"),
        (claude("✻ Baked for 3s\n\n❯ and", "❯", keys), "claude idle"),
        (claude("✻ Baked for 3s · 1 shell still running", "❯", keys), "claude done"),
        (
            claude("✻ Brewed for <1s · 3 background tasks still running (↓ to manage)", "❯ ", keys),
            "claude done",
        ),
        (claude("✽ Herding… (3s · thinking)\n  ⎿  ☐ one\n     ☐ two", "❯ ", keys), "claude working"),
        (claude("⏺ It is.", "❯ ", modes), "claude working"),
        (claude("⏺ It is.\n\n✢ Herding…", "❯ ", keys), "claude working?"),
        (claude("⏺ It reads\n\n  ✽ Herding… (3s · esc to interrupt)", "❯ ", keys), "claude idle"),
        (claude("⏺ It asks\n  ❯ 1. Yes\n  Esc to cancel · Tab to amend", "❯ ", keys), "claude idle"),
        (claude("❯ go\n  ⎿  API Error: 500 overloaded", "❯ ", keys), "claude error"),
        (claude("  ⎿  API Error: 500\n\n⏺ It is.", "❯ ", keys), "claude idle"),
        (claude("⏺ A\n  ⎿  5-hour limit reached ∙ resets 3pm", "❯ ", keys), "claude limited"),
        (claude("⏺ A\n  ⎿  Interrupted · What now?\n\n✻ Baked for 3s", "❯ ", keys), "claude idle"),
        (format!("⏺ Bash(ls)\n{RULE}\n Bash command\n\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend"), "claude waiting"),
        ("╭────────╮\n│ Do you want to proceed?  │\n│ ❯ 1. Yes      │\n│   2. No, and tell Claude what to do differently (esc) │\n╰────────╯".to_owned(), "claude waiting"),
    ] {
        assert_eq!(detected_name(&screen), expected, "{screen}");
    }
}

#[test]
fn codex_is_read() {
    let foot = "\n\n  gpt-5 default · 98% left · ~/a";
    for (above, input, expected) in [
        ("• It is.", "› Ask Codex to do anything", "codex idle?"),
        (
            "• Working (1m 03s • esc to interrupt)",
            "› Ask Codex to do anything",
            "codex working",
        ),
        (
            "• It shows\n  • Working (3s • esc to interrupt)",
            "›",
            "codex idle?",
        ),
        (
            "■ You've hit your usage limit. Try again at 3pm.",
            "›",
            "codex limited",
        ),
        (
            "■ stream disconnected before completion",
            "›",
            "codex error",
        ),
        (
            "■ Conversation interrupted - tell the model",
            "›",
            "codex idle",
        ),
        (
            "─ Worked for 1m 3s ────────\n\n• It is.",
            "›",
            "codex idle?",
        ),
    ] {
        assert_eq!(
            detected_name(&format!("{above}\n\n{input}{foot}")),
            expected,
            "{above}"
        );
    }
    let asks = "  Would you like to run the following command?\n\n  $ ls\n\n› 1. Yes, proceed (y)\n  2. No, and tell Codex what to do differently (esc)\n\n  Press enter to confirm or esc to cancel";
    assert_eq!(detected_name(asks), "codex waiting");
    let trust = "> You are in /a\n\n  Do you trust the contents of this directory?\n\n› 1. Yes, continue\n  2. No, quit\n\n  Press enter to continue";
    assert_eq!(detected_name(trust), "codex waiting");
}

#[test]
fn gemini_opencode_and_aider_are_read() {
    let gemini = |above: &str| {
        format!(
            "{above}\n\n╭──────╮\n│ >   Type your message or @path/to/file │\n╰──────╯\n ~/a   no sandbox (see /docs)   gemini-2.5-pro (99% context left)"
        )
    };
    let opencode = |above: &str, foot: &str| {
        format!(
            "{above}\n\n  ┃\n  ┃\n  ┃  Build  Claude Sonnet 4 Anthropic\n  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀\n   {foot}"
        )
    };
    for (screen, expected) in [
        (gemini("✦ It is."), "gemini idle"),
        (gemini("⠏ Thinking about it (esc to cancel, 3s)"), "gemini working"),
        (gemini("✕ [API Error: You exceeded your current quota]"), "gemini limited"),
        (gemini("✕ [API Error: 500]"), "gemini error"),
        ("╭────╮\n│ ?  Shell ls │\n│ Allow execution of: 'ls'?  │\n│ ● 1. Yes, allow once │\n│   2. No (esc) │\n╰────╯\n⠏ Waiting for user confirmation...".into(), "gemini waiting"),
        (opencode("     It is.\n\n     ▣  Build · claude-sonnet-4 · 3.2s", "ctrl+t variants  tab agents  ctrl+p commands"), "opencode done"),
        (opencode("     It is.\n\n     ▣  Build · claude-sonnet-4", "■■■⬝⬝⬝  esc interrupt      ctrl+p commands"), "opencode working"),
        (opencode("     ▣  Build · claude-sonnet-4 · interrupted", "ctrl+p commands"), "opencode idle"),
        ("  ┃  △ Permission required\n  ┃  # ls\n  ┃\n  ┃  Allow once   Allow always   Reject   enter confirm".into(), "opencode waiting"),
        (format!("Aider v0.81.1\nRepo-map: using 4096 tokens\n{RULE}\n> "), "aider idle"),
        (format!("> hi\n\nHello.\n\nTokens: 8.6k sent, 59 received. Cost: $0.03 message, $0.03 session.\n{RULE}\n> "), "aider done"),
        (format!("Tokens: 8.6k sent, 59 received.\n{RULE}\n> /add a\nAdded a\n{RULE}\n> "), "aider idle"),
        ("Tokens: 8.8k sent, 91 received.\na.rs\nAdd file to the chat? (Y)es/(N)o/(D)on't ask again [Yes]:".into(), "aider waiting"),
    ] {
        assert_eq!(detected_name(&screen), expected, "{screen}");
    }
}

#[test]
fn an_agent_that_prints_lines_is_known_by_its_process_where_its_name_has_scrolled_off() {
    let rule = "─".repeat(60);
    let asked = "Add 0.0k tokens of command output to the chat? (Y)es/(N)o [Yes]: n";
    let is = |foot: &str, running| {
        let screen = format!("{rule}\n> /run sleep 4; echo c\n\nc\n{asked}\n{rule}\n{foot}");
        let rows: Vec<&str> = screen.lines().collect();
        let detected = StateRules::builtin().detect_running(running, &AgentScreen::of(&rows));
        detected.map(|detected| (detected.agent, detected.state))
    };
    let aider = |state| Some(("aider".to_owned(), state));
    assert_eq!(is(">", Some("aider")), aider(AgentState::Idle));
    assert_eq!(is("nosuch.txt\n>", Some("aider")), aider(AgentState::Idle));
    assert_eq!(
        is("> /run make\n\nok", Some("aider")),
        aider(AgentState::Working)
    );
    for running in [None, Some("claude")] {
        assert_ne!(is(">", running), aider(AgentState::Idle), "{running:?}");
    }
}

#[test]
fn the_shell_is_the_fallback() {
    for (screen, expected) in [
        ("$ ls\nme@host:~/a$ ", "shell idle?"),
        ("[sudo] password for me: ", "shell waiting?"),
        ("Remove it? [y/N] ", "shell waiting?"),
        ("Remove it? [y/N] y\nremoved", "none"),
        ("all:\nMakefile (END)", "shell waiting?"),
        ("all:\n:", "shell waiting?"),
        (
            " Manual page ls(1) line 12 (press h for help or q to quit)",
            "shell waiting?",
        ),
        ("Waiting for data... (interrupt to abort)", "shell working?"),
        ("(END) of it", "none"),
        ("cost is 3$", "none"),
        ("", "none"),
    ] {
        assert_eq!(detected_name(screen), expected, "{screen}");
    }
    for (screen, asks) in [
        ("Remove it? [y/N] ", Some("Remove it? [y/N]")),
        (
            "a\n[sudo] password for me: ",
            Some("[sudo] password for me:"),
        ),
        ("(END)", None),
    ] {
        let detected = detect(screen).unwrap();
        assert_eq!(detected.asks.as_deref(), asks, "{screen}");
    }
    // The first page of less has the name of its file.
    for (program, state) in [
        ("less", AgentState::Waiting),
        ("man", AgentState::Waiting),
        ("vim", AgentState::Working),
        ("make", AgentState::Working),
    ] {
        let detected = StateRules::builtin().detect_program(program).unwrap();
        assert_eq!(detected.state, state, "{program}");
    }
    let rows = ["me@host:~$ ", "the rest of another program"];
    let detected = StateRules::builtin().detect(&AgentScreen {
        cursor: Some(Cursor { x: 11, y: 0 }),
        ..AgentScreen::of(&rows)
    });
    assert_eq!(
        detected.map(|detected| detected.state),
        Some(AgentState::Idle)
    );
}

#[test]
fn what_is_typed_is_below_the_rows_above_the_input() {
    let line = "▄".repeat(60);
    let screen = format!(
        "✦ It is well.\n\n{line}\n > make it\n   so\n{line}\n workspace\n /tmp  no sandbox"
    );
    let rows: Vec<&str> = screen.lines().collect();
    let rules = StateRules::builtin();
    assert_eq!(rules.rows_above_input("gemini", &rows), 3);
    assert_eq!(rules.rows_above_input("gemini", &rows[..2]), 2);
    assert_eq!(rules.rows_above_input("unknown", &rows), rows.len());
}

/// The dialogues of all screens on which an agent waits, as faces get them.
#[test]
fn dialogues_are_read_whole() {
    let mut all = String::new();
    for (name, _, screen) in screens::all() {
        let Some(detected) = detect(screen).filter(|d| d.state == AgentState::Waiting) else {
            continue;
        };
        all.push_str(&format!("=== {}, {name}\n", detected.agent));
        let Some(dialogue) = detected.dialogue else {
            all.push_str("none\n");
            continue;
        };
        all.push_str(&dialogue.text);
        for choice in &dialogue.choices {
            let mark = if choice.selected { '>' } else { ' ' };
            all.push_str(&format!("\n{mark} [{}] {}", choice.key, choice.label));
        }
        all.push('\n');
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("tests");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("dialogues", all));
}

#[test]
fn a_dialogue_that_fills_its_pane_says_that_its_beginning_is_missing() {
    let rows = " line of a long command\n".repeat(30);
    let screen = format!(
        "{rows} Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend"
    );
    let dialogue = detect(&screen).unwrap().dialogue.unwrap();
    assert!(dialogue.text.starts_with("…\n"), "{}", dialogue.text);
    assert!(dialogue.text.ends_with("\nDo you want to proceed?"));
    assert_eq!(dialogue.choices.len(), 2);
}

#[test]
fn a_dialogue_is_bounded_and_keeps_its_title_and_its_question() {
    let command = format!(" {}\n", "é".repeat(90)).repeat(200);
    let screen = format!(
        "{RULE}\n Bash command\n\n{command}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend"
    );
    let dialogue = detect(&screen).unwrap().dialogue.unwrap();
    assert!(dialogue.text.len() <= 4096, "{}", dialogue.text.len());
    assert!(dialogue.text.starts_with("Bash command\n\né"));
    assert!(dialogue.text.ends_with("\n\nDo you want to proceed?"));
}

#[test]
fn a_text_is_typed_in_the_choice_that_takes_one() {
    let of = |name: &str| {
        let mut all = screens::all();
        all.find(|(of, ..)| *of == name).unwrap().2
    };
    let one = of("2.1.330: asks a question");
    let several = of("2.1.332: asks the second of two questions");
    for (screen, from, to) in [
        (one, "❯ 1. ", "❯ 3. Type"),
        (several, "❯ 1. ", "❯ 3. [ ] Type"),
        (several, "❯ 1. ", "❯ 3. [✔] Type"),
    ] {
        assert!(!detect(screen).unwrap().takes_text, "{screen}");
        let label = screen.split("  3. ").nth(1).unwrap();
        let label = label.split("Type").next().unwrap();
        let moved = screen.replace(from, "  1. ");
        let moved = moved.replace(&format!("  3. {label}Type"), to);
        assert!(detect(&moved).unwrap().takes_text, "{moved}");
    }
    let form = of("1.0: asks by a form");
    assert!(!detect(form).unwrap().takes_text, "{form}");
    let moved = form
        .replace(" ❯ Red", "   Red")
        .replace("   Other", " ❯ Other");
    assert!(detect(&moved).unwrap().takes_text, "{moved}");
    // A row below the choices says that a text can always be typed.
    let always = of("1.5: asks a question, in a narrow pane");
    assert!(detect(always).unwrap().takes_text, "{always}");
    let asks = of("1.5: asks for a command, in a narrow pane");
    assert!(!detect(asks).unwrap().takes_text, "{asks}");
}

/// Codex 0.171 in 80 columns.
#[test]
fn a_word_that_is_broken_at_its_hyphen_is_whole_again() {
    let label = |rows: &str| {
        let screen = format!(
            "  Would you like to run the following command?\n\n  $ touch a\n\n› 1. Yes, proceed (y)\n  2. {rows}\n  3. No, and tell Codex what to do differently (esc)\n\n  Press enter to confirm or esc to cancel"
        );
        let dialogue = detect(&screen).unwrap().dialogue.unwrap();
        dialogue.choices[1].label.clone()
    };
    let start = "Yes, and don't ask again for commands that start with `touch";
    assert_eq!(
        label(&format!("{start} made-by-\n     agent.txt` (p)")),
        format!("{start} made-by-agent.txt` (p)")
    );
    assert_eq!(
        label(&format!("{start} made by -\n     agent.txt` (p)")),
        format!("{start} made by - agent.txt` (p)")
    );
}

/// A numbered list above a menu is text; only the menu's own numbers are choices.
#[test]
fn a_plan_above_the_choices_is_text() {
    let screen = format!(
        "{RULE}\n Ready to code?\n\n 1. Do this\n 2. Do that\n 3. Check\n\n Would you like to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend"
    );
    let dialogue = detect(&screen).unwrap().dialogue.unwrap();
    let labels: Vec<&str> = dialogue
        .choices
        .iter()
        .map(|choice| choice.label.as_str())
        .collect();
    assert_eq!(labels, ["Yes", "No"]);
    assert!(dialogue.text.contains("3. Check"), "{}", dialogue.text);
}

/// Screens of Codex 0.171, Gemini CLI 0.61 and Qwen Code 0.24 with a shell in the background, and without.
#[test]
fn shells_in_the_background_are_counted() {
    let shells = |screen: &str, from: &str, to: &str| {
        let screen = screen.replace(from, to);
        let rows: Vec<&str> = screen.lines().collect();
        let detected = StateRules::builtin().detect(&AgentScreen::of(&rows));
        detected.map(|detected| (detected.agent, detected.shells))
    };
    let codex = "• It runs in the background.

  Worked for 2s • 15:16

  1 background terminal running · /ps to view · /stop to close

› Ask Codex to do anything

  mock-model default · /tmp/work · SCN:longsh go
  ← for agents · ? for shortcuts                   ⚠ 2 warnings · f2 to view";
    let found = |agent: &str, count| Some((agent.to_owned(), count));
    assert_eq!(shells(codex, "", ""), found("codex", 1));
    let two = shells(codex, "1 background terminal ", "2 background terminals ");
    assert_eq!(two, found("codex", 2));
    let none = shells(codex, "  1 background terminal running · /ps to view", "");
    assert_eq!(none, found("codex", 0));
    let (upper, lower) = ("▄".repeat(80), "▀".repeat(80));
    let gemini = format!(
        "✦ It runs in the background.

{RULE}
 Shift+Tab to accept edits                                  1 Background process
{upper}
 >   Type your message or @path/to/file
{lower}
 workspace (/directory)                sandbox                     /model
 /tmp/work                             no sandbox                  Auto"
    );
    assert_eq!(shells(&gemini, "", ""), found("gemini", 1));
    assert_eq!(
        shells(&gemini, "1 Background process", ""),
        found("gemini", 0)
    );
    let qwen = format!(
        "  ◆︎ It runs in the background.

{RULE}
> It runs in the background.
{RULE}
  ➜ work-qwen · git:(master) · mock
  Auto mode (shift + tab to cycle) · 1 shell"
    );
    assert_eq!(shells(&qwen, "", ""), found("qwen", 1));
    assert_eq!(shells(&qwen, "1 shell", "1 task done"), found("qwen", 0));
}
