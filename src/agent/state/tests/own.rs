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
