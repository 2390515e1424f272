//! Any text as a configuration file: accepted, or refused with one printable line.
//!
//! The first byte selects the kind of file: rules for secrets, rules for screens, a loop's specification as
//! TOML or as Markdown.

use td_observe::agent::StateRules;
use td_observe::agent_loop::Spec;
use td_observe::redact::Rules;

pub fn run(bytes: &[u8]) {
    let Some((kind, text)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let error = match kind % 4 {
        0 => match Rules::builtin().with_toml(&text) {
            Ok(rules) => {
                // Any accepted rules terminate without a panic.
                let _ = rules.text(&text);
                return;
            }
            Err(error) => error,
        },
        1 => match StateRules::builtin().with_toml(&text) {
            Ok(_) => return,
            Err(error) => error,
        },
        2 => match Spec::from_toml(&text) {
            Ok(_) => return,
            Err(error) => error,
        },
        _ => match Spec::from_markdown(&text) {
            Ok(_) => return,
            Err(error) => error,
        },
    };
    assert!(error.is_invalid_input(), "{error:?}");
    assert!(!error.to_string().contains(['\n', '\u{1b}']), "{error:?}");
}
