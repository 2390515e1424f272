//! Parses `--on-state`: a command, and the state of an agent in which it runs.

use crate::event::AgentState;

/// A command given with `--on-state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OnState {
    /// The state in which the command runs; `None` for any state.
    pub state: Option<AgentState>,
    pub command: String,
}

impl OnState {
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || {
            let names = AgentState::ALL.map(AgentState::as_str);
            format!("write STATE=CMD, STATE one of {}, any", names.join(", "))
        };
        let (state, command) = text.split_once('=').ok_or_else(names)?;
        let state = match state.trim() {
            "any" => None,
            name => Some(AgentState::from_name(name).ok_or_else(names)?),
        };
        if command.trim().is_empty() {
            return Err("the command is empty".to_owned());
        }
        Ok(Self {
            state,
            command: command.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_run_in_one_state_or_in_any() {
        let parsed = OnState::parse("waiting=notify-send a=b").unwrap();
        assert_eq!(parsed.state, Some(AgentState::Waiting));
        assert_eq!(parsed.command, "notify-send a=b");
        assert_eq!(OnState::parse("any=true").unwrap().state, None);
        for wrong in ["waiting", "asleep=true", "=true", "waiting= "] {
            assert!(OnState::parse(wrong).is_err(), "{wrong}");
        }
    }
}
