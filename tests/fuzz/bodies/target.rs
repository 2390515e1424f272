//! Any text as a target: refused with one line, or stored unchanged.

use td_observe::internals::tmux::{Listing, resolve};
use td_observe::tmux::Target;

pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Target::parse(&text) {
        Ok(target) => {
            assert_eq!(target.as_str(), text);
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
            assert!(resolve(&target, &Listing::default()).is_empty());
        }
        Err(error) => {
            assert!(error.is_invalid_input(), "{error:?}");
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
        }
    }
}
